//! The token endpoint: exchanges a code or a refresh token for tokens, and revokes them.
//!
//! Sources: RFC 6749, sections 4.1.3, 5 and 6; RFC 7009; RFC 7636, section 4.5; RFC 8707.

use std::time::Duration;

use itertools::Itertools as _;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{
    AuthError, excerpt, host,
    logins::{ClientAuth, Login, OwnClient, Secret},
};
use crate::{
    domain::Wall,
    transport::{FetchError, FetchRequest, FetchResponse, Fetcher},
};

/// A token is refreshed this long before it expires, or after three quarters of a short lifetime.
const REFRESH_MARGIN: Duration = Duration::from_secs(60);
/// The earliest refresh after a token was issued. If the server rejects the token sooner, that triggers a refresh too.
const MIN_REFRESH_DELAY: Duration = Duration::from_secs(30);
/// Longer lifetimes are cut to this.
const MAX_LIFETIME_SECS: u64 = 10 * 365 * 24 * 3600;

/// A verifier of the shortest permitted length (RFC 7636, section 4.1).
const UNUSED_VERIFIER: &str = "longhaul-asks-whether-this-client-is-known-";

/// The tokens that an issuer gave, with times computed from their lifetime.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) refresh_at: Option<Wall>,
    pub(super) expires_at: Option<Wall>,
    pub(super) scope: Option<String>,
}

/// Why there are no tokens, as a message.
#[derive(Debug)]
pub(super) enum TokenError {
    /// No response; a retry may succeed.
    Unreachable(String),
    /// A retry may succeed.
    Transient(String),
    /// The issuer denied this request, but the grant may still be valid.
    Denied(String),
    /// The issuer itself says that the grant or the client is no longer valid.
    Revoked(String),
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Secret,
    refresh_token: Option<Secret>,
    // Any JSON value: the tokens must not be lost because one of these is malformed.
    #[serde(default)]
    token_type: Value,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    scope: Value,
}

/// What is exchanged for tokens.
pub(super) enum Grant<'g> {
    /// The authorization code from the browser.
    Code {
        code: &'g SecretString,
        verifier: &'g SecretString,
        redirect_uri: &'g str,
    },
    /// The refresh token.
    Refresh(&'g Secret),
}

