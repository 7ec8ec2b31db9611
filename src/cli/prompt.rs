//! Asks a server's question line by line on the terminal that follows its call.
//!
//! [`Prompt`] must not know where lines come from or where the answer goes. Invariants: neither an empty line nor anything
//! typed before the question was shown answers it; no page is ever opened from here.

use std::io::BufRead as _;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::questions;
use crate::domain::{Answer, ArgumentKind, ArgumentSpec, Elicitation, Question, Task, Wall, text};

/// How many choices get a number; the others must be typed by name.
const MAX_NUMBERED: usize = 30;

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) id: QuestionId,
    elicitation: Elicitation,
    values: Map<String, Value>,
    /// The index of the current field, or `None` until the user accepts the question.
    field_index: Option<usize>,
}

/// The key of a question, and the time, which tells it from an earlier question with the same key.
pub(super) type QuestionId = (String, Wall);

pub(super) fn question_id(question: &Question) -> QuestionId {
    (question.key.clone(), question.asked_at)
}

/// The result of a typed line.
#[derive(Debug, PartialEq)]
pub(super) enum PromptStep {
    /// Show the next field.
    More,
    Answer(Answer),
    /// Leave the question open.
    Later,
}

impl Prompt {
    pub(super) fn new(question: &Question) -> Self {
        Self {
            id: question_id(question),
            elicitation: Elicitation::parse(&question.request),
            values: Map::new(),
            field_index: None,
        }
    }

    /// The lines to show before the first prompt.
    pub(super) fn intro(&self, now: Wall, task: &Task, question: &Question) -> Vec<String> {
        let mut lines = vec![String::new()];
        lines.extend(questions::question_lines(
            now,
            task,
            question,
            &self.elicitation,
        ));
        let fields = self.elicitation.fields();
        if !fields.is_empty() {
            lines.push(String::new());
        }
        for field in fields {
            let default = field.default.as_ref().map(plain);
            let default = default.map_or(String::new(), |it| format!(" (default {it})"));
            lines.push(format!(
                "  {}   {}{default}",
                field.name,
                questions::field_help(field)
            ));
        }
        if self.elicitation.url_preview().is_some() {
            lines.push(String::new());
            lines.push(
                "  if you accept, open this page yourself; longhaul does not open it here"
                    .to_owned(),
            );
        }
        lines.push(String::new());
        lines
    }

    /// The choices of the current field, numbered.
    pub(super) fn choices(&self) -> Vec<String> {
        let Some(field) = self.field() else {
            return Vec::new();
        };
        let (ArgumentKind::Choice(choices) | ArgumentKind::Many(choices)) = &field.kind else {
            return Vec::new();
        };
        let line = |(index, choice): (usize, &Value)| {
            let (label, value) = (field.label(index), plain(choice));
            let name = if label == value {
                value
            } else {
                format!("{label} ({value})")
            };
            format!("  {}) {name}", index + 1)
        };
        let numbered = choices.iter().enumerate().take(MAX_NUMBERED);
        let mut lines: Vec<String> = numbered.map(line).collect();
        if let Some(more @ 1..) = choices.len().checked_sub(MAX_NUMBERED) {
            lines.push(format!("  and {more} more"));
        }
        lines
    }

    /// The text before the cursor.
    pub(super) fn message(&self) -> String {
        let Some(field) = self.field() else {
            return "[a]ccept, [d]ecline or answer [l]ater?".to_owned();
        };
        let several = match field.kind {
            ArgumentKind::Many(_) => " (separate several with commas)",
            ArgumentKind::Boolean => " (true or false)",
            _ => "",
        };
        match &field.default {
            Some(default) => format!("{}{several} [{}]:", field.name, plain(default)),
            None if field.is_required => format!("{}{several}:", field.name),
            None => format!("{}{several} (optional):", field.name),
        }
    }

    fn field(&self) -> Option<&ArgumentSpec> {
        self.elicitation.fields().get(self.field_index?)
    }

