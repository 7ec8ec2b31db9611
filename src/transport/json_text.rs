//! JSON as text: what is inside its strings, and how it is escaped.

use memchr::{memchr, memchr2};

/// Scans JSON forward and tracks whether a position is inside a string.
#[derive(Default)]
pub(super) struct StringScanner {
    at: usize,
    is_in_string: bool,
}

impl StringScanner {
    /// Whether `to` is inside a string and not inside an escape. Positions must not decrease from call to call.
    pub(super) fn is_in_string_at(&mut self, json: &[u8], to: usize) -> bool {
        while let Some(found) = json
            .get(self.at..to)
            .and_then(|rest| memchr2(b'"', b'\\', rest))
        {
            self.at += found;
            self.at += match json.get(self.at..) {
                Some([b'\\', b'u', ..]) => 6,
                Some([b'\\', ..]) => 2,
                _ => {
                    self.is_in_string = !self.is_in_string;
                    1
                }
            };
        }
        self.is_in_string && self.at <= to
    }
}

/// The same JSON without `\u00xx` escapes of printable ASCII, also in JSON that is a text of it.
pub(super) fn unescape_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let digits = ["\\u00", "\\\\u00"]
            .iter()
            .find_map(|it| escape.strip_prefix(it));
        let letter = digits
            .and_then(|rest| u8::from_str_radix(rest.get(..2)?, 16).ok())
            .filter(|byte| (b' '..=b'~').contains(byte) && !matches!(byte, b'"' | b'\\'));
        let length = if let Some(letter) = letter {
            out.push(char::from(letter));
            escape.len() - digits.map_or(0, str::len) + 2
        } else {
            out.extend(escape.chars().take(2));
            escape.chars().take(2).map(char::len_utf8).sum()
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// A JSON string without its quotes.
pub(super) fn json_escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let inner = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(&json).to_owned()
}
