//! The token endpoint: a code or a refresh token for tokens, and their revocation.
//!
//! Sources: RFC 6749, sections 4.1.3, 5 and 6; RFC 7009; RFC 7636, section 4.5; RFC 8707.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{
    AuthError, host,
    logins::{ClientAuth, Login, OwnClient, Secret},
    said,
};
use crate::{
    domain::Wall,
    transport::{FetchError, Fetched, Fetcher, Sent},
};

/// A new token is asked for so long before the end of the old one, or at three quarters of a short life.
const EARLY: Duration = Duration::from_secs(60);
/// And no sooner than this after the old one came: the server's refusal brings one that is needed sooner.
const SOONEST: Duration = Duration::from_secs(30);
/// A token that claims to last longer is looked at again after this.
const LONGEST: u64 = 10 * 365 * 24 * 3600;

/// What a token endpoint gives.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) refresh_at: Option<Wall>,
    pub(super) expires_at: Option<Wall>,
    pub(super) scope: Option<String>,
}

/// Why it gives none.
#[derive(Debug)]
pub(super) enum NoTokens {
    /// It may, later; in words.
    Later(String),
    /// It says no to what was asked, which is no word on the worth of what was shown; in words.
    No(String),
    /// The issuer itself says that what was shown to it is worth nothing any more; in words.
    Never(String),
}

#[derive(Deserialize)]
struct Given {
    access_token: Secret,
    #[serde(default)]
    refresh_token: Option<Secret>,
    // Of any shape: the tokens before them are not lost for what one of these is.
    #[serde(default)]
    token_type: Value,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    scope: Value,
}

/// What is shown for tokens.
pub(super) enum Grant<'g> {
    /// The code from the browser.
    Code {
        code: &'g SecretString,
        verifier: &'g SecretString,
        redirect_uri: &'g str,
    },
    /// The refresh token.
    Refresh(&'g Secret),
}

/// Asks for tokens, for `resource` alone.
pub(super) async fn ask(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OwnClient,
    resource: &str,
    grant: Grant<'_>,
    now: Wall,
) -> Result<Tokens, NoTokens> {
    use secrecy::ExposeSecret as _;
    let mut fields = match &grant {
        Grant::Code {
            code,
            verifier,
            redirect_uri,
        } => vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose_secret()),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier.expose_secret()),
        ],
        Grant::Refresh(token) => vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", token.text()),
        ],
    };
    fields.push(("resource", resource));
    let is_secret = |name: &str| matches!(name, "code" | "code_verifier" | "refresh_token");
    let shown: Vec<String> = fields
        .iter()
        .filter(|(name, _)| is_secret(name))
        .map(|(_, value)| (*value).to_owned())
        .chain(client.secret.iter().map(|secret| secret.text().to_owned()))
        .collect();
    let answer = post(fetcher, endpoint, client, fields)
        .await
        .map_err(|(FetchError::NoAnswer(why) | FetchError::Refused(why))| NoTokens::Later(why))?;
    if !(200..300).contains(&answer.status) {
        let (error, words) = refusal_in(&answer, &shown);
        // A page of somebody on the way is no word of the issuer's, and a login is not thrown away for it.
        return Err(match (answer.status, error.as_deref()) {
            (400 | 401, Some("invalid_grant" | "invalid_client" | "unauthorized_client")) => {
                NoTokens::Never(words)
            }
            (408 | 425 | 429, _) => NoTokens::Later(words),
            (400..=499, Some(_)) => NoTokens::No(words),
            _ => NoTokens::Later(words),
        });
    }
    let given: Given = serde_json::from_slice(&answer.body.0)
        .map_err(|_| NoTokens::Later("its answer holds no token".to_owned()))?;
    if let Some(kind) = given.token_type.as_str()
        && !kind.eq_ignore_ascii_case("bearer")
    {
        let kind = said(kind);
        return Err(NoTokens::Later(format!(
            "it gives tokens of the kind {kind}"
        )));
    }
    let is_sendable = |secret: &Secret| {
        let text = secret.text();
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !is_sendable(&given.access_token) {
        let why = "its token holds letters that no header may carry";
        return Err(NoTokens::Later(why.to_owned()));
    }
    // No token is over as it comes: who says so says nothing.
    let life = seconds(&given.expires_in).filter(|seconds| *seconds > 0);
    let life = life.map(|seconds| Duration::from_secs(seconds.min(LONGEST)));
    let refresh_in = |life: Duration| life.saturating_sub(EARLY.min(life / 4)).max(SOONEST);
    Ok(Tokens {
        access: given.access_token,
        refresh: given.refresh_token.filter(is_sendable),
        refresh_at: life.map(|life| now.after(refresh_in(life))),
        expires_at: life.map(|life| now.after(life)),
        scope: scope_in(&given.scope),
    })
}

