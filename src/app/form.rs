//! One field of a form: what is filled in, and what would be sent of it.

use serde_json::{Map, Value};

use crate::domain::{ArgumentKind, ArgumentSpec, Chord, Shape, Step, Within, text};

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
    /// Text, a number or, in several lines, JSON.
    Typed(Field),
    /// The members of an object, if it is there at all.
    Members {
        /// Whether it is.
        is_present: bool,
        /// The members.
        fields: Vec<FormField>,
    },
    /// The items of a list, if it is there at all.
    Items {
        /// Whether it is.
        is_present: bool,
        /// The items.
        fields: Vec<FormField>,
        /// What one more would be.
        each: Box<Shape>,
    },
    /// One of several alternatives, or none.
    Variant {
        /// Which.
        at: Option<usize>,
        /// One field for each.
        fields: Vec<FormField>,
        /// What they are called.
        labels: Vec<String>,
    },
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

/// Items of a list that a form shows; a longer one is JSON.
const MAX_ITEMS: usize = 50;

/// Whether null is a choice, not what stands for nothing.
fn has_null(spec: &ArgumentSpec) -> bool {
    matches!(&spec.kind, ArgumentKind::Choice(choices) if choices.contains(&Value::Null))
}

/// The same, in one of the alternatives too.
fn takes_null(shape: &Shape) -> bool {
    let in_any = |all: &[(String, Shape)]| all.iter().any(|(_, one)| takes_null(one));
    has_null(&shape.spec) || matches!(&shape.within, Within::Variants(all) if in_any(all))
}

/// Whether a single field can show a value so that it goes back as it came.
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

/// The next of so many choices or the one before; one more place than choices stands for leaving it out.
fn next_choice(
    at: Option<usize>,
    choices: usize,
    can_be_left_out: bool,
    forward: bool,
) -> Option<usize> {
    let places = choices + usize::from(can_be_left_out);
    let index = at.unwrap_or(choices);
    let step = if forward { 1 } else { places.saturating_sub(1) };
    let next = match at {
        None if !can_be_left_out && forward => 0,
        _ => (index + step) % places.max(1),
    };
    (next < choices).then_some(next)
}

/// Where and why something is no JSON.
pub(super) fn json_error(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let words = error.to_string();
    let index = format!(" at line {line} column {column}");
    let words = words.strip_suffix(&index).unwrap_or(&words);
    format!("line {line}, column {column}: {words}")
}

/// Puts the cursor of a field of JSON where it stops being JSON.
pub(super) fn go_to_json_error(field: &mut Field) {
    if let Err(error) = serde_json::from_str::<Value>(field.text()) {
        field.go_to(
            error.line().saturating_sub(1),
            error.column().saturating_sub(1),
        );
    }
}

/// What a field begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum InitialValue<'v> {
    /// Its default.
    Default,
    /// Nothing: what is repeated was without it.
    Omitted,
    /// This.
    Given(&'v Value),
}

/// One line of a form, for a field or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct FormRow<'f> {
    /// Where it is.
    pub path: Vec<Step>,
    /// What it is.
    pub field: &'f FormField,
}

/// JSON as people read it.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

