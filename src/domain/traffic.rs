//! Recorded traffic with servers, without secrets.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{ServerName, TaskId, Wall, text};

/// One recorded message: a line of the JSONL file. Scripts rely on the member names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficEntry {
    /// When it was sent or received.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub at: Wall,
    /// Sent or received.
    pub dir: Direction,
    /// The number of its exchange, which rises within a server's record.
    pub exchange: u64,
    /// The server.
    pub server: ServerName,
    /// The task it belongs to, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The message.
    #[serde(flatten)]
    pub what: TrafficKind,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// From longhaul to the server.
    #[serde(rename = ">")]
    Sent,
    /// From the server to longhaul.
    #[serde(rename = "<")]
    Received,
}

impl Direction {
    /// `>` for sent, `<` for received.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Sent => ">",
            Self::Received => "<",
        }
    }
}

/// The kind and content of a message. If a text was cut, `left_out` is the number of missing bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TrafficKind {
    /// An HTTP request.
    Request {
        /// GET, POST or DELETE.
        method: String,
        /// The path with its query.
        path: String,
        /// Names and values, in order.
        headers: Vec<(String, String)>,
        /// Its body.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        data: String,
        /// Missing bytes of the text.
        #[serde(default, skip_serializing_if = "is_default")]
        left_out: u64,
    },
    /// The head of an HTTP response.
    Answer {
        /// The HTTP status.
        status: u16,
        /// Names and values, in order.
        headers: Vec<(String, String)>,
    },
    /// An SSE event.
    Event {
        /// Its type, unless that is `message`.
        #[serde(skip_serializing_if = "Option::is_none")]
        event: Option<String>,
        /// Its own id.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Its `retry` time in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<u64>,
        /// Its data.
        data: String,
        /// Missing bytes of the text.
        #[serde(default, skip_serializing_if = "is_default")]
        left_out: u64,
    },
    /// The body of a response that isn't a stream.
    Body {
        /// Its text.
        data: String,
        /// Missing bytes of the text.
        #[serde(default, skip_serializing_if = "is_default")]
        left_out: u64,
    },
    /// A line on stdin or stdout of a stdio server.
    Line {
        /// The line.
        data: String,
        /// Missing bytes of the text.
        #[serde(default, skip_serializing_if = "is_default")]
        left_out: u64,
    },
    /// The end of an exchange.
    End {
        /// Why it ended.
        why: String,
    },
    /// Messages that weren't recorded, because the disk was too slow.
    Lost {
        /// The number of messages.
        count: u64,
    },
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn write_time<S: Serializer>(at: &Wall, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.rfc3339())
}

fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<Wall, D::Error> {
    let text = Cow::<'de, str>::deserialize(from)?;
    Wall::parse_rfc3339(&text).ok_or_else(|| D::Error::custom("invalid time"))
}

impl TrafficKind {
    /// Its body, empty if it has none, and the number of missing bytes.
    pub fn data(&self) -> (&str, u64) {
        match self {
            Self::Request { data, left_out, .. }
            | Self::Event { data, left_out, .. }
            | Self::Body { data, left_out }
            | Self::Line { data, left_out } => (data, *left_out),
            Self::Answer { .. } | Self::End { .. } | Self::Lost { .. } => ("", 0),
        }
    }

    /// Its headers.
    pub fn headers(&self) -> &[(String, String)] {
        match self {
            Self::Request { headers, .. } | Self::Answer { headers, .. } => headers,
            _ => &[],
        }
    }

    /// The text before the body; not sanitized.
    fn lead(&self) -> String {
        match self {
            Self::Request { method, path, .. } => format!("{method} {path}"),
            Self::Answer { status, headers } => {
                let media = headers
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
                let media = media.map_or("", |(_, value)| value);
                format!("{status} {media}").trim_end().to_owned()
            }
            Self::Event {
                event, id, retry, ..
            } => {
                let mut lead = event.clone().unwrap_or_else(|| "event".to_owned());
                if let Some(id) = id {
                    lead.push_str(" id ");
                    lead.push_str(id);
                }
                if let Some(retry) = retry {
                    lead.push_str(" retry ");
                    lead.push_str(&retry.to_string());
                }
                lead
            }
            Self::Body { .. } => "body".to_owned(),
            Self::Line { .. } => "line".to_owned(),
            Self::End { why } => format!("end: {why}"),
            Self::Lost { count } => format!(
                "{} not recorded (disk too slow)",
                text::plural(*count, "message")
            ),
        }
    }