/// Requests tokens that are valid for `resource` only.
pub(super) async fn request_tokens(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OwnClient,
    resource: &str,
    grant: Grant<'_>,
    now: Wall,
) -> Result<Tokens, TokenError> {
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
    let sent_secrets: Vec<String> = fields
        .iter()
        .filter(|(name, _)| is_secret(name))
        .map(|(_, value)| (*value).to_owned())
        .chain(client.secret.iter().map(|secret| secret.text().to_owned()))
        .collect();
    let response = post(fetcher, endpoint, client, fields).await;
    let response = response.map_err(|error| match error {
        FetchError::Transient(why) => TokenError::Unreachable(why),
        FetchError::Permanent(why) => TokenError::Transient(why),
    })?;
    let is_success = (200..300).contains(&response.status);
    let tokens = serde_json::from_slice::<TokenResponse>(&response.body);
    let Some(tokens) = tokens.ok().filter(|_| is_success) else {
        // Some issuers report errors with a status of success.
        let (error, message) = oauth_error_in(&response, &sent_secrets);
        return Err(token_error(response.status, error.as_deref(), message));
    };
    if let Some(kind) = tokens.token_type.as_str()
        && !kind.eq_ignore_ascii_case("bearer")
    {
        let kind = excerpt(kind);
        return Err(TokenError::Denied(format!("unsupported token type {kind}")));
    }
    let is_sendable = |secret: &Secret| {
        let text = secret.text();
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !is_sendable(&tokens.access_token) {
        let why = "the token has characters that a header can't carry";
        return Err(TokenError::Denied(why.to_owned()));
    }
    // A lifetime of 0 is treated as unknown.
    let lifetime = seconds_from(&tokens.expires_in).filter(|seconds| *seconds > 0);
    let lifetime = lifetime.map(|seconds| Duration::from_secs(seconds.min(MAX_LIFETIME_SECS)));
    let refresh_in = |lifetime: Duration| {
        lifetime
            .saturating_sub(REFRESH_MARGIN.min(lifetime / 4))
            .max(MIN_REFRESH_DELAY)
    };
    Ok(Tokens {
        access: tokens.access_token,
        refresh: tokens.refresh_token.filter(is_sendable),
        refresh_at: lifetime.map(|lifetime| now.after(refresh_in(lifetime))),
        expires_at: lifetime.map(|lifetime| now.after(lifetime)),
        scope: scopes_from(&tokens.scope),
    })
}

/// Whether the issuer still knows a client: it checks that before the code, which is invalid here (RFC 6749, section
/// 5.2). Returns true if it gives no answer.
pub(super) async fn knows_client(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OwnClient,
    redirect_uri: &str,
) -> bool {
    let fields = vec![
        ("grant_type", "authorization_code"),
        ("code", "none"),
        ("redirect_uri", redirect_uri),
        ("code_verifier", UNUSED_VERIFIER),
    ];
    let answer = post(fetcher, endpoint, client, fields).await;
    let error = answer.map(|answer| oauth_error_in(&answer, &[]).0);
    !matches!(error, Ok(Some(error)) if error == "invalid_client")
}

/// What an error response of the token endpoint means.
fn token_error(status: u16, error: Option<&str>, message: String) -> TokenError {
    // Only the issuer's own error ends a login, not the page of a proxy.
    match (status, error) {
        (408 | 425 | 429, _)
        | (_, Some("temporarily_unavailable" | "server_error" | "slow_down")) => {
            TokenError::Transient(message)
        }
        (
            200..=299 | 400 | 401,
            Some("invalid_grant" | "invalid_client" | "unauthorized_client"),
        ) => TokenError::Revoked(message),
        (200..=299 | 400..=499, Some(_)) => TokenError::Denied(message),
        (200..=299, None) => TokenError::Transient("the response contains no token".to_owned()),
        _ => TokenError::Transient(message),
    }
}

/// Revokes the tokens of a login (RFC 7009). Does nothing and returns false if the issuer has no revocation endpoint.
///
/// # Errors
/// [`AuthError::Unreachable`] and [`AuthError::Denied`].
pub async fn revoke(fetcher: &Fetcher, login: &Login) -> Result<bool, AuthError> {
    let Some(endpoint) = &login.revocation_endpoint else {
        return Ok(false);
    };
    // The refresh token first: most issuers then revoke the access token too.
    let tokens = [
        (&login.refresh, "refresh_token"),
        (&login.access, "access_token"),
    ];
    let all = [&login.refresh, &login.access, &login.client.secret];
    let secrets = all.into_iter().flatten();
    let secrets: Vec<String> = secrets.map(|secret| secret.text().to_owned()).collect();
    for (token, kind) in tokens {
        let Some(token) = token else { continue };
        let fields = vec![("token", token.text()), ("token_type_hint", kind)];
        let response = post(fetcher, endpoint, &login.client, fields)
            .await
            .map_err(|error| AuthError::from_fetch(endpoint, error))?;
        if !(200..300).contains(&response.status) {
            let (_, why) = oauth_error_in(&response, &secrets);
            return Err(AuthError::Denied(format!("{}: {why}", host(endpoint))));
        }
    }
    Ok(true)
}

/// Posts a form with the client's credentials.
async fn post(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OwnClient,
    mut fields: Vec<(&str, &str)>,
) -> Result<FetchResponse, FetchError> {
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
    fetcher
        .fetch(endpoint, FetchRequest::Form(&fields, basic))
        .await
}

/// The error code of an error response (RFC 6749, section 5.2), and a message of one line. The message has `secrets`
/// redacted, because the issuer may echo what it was sent.
pub(super) fn oauth_error_in(
    response: &FetchResponse,
    secrets: &[String],
) -> (Option<String>, String) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OAuthError {
        error: Option<String>,
        error_description: Option<String>,
    }
    let parsed: OAuthError = serde_json::from_slice(&response.body).unwrap_or_default();
    // After parsing, because JSON can escape any letter.
    let clean = |text: &str| excerpt(&redacted(text, secrets));
    let message = match (&parsed.error, &parsed.error_description) {
        (Some(error), Some(description)) => format!("{}: {}", clean(error), clean(description)),
        (Some(error), None) => clean(error),
        _ => format!("HTTP {}", response.status),
    };
    (parsed.error, message)
}