impl FormField {
    /// A field for whatever is asked for. What the form could not give back as it came is shown as JSON.
    pub(super) fn from_shape(shape: &Shape, start: InitialValue<'_>) -> Self {
        let spec = &shape.spec;
        let given = match start {
            InitialValue::Given(value)
                if value.is_null() && !spec.is_required && !takes_null(shape) =>
            {
                None
            }
            InitialValue::Given(value) => Some(value),
            InitialValue::Omitted => None,
            InitialValue::Default => spec.default.as_ref(),
        };
        let is_fresh = matches!(start, InitialValue::Default);
        let value = match &shape.within {
            Within::Nothing => {
                let is_shown = given.is_none_or(|given| is_fresh || can_show(&spec.kind, given));
                if is_shown && spec.kind != ArgumentKind::Json {
                    let spec = match start {
                        InitialValue::Default => spec.clone(),
                        _ => ArgumentSpec {
                            default: None,
                            ..spec.clone()
                        },
                    };
                    let given = given.filter(|_| !is_fresh);
                    let mut field = Self::new(spec, given);
                    field.spec.default.clone_from(&shape.spec.default);
                    return field;
                }
                None
            }
            Within::Members(members) => match given {
                Some(Value::Object(object)) => {
                    let is_named = |key: &String| members.iter().any(|it| it.spec.name == *key);
                    object.keys().all(is_named).then(|| FormValue::Members {
                        is_present: true,
                        fields: members
                            .iter()
                            .map(|it| {
                                let given = object.get(&it.spec.name);
                                Self::from_shape(
                                    it,
                                    given.map_or(InitialValue::Omitted, InitialValue::Given),
                                )
                            })
                            .collect(),
                    })
                }
                Some(_) => None,
                None => Some(FormValue::Members {
                    is_present: spec.is_required,
                    fields: members
                        .iter()
                        .map(|it| Self::from_shape(it, InitialValue::Default))
                        .collect(),
                }),
            },
            Within::Items(each) => match given {
                Some(Value::Array(items)) if items.len() <= MAX_ITEMS => Some(FormValue::Items {
                    is_present: true,
                    fields: items
                        .iter()
                        .map(|item| Self::from_shape(each, InitialValue::Given(item)))
                        .collect(),
                    each: each.clone(),
                }),
                Some(_) => None,
                None => Some(FormValue::Items {
                    is_present: spec.is_required,
                    fields: Vec::new(),
                    each: each.clone(),
                }),
            },
            Within::Variants(variants) => {
                let fields = |chosen: Option<(usize, &Value)>| {
                    let each = variants.iter().enumerate();
                    each.map(|(index, (_, variant))| match chosen {
                        Some((at, value)) if at == index => {
                            Self::from_shape(variant, InitialValue::Given(value))
                        }
                        _ => {
                            let mut field = Self::from_shape(variant, InitialValue::Default);
                            field.select_only_choices();
                            field
                        }
                    })
                    .collect()
                };
                let labels = variants.iter().map(|it| it.0.clone()).collect();
                match given {
                    None => Some(FormValue::Variant {
                        at: None,
                        fields: fields(None),
                        labels,
                    }),
                    Some(given) => {
                        // The first that gives the value back as it came, and not as JSON.
                        let fits = |(_, variant): &(String, Shape)| {
                            let field = Self::from_shape(variant, InitialValue::Given(given));
                            let is_json = field.is_json() && variant.within != Within::Nothing;
                            !is_json && field.read() == Ok(Some(given.clone()))
                        };
                        variants.iter().position(fits).map(|at| FormValue::Variant {
                            at: Some(at),
                            fields: fields(Some((at, given))),
                            labels,
                        })
                    }
                }
            }
        };
        let before = given.filter(|it| !it.is_null()).cloned();
        match value {
            Some(value) => Self {
                spec: spec.clone(),
                value,
                before,
            },
            None => Self {
                value: FormValue::Typed(Field::lines(given.map_or(String::new(), pretty))),
                spec: ArgumentSpec {
                    kind: ArgumentKind::Json,
                    ..spec.clone()
                },
                before,
            },
        }
    }

    /// Fills in the members that can be one value only: they say which alternative this is.
    fn select_only_choices(&mut self) {
        let FormValue::Members { fields, .. } = &mut self.value else {
            return;
        };
        for field in fields {
            if let (FormValue::Choice(at @ None), ArgumentKind::Choice(choices)) =
                (&mut field.value, &field.spec.kind)
                && choices.len() == 1
            {
                *at = Some(0);
            }
        }
    }

    /// Whether it is typed as JSON.
    pub fn is_json(&self) -> bool {
        matches!(&self.value, FormValue::Typed(field) if field.has_lines())
    }

    /// The parts of it that are on the screen below it.
    fn parts(&self) -> &[FormField] {
        match &self.value {
            FormValue::Members { is_present, fields }
            | FormValue::Items {
                is_present, fields, ..
            } => {
                if *is_present {
                    fields
                } else {
                    &[]
                }
            }
            FormValue::Variant {
                at: Some(at),
                fields,
                ..
            } => fields.get(*at).map_or(&[], std::slice::from_ref),
            _ => &[],
        }
    }

    fn parts_mut(&mut self) -> &mut [FormField] {
        match &mut self.value {
            FormValue::Members { is_present, fields }
            | FormValue::Items {
                is_present, fields, ..
            } => {
                if *is_present {
                    fields
                } else {
                    &mut []
                }
            }
            FormValue::Variant {
                at: Some(at),
                fields,
                ..
            } => fields.get_mut(*at).map_or(&mut [], std::slice::from_mut),
            _ => &mut [],
        }
    }

    /// An object that must be there has nothing to turn, so only its members have lines.
    fn has_row(&self) -> bool {
        !(matches!(self.value, FormValue::Members { .. }) && self.spec.is_required)
    }

