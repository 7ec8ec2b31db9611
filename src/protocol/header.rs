//! Values of `Mcp-Name` and `Mcp-Param-*` headers (MCP 2026-07-28, transports/streamable-http, value encoding).

use std::borrow::Cow;

use crate::domain::base64;

const BEGIN: &str = "=?base64?";
const END: &str = "?=";

/// The value as sent in a header: plain if that is safe, else base64 between markers.
pub(super) fn encoded(value: &str) -> Cow<'_, str> {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    let bytes = value.as_bytes();
    let looks_encoded = value.starts_with(BEGIN) && value.ends_with(END);
    let is_padded = is_blank(bytes.first()) || is_blank(bytes.last());
    let is_printable = bytes.iter().all(|byte| (0x20..=0x7e).contains(byte));
    if is_printable && !is_padded && !looks_encoded {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{BEGIN}{}{END}", base64(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_examples_of_the_specification() {
        for (value, wire) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("us west 1", "us west 1"),
            ("", ""),
        ] {
            assert_eq!(encoded(value), wire);
        }
    }
}