    /// The text before the body; sanitized.
    pub fn head(&self) -> String {
        text::clean_line(&self.lead()).into_owned()
    }

    /// All but the headers as one sanitized line of at most `columns`. `ending` marks a cut, and the number of bytes
    /// that weren't recorded follows.
    pub fn line(&self, columns: usize, ending: &str) -> String {
        let (data, left_out) = self.data();
        let mut line = self.lead();
        if !data.is_empty() {
            line.push_str("  ");
            // Combining marks take no column, so take a few characters per column; the rest can't be visible.
            line.extend(data.chars().take(columns.saturating_mul(4)));
        }
        let missing = match left_out {
            0 => String::new(),
            bytes => format!(" ({} more)", text::bytes(bytes)),
        };
        let room = columns.saturating_sub(missing.len());
        let line = text::clean_line(&line);
        format!("{}{missing}", text::cut(&line, room, ending))
    }

    /// Whether it contains a text anywhere, ignoring case. `needle` must be lowercase.
    pub fn contains(&self, needle: &str) -> bool {
        let is_in = |text: &str| text.to_lowercase().contains(needle);
        is_in(&self.lead())
            || is_in(self.data().0)
            || self
                .headers()
                .iter()
                .any(|(name, value)| is_in(&format!("{name}: {value}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: TrafficKind) -> TrafficEntry {
        TrafficEntry {
            at: Wall(1_795_000_000_123),
            dir: Direction::Received,
            exchange: 3,
            server: ServerName::new("lab"),
            task: Some(TaskId::from_bits(1)),
            what,
        }
    }

    #[test]
    fn round_trips_through_json() {
        let headers = vec![("accept".to_owned(), "a, b".to_owned())];
        for what in [
            TrafficKind::Request {
                method: "POST".to_owned(),
                path: "/mcp".to_owned(),
                headers: headers.clone(),
                data: "{\"a\":1}".to_owned(),
                left_out: 7,
            },
            TrafficKind::Answer {
                status: 200,
                headers,
            },
            TrafficKind::Event {
                event: Some("endpoint".to_owned()),
                id: None,
                retry: Some(500),
                data: "x\ny".to_owned(),
                left_out: 0,
            },
            TrafficKind::Lost { count: 9 },
        ] {
            let entry = entry(what);
            let line = serde_json::to_string(&entry).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<TrafficEntry>(&line).unwrap(), entry);
        }
        let line = serde_json::to_string(&entry(TrafficKind::End {
            why: "x".to_owned(),
        }))
        .unwrap();
        let at = Wall(1_795_000_000_123).rfc3339();
        assert_eq!(
            line,
            format!(
                r#"{{"at":"{at}","dir":"<","exchange":3,"server":"lab","task":"{}","kind":"end","why":"x"}}"#,
                TaskId::from_bits(1)
            )
        );
    }

    #[test]
    fn line_is_sanitized_and_shows_what_is_missing() {
        let what = TrafficKind::Event {
            event: None,
            id: Some("7\u{1b}[2J".to_owned()),
            retry: None,
            data: "one\ntwo ".repeat(1000),
            left_out: 2048,
        };
        let line = what.line(40, "~");
        assert_eq!(text::width(&line), 40, "{line}");
        assert!(line.starts_with("event id 7\u{fffd}[2J  one two"), "{line}");
        assert!(line.ends_with("~ (2.0 kB more)"), "{line}");
        assert!(!line.contains(text::is_hostile), "{line:?}");
        assert!(what.contains("two") && what.contains("id 7") && !what.contains("three"));
    }
}