    /// Takes a typed line. After an error, the same field is asked again.
    pub(super) fn read(&mut self, line: &str) -> Result<PromptStep, PromptError> {
        let typed = line.trim();
        let Some(field) = self.field() else {
            return match typed.to_ascii_lowercase().as_str() {
                "a" | "accept" | "y" | "yes" => {
                    self.field_index = Some(0);
                    self.next()
                }
                "d" | "decline" | "n" | "no" => Ok(PromptStep::Answer(Answer::Decline)),
                "l" | "later" => Ok(PromptStep::Later),
                _ => Err(PromptError::NoChoice),
            };
        };
        if let Some(value) = parse_value(field, typed)? {
            self.values.insert(field.name.clone(), value);
        }
        self.field_index = self.field_index.map(|index| index + 1);
        self.next()
    }

    /// The next field, or the answer once there is none.
    fn next(&mut self) -> Result<PromptStep, PromptError> {
        if self.field().is_some() {
            return Ok(PromptStep::More);
        }
        match self.elicitation.content(&self.values) {
            Ok(content) => Ok(PromptStep::Answer(Answer::Accept { content })),
            Err(errors) => {
                (self.field_index, self.values) = (None, Map::new());
                Err(PromptError::Answer(errors.join(", ")))
            }
        }
    }
}

/// Why a typed line is not taken.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum PromptError {
    #[error("type a, d or l")]
    NoChoice,
    #[error("{name} is required: {expected}")]
    Required { name: String, expected: String },
    #[error("{name} must be {expected}")]
    WrongType { name: String, expected: String },
    /// What is wrong with the whole answer.
    #[error("{0}")]
    Answer(String),
}

/// The value that a typed line means for a field, or `None` to use the default or leave it out.
fn parse_value(field: &ArgumentSpec, typed: &str) -> Result<Option<Value>, PromptError> {
    let name = || field.name.clone();
    if typed.is_empty() {
        return if field.is_required && field.default.is_none() {
            Err(PromptError::Required {
                name: name(),
                expected: field.expected(),
            })
        } else {
            Ok(None)
        };
    }
    // A choice that is itself a number wins over the number of another choice.
    let by_number = |choices: &[Value], typed: &str| -> String {
        let is_choice = choices.iter().any(|choice| plain(choice) == typed);
        let number = typed.parse::<usize>().ok().filter(|_| !is_choice);
        let choice = number.and_then(|number| choices.get(number.checked_sub(1)?));
        choice.map_or_else(|| typed.to_owned(), plain)
    };
    let value = match &field.kind {
        ArgumentKind::Choice(choices) => field.parse(&by_number(choices, typed)),
        ArgumentKind::Many(choices) => {
            let values = typed.split(',').map(|item| by_number(choices, item.trim()));
            field.parse(&values.collect::<Vec<_>>().join(","))
        }
        ArgumentKind::Boolean => field.parse(match typed.to_ascii_lowercase().as_str() {
            "y" => "yes",
            "n" => "no",
            _ => typed,
        }),
        ArgumentKind::Json => serde_json::from_str(typed).ok(),
        ArgumentKind::Text | ArgumentKind::Number | ArgumentKind::Integer => field.parse(typed),
    };
    let value = value.filter(|value| field.violation(value).is_none());
    value.map(Some).ok_or_else(|| PromptError::WrongType {
        name: name(),
        expected: field.expected(),
    })
}

/// A value as a user would type it: strings without quotes.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    text::clean_line(&text).into_owned()
}

/// Reads typed lines on demand.
///
/// Uses a thread of its own: a user may take hours, and the runtime would wait for a blocking task at shutdown.
pub(super) struct LineReader {
    requests: std::sync::mpsc::Sender<()>,
    typed: mpsc::Receiver<Option<String>>,
    is_requested: bool,
}

