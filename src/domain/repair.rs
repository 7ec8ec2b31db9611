//! JSON of servers that serde would reject as a whole: lone surrogates and numbers that are none.
//!
//! RFC 8259 allows lone surrogates, which are escapes such as `\ud83d` whose other half is missing, and `JSON.stringify`
//! writes them for a text that was cut inside an emoji. A Rust string can't hold them. `NaN` and infinities are not JSON,
//! but Python's `json.dumps` writes them. Replacing both before decoding keeps the rest of the message.

use memchr::{memchr, memchr2, memmem};
use serde::de::IgnoredAny;

/// As long as the escape it replaces, so that no bytes move.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// Replaces each lone surrogate in a JSON text with U+FFFD. Pairs stay, and so does an escaped backslash before
/// `ud83d`.
///
/// Returns whether the text contains any escape.
pub fn replace_lone_surrogates(json: &mut [u8]) -> bool {
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match code_unit(json, at) {
            Some(0xd800..=0xdbff) if is_low(code_unit(json, at + 6)) => 12,
            Some(0xd800..=0xdfff) => {
                if let Some(escape) = json.get_mut(at..at + 6) {
                    escape.copy_from_slice(REPLACEMENT);
                }
                6
            }
            // Any other escape: skip the escaped character too, it can't start one.
            _ => 2,
        };
    }
    at > 0 || json.first() == Some(&b'\\')
}

/// [`replace_lone_surrogates`] for a string.
pub fn without_lone_surrogates(json: String) -> String {
    let mut bytes = json.into_bytes();
    replace_lone_surrogates(&mut bytes);
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Replaces `NaN` and infinities with `null`, as `JSON.stringify` does.
pub fn without_nan(json: String) -> String {
    const NOT_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];
    let bytes = json.as_bytes();
    let has = |word: &str| memmem::find(bytes, word.as_bytes()).is_some();
    // Most messages have neither letter.
    if memchr2(b'N', b'I', bytes).is_none()
        || !(has("NaN") || has("Infinity"))
        || serde_json::from_str::<IgnoredAny>(&json).is_ok()
    {
        return json;
    }
    let mut repaired = String::with_capacity(json.len());
    let (mut rest, mut is_in_text) = (json.as_str(), false);
    while let Some(letter) = rest.chars().next() {
        let mut not_numbers = NOT_NUMBERS.iter().filter(|_| !is_in_text);
        if let Some(after) = not_numbers.find_map(|word| rest.strip_prefix(word)) {
            repaired.push_str("null");
            rest = after;
            continue;
        }
        is_in_text ^= letter == '"';
        let escape = usize::from(letter == '\\' && rest.is_char_boundary(2));
        let (piece, after) = rest
            .split_at_checked(letter.len_utf8() + escape)
            .unwrap_or((rest, ""));
        repaired.push_str(piece);
        rest = after;
    }
    repaired
}

fn is_low(unit: Option<u16>) -> bool {
    matches!(unit, Some(0xdc00..=0xdfff))
}

/// The UTF-16 code unit of a `\uXXXX` escape at this position.
fn code_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replaced(json: &str) -> String {
        without_lone_surrogates(json.to_owned())
    }

    #[test]
    fn replaces_lone_surrogates_and_nothing_else() {
        for (json, expected) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uD83D x""#, r#""\ufffd x""#),
            (r#""\udc00""#, r#""\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\u00e9 \uzzzz \ud8"#, r#""\u00e9 \uzzzz \ud8"#),
            ("no escape, é", "no escape, é"),
            ("\\", "\\"),
            ("", ""),
        ] {
            assert_eq!(replaced(json), expected);
        }
    }

    #[test]
    fn replaces_what_is_no_number() {
        for (json, expected) in [
            (
                r#"{"a":NaN,"b":[-Infinity, Infinity,1]}"#,
                r#"{"a":null,"b":[null, null,1]}"#,
            ),
            (
                r#"{"NaN":"\"NaN\\","é":NaN}"#,
                r#"{"NaN":"\"NaN\\","é":null}"#,
            ),
            (r#"{"a":"NaN"}"#, r#"{"a":"NaN"}"#),
            (r"NaN\", r"null\"),
            (r"NaN\é", r"null\é"),
        ] {
            assert_eq!(without_nan(json.to_owned()), expected);
        }
    }

    #[test]
    fn returns_whether_there_is_an_escape() {
        for (json, expected) in [("\\n", true), ("a\\n", true), ("a", false), ("", false)] {
            assert_eq!(
                replace_lone_surrogates(&mut json.as_bytes().to_vec()),
                expected
            );
        }
    }

    /// A JSON string of UTF-16 code units: letters as they are, everything else as escapes.
    fn quoted(units: &[u16]) -> String {
        let units = units
            .iter()
            .map(|unit| match char::from_u32(u32::from(*unit)) {
                Some(letter) if letter.is_alphanumeric() => letter.to_string(),
                _ => format!("\\u{unit:04x}"),
            });
        format!("\"{}\"", units.collect::<String>())
    }

    proptest! {
        /// As the standard library replaces them.
        #[test]
        fn matches_lossy_utf16_decoding(
            units in proptest::collection::vec(prop_oneof![0xd700_u16..0xe100, 0x20_u16..0x7f], 0..12)
        ) {
            let read: String = serde_json::from_str(&replaced(&quoted(&units))).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }

        #[test]
        fn leaves_valid_json_unchanged(json in any::<String>()) {
            let json = serde_json::Value::from(json).to_string();
            prop_assert_eq!(replaced(&json), json);
        }

        #[test]
        fn keeps_the_length_of_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let length = bytes.len();
            replace_lone_surrogates(&mut bytes);
            prop_assert_eq!(bytes.len(), length);
        }
    }
}
