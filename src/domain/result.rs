//! The content blocks of a result (CallToolResult): their descriptions and their bytes.
//!
//! Must not know of files or screens.

use std::borrow::Cow;

use itertools::Itertools as _;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{base64, text};

/// One content block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock<'v> {
    /// Text, as the server sent it.
    Text {
        /// The text.
        text: &'v str,
        /// Its media type; empty if the server names none.
        mime: &'v str,
        /// The URI of the resource it belongs to; else empty.
        uri: &'v str,
    },
    /// An image, audio or other binary data.
    Media(Media<'v>),
    /// A link to a resource.
    Link(ResourceLink<'v>),
    /// Anything else.
    Other(&'v Value),
}

/// An image, audio or other binary data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media<'v> {
    /// `image`, `audio` or `resource`.
    pub kind: &'v str,
    /// Its media type; empty if the server names none.
    pub mime: &'v str,
    /// The URI of the resource it belongs to; else empty.
    pub uri: &'v str,
    /// The data in base64.
    data: &'v str,
}

/// A link to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLink<'v> {
    /// Its URI.
    pub uri: &'v str,
    /// Its name.
    pub name: &'v str,
    /// Its display title.
    pub title: &'v str,
    /// Its media type.
    pub mime: &'v str,
    /// Its size in bytes, if the server gives it.
    pub size: Option<u64>,
}

impl<'v> ContentBlock<'v> {
    /// Parses one element of `content`; never fails (MCP 2025-11-25, server/tools).
    pub fn parse(block: &'v Value) -> Self {
        let field = |key: &str| string_field(block, key);
        match field("type") {
            "text" => Self::Text {
                text: field("text"),
                mime: field("mimeType"),
                uri: "",
            },
            kind @ ("image" | "audio") => Self::Media(Media {
                kind,
                mime: field("mimeType"),
                uri: "",
                data: field("data"),
            }),
            "resource_link" => Self::Link(ResourceLink {
                uri: field("uri"),
                name: field("name"),
                title: field("title"),
                mime: field("mimeType"),
                size: block.get("size").and_then(Value::as_u64),
            }),
            kind @ "resource" => {
                let inner = block.get("resource").unwrap_or(&Value::Null);
                let (mime, uri) = (string_field(inner, "mimeType"), string_field(inner, "uri"));
                match (inner.get("text"), inner.get("blob")) {
                    (Some(Value::String(text)), _) => Self::Text { text, mime, uri },
                    (None, Some(Value::String(data))) => Self::Media(Media {
                        kind,
                        mime,
                        uri,
                        data,
                    }),
                    _ => Self::Other(block),
                }
            }
            _ => Self::Other(block),
        }
    }

    /// A one-line description; sanitized.
    pub fn message(&self) -> String {
        match self {
            Self::Text { text, mime, uri } => {
                let mime = if mime.is_empty() { "text" } else { mime };
                listed(&[uri, mime, &text::bytes(text.len())])
            }
            Self::Media(media) => media.message(),
            Self::Link(link) => link.message(),
            Self::Other(block) => {
                let kind = match string_field(block, "type") {
                    "" => "unknown type",
                    kind => kind,
                };
                listed(&[kind, &text::bytes(block.to_string().len())])
            }
        }
    }

    /// Its bytes, to be saved to a file.
    ///
    /// # Errors
    /// [`ContentError::NotIncluded`] and [`ContentError::NotBase64`].
    pub fn contents(&self) -> Result<Cow<'v, [u8]>, ContentError> {
        match self {
            Self::Text { text, .. } => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Media(media) => media.bytes().map(Cow::Owned),
            Self::Link(_) => Err(ContentError::NotIncluded),
            Self::Other(block) => Ok(Cow::Owned(block.to_string().into_bytes())),
        }
    }

    /// The file extension for saving it.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Text { mime, .. } if is_markdown_type(mime) => "md",
            Self::Text { .. } => "txt",
            Self::Media(media) => media.extension(),
            Self::Link(_) | Self::Other(_) => "json",
        }
    }
}

/// Why a content block can't be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// It is a link.
    #[error("this is a link; its content is not in the result")]
    NotIncluded,
    /// Its data can't be decoded.
    #[error("its data is not valid base64")]
    NotBase64,
}

/// The element of `content` at `index` in the JSON of a result; parses only that one.
pub fn content_element(result: &str, index: usize) -> Option<Value> {
    #[derive(Deserialize)]
    struct Content<'j> {
        #[serde(borrow)]
        content: Vec<&'j RawValue>,
    }

    let content = serde_json::from_str::<Content<'_>>(result).ok()?.content;
    serde_json::from_str(content.get(index)?.get()).ok()
}

