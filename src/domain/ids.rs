//! Identifiers: task ids, which longhaul assigns, and server names, which the user chooses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The opaque id of an SSE event (WHATWG HTML, "Server-sent events"). Short ids need no heap allocation, which matters
/// because a history holds thousands of them.
pub type EventId = compact_str::CompactString;

/// Characters of a task id: without `l`, `o`, `0` and `1`, which are easily confused.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The length of a task id: 32^6 is about a billion ids.
const TASK_ID_LENGTH: usize = 6;

/// The short id of a task, such as `q7m2xk`; every command accepts a unique prefix.
///
/// Stored inline, because every stream event carries a copy.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId([u8; TASK_ID_LENGTH]);

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskId").field(&self.as_str()).finish()
    }
}

impl Default for TaskId {
    fn default() -> Self {
        Self::from_bits(0)
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> Self {
        id.as_str().to_owned()
    }
}

impl TryFrom<String> for TaskId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("invalid task id")
    }
}

impl TaskId {
    /// Makes an id from random bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(std::array::from_fn(|index| {
            let letter = ALPHABET.get(((bits >> (index * 5)) & 31) as usize);
            letter.copied().unwrap_or(b'a')
        }))
    }

    /// Parses a full id.
    pub fn parse(text: &str) -> Option<Self> {
        let letters = text.as_bytes().try_into().ok()?;
        is_task_id_prefix(text).then_some(Self(letters))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Whether `text` can be the beginning of a task id.
pub fn is_task_id_prefix(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= TASK_ID_LENGTH
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The user's name for an MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(String);

impl ServerName {
    /// Wraps a name that the user chose or that was made from a URL's host and port.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A unique name for a new server: `base`, or `base-2`, `base-3` and so on if it is taken.
    pub fn free(base: &str, is_taken: impl Fn(&str) -> bool) -> Self {
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.to_owned())
            .chain(numbered)
            .find(|name| !is_taken(name));
        Self(name.unwrap_or_else(|| base.to_owned()))
    }

    /// The name of this server in a host's directory, such as `lab@app-3f9c` for `/home/ada/app`: directories of the same
    /// name differ in the digits.
    #[must_use]
    pub fn in_directory(&self, directory: &str) -> Self {
        let last = directory.rsplit('/').find(|part| !part.is_empty());
        let plain = |letter: char| match letter {
            letter if letter.is_alphanumeric() || "-_.".contains(letter) => letter,
            _ => '-',
        };
        let last: String = last.unwrap_or("root").chars().map(plain).collect();
        // FNV-1a.
        let digest = directory.bytes().fold(0x811c_9dc5_u32, |digest, byte| {
            (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Self(format!("{self}@{last}-{:04x}", digest >> 16))
    }

    /// The name of its entry in the configuration: its own name, unless [`Self::in_directory`] made it.
    pub fn entry(&self) -> &str {
        let is_hex =
            |digits: &str| digits.len() == 4 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        let parts = self.0.rsplit_once('@').and_then(|(entry, rest)| {
            let (_, digits) = rest.rsplit_once('-')?;
            is_hex(digits).then_some(entry)
        });
        parts.unwrap_or(&self.0)
    }

    /// Whether both have the same entry.
    pub fn shares_entry(&self, other: &Self) -> bool {
        self.entry() == other.entry()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_text() {
        for bits in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let id = TaskId::from_bits(bits);
            assert_eq!(TaskId::parse(id.as_str()), Some(id));
        }
    }

    #[test]
    fn adds_a_number_to_a_taken_name() {
        let among = |taken: &[&str]| ServerName::free("lab", |name| taken.contains(&name));
        assert_eq!(among(&[]).as_str(), "lab");
        assert_eq!(among(&["lab", "lab-2"]).as_str(), "lab-3");
    }

    #[test]
    fn a_server_in_a_directory_is_named_after_both() {
        let lab = ServerName::new("lab");
        let app = lab.in_directory("/home/ada/my app/");
        assert!(app.as_str().starts_with("lab@my-app-"), "{app}");
        assert_ne!(app, lab.in_directory("/srv/my app"));
        assert!(app.shares_entry(&lab) && lab.entry() == "lab");
        let other = ServerName::new("ada@build");
        assert_eq!(other.entry(), "ada@build");
    }

    #[test]
    fn rejects_invalid_ids_and_prefixes() {
        for text in ["", "Q7M2XK", "q7m2xk9", "q7-2xk"] {
            assert!(!is_task_id_prefix(text), "{text}");
        }
        assert!(is_task_id_prefix("q7"));
        assert_eq!(TaskId::parse("q7"), None);
    }
}