    fn add_rows<'f>(&'f self, path: &[Step], rows: &mut Vec<FormRow<'f>>) {
        if self.has_row() {
            rows.push(FormRow {
                path: path.to_vec(),
                field: self,
            });
        }
        for (index, part) in self.parts().iter().enumerate() {
            let mut path = path.to_vec();
            match &self.value {
                FormValue::Members { .. } => path.push(Step::Key(part.spec.name.clone())),
                FormValue::Items { .. } => path.push(Step::Place(index)),
                _ => {}
            }
            part.add_rows(&path, rows);
        }
    }

    /// The lines of a form.
    pub(super) fn rows(fields: &[Self]) -> Vec<FormRow<'_>> {
        let mut rows = Vec::new();
        for field in fields {
            field.add_rows(&[Step::Key(field.spec.name.clone())], &mut rows);
        }
        rows
    }

    /// The field of one of these lines.
    pub(super) fn at_row<'f>(fields: &'f mut [Self], row: &mut usize) -> Option<&'f mut Self> {
        for field in fields {
            if field.has_row() {
                if *row == 0 {
                    return Some(field);
                }
                *row -= 1;
            }
            if let Some(found) = Self::at_row(field.parts_mut(), row) {
                return Some(found);
            }
        }
        None
    }

    /// A field filled in with what is given, else with its default.
    pub(super) fn new(spec: ArgumentSpec, given: Option<&Value>) -> Self {
        let start = given
            .or(spec.default.as_ref())
            .filter(|value| !value.is_null() || has_null(&spec));
        let value = match &spec.kind {
            ArgumentKind::Boolean => FormValue::Toggle(start.and_then(Value::as_bool)),
            ArgumentKind::Choice(choices) => {
                let chosen = start.and_then(|start| choices.iter().position(|it| it == start));
                // Where there is no choice, it is made.
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
            (FormValue::Members { is_present, fields }, _) => {
                let mut object = Map::new();
                for field in fields.iter().filter(|_| *is_present) {
                    let value = field
                        .read()
                        .map_err(|line| format!("{}.{line}", self.spec.name))?;
                    if let Some(value) = value {
                        object.insert(field.spec.name.clone(), value);
                    }
                }
                Ok(is_present.then_some(Value::Object(object)))
            }
            (
                FormValue::Items {
                    is_present, fields, ..
                },
                _,
            ) => {
                let mut items = Vec::new();
                for (index, field) in fields.iter().enumerate().filter(|_| *is_present) {
                    let named = |line: String| format!("{}[{index}]{line}", self.spec.name);
                    // An item cannot be left out: what is empty there is an empty text.
                    let nothing = || match field.spec.kind {
                        ArgumentKind::Text => Ok(Value::String(String::new())),
                        _ => Err(named(" is missing".to_owned())),
                    };
                    items.push(field.read().map_err(named)?.map_or_else(nothing, Ok)?);
                }
                Ok(is_present.then_some(Value::Array(items)))
            }
            (FormValue::Variant { at, fields, .. }, _) => match at.and_then(|at| fields.get(at)) {
                Some(field) => field.read(),
                None => Ok(None),
            },
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
                serde_json::from_str(field.text().trim_end())
                    .map(Some)
                    .map_err(|error| must_be(format!("JSON: {}", json_error(&error))))
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

    /// Puts the cursor where JSON stops being JSON.
    pub(super) fn go_to_json_error(&mut self) {
        if let FormValue::Typed(field) = &mut self.value {
            go_to_json_error(field);
        }
    }

    /// Turns a toggle or a choice to the next value or the one before, and moves among several choices.
    pub(super) fn change(&mut self, forward: bool) {
        let can_be_left_out = !self.spec.is_required;
        match (&mut self.value, &self.spec.kind) {
            (FormValue::Toggle(value), _) => {
                *value = match *value {
                    None => Some(forward),
                    Some(value) if value == forward && can_be_left_out => None,
                    Some(value) => Some(!value),
                };
            }
            (FormValue::Members { is_present, .. }, _) => *is_present = !*is_present,
            (
                FormValue::Items {
                    is_present,
                    fields,
                    each,
                },
                _,
            ) => match (forward, *is_present) {
                (true, false) => *is_present = true,
                (true, true) if fields.len() < MAX_ITEMS => {
                    fields.push(Self::from_shape(each, InitialValue::Default));
                }
                (false, true) if fields.pop().is_none() => *is_present = !can_be_left_out,
                _ => {}
            },
            (FormValue::Variant { at, fields, .. }, _) => {
                *at = next_choice(*at, fields.len(), can_be_left_out, forward);
            }
            (FormValue::Choice(at), ArgumentKind::Choice(choices)) => {
                *at = next_choice(*at, choices.len(), can_be_left_out, forward);
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

    /// Begins one more item of a list with a letter that is typed on the list itself: how many lines below it that item
    /// is. `None` where the key begins nothing.
    pub(super) fn start_item(&mut self, chord: Chord) -> Option<usize> {
        let letter = chord.typed().filter(|it| *it != ' ' && !it.is_control());
        let FormValue::Items {
            is_present, each, ..
        } = &self.value
        else {
            return None;
        };
        let mut is_typed = Self::from_shape(each, InitialValue::Default);
        let is_typed = is_typed.typed().is_some_and(|field| !field.has_lines());
        if letter.is_none() || !is_typed {
            return None;
        }
        if !is_present {
            self.change(true);
        }
        let before = self.parts().len();
        self.change(true);
        let items = self.parts().len();
        (items > before).then_some(items)
    }

    /// What Space does where nothing is typed: turns on, or takes and leaves the choice that it stands on.
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
