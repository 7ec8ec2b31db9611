//! The content blocks of a result (CallToolResult): what each is, in the words of a person, and its bytes.
//!
//! Owns what is said of a picture, a sound, a resource or a link, and which of them may be opened by another program.
//! Must not know of files or screens. Invariant: a type that a server names is believed only where the bytes begin as
//! that type does.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{base64, text};

/// Bytes looked at for the size of a picture; a camera writes this much before it.
const HEAD: usize = 256 * 1024;

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentBlock<'v> {
    /// Text, as the server sent it.
    Text {
        /// The text.
        words: &'v str,
        /// Its type, where the server names one.
        mime: &'v str,
        /// What it is the text of, where it is that of a resource.
        uri: &'v str,
    },
    /// A picture, a sound or other bytes.
    Media(Media<'v>),
    /// Something to be found elsewhere.
    Link(ResourceLink<'v>),
    /// Anything else.
    Other(&'v Value),
}

/// A picture, a sound or other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media<'v> {
    /// `image`, `audio` or `resource`.
    pub kind: &'v str,
    /// Its type as the server names it; empty if it does not.
    pub mime: &'v str,
    /// What it is the content of, where it is that of a resource.
    pub uri: &'v str,
    /// In Base64.
    data: &'v str,
}

/// A resource that a server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLink<'v> {
    /// Where it is.
    pub uri: &'v str,
    /// Its name.
    pub name: &'v str,
    /// Its title for people.
    pub title: &'v str,
    /// Its type.
    pub mime: &'v str,
    /// Its size in bytes, where the server tells it.
    pub size: Option<u64>,
}

impl<'v> ContentBlock<'v> {
    /// Reads one element of `content`, of whatever shape (MCP 2025-11-25, server/tools).
    pub fn of(block: &'v Value) -> Self {
        let field = |key: &str| string_field(block, key);
        match field("type") {
            "text" => Self::Text {
                words: field("text"),
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
                    (Some(Value::String(words)), _) => Self::Text { words, mime, uri },
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

    /// In clean words what it is.
    pub fn message(&self) -> String {
        match self {
            Self::Text { words, mime, uri } => {
                let mime = if mime.is_empty() { "text" } else { mime };
                listed(&[uri, mime, &bytes(words.len())])
            }
            Self::Media(media) => media.message(),
            Self::Link(link) => link.message(),
            Self::Other(block) => {
                let kind = match string_field(block, "type") {
                    "" => "of no kind",
                    kind => kind,
                };
                listed(&[kind, &bytes(block.to_string().len())])
            }
        }
    }

    /// Its bytes, as a file has them.
    ///
    /// # Errors
    /// There are none, or they cannot be read; in words.
    pub fn contents(&self) -> Result<Cow<'v, [u8]>, String> {
        match self {
            Self::Text { words, .. } => Ok(Cow::Borrowed(words.as_bytes())),
            Self::Media(media) => media.bytes().map(Cow::Owned),
            Self::Link(_) => Err("it is a link; what it names is not in the result".to_owned()),
            Self::Other(block) => Ok(Cow::Owned(block.to_string().into_bytes())),
        }
    }

    /// The ending of a file that it is saved to.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Text { mime, .. } if is_markdown_type(mime) => "md",
            Self::Text { .. } => "txt",
            Self::Media(media) => media.form().map_or("bin", |form| form.extension),
            Self::Link(_) | Self::Other(_) => "json",
        }
    }
}

/// One element of `content` of the JSON text of a result; only this one is taken apart.
pub fn element(result: &str, number: usize) -> Option<Value> {
    #[derive(Deserialize)]
    struct Content<'j> {
        #[serde(borrow)]
        content: Vec<&'j RawValue>,
    }

    let content = serde_json::from_str::<Content<'_>>(result).ok()?.content;
    serde_json::from_str(content.get(number)?.get()).ok()
}

/// Whether a type is that of Markdown.
pub fn is_markdown_type(mime: &str) -> bool {
    let (kind, _) = mime.split_once(';').unwrap_or((mime, ""));
    matches!(
        kind.trim().to_ascii_lowercase().as_str(),
        "text/markdown" | "text/x-markdown"
    )
}

