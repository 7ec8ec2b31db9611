//! One field of a form: what is filled in, and what would be sent of it.

use serde_json::Value;

use crate::domain::{ArgumentKind, ArgumentSpec, text};

use super::Field;

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// What it is.
    pub spec: ArgumentSpec,
    /// What is filled in.
    pub value: FormValue,
    /// What was filled in at first, to show what was changed.
    pub before: Option<Value>,
}

/// What is filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum FormValue {
    /// Text, a number or JSON.
    Typed(Field),
    /// Yes, no, or left out.
    Toggle(Option<bool>),
    /// One of the choices, or left out.
    Choice(Option<usize>),
    /// Several of the choices.
    Many {
        /// Which are chosen, in the order of the choices.
        chosen: Vec<bool>,
        /// The one that Space takes or leaves.
        at: usize,
    },
}

impl FormField {
    /// A field filled in with what is given, else with its default.
    pub(super) fn new(spec: ArgumentSpec, given: Option<&Value>) -> Self {
        let start = given.or(spec.default.as_ref()).filter(|v| !v.is_null());
        let value = match &spec.kind {
            ArgumentKind::Boolean => FormValue::Toggle(start.and_then(Value::as_bool)),
            ArgumentKind::Choice(choices) => FormValue::Choice(
                start.and_then(|start| choices.iter().position(|choice| choice == start)),
            ),
            ArgumentKind::Many(choices) => {
                let start = start.and_then(Value::as_array);
                let is_chosen = |choice| start.is_some_and(|chosen| chosen.contains(choice));
                FormValue::Many {
                    chosen: choices.iter().map(is_chosen).collect(),
                    at: 0,
                }
            }
            kind => {
                let words = match (kind, start) {
                    (_, None) => String::new(),
                    (ArgumentKind::Text, Some(Value::String(words))) => {
                        text::clean_line(words).into_owned()
                    }
                    (_, Some(other)) => other.to_string(),
                };
                // A text of the user's own is more often mended than replaced; a number never is.
                let is_number = matches!(kind, ArgumentKind::Number | ArgumentKind::Integer);
                FormValue::Typed(if is_number || given.is_none() {
                    Field::prefilled(words)
                } else {
                    Field::new(words)
                })
            }
        };
        Self {
            before: start.cloned(),
            spec,
            value,
        }
    }

    /// The name to show; not sanitised.
    pub fn name(&self) -> &str {
        self.spec.title.as_deref().unwrap_or(&self.spec.name)
    }

    /// What would be sent; `None` if it is left out, an error if it cannot be read.
    pub fn read(&self) -> Result<Option<Value>, String> {
        let must_be = |wanted: String| {
            let line = format!("{} must be {wanted}", self.name());
            text::clean_line(&line).into_owned()
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
            (FormValue::Typed(field), _) if field.is_empty() => Ok(None),
            (FormValue::Typed(field), ArgumentKind::Text) => {
                // What cleaning changed for the eye goes back as it came.
                let unchanged = self.before.as_ref().filter(|before| {
                    before
                        .as_str()
                        .is_some_and(|before| text::clean_line(before) == field.text())
                });
                Ok(Some(
                    unchanged
                        .cloned()
                        .unwrap_or_else(|| Value::String(field.text().to_owned())),
                ))
            }
            (FormValue::Typed(field), ArgumentKind::Json) => {
                serde_json::from_str(field.text().trim())
                    .map(Some)
                    .map_err(|_| must_be(self.spec.wanted()))
            }
            (FormValue::Typed(field), _) => self.spec.read(field.text()).map(Some).map_err(must_be),
        }
    }

    /// Whether it differs from what was filled in at first.
    pub fn is_changed(&self) -> bool {
        self.read() != Ok(self.before.clone())
    }

    /// The text that is typed in it, if it is one.
    pub(super) fn typed(&mut self) -> Option<&mut Field> {
        match &mut self.value {
            FormValue::Typed(field) => Some(field),
            _ => None,
        }
    }

    /// Turns a toggle or a choice to the next value or the one before, and moves among several choices.
    pub(super) fn turn(&mut self, forward: bool) {
        let can_be_left_out = !self.spec.is_required;
        match (&mut self.value, &self.spec.kind) {
            (FormValue::Toggle(value), _) => {
                *value = match *value {
                    None => Some(forward),
                    Some(value) if value == forward && can_be_left_out => None,
                    Some(value) => Some(!value),
                };
            }
            (FormValue::Choice(at), ArgumentKind::Choice(choices)) => {
                // One more place than choices stands for leaving it out.
                let places = choices.len() + usize::from(can_be_left_out);
                let place = at.unwrap_or(choices.len());
                let step = if forward { 1 } else { places.saturating_sub(1) };
                let next = (place + step) % places.max(1);
                *at = (next < choices.len()).then_some(next);
            }
            (FormValue::Many { chosen, at }, _) => {
                let last = chosen.len().saturating_sub(1);
                *at = at
                    .saturating_add_signed(if forward { 1 } else { -1 })
                    .min(last);
            }
            _ => {}
        }
    }

    /// What Space does where nothing is typed: turns on, or takes and leaves the choice that it stands on.
    pub(super) fn toggle(&mut self) {
        match &mut self.value {
            FormValue::Many { chosen, at } => {
                if let Some(one) = chosen.get_mut(*at) {
                    *one = !*one;
                }
            }
            _ => self.turn(true),
        }
    }
}