impl LineReader {
    pub(super) fn start() -> Self {
        let (requests, pending) = std::sync::mpsc::channel::<()>();
        let (sender, typed) = mpsc::channel(1);
        std::thread::spawn(move || {
            while pending.recv().is_ok() {
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                let line = read.is_ok_and(|bytes| bytes > 0).then_some(line);
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            requests,
            typed,
            is_requested: false,
        }
    }

    /// Drops everything that was typed before a question was shown.
    pub(super) fn discard_typed(&mut self) {
        // Fails if stdin is not a terminal, which has nothing to drop.
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        while self.typed.try_recv().is_ok() {
            self.is_requested = false;
        }
    }

    /// The next line, or `None` at the end of the input. Cancel safe: the next call continues to wait for the same line.
    pub(super) async fn next(&mut self) -> Option<String> {
        if !self.is_requested {
            // If the thread has ended, `recv` below returns `None`.
            self.is_requested = self.requests.send(()).is_ok();
        }
        let line = self.typed.recv().await;
        self.is_requested = false;
        line.flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::QuestionSource;

    fn prompt(params: &Value) -> Prompt {
        Prompt::new(&Question {
            key: "k".to_owned(),
            earlier: Vec::new(),
            kind: crate::domain::QuestionKind::Elicitation,
            source: QuestionSource::Round,
            request: params.to_string(),
            asked_at: Wall(0),
            answer: None,
            is_delivered: false,
            is_unsent: false,
            shared_with: Vec::new(),
            only_for: None,
        })
    }

    fn form() -> Prompt {
        prompt(
            &json!({"message": "how?", "requestedSchema": {"required": ["count"], "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "mode": {"type": "string", "enum": ["slow", "fast"], "default": "slow"},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "default": ["a", "b"]},
            "dry": {"type": "boolean"},
            "note": {"type": "string"}}}}),
        )
    }

    fn accepted(step: PromptStep) -> Value {
        match step {
            PromptStep::Answer(Answer::Accept {
                content: Some(content),
            }) => serde_json::from_str(&content).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn repeats_a_field_with_the_reason_until_valid() {
        let mut prompt = form();
        assert!(prompt.message().contains("[d]ecline"));
        // A reflexive Enter must not answer.
        assert!(prompt.read("\n").is_err());
        assert_eq!(prompt.read("a\n"), Ok(PromptStep::More));
        assert_eq!(prompt.message(), "count:");
        for (invalid, why) in [
            ("\n", "count is required: a whole number from 1 to 9"),
            ("x\n", "count must be a whole number from 1 to 9"),
            ("12\n", "count must be a whole number from 1 to 9"),
        ] {
            assert_eq!(prompt.read(invalid).unwrap_err().to_string(), why);
        }
        assert_eq!(prompt.read("3\n"), Ok(PromptStep::More));
        assert_eq!(prompt.message(), "mode [slow]:");
        assert_eq!(prompt.choices(), ["  1) slow", "  2) fast"]);
        assert!(prompt.read("quick\n").is_err());
        assert_eq!(prompt.read("2\n"), Ok(PromptStep::More));
        assert_eq!(
            prompt.message(),
            "tags (separate several with commas) [a, b]:"
        );
        assert_eq!(prompt.read("1, c\n"), Ok(PromptStep::More));
        assert_eq!(prompt.read("y\n"), Ok(PromptStep::More));
        let answer = accepted(prompt.read("\n").unwrap());
        let expected = json!({"count": 3, "mode": "fast", "tags": ["a", "c"], "dry": true});
        assert_eq!(answer, expected);
    }

    #[test]
    fn keeps_defaults_declines_or_defers() {
        let mut all = form();
        for line in ["accept", "3", "", "", ""] {
            assert_eq!(all.read(line), Ok(PromptStep::More));
        }
        assert_eq!(
            accepted(all.read("").unwrap()),
            json!({"count": 3, "mode": "slow", "tags": ["a", "b"]})
        );
        assert_eq!(form().read("no"), Ok(PromptStep::Answer(Answer::Decline)));
        assert_eq!(form().read("L"), Ok(PromptStep::Later));
        let mut page = prompt(&json!({"mode": "url", "url": "https://h.example/x", "message": ""}));
        let answer = PromptStep::Answer(Answer::Accept { content: None });
        assert_eq!(page.read("y"), Ok(answer));
    }

    #[test]
    fn prefers_a_choice_that_is_a_number_to_its_position() {
        let mut prompt = prompt(&json!({"message": "", "requestedSchema": {"properties": {
            "n": {"enum": ["2", "1"]}}}}));
        prompt.read("a").unwrap();
        assert_eq!(accepted(prompt.read("2").unwrap()), json!({"n": "2"}));
    }
}
