//! A field of a form: its input and the value to send.

use serde_json::Value;

use crate::domain::{ArgumentKind, ArgumentSpec, FieldSpec, text, unquoted};

use super::Field;

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// The argument's name, type and default.
    pub spec: ArgumentSpec,
    /// The input.
    pub value: FormValue,
    /// The initial value, to show what was changed.
    pub before: Option<Value>,
    /// For JSON, the text to start from.
    pub template: Option<Value>,
    /// For a list that is typed with one item per line, the shape of an item.
    pub items: Option<Box<ArgumentSpec>>,
}

/// The input of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FormValue {
    /// Text, a number or, in several lines, a list or JSON.
    Typed(Field),
    /// True, false, or omitted.
    Toggle(Option<bool>),
    /// The index of the choice, or omitted.
    Choice(Option<usize>),
    /// Several of the choices.
    Many {
        /// For each choice, whether it is selected.
        chosen: Vec<bool>,
        /// The index of the choice that Space toggles.
        at: usize,
    },
}

/// Whether null is one of the choices, as opposed to "omitted".
fn has_null(spec: &ArgumentSpec) -> bool {
    matches!(&spec.kind, ArgumentKind::Choice(choices) if choices.contains(&Value::Null))
}

/// Whether a single field can show a value and return it unchanged.
fn can_show(kind: &ArgumentKind, value: &Value) -> bool {
    match kind {
        ArgumentKind::Text => value.as_str().is_some_and(|it| !it.is_empty()),
        ArgumentKind::Number => value.is_number(),
        ArgumentKind::Integer => value.is_i64() || value.is_u64(),
        ArgumentKind::Boolean => value.is_boolean(),
        ArgumentKind::Choice(choices) => choices.contains(value),
        ArgumentKind::Many(choices) => value.as_array().is_some_and(|items| {
            let shown = choices.iter().filter(|choice| items.contains(choice));
            !items.is_empty() && shown.eq(items.iter())
        }),
        ArgumentKind::Json => true,
    }
}

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {why}")]
pub(super) struct JsonError {
    line: usize,
    column: usize,
    why: String,
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let why = error.to_string();
        let index = format!(" at line {line} column {column}");
        let why = why.strip_suffix(&index).unwrap_or(&why).to_owned();
        Self { line, column, why }
    }
}

/// What is wrong with the input of a field. The text follows the name of the field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum FieldProblem {
    #[error("must be JSON: {0}")]
    NotJson(JsonError),
    #[error("must be {0}")]
    Unexpected(String),
}

/// Why the input of a field is not a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", text::clean_line(&format!("{name} {problem}")))]
pub struct FieldError {
    /// The name of the field, with the line of the item.
    name: String,
    problem: FieldProblem,
}

/// Puts the cursor of a JSON field at the error.
pub(super) fn go_to_json_error(field: &mut Field) {
    if let Err(error) = serde_json::from_str::<Value>(field.text()) {
        let (line, column) = (error.line(), error.column());
        field.go_to(line.saturating_sub(1), column.saturating_sub(1));
    }
}

/// The initial value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum InitialValue<'v> {
    /// The schema's default.
    Default,
    /// Nothing: the repeated call omitted it.
    Omitted,
    /// This value.
    Given(&'v Value),
}

/// Formatted JSON.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

impl FormField {
    /// Builds a field for a shape. A value that the field could not return unchanged is shown as JSON.
    pub(super) fn from_shape(shape: &FieldSpec, start: InitialValue<'_>) -> Self {
        let spec = &shape.spec;
        let is_single = spec.kind != ArgumentKind::Json;
        let given = match start {
            InitialValue::Given(value)
                if value.is_null() && !spec.is_required && !has_null(spec) =>
            {
                None
            }
            InitialValue::Given(value) => Some(value),
            InitialValue::Default if is_single => return Self::new(spec.clone(), None),
            InitialValue::Default => spec.default.as_ref(),
            InitialValue::Omitted => None,
        };
        if is_single && given.is_none_or(|given| can_show(&spec.kind, given)) {
            let without_default = ArgumentSpec {
                default: None,
                ..spec.clone()
            };
            let mut field = Self::new(without_default, given);
            field.spec.default.clone_from(&spec.default);
            return field;
        }
        let items = given.and_then(Value::as_array).into_iter().flatten();
        let lines: Vec<String> = items.map(unquoted).collect();
        let mut field = Self {
            spec: ArgumentSpec {
                kind: ArgumentKind::Json,
                ..spec.clone()
            },
            value: FormValue::Typed(Field::lines(lines.join("\n"))),
            before: given.filter(|it| !it.is_null()).cloned(),
            template: shape.template.clone(),
            items: shape.items.clone(),
        };
        if field.items.is_none() || given.is_some() && field.read() != Ok(given.cloned()) {
            field.items = None;
            field.value = FormValue::Typed(Field::lines(given.map_or(String::new(), pretty)));
        }
        field
    }

