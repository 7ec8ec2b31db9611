//! The content blocks of a result (CallToolResult), as a person reads them.

use serde_json::Value;

use super::text;

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block<'v> {
    /// Text, as the server sent it.
    Text(&'v str),
    /// A picture or sound: in clean words what it is.
    Media(String),
    /// Anything else: in clean words what it is.
    Other(String),
}

impl<'v> Block<'v> {
    /// Reads one element of `content`, of whatever shape (MCP 2025-11-25, server/tools).
    pub fn of(block: &'v Value) -> Self {
        let word = |key: &str| word(block, key);
        let kind = word("type");
        let clean = |words: String| text::clean_line(&words).trim_end().to_owned();
        match kind {
            "text" => Self::Text(word("text")),
            "image" | "audio" => {
                // The type names the kind.
                let mime = match word("mimeType") {
                    "" => kind,
                    mime => mime,
                };
                Self::Media(clean(format!("{mime}, {}", decoded(word("data")))))
            }
            "resource_link" => {
                Self::Other(clean(format!("link {} {}", word("uri"), word("mimeType"))))
            }
            "resource" => {
                let inner = block.get("resource").unwrap_or(&Value::Null);
                let size = match inner.get("text").and_then(Value::as_str) {
                    Some(text) => bytes(text.len()),
                    None => decoded(self::word(inner, "blob")),
                };
                let (uri, mime) = (self::word(inner, "uri"), self::word(inner, "mimeType"));
                Self::Other(clean(format!("resource {uri} {mime}, {size}")))
            }
            _ => Self::Other(clean(format!("{kind}, {}", bytes(block.to_string().len())))),
        }
    }
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The size of what Base64 stands for: it takes four characters for three bytes.
fn decoded(data: &str) -> String {
    bytes(data.len() / 4 * 3)
}

fn bytes(count: usize) -> String {
    text::bytes(u64::try_from(count).unwrap_or(u64::MAX))
}
