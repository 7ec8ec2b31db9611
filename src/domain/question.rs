//! Questions from a server, one shape for the three ways in which they come.
//!
//! Sources: MCP 2025-11-25, client/elicitation; 2026-07-28, basic/patterns/mrtr; the tasks extension.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TaskId, Wall};

/// A question of a server for one task. Its text is the server's and not yet sanitised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Unique within the task: the server's input key, or the id of its request.
    pub key: String,
    /// Other keys that it was asked under before, oldest first: a server asks anew, by another id, on each stream of a
    /// task's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
    /// The way it came, which is the way the answer takes.
    pub way: QuestionSource,
    /// The parameters of `elicitation/create`, verbatim JSON; `Elicitation::parse` reads it.
    pub request: String,
    /// When it came.
    pub asked_at: Wall,
    /// What the user, or the policy of the call, chose; final once set.
    pub answer: Option<Answer>,
    /// Whether the server has the answer, as far as it showed.
    pub is_delivered: bool,
    /// The other calls that it may be for, where the server asked it beside all of them: it is on each of them under the
    /// same key, and one answer settles it on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<TaskId>,
}

impl Question {
    /// Whether it waits for a person.
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// Which calls the server may have asked it for, where that is not known.
    pub fn asked_for(&self, own: &TaskId) -> Option<String> {
        let (last, more) = self.shared_with.split_last()?;
        let more = more.iter().map(|id| format!(", {id}"));
        let first = more.fold(own.to_string(), |all, id| all + &id);
        Some(format!("asked by the server, for {first} or {last}"))
    }

    /// Whether it is, or was, asked under this key.
    pub fn is_called(&self, key: &str) -> bool {
        self.key == key || self.earlier.iter().any(|earlier| earlier == key)
    }

    /// Whether a request asks the same for the same server task, whatever it calls itself.
    pub fn is_same_request(&self, way: &QuestionSource, request: &str) -> bool {
        let (
            QuestionSource::Request {
                related_task: Some(of),
                ..
            },
            QuestionSource::Request {
                related_task: Some(to),
                ..
            },
        ) = (&self.way, way)
        else {
            return false;
        };
        let words = |request: &str| {
            let mut value: Value = serde_json::from_str(request).ok()?;
            value.as_object_mut()?.remove("_meta");
            Some(value)
        };
        of == to && words(&self.request).is_some_and(|asked| words(request) == Some(asked))
    }
}

/// How a question came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionSource {
    /// A request on a stream of the stateful era; the answer is a response with the same id.
    Request {
        /// The JSON-RPC id, raw JSON.
        id: String,
        /// The server task that it belongs to, which the answer has to name.
        related_task: Option<String>,
    },
    /// The call itself came back asking; it is sent again with the answers (MRTR).
    Round,
    /// A server task of the extension asks; the answer is a `tasks/update`.
    TaskInput,
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Answer {
    /// Yes, with the content of the form; in url mode without.
    Accept {
        /// The text of a JSON object.
        content: Option<String>,
    },
    /// No.
    Decline,
    /// MCP's `cancel`: dismissed without a choice.
    Dismiss,
}

impl Answer {
    /// The word on the wire.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accept",
            Self::Decline => "decline",
            Self::Dismiss => "cancel",
        }
    }

    /// What became of the question by it, for a person.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accepted",
            Self::Decline => "declined",
            Self::Dismiss => "dismissed",
        }
    }
}

// Written by hand: what a person answers may be a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action())
    }
}

/// What becomes of questions when nobody is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnInput {
    /// They wait for a person.
    #[default]
    Ask,
    /// Accepted with the defaults of the form; what has none waits for a person.
    Defaults,
    /// Declined.
    Decline,
}
