//! Where a server's tokens come from: its own metadata, then that of its authorization server.
//!
//! Sources: RFC 9728; RFC 8414; OpenID Connect Discovery 1.0, section 4; MCP 2026-07-28, basic/authorization.

use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

use super::{AuthError, address, host, said};
use crate::{
    protocol::{Challenge, merge_scopes},
    transport::{FetchError, Fetcher, Sent},
};

/// Harmless where it is let in, and whoever wants credentials says so before reading it.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":"sign-in","method":"ping"}"#;

/// What a server says of itself as a protected resource (RFC 9728, section 2).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceMetadata {
    resource: Option<String>,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
}

/// What an authorization server says of itself (RFC 8414, section 2).
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// Everything that a sign-in needs to know of the other side.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what an authorization server says of itself are facts of their own"
)]
pub(super) struct Found {
    /// The issuer, letter for letter.
    pub(super) issuer: String,
    /// What the token is asked for (RFC 8707), letter for letter.
    pub(super) resource: String,
    /// The scopes that the server asks for; none if it does not say.
    pub(super) scope: Option<String>,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    /// How a client may prove who it is at the token endpoint; `None` if nothing is said.
    pub(super) auth_methods: Option<Vec<String>>,
    pub(super) gives_offline_access: bool,
    /// Whether every answer names its issuer (RFC 9207).
    pub(super) names_itself: bool,
    pub(super) reads_client_documents: bool,
    /// Whether it has metadata; else the endpoints are those that MCP 2025-03-26 assumes.
    pub(super) is_described: bool,
}

/// Finds the authorization server of the MCP endpoint `server`.
pub(super) async fn discover(fetcher: &Fetcher, server: &Url) -> Result<Found, AuthError> {
    let (status, challenge) = fetcher
        .probe(server, PROBE.to_owned())
        .await
        .map_err(|error| AuthError::of_fetch(server, error))?;
    let challenge = challenge.unwrap_or_default();
    let Some(of_resource) = resource_metadata(fetcher, server, &challenge).await? else {
        if status != 401 {
            return Err(AuthError::NotAsked(format!(
                "{} does not ask for a sign-in (HTTP {status}, and no metadata says otherwise)",
                host(server)
            )));
        }
        return own_issuer(fetcher, server, challenge.scope).await;
    };
    let resource = match &of_resource.resource {
        Some(resource) if covers(resource, server.as_str()) => resource.clone(),
        Some(resource) => {
            return Err(AuthError::Distrusted(format!(
                "the metadata of {} is of another resource ({}); signing in there would give it a token for that",
                host(server),
                said(resource)
            )));
        }
        None => {
            return Err(AuthError::Distrusted(format!(
                "the metadata of {} names no resource, so nobody knows whether they are its own; nothing was sent to its \
                 authorization server",
                host(server)
            )));
        }
    };
    let Some(issuer) = of_resource.authorization_servers.into_iter().next() else {
        return Err(AuthError::Distrusted(format!(
            "the metadata of {} names no authorization server",
            host(server)
        )));
    };
    let found = issuer_metadata(fetcher, server, std::slice::from_ref(&issuer)).await?;
    let found = found.ok_or_else(|| undescribed(&issuer))?;
    complete(
        server,
        found,
        resource,
        challenge.scope,
        &of_resource.scopes_supported,
    )
}

/// Servers of 2025-03-26 are their own authorization server, at the root of their origin, and need not describe it: then
/// `/authorize`, `/token` and `/register` are there (MCP 2025-03-26, basic/authorization, "Fallbacks for Servers without
/// Metadata Discovery").
///
/// The revision of a server is not known before the sign-in, as it refuses the handshake too. That it demands a token and
/// names no metadata anywhere is the evidence: later revisions require a resource document, and a server of such a
/// revision that lacks it has no other way to be signed in to. Metadata that are there and wrong, or that cannot be had
/// just now, are no reason for the fallback. Everything stays at the origin that the user named, and PKCE is used as
/// always; without metadata nobody can promise it, and that revision requires it.
async fn own_issuer(
    fetcher: &Fetcher,
    server: &Url,
    challenged: Option<String>,
) -> Result<Found, AuthError> {
    let origin = server.origin().ascii_serialization();
    let issuers = [origin.clone(), format!("{origin}/")];
    if let Some(found) = issuer_metadata(fetcher, server, &issuers).await? {
        return complete(server, found, canonical(server), challenged, &[]);
    }
    let endpoint = |path: &str| address("address to sign in", at(server, path).as_str(), server);
    Ok(Found {
        authorization_endpoint: endpoint("/authorize")?,
        token_endpoint: endpoint("/token")?,
        registration_endpoint: Some(endpoint("/register")?),
        revocation_endpoint: None,
        scope: challenged.filter(|scope| !scope.is_empty()),
        auth_methods: None,
        gives_offline_access: false,
        names_itself: false,
        reads_client_documents: false,
        is_described: false,
        issuer: origin,
        resource: canonical(server),
    })
}

