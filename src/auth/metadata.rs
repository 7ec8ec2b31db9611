//! Discovers a server's authorization server: fetches the server's resource metadata, then the issuer's metadata.
//!
//! Sources: RFC 9728; RFC 8414; OpenID Connect Discovery 1.0, section 4; MCP 2026-07-28, basic/authorization.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::{AuthError, check_url, excerpt, host};
use crate::{
    protocol::{Challenge, merge_scopes},
    transport::{FetchError, FetchRequest, Fetcher},
};

/// Harmless if the server accepts it; a server that requires credentials rejects it before reading the body.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":"sign-in","method":"ping"}"#;

/// Protected resource metadata (RFC 9728, section 2).
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: Option<String>,
    // Optional: Go servers write an empty list as null.
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

/// Authorization server metadata (RFC 8414, section 2).
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    // Other JSON documents have none.
    #[serde(default)]
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
    client_id_metadata_document_supported: Option<bool>,
}

/// An authorization server, checked and ready for a sign-in.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent capabilities of the authorization server"
)]
pub(super) struct AuthServer {
    /// The issuer, as the exact string.
    pub(super) issuer: String,
    /// The resource to request a token for (RFC 8707), as the exact string.
    pub(super) resource: String,
    /// The scopes that the server asks for; `None` if it does not say.
    pub(super) scope: Option<String>,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    /// Client authentication methods of the token endpoint; `None` if it does not say.
    pub(super) auth_methods: Option<Vec<String>>,
    pub(super) supports_offline_access: bool,
    /// Whether every authorization response contains `iss` (RFC 9207).
    pub(super) sends_iss: bool,
    pub(super) supports_client_metadata_url: bool,
    /// Whether it has metadata; if not, the endpoints are the defaults of MCP 2025-03-26.
    pub(super) has_metadata: bool,
}

/// Finds the authorization server of the MCP endpoint `server`.
pub(super) async fn discover(fetcher: &Fetcher, server: &Url) -> Result<AuthServer, AuthError> {
    let (status, challenge) = fetcher
        .probe(server, PROBE.to_owned())
        .await
        .map_err(|error| AuthError::from_fetch(server, error))?;
    let challenge = challenge.unwrap_or_default();
    let Some(resource_metadata) = fetch_resource_metadata(fetcher, server, &challenge).await?
    else {
        if status != 401 {
            return Err(AuthError::Refused(format!(
                "the server at {} does not ask for a sign-in (HTTP {status})",
                host(server)
            )));
        }
        return fallback_issuer(fetcher, server, challenge.scope).await;
    };
    let resource = match &resource_metadata.resource {
        Some(resource) if covers(resource, server.as_str()) => resource.clone(),
        Some(resource) => {
            return Err(AuthError::Untrusted(format!(
                "the metadata of {} describes another resource ({}); a sign-in would give this server a token for that one",
                host(server),
                excerpt(resource)
            )));
        }
        None => {
            return Err(AuthError::Untrusted(format!(
                "the metadata of {} does not name its resource, so it can't be verified; nothing was sent to its \
                 authorization server",
                host(server)
            )));
        }
    };
    let Some(issuer) = resource_metadata
        .authorization_servers
        .into_iter()
        .flatten()
        .next()
    else {
        return Err(AuthError::Untrusted(format!(
            "the metadata of {} does not name an authorization server",
            host(server)
        )));
    };
    let found = fetch_issuer_metadata(fetcher, server, std::slice::from_ref(&issuer)).await?;
    let found = found.ok_or_else(|| no_metadata_error(&issuer))?;
    checked(
        server,
        found,
        resource,
        challenge.scope,
        &resource_metadata.scopes_supported.unwrap_or_default(),
    )
}

