//! Base64, standard and URL-safe (RFC 4648, sections 4 and 5).

/// Encodes with padding.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * index) & 63) as usize);
            match letter {
                // A group of n bytes fills n + 1 letters.
                Some(letter) if index <= group.len() => out.push(char::from(*letter)),
                _ => out.push('='),
            }
        }
    }
    out
}

/// Decodes either alphabet, with or without padding; skips whitespace. `None` if the text isn't base64.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held, mut has_ended) = (0_u32, 0, false);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                has_ended = true;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            _ => return None,
        };
        if has_ended {
            return None;
        }
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    // A single leftover letter has only 6 bits: not a byte.
    (held < 6).then_some(out)
}

/// Encodes with the URL-safe alphabet, without padding.
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
    fn matches_the_rfc_test_vectors() {
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
    #[test]
    fn decodes_what_it_encodes() {
        let bytes: Vec<u8> = (0..=255).collect();
        for end in 0..=bytes.len() {
            let part = &bytes[..end];
            assert_eq!(decode_base64(&base64(part)).as_deref(), Some(part));
            assert_eq!(decode_base64(&base64_url(part)).as_deref(), Some(part));
        }
        assert_eq!(decode_base64("Zm9v\r\nYg==").as_deref(), Some(&b"foob"[..]));
        for wrong in ["Z", "Zm9vY", "Zm=9", "Zm9\u{0}", "é", "Zm9v!"] {
            assert_eq!(decode_base64(wrong), None, "{wrong}");
        }
    }
}