    /// Whether it is edited as JSON.
    pub fn is_json(&self) -> bool {
        self.spec.kind == ArgumentKind::Json && self.items.is_none()
    }

    /// Inserts pasted text; in a text field, several lines stay several lines. Returns whether it fits.
    pub(super) fn paste(&mut self, pasted: &str) -> bool {
        let is_text = self.spec.kind == ArgumentKind::Text;
        let Some(field) = self.typed() else {
            return true;
        };
        let lines = pasted.trim_end_matches(['\r', '\n']);
        field.has_lines |= is_text && lines.contains(['\r', '\n']);
        field.paste(if is_text { lines } else { pasted })
    }

    /// Whether Enter fills in a template.
    pub fn has_template(&self) -> bool {
        let is_empty = matches!(&self.value, FormValue::Typed(field) if field.is_empty());
        is_empty && self.template.is_some()
    }

    /// Fills an empty JSON field with its template; returns `false` if there is nothing to fill in.
    pub(super) fn insert_template(&mut self) -> bool {
        let text = self.template.as_ref().filter(|_| self.has_template());
        let Some(text) = text.map(pretty) else {
            return false;
        };
        self.value = FormValue::Typed(Field::lines(text));
        true
    }

    /// The text of a number or of JSON.
    pub(super) fn json(&self) -> Option<&Field> {
        let kind = (self.items.as_ref()).map_or(&self.spec.kind, |each| &each.kind);
        match (&self.value, kind) {
            (FormValue::Typed(field), ArgumentKind::Number | ArgumentKind::Json) => Some(field),
            _ => None,
        }
    }

    /// A field with the given value, else with its default.
    pub(super) fn new(spec: ArgumentSpec, given: Option<&Value>) -> Self {
        let start = given
            .or(spec.default.as_ref())
            .filter(|value| !value.is_null() || has_null(&spec));
        let value = match &spec.kind {
            ArgumentKind::Boolean => FormValue::Toggle(start.and_then(Value::as_bool)),
            ArgumentKind::Choice(choices) => {
                let chosen = start.and_then(|start| choices.iter().position(|it| it == start));
                // Select the only choice of a required argument.
                let is_only = spec.is_required && choices.len() == 1;
                FormValue::Choice(chosen.or_else(|| is_only.then_some(0)))
            }
            ArgumentKind::Many(choices) => {
                let start = start.and_then(Value::as_array);
                let is_chosen = |choice| start.is_some_and(|chosen| chosen.contains(choice));
                FormValue::Many {
                    chosen: choices.iter().map(is_chosen).collect(),
                    at: 0,
                }
            }
            kind => {
                let text = match (kind, start) {
                    (_, None) => String::new(),
                    (ArgumentKind::Text, Some(Value::String(text))) => text.clone(),
                    (_, Some(other)) => other.to_string(),
                };
                // Typing replaces a default or a number, but edits an existing text.
                let is_number = matches!(kind, ArgumentKind::Number | ArgumentKind::Integer);
                FormValue::Typed(if text.contains('\n') {
                    Field::lines(text)
                } else if is_number || given.is_none() {
                    Field::prefilled(text)
                } else {
                    Field::new(text)
                })
            }
        };
        Self {
            before: start.cloned(),
            spec,
            value,
            template: None,
            items: None,
        }
    }

    /// The name to show; not sanitized.
    pub fn name(&self) -> &str {
        self.spec.title.as_deref().unwrap_or(&self.spec.name)
    }