/// The authorization server of a server without resource metadata.
///
/// A server of 2025-03-26 is its own authorization server, at the root of its origin, and need not have metadata. The
/// endpoints are then `/authorize`, `/token` and `/register` (MCP 2025-03-26, basic/authorization, "Fallbacks for Servers
/// without Metadata Discovery").
///
/// The server's revision is not known before the sign-in, because it rejects the handshake too. Instead we rely on it
/// requiring a token and having no metadata anywhere: later revisions require a resource document, and a server of such a
/// revision without one could not be signed in to at all. Wrong metadata, or metadata that is temporarily unavailable,
/// never leads to the fallback. Everything stays at the origin that the user named. PKCE is always used: without metadata
/// the server can't announce it, but that revision requires it.
async fn fallback_issuer(
    fetcher: &Fetcher,
    server: &Url,
    challenged: Option<String>,
) -> Result<AuthServer, AuthError> {
    let origin = server.origin().ascii_serialization();
    let issuers = [origin.clone(), format!("{origin}/")];
    if let Some(found) = fetch_issuer_metadata(fetcher, server, &issuers).await? {
        return checked(server, found, canonical_resource(server), challenged, &[]);
    }
    let endpoint = |path: &str| check_url("sign-in URL", with_path(server, path).as_str(), server);
    Ok(AuthServer {
        authorization_endpoint: endpoint("/authorize")?,
        token_endpoint: endpoint("/token")?,
        registration_endpoint: Some(endpoint("/register")?),
        revocation_endpoint: None,
        scope: challenged.filter(|scope| !scope.is_empty()),
        auth_methods: None,
        supports_offline_access: false,
        sends_iss: false,
        supports_client_metadata_url: false,
        has_metadata: false,
        issuer: origin,
        resource: canonical_resource(server),
    })
}

/// Checks an issuer's metadata: PKCE support, required endpoints, and every URL.
fn checked(
    server: &Url,
    found: IssuerMetadata,
    resource: String,
    challenged: Option<String>,
    supported: &[String],
) -> Result<AuthServer, AuthError> {
    let issuer = found.issuer;
    if !found
        .code_challenge_methods_supported
        .iter()
        .flatten()
        .any(|method| method == "S256")
    {
        return Err(AuthError::Untrusted(format!(
            "the authorization server {} does not support PKCE with S256, without which the authorization code could be \
             stolen; nothing was sent to it",
            excerpt(&issuer)
        )));
    }
    let missing = |what: &str| {
        AuthError::Untrusted(format!(
            "the metadata of the authorization server {} has no {what}",
            excerpt(&issuer)
        ))
    };
    let endpoint = |what: &str, given: Option<String>| {
        let checked = given.map(|given| check_url(what, &given, server));
        checked.transpose()
    };
    let needed =
        |what: &str, given: Option<String>| endpoint(what, given)?.ok_or_else(|| missing(what));
    let scopes = merge_scopes("", &supported.join(" "));
    Ok(AuthServer {
        authorization_endpoint: needed("authorization endpoint", found.authorization_endpoint)?,
        token_endpoint: needed("token endpoint", found.token_endpoint)?,
        registration_endpoint: endpoint("registration endpoint", found.registration_endpoint)?,
        revocation_endpoint: endpoint("revocation endpoint", found.revocation_endpoint)?,
        scope: challenged
            .or(Some(scopes))
            .filter(|scope| !scope.is_empty()),
        auth_methods: found.token_endpoint_auth_methods_supported,
        supports_offline_access: found
            .scopes_supported
            .iter()
            .flatten()
            .any(|it| it == "offline_access"),
        sends_iss: found.authorization_response_iss_parameter_supported == Some(true),
        supports_client_metadata_url: found.client_id_metadata_document_supported == Some(true),
        has_metadata: true,
        issuer,
        resource,
    })
}

