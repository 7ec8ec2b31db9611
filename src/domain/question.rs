//! Questions from a server (MCP: elicitation), independent of how they arrive.
//!
//! Sources: MCP 2025-11-25, client/elicitation; 2026-07-28, basic/patterns/mrtr; the tasks extension.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TaskId, Wall};

/// A server's request about one task, which a person or a host answers. Its texts are not sanitized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Unique within the task: the server's input key or the id of its request.
    pub key: String,
    /// Earlier keys of the same question, oldest first: a server repeats it with a new id on each new stream of a
    /// task's result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
    /// Who can answer it.
    #[serde(default, skip_serializing_if = "QuestionKind::is_elicitation")]
    pub kind: QuestionKind,
    /// How the question arrived, which decides how the answer is sent.
    #[serde(rename = "way")]
    pub source: QuestionSource,
    /// The parameters of the request, verbatim JSON; those of an elicitation are for
    /// [`Elicitation::parse`](super::Elicitation::parse).
    pub request: String,
    /// When it arrived.
    pub asked_at: Wall,
    /// The answer of the user or of the call's [`OnInput`] policy; final once set.
    pub answer: Option<Answer>,
    /// Whether the server received the answer, as far as known.
    pub is_delivered: bool,
    /// Whether the answer was never sent, so that the server cannot have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsent: bool,
    /// Other tasks the question may belong to, if the server didn't say which. All of them list it under the same key,
    /// and one answer settles it for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<TaskId>,
    /// The only process of a host that may be asked ([`HostRequest::process`](super::HostRequest::process)), because the
    /// question may be about another of its requests. Empty if it may be about requests of several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
}

impl Question {
    /// Whether it still needs an answer.
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether it still needs the answer of a person; a host answers all others.
    pub fn is_open_for_person(&self) -> bool {
        self.is_open() && self.kind.is_elicitation()
    }

    /// Which tasks the question may belong to, if that is unclear.
    pub fn asked_for(&self, own: &TaskId) -> Option<String> {
        let (last, more) = self.shared_with.split_last()?;
        let more = more.iter().map(|id| format!(", {id}"));
        let first = more.fold(own.to_string(), |all, id| all + &id);
        Some(format!("asked by the server for {first} or {last}"))
    }

    /// Whether this is its current key or an earlier one.
    pub fn has_key(&self, key: &str) -> bool {
        self.key == key || self.earlier.iter().any(|earlier| earlier == key)
    }

    /// Whether the server repeats it under another key on each new stream of a task's result.
    pub fn is_of_task_stream(&self) -> bool {
        let QuestionSource::Request { related_task, .. } = &self.source else {
            return false;
        };
        related_task.is_some()
    }

    /// Whether a request repeats this question for the same server task, under any key.
    pub fn is_same_request(&self, source: &QuestionSource, request: &str) -> bool {
        let (
            QuestionSource::Request {
                related_task: Some(own_task),
                ..
            },
            QuestionSource::Request {
                related_task: Some(other_task),
                ..
            },
        ) = (&self.source, source)
        else {
            return false;
        };
        let content = |request: &str| {
            let mut value: Value = serde_json::from_str(request).ok()?;
            value.as_object_mut()?.remove("_meta");
            Some(value)
        };
        own_task == other_task
            && content(&self.request).is_some_and(|own| content(request) == Some(own))
    }
}

/// What a server asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionKind {
    /// Input of a person, who answers on the screen or in the host (MCP: client/elicitation).
    #[default]
    Elicitation,
    /// A message of the host's model (MCP: client/sampling).
    Sampling,
    /// The directories that the host works in (MCP: client/roots).
    Roots,
}

impl QuestionKind {
    /// The kind with this JSON-RPC method.
    pub fn of_method(method: &str) -> Option<Self> {
        let all = [Self::Elicitation, Self::Sampling, Self::Roots];
        all.into_iter().find(|kind| kind.method() == method)
    }

    /// Its JSON-RPC method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Whether a person can answer it.
    pub fn is_elicitation(&self) -> bool {
        *self == Self::Elicitation
    }
}

/// How a question arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum QuestionSource {
    /// As a JSON-RPC request in the stateful era; the answer is the response to it.
    Request {
        /// The JSON-RPC id, raw JSON.
        id: String,
        /// The server task it belongs to, which the answer must name.
        related_task: Option<String>,
    },
    /// As the result of the call, which is sent again with the answers (2026-07-28, multi round-trip requests).
    Round,
    /// From a server task of the extension; the answer is sent with `tasks/update`.
    TaskInput,
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case", tag = "action")]
#[strum(serialize_all = "kebab-case")]
pub enum Answer {
    /// Accepted.
    Accept {
        /// The form values as the text of a JSON object; `None` in URL mode.
        content: Option<String>,
    },
    /// Declined.
    Decline,
    /// Dismissed without a choice, MCP's `cancel`.
    #[strum(serialize = "cancel")]
    Dismiss,
    /// What a host responded to sampling or roots.
    Result {
        /// Its result, verbatim JSON.
        json: String,
    },
    /// The error with which a host refused sampling or roots.
    Error {
        /// The JSON-RPC error object.
        json: String,
    },
}

impl Answer {
    /// The `action` of MCP.
    pub fn action(&self) -> &'static str {
        self.into()
    }

    /// The outcome for the user.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accepted",
            Self::Decline => "declined",
            Self::Dismiss => "dismissed",
            Self::Result { .. } => "answered",
            Self::Error { .. } => "refused",
        }
    }
}

// Written by hand: an answer may contain a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action())
    }
}

/// How a call's questions are handled.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OnInput {
    /// Wait for the user.
    #[default]
    Ask,
    /// Accept with the defaults of the form; wait for the user if a required field has none.
    Defaults,
    /// Decline.
    Decline,
}
