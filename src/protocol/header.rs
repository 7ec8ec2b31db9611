//! Values of `Mcp-Name` and `Mcp-Param-*` headers (MCP 2026-07-28, transports/streamable-http, value encoding).

use std::borrow::Cow;

const BEGIN: &str = "=?base64?";
const END: &str = "?=";

/// The value as it goes into a header: plain where that is safe, base64 in markers where it is not.
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

/// Standard base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            let letter = LETTERS.get(six).copied().filter(|_| place <= chunk.len());
            text.push(char::from(letter.unwrap_or(b'=')));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_vectors_of_the_specification_hold() {
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
