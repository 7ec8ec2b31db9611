//! What we are called at an issuer: an id that the user has, the address of a document about us, or one that we register.
//!
//! Sources: MCP 2026-07-28, basic/authorization; RFC 7591; draft-ietf-oauth-client-id-metadata-document.

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{
    AuthError,
    flow::SignInOptions,
    host,
    logins::{ClientAuth, OwnClient, Secret},
    metadata::{Found, undescribed},
    said,
    tokens::refusal_in,
};
use crate::transport::{Fetcher, Sent};

/// The answer to a registration (RFC 7591, section 3.2.1).
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<Secret>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// The id to sign in with, in the order of the specification.
pub(super) async fn client(
    fetcher: &Fetcher,
    found: &Found,
    wish: &SignInOptions,
    redirect_uri: &str,
) -> Result<OwnClient, AuthError> {
    let methods = found.auth_methods.as_deref();
    if let Some(id) = &wish.client_id {
        let secret = wish.client_secret.clone().map(Secret);
        return Ok(OwnClient {
            id: id.clone(),
            auth: match &secret {
                Some(_) => with_secret(methods),
                None => ClientAuth::None,
            },
            secret,
            registered_for: None,
        });
    }
    if let Some(url) = wish.client_metadata_url.as_deref() {
        let is_fit = Url::parse(url).is_ok_and(|url| {
            url.scheme() == "https" && url.path() != "/" && url.fragment().is_none()
        });
        if !is_fit {
            return Err(AuthError::Usage(
                "--client-metadata-url takes an https:// URL with a path, where a document describes this client"
                    .to_owned(),
            ));
        }
        if found.reads_client_documents {
            return Ok(OwnClient {
                id: url.to_owned(),
                secret: None,
                auth: ClientAuth::None,
                registered_for: None,
            });
        }
    }
    let Some(endpoint) = &found.registration_endpoint else {
        return Err(AuthError::Usage(format!(
            "{} lets no client register itself; register longhaul there by hand, with http://127.0.0.1/callback as its \
             redirect address, and give its id with --client-id{}",
            said(&found.issuer),
            if found.reads_client_documents {
                ", or a document about it with --client-metadata-url"
            } else {
                ""
            }
        )));
    };
    register(fetcher, endpoint, found, redirect_uri).await
}

async fn register(
    fetcher: &Fetcher,
    endpoint: &Url,
    found: &Found,
    redirect_uri: &str,
) -> Result<OwnClient, AuthError> {
    let methods = found.auth_methods.as_deref();
    let is_public = methods.is_none_or(|methods| methods.iter().any(|it| it == "none"));
    let auth = if is_public {
        ClientAuth::None
    } else {
        with_secret(methods)
    };
    let body = json!({
        "client_name": "longhaul",
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth.label(),
    });
    let answer = fetcher
        .fetch(endpoint, Sent::Json(body.to_string()))
        .await
        .map_err(|error| AuthError::of_fetch(endpoint, error))?;
    let refused = |why: String| {
        AuthError::Denied(format!(
            "{} refused to register longhaul ({why}); an id that you have there goes with --client-id",
            host(endpoint)
        ))
    };
    if !found.is_described && matches!(answer.status, 404 | 405) {
        return Err(undescribed(&found.issuer));
    }
    if !(200..300).contains(&answer.status) {
        let (_, why) = refusal_in(&answer, &[]);
        return Err(refused(why));
    }
    let registered: Registered = serde_json::from_slice(&answer.body.0)
        .map_err(|_| refused("its answer is not a registration".to_owned()))?;
    let auth = match registered.token_endpoint_auth_method.as_deref() {
        Some("client_secret_post") => ClientAuth::ClientSecretPost,
        Some("client_secret_basic") => ClientAuth::ClientSecretBasic,
        Some("none") => ClientAuth::None,
        Some(other) => return Err(refused(format!("it wants {}", said(other)))),
        None if registered.client_secret.is_some() && auth == ClientAuth::None => {
            ClientAuth::ClientSecretBasic
        }
        None => auth,
    };
    if auth != ClientAuth::None && registered.client_secret.is_none() {
        return Err(refused("it gave no secret".to_owned()));
    }
    Ok(OwnClient {
        id: registered.client_id,
        secret: registered
            .client_secret
            .filter(|_| auth != ClientAuth::None),
        auth,
        registered_for: Some(redirect_uri.to_owned()),
    })
}

/// How a secret is shown: in the header unless only the form will do, as RFC 8414, section 2, has it by default.
fn with_secret(methods: Option<&[String]>) -> ClientAuth {
    let has = |word: &str| methods.is_some_and(|methods| methods.iter().any(|it| it == word));
    if has("client_secret_post") && !has("client_secret_basic") {
        ClientAuth::ClientSecretPost
    } else {
        ClientAuth::ClientSecretBasic
    }
}
