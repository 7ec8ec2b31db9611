//! Which headers users can set, and which names credentials have.

use super::text::is_token;

/// Headers that users can't set, because each request to a server sets them itself.
const RESERVED: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// Parts of the names of headers, variables and parameters that hold secrets.
const CREDENTIAL_NAME_PARTS: [&str; 9] = [
    "auth",
    "cookie",
    "credential",
    "key",
    "passw",
    "secret",
    "session",
    "signature",
    "token",
];

/// Whether a header, variable or parameter with this name usually holds a secret.
pub fn is_credential_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Why a header can't be sent. Its value is not shown, because it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name is not repeated: it may be a misplaced secret.
    #[error("invalid header name; use only letters, digits and -, as in 'X-Api-Key: ...'")]
    Name,
    /// Each request sets it.
    #[error("longhaul sets the header {0} itself")]
    Reserved(String),
    /// A line break could begin another header.
    #[error("the value of {0} contains a control character")]
    Value(String),
}

/// Checks a header of a user, without the spaces around its name and value.
pub fn check_header(name: &str, value: &str) -> Result<(), HeaderError> {
    let is_control = |letter: char| letter.is_control() && letter != '\t';
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(HeaderError::Name);
    }
    if RESERVED.contains(&&*name.to_ascii_lowercase()) {
        return Err(HeaderError::Reserved(name.to_owned()));
    }
    if value.contains(is_control) {
        return Err(HeaderError::Value(name.to_owned()));
    }
    Ok(())
}
