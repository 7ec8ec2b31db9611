//! A server's question, asked line by line on the terminal where its call is followed.
//!
//! Must not know where the lines come from or where the answer goes, but for [`Lines`]. Invariants: nothing is answered
//! by an empty line or by what was typed before the question was shown; no page is ever opened from here.

use std::io::BufRead as _;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::answer;
use crate::domain::{Answer, ArgumentKind, ArgumentSpec, Elicitation, Question, Task, Wall, text};

/// Choices listed with a number; the others are taken by their names.
const LISTED: usize = 30;

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Prompt {
    id: QuestionId,
    asked: Elicitation,
    given: Map<String, Value>,
    /// The field that is asked for; none before the question was accepted.
    at: Option<usize>,
}

/// What tells a question from one that is asked again under the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuestionId {
    pub(super) key: String,
    asked_at: Wall,
}

impl QuestionId {
    pub(super) fn of(question: &Question) -> Self {
        Self {
            key: question.key.clone(),
            asked_at: question.asked_at,
        }
    }
}

/// What a typed line led to.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// There is more to ask.
    More,
    /// It is answered.
    Answer(Answer),
    /// It stays open.
    Later,
}

impl Prompt {
    pub(super) fn new(question: &Question) -> Self {
        Self {
            id: QuestionId::of(question),
            asked: Elicitation::parse(&question.request),
            given: Map::new(),
            at: None,
        }
    }

    pub(super) fn id(&self) -> &QuestionId {
        &self.id
    }

    /// What is shown before the first line is typed.
    pub(super) fn intro(&self, now: Wall, task: &Task, question: &Question) -> Vec<String> {
        let mut lines = vec![String::new()];
        lines.extend(answer::asking(now, task, question, &self.asked));
        let fields = self.asked.fields();
        if !fields.is_empty() {
            lines.push(String::new());
        }
        for field in fields {
            let default = field.default.as_ref().map(plain);
            let default = default.map_or(String::new(), |it| format!(" (default {it})"));
            lines.push(format!(
                "  {}   {}{default}",
                field.name,
                answer::about(field)
            ));
        }
        if self.asked.url_preview().is_some() {
            lines.push(String::new());
            lines.push(
                "  accept: you open this page yourself; longhaul does not open it here".to_owned(),
            );
        }
        lines.push(String::new());
        lines
    }

    /// The choices of the field that is asked for.
    pub(super) fn choices(&self) -> Vec<String> {
        let Some(field) = self.field() else {
            return Vec::new();
        };
        let (ArgumentKind::Choice(choices) | ArgumentKind::Many(choices)) = &field.kind else {
            return Vec::new();
        };
        let line = |(place, choice): (usize, &Value)| {
            let (label, value) = (field.label(place), plain(choice));
            let name = if label == value {
                value
            } else {
                format!("{label} ({value})")
            };
            format!("  {}) {name}", place + 1)
        };
        let mut lines: Vec<String> = choices.iter().enumerate().take(LISTED).map(line).collect();
        if let Some(more @ 1..) = choices.len().checked_sub(LISTED) {
            lines.push(format!("  and {more} more"));
        }
        lines
    }

    /// What stands before the cursor.
    pub(super) fn message(&self) -> String {
        let Some(field) = self.field() else {
            return "[a]ccept, [d]ecline or answer [l]ater?".to_owned();
        };
        let several = match field.kind {
            ArgumentKind::Many(_) => " (several between commas)",
            ArgumentKind::Boolean => " (yes or no)",
            _ => "",
        };
        match &field.default {
            Some(default) => format!("{}{several} [{}]:", field.name, plain(default)),
            None if field.is_required => format!("{}{several}:", field.name),
            None => format!("{}{several} (optional):", field.name),
        }
    }

    fn field(&self) -> Option<&ArgumentSpec> {
        self.asked.fields().get(self.at?)
    }

    /// Takes a line; an error says why it is no answer, and the same is asked again.
    pub(super) fn read(&mut self, line: &str) -> Result<Step, String> {
        let typed = line.trim();
        let Some(field) = self.field() else {
            return match typed.to_ascii_lowercase().as_str() {
                "a" | "accept" | "y" | "yes" => {
                    self.at = Some(0);
                    self.next()
                }
                "d" | "decline" | "n" | "no" => Ok(Step::Answer(Answer::Decline)),
                "l" | "later" => Ok(Step::Later),
                _ => Err("type a, d or l".to_owned()),
            };
        };
        if let Some(value) = value_of(field, typed)? {
            self.given.insert(field.name.clone(), value);
        }
        self.at = self.at.map(|at| at + 1);
        self.next()
    }

    /// The next field, or the answer once there is none.
    fn next(&mut self) -> Result<Step, String> {
        if self.field().is_some() {
            return Ok(Step::More);
        }
        match self.asked.content(&self.given) {
            Ok(content) => Ok(Step::Answer(Answer::Accept { content })),
            Err(complaints) => {
                (self.at, self.given) = (None, Map::new());
                Err(complaints.join(", "))
            }
        }
    }
}