/// Whether this is the media type of Markdown.
pub fn is_markdown_type(mime: &str) -> bool {
    let (kind, _) = mime.split_once(';').unwrap_or((mime, ""));
    matches!(
        kind.trim().to_ascii_lowercase().as_str(),
        "text/markdown" | "text/x-markdown"
    )
}

impl Media<'_> {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        let letters = self.data.trim_end_matches('=').len();
        u64::try_from(letters / 4 * 3 + letters % 4 * 3 / 4).unwrap_or(u64::MAX)
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`ContentError::NotBase64`].
    pub fn bytes(&self) -> Result<Vec<u8>, ContentError> {
        base64::decode_base64(self.data).ok_or(ContentError::NotBase64)
    }

    /// A one-line description: type and size in bytes; sanitized.
    pub fn message(&self) -> String {
        // The media type already includes the kind.
        let mime = if self.mime.is_empty() {
            self.kind
        } else {
            self.mime
        };
        listed(&[self.uri, mime, &text::bytes(self.size())])
    }

    fn extension(&self) -> &'static str {
        let (kind, _) = self.mime.split_once(';').unwrap_or((self.mime, ""));
        match kind.trim().to_ascii_lowercase().as_str() {
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/gif" => "gif",
            "image/webp" => "webp",
            "audio/wav" => "wav",
            "audio/mpeg" => "mp3",
            "audio/ogg" => "ogg",
            "audio/flac" => "flac",
            _ => "bin",
        }
    }
}

impl ResourceLink<'_> {
    /// A one-line description; sanitized.
    pub fn message(&self) -> String {
        let name = if self.title.is_empty() {
            self.name
        } else {
            self.title
        };
        let size = self.size.map_or(String::new(), text::bytes);
        listed(&[&format!("link {}", self.uri), name, self.mime, &size])
    }
}

/// The sanitized non-empty parts, separated by commas.
fn listed(parts: &[&str]) -> String {
    let clean = parts.iter().map(|part| text::clean_line(part.trim()));
    clean.filter(|part| !part.is_empty()).join(", ")
}

fn string_field<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::base64::base64;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08";

    fn image(mime: &str, bytes: &[u8]) -> Value {
        json!({"type": "image", "mimeType": mime, "data": base64(bytes)})
    }

    fn media(block: &Value) -> Media<'_> {
        match ContentBlock::parse(block) {
            ContentBlock::Media(media) => media,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn describes_images_by_type_and_size() {
        for (mime, bytes, message) in [
            ("image/png", PNG, "image/png, 25 B"),
            ("image/png", b"no picture", "image/png, 10 B"),
            ("image/\u{1b}[2J", b"", "image/\u{fffd}[2J, 0 B"),
        ] {
            let block = image(mime, bytes);
            assert_eq!(ContentBlock::parse(&block).message(), message);
            assert_eq!(media(&block).bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn names_files_by_known_media_types_only() {
        for (mime, extension) in [
            ("image/png", "png"),
            ("IMAGE/PNG; x=y", "png"),
            ("audio/mpeg", "mp3"),
            ("text/html", "bin"),
            ("image/png/../../x", "bin"),
            ("", "bin"),
        ] {
            let block = image(mime, PNG);
            assert_eq!(ContentBlock::parse(&block).extension(), extension, "{mime}");
        }
    }

    #[test]
    fn describes_and_returns_other_blocks() {
        let link = json!({"type": "resource_link", "uri": "https://a.example/x", "name": "x",
            "title": "The \u{202e}file", "mimeType": "text/csv", "size": 12_345});
        let ContentBlock::Link(read) = ContentBlock::parse(&link) else {
            panic!();
        };
        assert_eq!(
            read.message(),
            "link https://a.example/x, The \u{fffd}file, text/csv, 12.3 kB"
        );
        assert!(ContentBlock::parse(&link).contents().is_err());
        let blob = json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAEC", "mimeType": "a/b"}});
        assert_eq!(ContentBlock::parse(&blob).message(), "file:///a, a/b, 3 B");
        assert_eq!(*ContentBlock::parse(&blob).contents().unwrap(), [0, 1, 2]);
        let text = json!({"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A", "mimeType": "text/markdown"}});
        assert_eq!(ContentBlock::parse(&text).extension(), "md");
        assert_eq!(*ContentBlock::parse(&text).contents().unwrap(), *b"# A");
        let bad = json!({"type": "audio", "data": "!!!!"});
        assert!(ContentBlock::parse(&bad).contents().is_err());
        for odd in [
            json!(3),
            json!({}),
            json!({"type": "resource"}),
            json!({"type": "resource", "resource": {"text": 3}}),
        ] {
            assert!(matches!(ContentBlock::parse(&odd), ContentBlock::Other(_)));
            assert!(ContentBlock::parse(&odd).contents().is_ok());
        }
    }
}