/// Gives the tokens of a login back (RFC 7009); nobody can use them after that.
///
/// # Errors
/// [`AuthError::Unreachable`] and [`AuthError::Denied`]; without an address for it nothing is done, which is no error.
pub async fn revoke(fetcher: &Fetcher, login: &Login) -> Result<bool, AuthError> {
    let Some(endpoint) = &login.revocation_endpoint else {
        return Ok(false);
    };
    // The refresh token first: with it gone, most issuers take the rest back too.
    let tokens = [
        (&login.refresh, "refresh_token"),
        (&login.access, "access_token"),
    ];
    let all = [&login.refresh, &login.access, &login.client.secret];
    let secrets: Vec<String> = all
        .into_iter()
        .flatten()
        .map(|secret| secret.text().to_owned())
        .collect();
    for (token, kind) in tokens {
        let Some(token) = token else { continue };
        let fields = vec![("token", token.text()), ("token_type_hint", kind)];
        let answer = post(fetcher, endpoint, &login.client, fields)
            .await
            .map_err(|error| AuthError::of_fetch(endpoint, error))?;
        if !(200..300).contains(&answer.status) {
            let (_, why) = refusal_in(&answer, &secrets);
            return Err(AuthError::Denied(format!("{}: {why}", host(endpoint))));
        }
    }
    Ok(true)
}

/// Posts a form as the client that we are there.
async fn post(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OwnClient,
    mut fields: Vec<(&str, &str)>,
) -> Result<Fetched, FetchError> {
    let mut basic = None;
    match (client.auth, &client.secret) {
        (ClientAuth::ClientSecretBasic, Some(secret)) => {
            basic = Some((client.id.as_str(), &secret.0));
        }
        (ClientAuth::ClientSecretPost, Some(secret)) => {
            fields.push(("client_id", &client.id));
            fields.push(("client_secret", secret.text()));
        }
        _ => fields.push(("client_id", &client.id)),
    }
    fetcher.fetch(endpoint, Sent::Form(&fields, basic)).await
}

/// The error of a refusal and what it says of it (RFC 6749, section 5.2), as one line, without `secrets`: it may give
/// back what it was shown.
pub(super) fn refusal_in(answer: &Fetched, secrets: &[String]) -> (Option<String>, String) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OAuthError {
        error: Option<String>,
        error_description: Option<String>,
    }
    let refusal: OAuthError = serde_json::from_slice(&answer.body.0).unwrap_or_default();
    // Only now, as JSON has more than one way to write a letter.
    let told = |words: &str| said(&masked(words, secrets));
    let words = match (&refusal.error, &refusal.error_description) {
        (Some(error), Some(words)) => format!("{}: {}", told(error), told(words)),
        (Some(error), None) => told(error),
        _ => format!("HTTP {}", answer.status),
    };
    (refusal.error, words)
}

/// A text without `secrets`, as they are and as they went out in a form.
fn masked(words: &str, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(words.to_owned(), |words, secret| {
        let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        words.replace(&encoded, "…").replace(secret, "…")
    })
}