fn complete(
    server: &Url,
    found: IssuerMetadata,
    resource: String,
    challenged: Option<String>,
    supported: &[String],
) -> Result<Found, AuthError> {
    let issuer = found.issuer;
    if !found
        .code_challenge_methods_supported
        .iter()
        .any(|method| method == "S256")
    {
        return Err(AuthError::Distrusted(format!(
            "the authorization server {} does not say that it supports PKCE with S256, without which an answer could be \
             stolen on its way; nothing was sent to it",
            said(&issuer)
        )));
    }
    let missing = |what: &str| {
        AuthError::Distrusted(format!(
            "the metadata of the authorization server {} names no {what}",
            said(&issuer)
        ))
    };
    let endpoint = |what: &str, given: Option<&String>| {
        given.map(|given| address(what, given, server)).transpose()
    };
    let needed =
        |what: &str, given: Option<&String>| endpoint(what, given)?.ok_or_else(|| missing(what));
    let scopes = merge_scopes("", &supported.join(" "));
    Ok(Found {
        authorization_endpoint: needed(
            "authorization endpoint",
            found.authorization_endpoint.as_ref(),
        )?,
        token_endpoint: needed("address for tokens", found.token_endpoint.as_ref())?,
        registration_endpoint: endpoint(
            "address for registrations",
            found.registration_endpoint.as_ref(),
        )?,
        revocation_endpoint: endpoint(
            "address for revocations",
            found.revocation_endpoint.as_ref(),
        )?,
        scope: challenged
            .or(Some(scopes))
            .filter(|scope| !scope.is_empty()),
        auth_methods: found.token_endpoint_auth_methods_supported,
        gives_offline_access: found
            .scopes_supported
            .iter()
            .any(|it| it == "offline_access"),
        names_itself: found.authorization_response_iss_parameter_supported,
        reads_client_documents: found.client_id_metadata_document_supported,
        is_described: true,
        issuer,
        resource,
    })
}

/// The server's metadata as a protected resource, where the challenge or a well-known place has it.
async fn resource_metadata(
    fetcher: &Fetcher,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ResourceMetadata>, AuthError> {
    if let Some(given) = &challenge.resource_metadata {
        let url = address("address of its metadata", given, server)?;
        return match document(fetcher, &url).await? {
            Some(found) => Ok(Some(found)),
            None => Err(AuthError::Distrusted(format!(
                "{} has no metadata where it says that they are",
                host(server)
            ))),
        };
    }
    let root = "/.well-known/oauth-protected-resource";
    let of_path = format!("{root}{}", server.path().trim_end_matches('/'));
    let mut places = vec![of_path.as_str()];
    if of_path != root {
        places.push(root);
    }
    for path in places {
        if let Some(found) = document(fetcher, &at(server, path)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What to say where an authorization server has no metadata and nothing shows that there is one.
pub(super) fn undescribed(issuer: &str) -> AuthError {
    AuthError::Distrusted(format!(
        "no metadata found of the authorization server {}; without them nobody knows whether it can be trusted. Use a \
         token of yours with --bearer-env",
        said(issuer)
    ))
}

/// The metadata of the authorization server that is called by one of `issuers`, which mean the same place, if it has any.
async fn issuer_metadata(
    fetcher: &Fetcher,
    server: &Url,
    issuers: &[String],
) -> Result<Option<IssuerMetadata>, AuthError> {
    let Some(issuer) = issuers.first() else {
        return Ok(None);
    };
    let url = address("authorization server", issuer, server)?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    let mut other = None;
    for path in places {
        let found: Option<IssuerMetadata> = document(fetcher, &at(&url, &path)).await?;
        match found {
            Some(found) if issuers.contains(&found.issuer) => return Ok(Some(found)),
            Some(found) => other = other.or(Some(found.issuer)),
            None => {}
        }
    }
    match other {
        None => Ok(None),
        Some(other) => Err(AuthError::Distrusted(format!(
            "the authorization server {} says that it is {}, which is another one letter for letter; nothing was sent to it",
            said(issuer),
            said(&other)
        ))),
    }
}

/// A JSON document, `None` if there is none at this place.
async fn document<T: DeserializeOwned>(
    fetcher: &Fetcher,
    url: &Url,
) -> Result<Option<T>, AuthError> {
    let answer = match fetcher.fetch(url, Sent::Nothing).await {
        Ok(answer) => answer,
        Err(FetchError::Refused(why)) => {
            return Err(AuthError::Distrusted(format!(
                "the metadata of {} cannot be had: {}",
                host(url),
                said(&why)
            )));
        }
        Err(error) => return Err(AuthError::of_fetch(url, error)),
    };
    match answer.status {
        500.. => Err(AuthError::Unreachable {
            who: host(url),
            why: format!("HTTP {}", answer.status),
        }),
        // Some answer every path with a page; that is no document either.
        200..=299 => Ok(serde_json::from_slice(&answer.body.0).ok()),
        _ => Ok(None),
    }
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The server's own name as a resource: without what follows a `?` or `#`, which may be a key and is not for the issuer,
/// and without a slash that a URL library put behind it.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = String::from(url);
    match server.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// Whether a token for `resource` is one for the endpoint: the same letters, or the beginning of them up to the end of a
/// segment, as for metadata at the root of an origin.
fn covers(resource: &str, server: &str) -> bool {
    let Some(rest) = server.strip_prefix(resource.trim_end_matches('/')) else {
        return false;
    };
    // Down to the host and no further: what ends before it covers every host.
    let has_host = Url::parse(resource).is_ok_and(|url| url.has_host() && url.fragment().is_none());
    has_host && (rest.is_empty() || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_compared_as_the_string_it_came_as() {
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
    fn no_slash_is_added_to_the_name_of_a_resource() {
        for (url, expected) in [
            ("https://h", "https://h"),
            ("https://h/mcp#x", "https://h/mcp"),
            ("https://h/mcp/", "https://h/mcp/"),
            ("https://h/?key=1", "https://h"),
            ("https://h/mcp?key=1", "https://h/mcp"),
        ] {
            assert_eq!(canonical(&Url::parse(url).unwrap()), expected);
        }
    }
}
