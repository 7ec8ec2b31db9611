//! Standard base64, for what has to pass as plain letters.
//!
//! Source: RFC 4648, section 4.

/// Bytes as letters, with padding.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * place) & 63) as usize);
            match letter {
                // A group of n bytes fills n + 1 letters.
                Some(letter) if place <= group.len() => out.push(char::from(*letter)),
                _ => out.push('='),
            }
        }
    }
    out
}

/// Bytes as letters that stand for themselves in a URL, without padding (RFC 4648, section 5).
pub fn base64_url(bytes: &[u8]) -> String {
    let letter = |letter: char| match letter {
        '+' => '-',
        '/' => '_',
        other => other,
    };
    base64(bytes)
        .trim_end_matches('=')
        .chars()
        .map(letter)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
        assert_eq!(base64_url(&[0xfb, 0xff, 0xfe, 0xff]), "-__-_w");
    }
}