/// The server's resource metadata, from the URL in the challenge or a well-known URL.
async fn fetch_resource_metadata(
    fetcher: &Fetcher,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, AuthError> {
    if let Some(given) = &challenge.resource_metadata {
        let url = check_url("metadata URL", given, server)?;
        return match fetch_json(fetcher, &url).await? {
            Some(found) => Ok(Some(found)),
            None => Err(AuthError::Untrusted(format!(
                "{} has no metadata at the URL that it names",
                host(server)
            ))),
        };
    }
    let root = "/.well-known/oauth-protected-resource";
    let of_path = format!("{root}{}", server.path().trim_end_matches('/'));
    let mut paths = vec![of_path.as_str()];
    if of_path != root {
        paths.push(root);
    }
    for path in paths {
        if let Some(found) = fetch_json(fetcher, &with_path(server, path)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The error for an authorization server without metadata.
pub(super) fn no_metadata_error(issuer: &str) -> AuthError {
    AuthError::Untrusted(format!(
        "the authorization server {} has no metadata, so it can't be verified. If you have a token, pass it with \
         --bearer-env",
        excerpt(issuer)
    ))
}

/// The metadata of an authorization server, `None` if it has none. `issuers` are equivalent spellings of its issuer.
async fn fetch_issuer_metadata(
    fetcher: &Fetcher,
    server: &Url,
    issuers: &[String],
) -> Result<Option<IssuerMetadata>, AuthError> {
    let Some(issuer) = issuers.first() else {
        return Ok(None);
    };
    let url = check_url("authorization server", issuer, server)?;
    let path = url.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let mut other = None;
    for path in paths {
        let found: Option<IssuerMetadata> = fetch_json(fetcher, &with_path(&url, &path)).await?;
        match found {
            Some(found) if issuers.contains(&found.issuer) => return Ok(Some(found)),
            Some(found) if !found.issuer.is_empty() => other = other.or(Some(found.issuer)),
            _ => {}
        }
    }
    match other {
        None => Ok(None),
        Some(other) => Err(AuthError::Untrusted(format!(
            "the authorization server at {} calls itself {}; the two must be equal, so nothing was sent to it",
            excerpt(issuer),
            excerpt(&other)
        ))),
    }
}

/// A JSON document; `None` if there is none at this URL.
async fn fetch_json<T: DeserializeOwned>(
    fetcher: &Fetcher,
    url: &Url,
) -> Result<Option<T>, AuthError> {
    let response = match fetcher.fetch(url, FetchRequest::Get).await {
        Ok(response) => response,
        Err(FetchError::Permanent(why)) => {
            return Err(AuthError::Untrusted(format!(
                "could not get the metadata of {}: {}",
                host(url),
                excerpt(&why)
            )));
        }
        Err(error) => return Err(AuthError::from_fetch(url, error)),
    };
    match response.status {
        408 | 425 | 429 | 500.. => Err(AuthError::Unavailable(format!(
            "could not get the metadata of {} (HTTP {})",
            host(url),
            response.status
        ))),
        200..=299 => {
            // Some servers answer every path with an HTML page, which counts as no document.
            let Ok(document @ Value::Object(_)) = serde_json::from_slice(&response.body) else {
                return Ok(None);
            };
            T::deserialize(document).map(Some).map_err(|error| {
                AuthError::Untrusted(format!(
                    "the metadata of {} is invalid: {}",
                    host(url),
                    excerpt(&error.to_string())
                ))
            })
        }
        _ => Ok(None),
    }
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The server's resource identifier: its URL without query and fragment, which may contain a key that the issuer must not
/// see, and without the trailing slash that the URL library adds.
fn canonical_resource(server: &Url) -> String {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = String::from(url);
    match server.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// Whether a token for `resource` is valid for the endpoint: the same string, or a prefix that ends at a path segment, as
/// in metadata at the root of an origin.
fn covers(resource: &str, server: &str) -> bool {
    let Some(rest) = server.strip_prefix(resource.trim_end_matches('/')) else {
        return false;
    };
    // The prefix must include the host, or it would cover every host.
    let has_host = Url::parse(resource).is_ok_and(|url| url.has_host() && url.fragment().is_none());
    has_host && (rest.is_empty() || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_resources_as_exact_strings() {
        let server = "https://h/p/mcp";
        for (resource, expected) in [
            ("https://h/p/mcp", true),
            ("https://h/p/mcp/", true),
            ("https://h/p", true),
            ("https://h", true),
            ("https://h/", true),
            ("https://h/p/m", false),
            ("https://h/p/mcp2", false),
            ("https://H/p/mcp", false),
            ("https://h:443/p/mcp", false),
            ("https://h/p/mcp#f", false),
            ("https://h.evil/p/mcp", false),
            ("https:", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(covers(resource, server), expected, "{resource}");
        }
    }

    #[test]
    fn adds_no_slash_to_a_resource() {
        for (url, expected) in [
            ("https://h", "https://h"),
            ("https://h/mcp#x", "https://h/mcp"),
            ("https://h/mcp/", "https://h/mcp/"),
            ("https://h/?key=1", "https://h"),
            ("https://h/mcp?key=1", "https://h/mcp"),
        ] {
            assert_eq!(canonical_resource(&Url::parse(url).unwrap()), expected);
        }
    }
}
