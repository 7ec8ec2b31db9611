//! Chooses the client id for an issuer: one from the user, the URL of a client metadata document, or a new registration.
//!
//! Sources: MCP 2026-07-28, basic/authorization; RFC 7591; draft-ietf-oauth-client-id-metadata-document.

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{
    AuthError, excerpt, host,
    logins::{ClientAuth, OwnClient, Secret},
    metadata::{AuthServer, no_metadata_error},
    tokens::oauth_error_in,
};
use crate::transport::{FetchRequest, Fetcher};

/// The response to a registration (RFC 7591, section 3.2.1).
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<Secret>,
    token_endpoint_auth_method: Option<String>,
}

/// The client to sign in with, in the specification's order of preference.
pub(super) async fn choose_client(
    fetcher: &Fetcher,
    auth_server: &AuthServer,
    options: &SignInOptions,
    redirect_uri: &str,
) -> Result<OwnClient, AuthError> {
    let methods = auth_server.auth_methods.as_deref();
    if let Some(id) = &options.client_id {
        let secret = options.client_secret.clone().map(Secret);
        return Ok(OwnClient {
            id: id.clone(),
            auth: match &secret {
                Some(_) => secret_method(methods),
                None => ClientAuth::None,
            },
            secret,
            registered_for: None,
        });
    }
    if let Some(url) = options.client_metadata_url.as_deref() {
        let is_valid = Url::parse(url).is_ok_and(|url| {
            url.scheme() == "https" && url.path() != "/" && url.fragment().is_none()
        });
        if !is_valid {
            return Err(AuthError::Refused(
                "--client-metadata-url must be an https:// URL with a path, which serves the client's metadata document"
                    .to_owned(),
            ));
        }
        if auth_server.supports_client_metadata_url {
            return Ok(OwnClient {
                id: url.to_owned(),
                secret: None,
                auth: ClientAuth::None,
                registered_for: None,
            });
        }
    }
    let Some(endpoint) = &auth_server.registration_endpoint else {
        return Err(AuthError::Refused(format!(
            "{} does not support dynamic client registration. Register longhaul there manually, with \
             http://127.0.0.1/callback as the redirect URI, and pass its id with --client-id{}",
            excerpt(&auth_server.issuer),
            if auth_server.supports_client_metadata_url {
                ", or pass a client metadata document with --client-metadata-url"
            } else {
                ""
            }
        )));
    };
    register(fetcher, endpoint, auth_server, redirect_uri).await
}

async fn register(
    fetcher: &Fetcher,
    endpoint: &Url,
    auth_server: &AuthServer,
    redirect_uri: &str,
) -> Result<OwnClient, AuthError> {
    let methods = auth_server.auth_methods.as_deref();
    let is_public = methods.is_none_or(|methods| methods.iter().any(|it| it == "none"));
    let auth = if is_public {
        ClientAuth::None
    } else {
        secret_method(methods)
    };
    let body = json!({
        "client_name": "longhaul",
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth,
    });
    let response = fetcher
        .fetch(endpoint, FetchRequest::Json(body.to_string()))
        .await
        .map_err(|error| AuthError::from_fetch(endpoint, error))?;
    let rejected = |why: String| {
        AuthError::Denied(format!(
            "{} refused to register longhaul ({why}); if you have a client id there, pass it with --client-id",
            host(endpoint)
        ))
    };
    if !auth_server.has_metadata && matches!(response.status, 404 | 405) {
        return Err(no_metadata_error(&auth_server.issuer));
    }
    if !(200..300).contains(&response.status) {
        let (_, why) = oauth_error_in(&response, &[]);
        return Err(rejected(why));
    }
    let registered: RegistrationResponse = serde_json::from_slice(&response.body)
        .map_err(|_| rejected("the response is not a registration".to_owned()))?;
    let auth = match registered.token_endpoint_auth_method {
        Some(method) => serde_json::from_value(json!(method)).map_err(|_| {
            let why = format!("unsupported authentication method {}", excerpt(&method));
            rejected(why)
        })?,
        None if registered.client_secret.is_some() && auth == ClientAuth::None => {
            ClientAuth::ClientSecretBasic
        }
        None => auth,
    };
    if auth != ClientAuth::None && registered.client_secret.is_none() {
        return Err(rejected("it issued no client secret".to_owned()));
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

/// How to send a client secret: in the header (the default of RFC 8414, section 2) unless only the form is supported.
fn secret_method(methods: Option<&[String]>) -> ClientAuth {
    let has = |method: &str| methods.is_some_and(|methods| methods.iter().any(|it| it == method));
    if has("client_secret_post") && !has("client_secret_basic") {
        ClientAuth::ClientSecretPost
    } else {
        ClientAuth::ClientSecretBasic
    }
}

/// The user's choice of a client registration; by default longhaul registers itself.
#[derive(Clone, Debug, Default)]
pub struct SignInOptions {
    /// The id of a client that was registered manually.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<SecretString>,
    /// The URL of a client metadata document, which then is the client id.
    pub client_metadata_url: Option<String>,
}