impl Media<'_> {
    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        let letters = self.data.trim_end_matches('=').len();
        u64::try_from(letters / 4 * 3 + letters % 4 * 3 / 4).unwrap_or(u64::MAX)
    }

    /// Its bytes.
    ///
    /// # Errors
    /// They are no Base64; in words.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        base64::decode_base64(self.data).ok_or_else(|| "its data is no Base64".to_owned())
    }

    /// Columns and rows of a picture, where its first bytes tell them.
    pub fn dimensions(&self) -> Option<(u32, u32)> {
        let head = self.data.get(..HEAD.min(self.data.len()))?;
        let whole = head.len() / 4 * 4;
        dimensions(&base64::decode_base64(head.get(..whole)?)?)
    }

    /// In clean words what it is: its type, its size, the size of its picture.
    pub fn message(&self) -> String {
        // The type names the kind.
        let mime = if self.mime.is_empty() {
            self.kind
        } else {
            self.mime
        };
        let size = text::bytes(self.size());
        let picture = self
            .dimensions()
            .map_or(String::new(), |(columns, rows)| format!("{columns}x{rows}"));
        listed(&[self.uri, mime, &size, &picture])
    }

    /// What it may be opened as.
    fn form(&self) -> Option<&'static Form> {
        let (kind, _) = self.mime.split_once(';').unwrap_or((self.mime, ""));
        let kind = kind.trim().to_ascii_lowercase();
        FORMS.iter().find(|form| form.mime == kind)
    }

    /// The ending of the file that another program is given: of a type that only shows or plays, and of bytes that are of
    /// that type.
    ///
    /// # Errors
    /// It is not given to any; in words.
    pub fn opens_as(&self) -> Result<&'static str, String> {
        let form = self
            .form()
            .ok_or("only pictures and sounds of common types are opened; save it instead")?;
        let head = self.data.get(..64.min(self.data.len() / 4 * 4));
        let head = head.and_then(base64::decode_base64);
        if head.is_some_and(|head| (form.begins)(&head)) {
            Ok(form.extension)
        } else {
            Err(format!("its bytes are not those of {}", form.mime))
        }
    }
}

impl ResourceLink<'_> {
    /// In clean words what it is: a line.
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

/// What is there of these, behind each other.
fn listed(words: &[&str]) -> String {
    let clean: Vec<_> = words
        .iter()
        .map(|words| text::clean_line(words.trim()))
        .filter(|words| !words.is_empty())
        .collect();
    clean.join(", ")
}

fn string_field<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn bytes(count: usize) -> String {
    text::bytes(u64::try_from(count).unwrap_or(u64::MAX))
}

/// A type that another program may be given: nothing that can hold a program or ask for a page.
struct Form {
    mime: &'static str,
    extension: &'static str,
    /// Whether bytes begin as those of this type do: some programs go by them and not by the name.
    begins: fn(&[u8]) -> bool,
}

const FORMS: &[Form] = &[
    Form {
        mime: "image/png",
        extension: "png",
        begins: |bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
    },
    Form {
        mime: "image/jpeg",
        extension: "jpg",
        begins: |bytes| bytes.starts_with(&[0xff, 0xd8, 0xff]),
    },
    Form {
        mime: "image/gif",
        extension: "gif",
        begins: |bytes| bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
    },
    Form {
        mime: "image/webp",
        extension: "webp",
        begins: |bytes| is_riff(bytes, *b"WEBP"),
    },
    Form {
        mime: "audio/wav",
        extension: "wav",
        begins: |bytes| is_riff(bytes, *b"WAVE"),
    },
    Form {
        mime: "audio/mpeg",
        extension: "mp3",
        begins: |bytes| {
            bytes.starts_with(b"ID3")
                || matches!(bytes, [0xff, second, ..] if second & 0xe0 == 0xe0)
        },
    },
    Form {
        mime: "audio/ogg",
        extension: "ogg",
        begins: |bytes| bytes.starts_with(b"OggS"),
    },
    Form {
        mime: "audio/flac",
        extension: "flac",
        begins: |bytes| bytes.starts_with(b"fLaC"),
    },
];

fn is_riff(bytes: &[u8], kind: [u8; 4]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(&kind)
}

