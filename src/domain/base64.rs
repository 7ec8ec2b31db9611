//! Base64, standard and URL-safe (RFC 4648, sections 4 and 5).

use ::base64::{
    Engine as _, alphabet,
    engine::{
        DecodePaddingMode,
        general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD},
    },
};

/// Decodes with or without padding, as servers send both.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Encodes with padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Encodes with the URL-safe alphabet, without padding.
pub fn base64_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes either alphabet, with or without padding; skips whitespace. `None` if the text isn't base64.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let letters: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    LENIENT.decode(letters).ok()
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