/// A text without `secrets`, plain or form-encoded.
fn redacted(text: &str, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(text.to_owned(), |text, secret| {
        let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        text.replace(&encoded, "…").replace(secret, "…")
    })
}

/// Scopes, which some issuers send as a list.
fn scopes_from(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(scopes) => Some(scopes.iter().filter_map(Value::as_str).join(" ")),
        _ => None,
    }
}

/// A number of seconds, which some issuers send as a string.
fn seconds_from(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::{FakeIssuer, login_at};

    async fn refreshed(status: u16, body: &str) -> Result<Tokens, TokenError> {
        crate::transport::ensure_provider();
        let body = body.to_owned();
        let issuer = FakeIssuer::new(move |_| (status, body.clone()));
        let login = login_at(&issuer.url);
        let grant = Grant::Refresh(login.refresh.as_ref().unwrap());
        let (client, resource) = (&login.client, &login.resource);
        let fetcher = Fetcher::default();
        request_tokens(&fetcher, &issuer.url, client, resource, grant, Wall(0)).await
    }

    #[tokio::test]
    async fn only_the_issuer_can_revoke_a_login() {
        for (status, error, expected) in [
            (400, "invalid_grant", "revoked"),
            (401, "invalid_client", "revoked"),
            (400, "unauthorized_client", "revoked"),
            (400, "invalid_request", "denied"),
            (403, "invalid_grant", "denied"),
            (404, "not_found", "denied"),
            (429, "invalid_grant", "transient"),
            (503, "invalid_grant", "transient"),
            (400, "temporarily_unavailable", "transient"),
            (200, "slow_down", "transient"),
            (200, "invalid_grant", "revoked"),
            (200, "bad_refresh_token", "denied"),
        ] {
            let response = refreshed(status, &format!(r#"{{"error":"{error}"}}"#)).await;
            let kind = match response.unwrap_err() {
                TokenError::Revoked(_) => "revoked",
                TokenError::Denied(_) => "denied",
                TokenError::Transient(_) => "transient",
                TokenError::Unreachable(_) => "unreachable",
            };
            assert_eq!(kind, expected, "{status} {error}");
        }
    }

    #[tokio::test]
    async fn accepts_tokens_with_malformed_optional_fields() {
        for more in [
            "",
            r#","token_type":null,"scope":["a","b"],"expires_in":{}"#,
            r#","token_type":"BEARER","scope":7,"expires_in":"0""#,
            r#","expires_in":0"#,
        ] {
            let response = refreshed(200, &format!(r#"{{"access_token":"t"{more}}}"#)).await;
            let tokens = response.unwrap();
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
    async fn schedules_the_refresh_before_the_token_expires() {
        for (life, due) in [(1, 30), (40, 30), (80, 60), (3600, 3540)] {
            let body =
                format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{life}}}"#);
            let tokens = refreshed(200, &body).await.unwrap();
            let due = Wall(0).after(Duration::from_secs(due));
            assert_eq!(tokens.refresh_at, Some(due), "{life}");
        }
    }

    #[tokio::test]
    async fn redacts_secrets_that_an_issuer_echoes() {
        for shown in [
            "canary-refresh/q+2= canary-secret/z+9=",
            r"canary-refresh\/q\u002b2= \u0063anary-secret/z+9=",
            "canary-refresh%2Fq%2B2%3D&client_secret=canary-secret%2Fz%2B9%3D",
        ] {
            let body = format!(r#"{{"error":"x{shown}","error_description":"{shown}"}}"#);
            let TokenError::Denied(message) = refreshed(400, &body).await.unwrap_err() else {
                panic!("{shown}");
            };
            assert!(
                message.contains('…') && !message.contains("canary"),
                "{message}"
            );
            let issuer = FakeIssuer::new(move |_| (400, body.clone()));
            let login = login_at(&issuer.url);
            let error = revoke(&Fetcher::default(), &login).await.unwrap_err();
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}
