//! `login` and `logout`: tokens of a server, by way of a browser, and their end.

use std::{io::IsTerminal as _, sync::Arc};

use serde_json::json;
use url::Url;

use super::{
    Context,
    args::{Login, Logout},
    block_on,
    fail::{Fail, code},
    json as documents, quoted,
    target::Targets,
};
use crate::{
    auth::{self, AuthError, SignInOptions},
    domain::{place, text},
    term::browser::Browser,
    transport::{Fetcher, ensure_provider},
};

impl From<AuthError> for Fail {
    fn from(error: AuthError) -> Self {
        let code = match &error {
            AuthError::Unreachable { .. } => code::UNREACHABLE,
            AuthError::NotRequired(_) | AuthError::Usage(_) | AuthError::System(_) => code::REFUSED,
            AuthError::Untrusted(_) | AuthError::Denied(_) => code::NEEDS_LOGIN,
            AuthError::TimedOut => code::TIMED_OUT,
            AuthError::Store(_) | AuthError::Damaged { .. } | AuthError::LoginFile(_) => {
                code::CANNOT_SAVE
            }
        };
        Self::new(code, error.to_string())
    }
}

/// The server that is meant: its name and its URL.
fn meant(context: &mut Context<'_>, server: Option<&str>) -> Result<(String, Url), Fail> {
    let mut reader = context.reader_to_act()?;
    let servers = Targets::of(context, &mut reader)?;
    let server = match server {
        Some(text) => servers.named(text)?,
        None => servers.one()?,
    };
    let url = servers.url_of(&server);
    let url = url.as_deref().and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| {
        Fail::usage(format!(
            "nothing says where {} is; give its URL",
            server.name
        ))
    })?;
    Ok((server.name.to_string(), url))
}

/// `login`.
pub(super) fn login(context: &mut Context<'_>, login: &Login) -> Result<u8, Fail> {
    context.may_act()?;
    let (name, server) = meant(context, login.at.as_deref())?;
    if place::is_in_clear(&server) && !context.global.insecure_http {
        return Err(Fail::usage(format!(
            "a token for {name} would go over plain http, where it can be read on the way; nothing was sent. Use an \
             https:// URL, or say --insecure-http each time"
        )));
    }
    let secret = match &login.client_secret_env {
        Some(variable) => Some(super::variable(variable).ok_or_else(|| {
            Fail::usage(format!(
                "{variable} holds no secret; set it, or leave --client-secret-env out"
            ))
        })?),
        None => None,
    };
    let wish = SignInOptions {
        client_id: login.client_id.clone(),
        client_secret: secret,
        client_metadata_url: login.client_metadata_url.clone(),
    };
    let logins = context.logins.clone();
    let clock = context.clock;
    ensure_provider();
    let signed = block_on(async {
        let begun = auth::begin(
            &server,
            &wish,
            logins.clone(),
            Arc::new(Fetcher::default()),
            Arc::new(move || clock.now().wall),
        )
        .await?;
        if let Some(remark) = &begun.notice {
            let line = format!("longhaul: {}", text::clean_line(remark));
            context.terminal.say(&line);
        }
        show(context, &name, &begun, login);
        Ok(begun.finish().await?)
    })?;
    let file = logins.path().display();
    if context.global.json {
        let document = json!({
            "server": name,
            "url": place::shown(server.as_str()),
            "issuer": signed.issuer,
            "resource": signed.resource,
            "scope": signed.scope,
            "expires_at": signed.expires_at.map(crate::domain::Wall::rfc3339),
            "is_refreshed": signed.refresh.is_some(),
            "file": file.to_string(),
        });
        context.terminal.document(&documents::text_of(&document))?;
        return Ok(code::OK);
    }
    let until = match (&signed.refresh, signed.expires_at) {
        (None, Some(end)) => format!(" until {}, and no longer", end.rfc3339()),
        _ => String::new(),
    };
    context.terminal.remark(&format!(
        "signed in to {name} by {}{until}; its tasks resume automatically",
        text::clean_line(&signed.issuer)
    ));
    let kept = match logins.check_sealed() {
        Ok(()) => "sealed with a key that the keychain of this desktop keeps".to_owned(),
        Err(why) => format!(
            "which only you can read (mode 0600): {}",
            text::clean_line(&why)
        ),
    };
    context.terminal.remark(&format!(
        "the tokens are in {file}, {kept}. `longhaul logout {}{}` ends it",
        quoted(login.at.as_deref().unwrap_or(&name)),
        context.flags()
    ));
    Ok(code::OK)
}

/// Shows where to, then opens the browser, where there is one.
fn show(context: &mut Context<'_>, name: &str, begun: &auth::PendingSignIn, login: &Login) {
    let mut who = vec![begun.host.clone()];
    who.extend(begun.other_parties.iter().cloned());
    let line = format!("to sign in to {name}: a page at {}", who.join(", "));
    context.terminal.say(&text::clean_line(&line));
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let browser = Browser::find(login.browser.as_deref(), variable);
    let opened =
        browser.map(|browser| browser.open(&begun.page, login.client_secret_env.as_deref()));
    let words = match &opened {
        Some(Ok(())) => "opened in your browser; if nothing comes up, open it yourself:".to_owned(),
        Some(Err(error)) => {
            format!("the browser could not be started ({error}); open the page yourself:")
        }
        None => {
            "no browser here; open the page yourself, on this machine or with its port forwarded:"
                .to_owned()
        }
    };
    context.terminal.say(&text::clean_line(&words));
    context.terminal.say(&format!("  {}", begun.page));
    if std::io::stderr().is_terminal() {
        context
            .terminal
            .remark("waiting for the browser; Ctrl-C leaves");
    }
}

/// `logout`.
pub(super) fn logout(context: &mut Context<'_>, logout: &Logout) -> Result<u8, Fail> {
    context.may_act()?;
    let (name, server) = meant(context, logout.at.as_deref())?;
    let logins = context.logins.clone();
    ensure_provider();
    let (login, revoked) = block_on(async {
        let (login, remark) = logins.remove(&server).await?;
        if let Some(remark) = remark {
            let line = format!("longhaul: {}", text::clean_line(&remark));
            context.terminal.say(&line);
        }
        let revoked = match &login {
            // Here it is gone already, whatever comes of this.
            Some(login) => auth::revoke(&Fetcher::default(), login).await,
            None => Ok(false),
        };
        Ok((login, revoked))
    })?;
    let (was_in, is_revoked) = (login.is_some(), matches!(revoked, Ok(true)));
    if context.global.json {
        let document = json!({"server": name, "was_signed_in": was_in, "revoked": is_revoked});
        context.terminal.document(&documents::text_of(&document))?;
        return Ok(code::OK);
    }
    let words = match (was_in, revoked) {
        (false, _) => format!("there is no sign-in at {name}; nothing was done"),
        (true, Ok(true)) => {
            format!("signed out of {name}: its tokens are deleted here and revoked there")
        }
        (true, Ok(false)) => format!(
            "signed out of {name}: its tokens are deleted here; its authorization server takes none back, so they end by \
             themselves"
        ),
        (true, Err(error)) => format!(
            "signed out of {name}: its tokens are deleted here, but were not revoked there ({error})"
        ),
    };
    context.terminal.remark(&text::clean_line(&words));
    Ok(code::OK)
}
