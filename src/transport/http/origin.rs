//! URLs that a server sends: followed within its own origin, and nowhere else.

use reqwest::{StatusCode, header::HeaderValue};
use url::Url;

use crate::{domain::server_url::has_userinfo, protocol::OriginError};

/// Redirects that one exchange follows.
pub(in crate::transport) const MAX_REDIRECTS: usize = 3;

/// Why a redirect is not followed.
#[derive(Debug, thiserror::Error)]
pub(in crate::transport) enum RedirectError {
    #[error("it {0}; not followed")]
    Origin(#[from] OriginError),
    #[error("it redirects to {0} with a status that would drop the request body; not followed")]
    DropsBody(String),
    #[error("too many redirects, the last one to {0}; not followed")]
    TooMany(String),
}

/// The target of a redirect.
pub(in crate::transport) fn redirect_target(
    status: StatusCode,
    from: &Url,
    location: &HeaderValue,
    followed: usize,
) -> Result<Url, RedirectError> {
    let target = resolve_same_origin(from, location.as_bytes())?;
    if !matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) {
        return Err(RedirectError::DropsBody(display_url(&target)));
    }
    if followed >= MAX_REDIRECTS {
        return Err(RedirectError::TooMany(display_url(&target)));
    }
    Ok(target)
}

/// Resolves a URL that a server sent, and rejects other origins: nothing is ever sent there.
pub(in crate::transport) fn resolve_same_origin(
    from: &Url,
    text: &[u8],
) -> Result<Url, OriginError> {
    let target = std::str::from_utf8(text)
        .ok()
        .and_then(|text| from.join(text).ok());
    let mut target = target.ok_or(OriginError::Invalid)?;
    if target.origin() != from.origin() {
        return Err(OriginError::OtherOrigin(display_url(&target)));
    }
    if has_userinfo(&target) {
        return Err(OriginError::UserName(display_url(&target)));
    }
    target.set_fragment(None);
    Ok(target)
}

/// A URL for people: without user info, query and fragment.
pub(in crate::transport) fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for URLs that can't have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_url_with_a_user_name_is_rejected() {
        let from = Url::parse("http://h/mcp").unwrap();
        let why = resolve_same_origin(&from, b"http://ann:hunter2@h/mcp")
            .unwrap_err()
            .to_string();
        assert!(
            why.contains("with a user name") && !why.contains("hunter2"),
            "{why}"
        );
        assert_eq!(
            resolve_same_origin(&from, b"/there#x").unwrap().as_str(),
            "http://h/there"
        );
    }
}
