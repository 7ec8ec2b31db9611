//! A question from a server (an elicitation) that is being answered. It can't be answered by accident: nothing is focused at
//! first, and keys are ignored until the user could have read it.

use serde_json::{Map, Value};

use crate::domain::{Answer, Elicitation, Mono, Question, Stamp, TaskId, UrlPreview};

use super::{FormField, TaskRow, dialogs::menu::was_readable};

/// A question that is being answered.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionForm {
    /// The task that asks.
    pub task: TaskId,
    /// The key of the question.
    pub key: String,
    /// The question.
    pub elicitation: Elicitation,
    /// The page to open, if the question is about one.
    pub link: Option<UrlPreview>,
    /// The fields of the requested form.
    pub fields: Vec<FormField>,
    /// The index of the focused element: the fields, then the buttons; none at first.
    pub at: Option<usize>,
    /// Error messages.
    pub errors: Vec<String>,
    /// The answer is being saved.
    pub is_sent: bool,
    /// Pressing the same key again opens the page.
    pub is_opening: bool,
    /// How many questions of this task were answered here before this one.
    pub answered: usize,
    /// When it was first drawn; earlier keys were not meant for it.
    pub(super) drawn: Option<Mono>,
}

/// The buttons below a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Sends MCP's `accept` with the values.
    Accept,
    /// Sends MCP's `decline`.
    Decline,
    /// Sends MCP's `cancel`.
    Dismiss,
}

impl Button {
    /// All buttons, from left to right.
    pub const ALL: [Self; 3] = [Self::Accept, Self::Decline, Self::Dismiss];
}

impl QuestionForm {
    pub(super) fn new(task: &TaskId, question: &Question, answered: usize) -> Self {
        let elicitation = Elicitation::parse(&question.request);
        let fields = elicitation.fields().iter().cloned();
        Self {
            task: task.clone(),
            key: question.key.clone(),
            link: elicitation.url_preview(),
            fields: fields.map(|spec| FormField::new(spec, None)).collect(),
            elicitation,
            at: None,
            errors: Vec::new(),
            is_sent: false,
            is_opening: false,
            answered,
            drawn: None,
        }
    }

    /// The index of the last element.
    pub fn last(&self) -> usize {
        self.fields.len() + Button::ALL.len() - 1
    }

    /// The focused button.
    pub fn button(&self) -> Option<Button> {
        let index = self.at?.checked_sub(self.fields.len())?;
        Button::ALL.get(index).copied()
    }

    /// The focused field.
    pub fn field(&mut self) -> Option<&mut FormField> {
        self.fields.get_mut(self.at?)
    }

    /// Whether a key pressed now can be meant for it.
    pub(super) fn is_read(&self, now: Stamp) -> bool {
        was_readable(self.drawn, now)
    }

    /// The accepting answer with the values. Otherwise shows what is wrong and focuses the first field that is.
    pub(super) fn accept(&mut self) -> Option<Answer> {
        let mut given = Map::new();
        let mut errors = Vec::new();
        let mut first_wrong = None;
        for (index, field) in self.fields.iter().enumerate() {
            // Messages use the field's title, as on the screen.
            let wrong = |error: String| format!("{} {error}", field.name());
            match field.read() {
                Err(error) => errors.push(error.to_string()),
                Ok(None) if field.spec.is_required => {
                    errors.push(format!("{} is missing", field.name()));
                }
                Ok(value) => {
                    let error = value.as_ref().and_then(|value| field.spec.violation(value));
                    errors.extend(error.map(wrong));
                    // A cleared value is omitted, even if it has a default.
                    given.insert(field.spec.name.clone(), value.unwrap_or(Value::Null));
                }
            }
            if !errors.is_empty() {
                first_wrong.get_or_insert(index);
            }
        }
        if errors.is_empty() {
            match self.elicitation.content(&given) {
                Ok(content) => return Some(Answer::Accept { content }),
                Err(more) => errors = more,
            }
        }
        (self.errors, self.at) = (errors, first_wrong.or(self.at));
        None
    }
}

/// The next open question of a task, except the one that was just answered.
pub(super) fn next<'e>(task_row: &'e TaskRow, but: Option<&str>) -> Option<&'e Question> {
    let mut open = task_row.view.task.open_questions();
    open.find(|question| Some(question.key.as_str()) != but)
}