/// Columns and rows of a picture by its first bytes: PNG, GIF or JPEG.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let four = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let two = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.get(12..16) == Some(b"IHDR") {
        return Some((four(16)?, four(20)?));
    }
    if bytes.starts_with(b"GIF8") {
        // Low byte first.
        return Some((two(6)?.swap_bytes().into(), two(8)?.swap_bytes().into()));
    }
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    // A row of parts, each with its length; one of them is the frame.
    let mut at = 2;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)?) {
            (0xff, 0xff) => at += 1,
            (0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) => {
                return Some((two(at + 7)?.into(), two(at + 5)?.into()));
            }
            (0xff, _) => at += 2 + usize::from(two(at + 2)?),
            _ => return None,
        }
    }
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
        match ContentBlock::of(block) {
            ContentBlock::Media(media) => media,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_picture_tells_its_type_size_and_measure() {
        let gif = b"GIF89a\x2c\x01\x0a\x00rest";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\0\x50\0\xa0rest";
        for (mime, bytes, said) in [
            ("image/png", PNG, "image/png, 25 B, 640x480"),
            ("image/gif", gif, "image/gif, 14 B, 300x10"),
            ("image/jpeg", jpeg, "image/jpeg, 22 B, 160x80"),
            ("image/png", b"no picture", "image/png, 10 B"),
            ("image/\u{1b}[2J", b"", "image/\u{fffd}[2J, 0 B"),
        ] {
            let block = image(mime, bytes);
            assert_eq!(ContentBlock::of(&block).message(), said);
            assert_eq!(media(&block).bytes().unwrap(), bytes);
        }
        // A part whose length leads nowhere.
        for bytes in [
            &b"\xff\xd8\xff\xe0\xff\xff"[..],
            b"\xff\xd8\xff\xe0\0\0",
            b"GIF8",
            &PNG[..20],
        ] {
            assert_eq!(media(&image("image/png", bytes)).dimensions(), None);
        }
    }

    #[test]
    fn only_what_shows_or_plays_is_opened_and_only_if_its_bytes_are_of_that_type() {
        let opens = |mime: &str, bytes: &[u8]| media(&image(mime, bytes)).opens_as();
        assert_eq!(opens("image/png", PNG), Ok("png"));
        assert_eq!(opens("IMAGE/PNG; x=y", PNG), Ok("png"));
        for mime in [
            "text/html",
            "image/svg+xml",
            "application/x-sh",
            "application/x-desktop",
            "application/pdf",
            "",
            "image/png/../../x",
        ] {
            assert!(opens(mime, PNG).is_err(), "{mime}");
        }
        for bytes in [&b"<html><script>"[..], b"#!/bin/sh\n", b"", b"\x7fELF"] {
            assert!(opens("image/png", bytes).is_err());
            assert!(opens("audio/wav", bytes).is_err());
        }
    }

    #[test]
    fn other_blocks_tell_what_they_are_and_have_their_bytes() {
        let link = json!({"type": "resource_link", "uri": "https://a.example/x", "name": "x",
            "title": "The \u{202e}file", "mimeType": "text/csv", "size": 12_345});
        let ContentBlock::Link(read) = ContentBlock::of(&link) else {
            panic!();
        };
        assert_eq!(
            read.message(),
            "link https://a.example/x, The \u{fffd}file, text/csv, 12.3 kB"
        );
        assert!(ContentBlock::of(&link).contents().is_err());
        let blob = json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAEC", "mimeType": "a/b"}});
        assert_eq!(ContentBlock::of(&blob).message(), "file:///a, a/b, 3 B");
        assert_eq!(*ContentBlock::of(&blob).contents().unwrap(), [0, 1, 2]);
        let text = json!({"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A", "mimeType": "text/markdown"}});
        assert_eq!(ContentBlock::of(&text).extension(), "md");
        assert_eq!(*ContentBlock::of(&text).contents().unwrap(), *b"# A");
        let bad = json!({"type": "audio", "data": "!!!!"});
        assert!(ContentBlock::of(&bad).contents().is_err());
        for odd in [
            json!(3),
            json!({}),
            json!({"type": "resource"}),
            json!({"type": "resource", "resource": {"text": 3}}),
        ] {
            assert!(matches!(ContentBlock::of(&odd), ContentBlock::Other(_)));
            assert!(ContentBlock::of(&odd).contents().is_ok());
        }
    }
}
