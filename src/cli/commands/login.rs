//! `login` and `logout`: get a server's tokens through a browser, and revoke and delete them.

use std::{io::IsTerminal as _, sync::Arc};

use serde_json::json;
use url::Url;

use crate::{
    auth::{self, AuthError, SignInOptions},
    cli::{
        CliError, CliResult, Context, Targets, code, environment::block_on, format,
        server_args::LoginArgs,
    },
    domain::{server_url, text},
    term::browser::Browser,
    transport::{Fetcher, ensure_provider},
};

impl From<AuthError> for CliError {
    fn from(error: AuthError) -> Self {
        let code = match &error {
            AuthError::Unreachable { .. } | AuthError::Unavailable(_) => code::UNREACHABLE,
            AuthError::Refused(_) => code::REFUSED,
            AuthError::Untrusted(_) | AuthError::Denied(_) => code::NEEDS_LOGIN,
            AuthError::TimedOut => code::TIMED_OUT,
            AuthError::Store(_) | AuthError::Damaged { .. } | AuthError::LoginFile(_) => {
                code::CANNOT_SAVE
            }
        };
        Self::new(code, error.to_string())
    }
}

/// The name and URL of the selected server.
fn resolve(context: &mut Context<'_>, server: Option<&str>) -> CliResult<(String, Url)> {
    let mut reader = context.reader_to_act()?;
    let servers = Targets::of(context, &mut reader)?;
    let server = match server {
        Some(text) => servers.named(text)?,
        None => servers.one()?,
    };
    let url = servers.url_of(&server);
    if url.as_deref().is_some_and(server_url::is_process) {
        let message = format!("{} is a stdio server; it needs no sign-in", server.name);
        return Err(CliError::usage(message));
    }
    let url = url.as_deref().and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| {
        CliError::usage(format!(
            "no URL is known for {}; pass its URL instead of its name",
            server.name
        ))
    })?;
    Ok((server.name.to_string(), url))
}

/// `login`.
pub(in crate::cli) fn login(context: &mut Context<'_>, args: &LoginArgs) -> CliResult {
    context.may_act()?;
    let (name, server) = resolve(context, args.at.as_deref())?;
    if server_url::is_cleartext(&server) && !context.global.insecure_http {
        return Err(CliError::usage(format!(
            "refusing to send a token for {name} over plain http, where others can read it; use an https:// URL, or pass \
             --insecure-http"
        )));
    }
    let secret_of = |variable: &String| {
        crate::config::env_secret(variable).ok_or_else(|| {
            CliError::usage(format!(
                "{variable} is empty or not set; set it, or leave out --client-secret-env"
            ))
        })
    };
    let options = SignInOptions {
        client_id: args.client_id.clone(),
        client_secret: args.client_secret_env.as_ref().map(secret_of).transpose()?,
        client_metadata_url: args.client_metadata_url.clone(),
    };
    let logins = context.logins.clone();
    let clock = context.clock;
    ensure_provider();
    let signed = block_on(async {
        let begun = auth::begin(
            &server,
            &options,
            logins.clone(),
            Arc::new(Fetcher::default()),
            Arc::new(move || clock.now().wall),
        )
        .await?;
        if let Some(notice) = &begun.notice {
            context.warn(notice);
        }
        open_browser(context, &name, &begun, args);
        Ok(begun.finish().await?)
    })?;
    let file = logins.file.path.display();
    if context.global.json {
        let document = json!({
            "server": name,
            "url": server_url::redacted(server.as_str()),
            "issuer": signed.issuer,
            "resource": signed.resource,
            "scope": signed.scope,
            "expires_at": signed.expires_at.map(crate::domain::Wall::rfc3339),
            "is_refreshed": signed.refresh.is_some(),
            "file": file.to_string(),
        });
        context.terminal.print_json(&document)?;
        return Ok(code::OK);
    }
    let until = match (&signed.refresh, signed.expires_at) {
        (None, Some(end)) => {
            let end = format::clock(end, context.clock.now().wall);
            format!(" until {end} (not renewable)")
        }
        _ => String::new(),
    };
    context.info(&format!(
        "signed in to {name} through {}{until}; waiting tasks resume",
        signed.issuer
    ));
    let protection = match logins.check_sealed() {
        Ok(()) => "encrypted with a key from the desktop keychain".to_owned(),
        Err(why) => format!("not encrypted, readable only by you (mode 0600): {why}"),
    };
    context.info(&format!(
        "tokens are stored in {file}, {protection}; `longhaul logout {}` deletes them",
        text::shell_word(args.at.as_deref().unwrap_or(&name))
    ));
    Ok(code::OK)
}

/// Prints the hosts and the URL of the sign-in page, and opens it in a browser if there is one.
fn open_browser(
    context: &mut Context<'_>,
    name: &str,
    begun: &auth::PendingSignIn,
    args: &LoginArgs,
) {
    let mut hosts = vec![begun.host.clone()];
    hosts.extend(begun.other_parties.iter().cloned());
    let line = format!("sign in to {name} at {}", hosts.join(", "));
    context.report(&line);
    let env_var = |name: &str| std::env::var_os(name)?.into_string().ok();
    let browser = Browser::find(args.browser.as_deref(), env_var);
    let opened =
        browser.map(|browser| browser.open(&begun.page, args.client_secret_env.as_deref()));
    let message = match &opened {
        Some(Ok(())) => "opened the sign-in page in your browser; if it doesn't appear, open this URL:".to_owned(),
        Some(Err(error)) => {
            format!("could not start a browser ({error}); open this page yourself:")
        }
        None => {
            "no browser found; open this URL here, or on a machine that forwards the port in its redirect_uri here:"
                .to_owned()
        }
    };
    context.report(&message);
    context.report(&format!("  {}", begun.page));
    if std::io::stderr().is_terminal() {
        context.info("waiting for the browser; press Ctrl-C to stop");
    }
}

/// `logout`.
pub(in crate::cli) fn logout(context: &mut Context<'_>, at: Option<&str>) -> CliResult {
    context.may_act()?;
    let (name, server) = resolve(context, at)?;
    let logins = context.logins.clone();
    ensure_provider();
    let (login, revoked) = block_on(async {
        let (login, notice) = logins.remove(&server).await?;
        if let Some(notice) = notice {
            context.warn(notice);
        }
        let revoked = match &login {
            // The local tokens are deleted even if this fails.
            Some(login) => auth::revoke(&Fetcher::default(), login).await,
            None => Ok(false),
        };
        Ok((login, revoked))
    })?;
    let (was_signed_in, is_revoked) = (login.is_some(), matches!(revoked, Ok(true)));
    let document = json!({"server": name, "was_signed_in": was_signed_in, "revoked": is_revoked});
    let message = match (was_signed_in, revoked) {
        (false, _) => format!("not signed in to {name}"),
        (true, Ok(true)) => {
            format!("signed out of {name}: its tokens are revoked and deleted")
        }
        (true, Ok(false)) => format!(
            "signed out of {name}: its tokens are deleted here, but its authorization server can't revoke them, so they \
             stay valid until they expire"
        ),
        (true, Err(error)) => format!(
            "signed out of {name}: its tokens are deleted here, but were not revoked there ({error})"
        ),
    };
    context.finish(&document, &message)
}