    /// The value to send; `None` if it is omitted.
    pub fn read(&self) -> Result<Option<Value>, FieldError> {
        let wrong = |problem| FieldError {
            name: self.name().to_owned(),
            problem,
        };
        match (&self.value, &self.spec.kind) {
            (FormValue::Toggle(value), _) => Ok(value.map(Value::Bool)),
            (FormValue::Choice(at), ArgumentKind::Choice(choices)) => {
                Ok(at.and_then(|at| choices.get(at)).cloned())
            }
            (FormValue::Many { chosen, .. }, ArgumentKind::Many(choices)) => {
                let taken = choices.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                let taken: Vec<Value> = taken.map(|(choice, _)| choice.clone()).collect();
                let is_left_out = taken.is_empty() && !self.spec.is_required;
                Ok((!is_left_out).then_some(Value::Array(taken)))
            }
            (FormValue::Choice(_) | FormValue::Many { .. }, _) => Ok(None),
            (FormValue::Typed(field), _) if field.is_empty() => {
                let is_sent = self.items.is_some() && self.spec.is_required;
                Ok(is_sent.then(|| Value::Array(Vec::new())))
            }
            (FormValue::Typed(field), ArgumentKind::Text) => {
                Ok(Some(Value::String(field.text().to_owned())))
            }
            (FormValue::Typed(field), ArgumentKind::Json) => {
                if let Some(each) = &self.items {
                    return self.read_lines(each, field.text()).map(Some);
                }
                serde_json::from_str(field.text().trim_end())
                    .map(Some)
                    .map_err(|error| wrong(FieldProblem::NotJson(error.into())))
            }
            (FormValue::Typed(field), _) => match self.spec.parse(field.text()) {
                Some(value) => Ok(Some(value)),
                None => Err(wrong(FieldProblem::Unexpected(self.spec.expected()))),
            },
        }
    }

    /// The items of a list, one per line.
    fn read_lines(&self, each: &ArgumentSpec, lines: &str) -> Result<Value, FieldError> {
        let item = |(index, line): (usize, &str)| {
            each.parse(line).ok_or_else(|| FieldError {
                name: format!("line {} of {}", index + 1, self.name()),
                problem: FieldProblem::Unexpected(each.expected()),
            })
        };
        lines.lines().enumerate().map(item).collect()
    }

    /// Whether the input differs from the initial value.
    pub fn is_changed(&self) -> bool {
        self.read() != Ok(self.before.clone())
    }

    /// The text field, if it is one.
    pub(super) fn typed(&mut self) -> Option<&mut Field> {
        match &mut self.value {
            FormValue::Typed(field) => Some(field),
            _ => None,
        }
    }

    /// Changes a toggle or a choice to its next or previous value, or moves between choices.
    pub(super) fn change(&mut self, forward: bool) {
        let can_be_left_out = !self.spec.is_required;
        match (&mut self.value, &self.spec.kind) {
            (FormValue::Toggle(value), _) => {
                *value = match *value {
                    None => Some(forward),
                    Some(value) if value != forward && can_be_left_out => None,
                    Some(value) => Some(!value),
                };
            }
            (FormValue::Choice(at), ArgumentKind::Choice(choices)) => {
                // Cyclically; "omitted" comes after the last choice if it is allowed.
                let places = choices.len() + usize::from(can_be_left_out);
                let step = if forward { 1 } else { places.saturating_sub(1) };
                let next = match *at {
                    None if !can_be_left_out && forward => 0,
                    _ => (at.unwrap_or(choices.len()) + step) % places.max(1),
                };
                *at = (next < choices.len()).then_some(next);
            }
            (FormValue::Many { chosen, at }, _) => {
                let last = chosen.len().saturating_sub(1);
                let step = if forward { 1 } else { -1 };
                *at = at.saturating_add_signed(step).min(last);
            }
            _ => {}
        }
    }

    /// Changes a choice to the next one that begins with a letter; returns whether there is one.
    pub(super) fn jump_to(&mut self, letter: char) -> bool {
        let FormValue::Choice(at) = &mut self.value else {
            return false;
        };
        let ArgumentKind::Choice(choices) = &self.spec.kind else {
            return false;
        };
        let begins = |index: &usize| {
            let label = self.spec.label(*index).to_lowercase();
            letter.to_lowercase().eq(label.chars().take(1))
        };
        let next = at.map_or(0, |at| at + 1);
        let found = (next..choices.len()).chain(0..next).find(begins);
        *at = found.or(*at);
        found.is_some()
    }

    /// Handles Space on a field without text: toggles the current choice, or changes to the next value.
    pub(super) fn toggle(&mut self) {
        match &mut self.value {
            FormValue::Many { chosen, at } => {
                if let Some(one) = chosen.get_mut(*at) {
                    *one = !*one;
                }
            }
            _ => self.change(true),
        }
    }
}