/// Scopes, which some issuers give as a list.
fn scope_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(scopes) => {
            let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
            Some(scopes.join(" "))
        }
        _ => None,
    }
}

/// A number of seconds, which some issuers write as a text.
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::{Issuer, login_at};

    async fn refreshed(status: u16, body: &str) -> Result<Tokens, NoTokens> {
        crate::transport::ensure_provider();
        let body = body.to_owned();
        let issuer = Issuer::new(move |_| (status, body.clone()));
        let login = login_at(&issuer.url);
        let grant = Grant::Refresh(login.refresh.as_ref().unwrap());
        let (client, resource) = (&login.client, &login.resource);
        let fetcher = Fetcher::default();
        ask(&fetcher, &issuer.url, client, resource, grant, Wall(0)).await
    }

    #[tokio::test]
    async fn only_the_issuers_own_word_on_what_it_was_shown_ends_a_login() {
        for (status, error, expected) in [
            (400, "invalid_grant", "never"),
            (401, "invalid_client", "never"),
            (400, "unauthorized_client", "never"),
            (400, "invalid_request", "no"),
            (403, "invalid_grant", "no"),
            (404, "not_found", "no"),
            (429, "invalid_grant", "later"),
            (503, "invalid_grant", "later"),
        ] {
            let answer = refreshed(status, &format!(r#"{{"error":"{error}"}}"#)).await;
            let kind = match answer.unwrap_err() {
                NoTokens::Never(_) => "never",
                NoTokens::No(_) => "no",
                NoTokens::Later(_) => "later",
            };
            assert_eq!(kind, expected, "{status} {error}");
        }
    }

    #[tokio::test]
    async fn new_tokens_are_not_lost_for_what_comes_with_them() {
        for more in [
            "",
            r#","token_type":null,"scope":["a","b"],"expires_in":{}"#,
            r#","token_type":"BEARER","scope":7,"expires_in":"0""#,
            r#","expires_in":0"#,
        ] {
            let answer = refreshed(200, &format!(r#"{{"access_token":"t"{more}}}"#)).await;
            let tokens = answer.unwrap();
            assert_eq!(tokens.access.text(), "t");
            assert_eq!(
                (tokens.refresh_at, tokens.expires_at),
                (None, None),
                "{more}"
            );
            assert_eq!(tokens.scope.as_deref(), more.contains('[').then_some("a b"));
        }
    }

    #[tokio::test]
    async fn no_token_is_due_as_soon_as_it_comes() {
        for (life, due) in [(1, 30), (40, 30), (80, 60), (3600, 3540)] {
            let body =
                format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{life}}}"#);
            let tokens = refreshed(200, &body).await.unwrap();
            let due = Wall(0).after(Duration::from_secs(due));
            assert_eq!(tokens.refresh_at, Some(due), "{life}");
        }
    }

    #[tokio::test]
    async fn what_an_issuer_gives_back_is_masked_however_it_writes_it() {
        for shown in [
            "canary-refresh/q+2= canary-secret/z+9=",
            r"canary-refresh\/q\u002b2= \u0063anary-secret/z+9=",
            "canary-refresh%2Fq%2B2%3D&client_secret=canary-secret%2Fz%2B9%3D",
        ] {
            let body = format!(r#"{{"error":"x{shown}","error_description":"{shown}"}}"#);
            let NoTokens::No(words) = refreshed(400, &body).await.unwrap_err() else {
                panic!("{shown}");
            };
            assert!(words.contains('…') && !words.contains("canary"), "{words}");
            let issuer = Issuer::new(move |_| (400, body.clone()));
            let login = login_at(&issuer.url);
            let words = revoke(&Fetcher::default(), &login).await.unwrap_err();
            assert!(!words.to_string().contains("canary"), "{words}");
        }
    }
}