/// What a typed line stands for in a field; nothing where the default holds or it is left out.
fn value_of(field: &ArgumentSpec, typed: &str) -> Result<Option<Value>, String> {
    let name = &field.name;
    if typed.is_empty() {
        return if field.is_required && field.default.is_none() {
            Err(format!("{name} is required: {}", field.expected()))
        } else {
            Ok(None)
        };
    }
    let wrong = |wanted: String| format!("{name} must be {wanted}");
    let by_number = |choices: &[Value], word: &str| -> String {
        let is_named = choices.iter().any(|choice| plain(choice) == word);
        let place = word.parse::<usize>().ok().filter(|_| !is_named);
        let choice = place.and_then(|place| choices.get(place.checked_sub(1)?));
        choice.map_or_else(|| word.to_owned(), plain)
    };
    let value = match &field.kind {
        ArgumentKind::Choice(choices) => field.parse(&by_number(choices, typed)),
        ArgumentKind::Many(choices) => {
            let words = typed.split(',').map(|word| by_number(choices, word.trim()));
            field.parse(&words.collect::<Vec<_>>().join(","))
        }
        ArgumentKind::Boolean => field.parse(match typed.to_ascii_lowercase().as_str() {
            "y" => "yes",
            "n" => "no",
            _ => typed,
        }),
        ArgumentKind::Json => serde_json::from_str(typed).map_err(|_| "JSON".to_owned()),
        ArgumentKind::Text | ArgumentKind::Number | ArgumentKind::Integer => field.parse(typed),
    };
    let value = value.map_err(wrong)?;
    match field.violation(&value) {
        Some(wanted) => Err(wrong(wanted)),
        None => Ok(Some(value)),
    }
}

/// A value without the quotes of a text, as it is typed.
fn plain(value: &Value) -> String {
    let words = match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    text::clean_line(&words).into_owned()
}

/// The lines that are typed, one for each time that one is wanted.
///
/// They are read on a thread of its own: a person may take hours, and a runtime would wait for it at the end.
pub(super) struct Lines {
    want: std::sync::mpsc::Sender<()>,
    typed: mpsc::Receiver<Option<String>>,
    is_wanted: bool,
}

impl Lines {
    pub(super) fn start() -> Self {
        let (want, wanted) = std::sync::mpsc::channel::<()>();
        let (tell, typed) = mpsc::channel(1);
        std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                let line = read.is_ok_and(|bytes| bytes > 0).then_some(line);
                if tell.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            want,
            typed,
            is_wanted: false,
        }
    }

    /// Drops what was typed before a question was shown.
    pub(super) fn forget(&mut self) {
        // On what is no terminal there is nothing to forget.
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        while self.typed.try_recv().is_ok() {
            self.is_wanted = false;
        }
    }

    /// The next line; nothing at the end of the input. What was begun is gone on with by the next call.
    pub(super) async fn next(&mut self) -> Option<String> {
        if !self.is_wanted {
            // Without the thread the answer below is that there is none.
            self.is_wanted = self.want.send(()).is_ok();
        }
        let line = self.typed.recv().await;
        self.is_wanted = false;
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
            source: QuestionSource::Round,
            request: params.to_string(),
            asked_at: Wall(0),
            answer: None,
            is_delivered: false,
            shared_with: Vec::new(),
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

    fn accepted(step: Step) -> Value {
        match step {
            Step::Answer(Answer::Accept {
                content: Some(content),
            }) => serde_json::from_str(&content).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn asks_field_by_field_and_asks_again_with_the_reason() {
        let mut prompt = form();
        assert!(prompt.message().contains("[d]ecline"));
        // An empty line, as Enter by reflex makes one, answers nothing.
        assert!(prompt.read("\n").is_err());
        assert_eq!(prompt.read("a\n"), Ok(Step::More));
        assert_eq!(prompt.message(), "count:");
        for (wrong, why) in [
            ("\n", "count is required: a whole number of 1 to 9"),
            ("x\n", "count must be a whole number of 1 to 9"),
            ("12\n", "count must be a whole number of 1 to 9"),
        ] {
            assert_eq!(prompt.read(wrong), Err(why.to_owned()));
        }
        assert_eq!(prompt.read("3\n"), Ok(Step::More));
        assert_eq!(prompt.message(), "mode [slow]:");
        assert_eq!(prompt.choices(), ["  1) slow", "  2) fast"]);
        assert!(prompt.read("quick\n").is_err());
        assert_eq!(prompt.read("2\n"), Ok(Step::More));
        assert_eq!(prompt.message(), "tags (several between commas) [a, b]:");
        assert_eq!(prompt.read("1, c\n"), Ok(Step::More));
        assert_eq!(prompt.read("y\n"), Ok(Step::More));
        let answer = accepted(prompt.read("\n").unwrap());
        let expected = json!({"count": 3, "mode": "fast", "tags": ["a", "c"], "dry": true});
        assert_eq!(answer, expected);
    }

    #[test]
    fn keeps_defaults_declines_and_leaves_for_later() {
        let mut all = form();
        for line in ["accept", "3", "", "", ""] {
            assert_eq!(all.read(line), Ok(Step::More));
        }
        assert_eq!(
            accepted(all.read("").unwrap()),
            json!({"count": 3, "mode": "slow", "tags": ["a", "b"]})
        );
        assert_eq!(form().read("no"), Ok(Step::Answer(Answer::Decline)));
        assert_eq!(form().read("L"), Ok(Step::Later));
        let mut page = prompt(&json!({"mode": "url", "url": "https://h.example/x", "message": ""}));
        let answer = Step::Answer(Answer::Accept { content: None });
        assert_eq!(page.read("y"), Ok(answer));
    }

    #[test]
    fn takes_a_number_that_is_a_choice_as_that_choice() {
        let mut prompt = prompt(&json!({"message": "", "requestedSchema": {"properties": {
            "n": {"enum": ["2", "1"]}}}}));
        prompt.read("a").unwrap();
        assert_eq!(accepted(prompt.read("2").unwrap()), json!({"n": "2"}));
    }
}
