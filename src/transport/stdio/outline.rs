//! The outline of a message that is too large to keep: its own members, with empty objects and arrays in place of nested
//! ones. It shows which request a response belongs to, wherever in the line its id is.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Longer outlines are not kept: a message has few members of its own.
const OUTLINE_BYTES: usize = 4 * 1024;

/// Reads a JSON object in chunks and keeps its outline.
#[derive(Debug, Default)]
pub struct Outline {
    text: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Bytes read so far.
    pub(super) seen: usize,
}

#[derive(Deserialize)]
struct Message<'t> {
    #[serde(borrow)]
    id: Option<&'t RawValue>,
    method: Option<serde::de::IgnoredAny>,
}

impl Outline {
    /// Reads the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.seen += chunk.len();
        for &byte in chunk {
            let was_nested = self.depth > 1;
            if self.is_in_string {
                self.is_in_string = byte != b'"' || self.is_escaped;
                self.is_escaped = byte == b'\\' && !self.is_escaped;
            } else {
                match byte {
                    b'"' => self.is_in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
            }
            // Brackets of nested values belong to the outline, what is in them does not.
            let is_kept = !was_nested || self.depth <= 1;
            if is_kept && self.text.len() <= OUTLINE_BYTES {
                self.text.push(byte);
            }
        }
    }

    /// The id of the request that this is the response to; `None` if it is no response to longhaul, whose ids are strings.
    pub(super) fn answered_request(&self) -> Option<String> {
        let Message { id, method } = self.message()?;
        let id = id.filter(|_| method.is_none())?;
        serde_json::from_str(id.get()).ok()
    }

    /// The id of the request that this is, as JSON text; `None` if it is no request.
    pub fn request(&self) -> Option<String> {
        let Message { id, method } = self.message()?;
        id.filter(|_| method.is_some())
            .map(|id| id.get().to_owned())
    }

    fn message(&self) -> Option<Message<'_>> {
        // A list of two would be read as the two members.
        let is_object = self.text.trim_ascii_start().starts_with(b"{");
        let message = is_object.then(|| serde_json::from_slice(&self.text).ok());
        message.flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str, chunk: usize) -> Option<String> {
        let mut outline = Outline::default();
        for part in text.as_bytes().chunks(chunk) {
            outline.feed(part);
        }
        assert_eq!(outline.seen, text.len());
        outline.answered_request()
    }

    #[test]
    fn finds_the_id_before_and_after_a_result() {
        let inner = r#"{"id":"9","text":"a \" } ] \\","list":[{"id":"8"}]}"#;
        let padding = "[0]".repeat(OUTLINE_BYTES);
        for chunk in [1, 7, 100_000] {
            let id = |text: &str| answered(text, chunk);
            let (first, last) = (
                format!(r#"{{"id":"17","result":{{"content":[{inner},"{padding}"]}}}}"#),
                format!(r#"{{"result":{{"content":[{inner},"{padding}"]}},"id":"17"}}"#),
            );
            assert_eq!(id(&first).as_deref(), Some("17"));
            assert_eq!(id(&last).as_deref(), Some("17"));
            // Requests and notifications of the server, the ids of others, and no message at all.
            assert_eq!(id(&first.replace("result", "method")), None);
            assert_eq!(id(&first.replace("\"17\"", "17")), None);
            assert_eq!(id(&format!(r#"{{"id":"17","text":"{padding}"}}"#)), None);
            assert_eq!(id(&padding), None);
        }
    }
}
