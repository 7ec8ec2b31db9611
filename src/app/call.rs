//! The form of a new call: server, tool and arguments. Arguments are checked before anything is sent.

mod command;
mod drafts;
mod keys;
mod send;
mod start;
mod tools;

use serde_json::{Map, Value};

use crate::domain::{PathSegment, ServerName, TaskId, Tool, UnusableSchema, ValidationError, text};

use super::{
    Field, FormField, TypedArgument,
    form::{InitialValue, JsonError, go_to_json_error, pretty},
};

pub(super) use command::command;
pub(super) use drafts::restore_draft;
pub(super) use keys::call_key;
pub(super) use send::repeat;

/// The key of a draft: server, tool, and the task that the call repeats.
pub(super) type DraftKey = (Option<ServerName>, String, Option<TaskId>);

/// The step of a new call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Choose the server.
    #[default]
    Server,
    /// Choose the tool.
    Tool,
    /// Fill in the arguments.
    Form,
}

/// Why a form can't be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormErrors {
    /// Sanitized messages, one per error.
    pub lines: Vec<String>,
    /// The paths of the invalid arguments.
    pub wrong: Vec<Vec<PathSegment>>,
    /// The arguments, if they are readable and only the schema rejects them.
    pub arguments: Option<Map<String, Value>>,
}

/// A new call that is being filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallForm {
    /// The current step.
    pub stage: Stage,
    /// The index of the selected server; the index after the last one means the URL.
    pub server_at: usize,
    /// The filter for server names, or the URL of a new server.
    pub url: Field,
    /// The server of the call.
    pub server: Option<ServerName>,
    /// List the tools of all servers; choosing a tool chooses its server.
    pub is_any_server: bool,
    /// The filter for tools.
    pub filter: Field,
    /// The index of the selected tool among the matches.
    pub tool_at: usize,
    /// The tool; `None` while the server's tools are unknown.
    pub tool: Option<Tool>,
    /// The name of the tool.
    pub tool_name: String,
    /// One field per argument.
    pub fields: Vec<FormField>,
    /// The user's name for the task.
    pub name: Field,
    /// The arguments as JSON, instead of fields.
    pub raw: Option<Field>,
    /// The index of the focused element: the arguments, then the name, then the button.
    pub at: usize,
    /// Error messages.
    pub errors: Vec<String>,
    /// The paths of the invalid arguments, as far as they are known.
    pub wrong: Vec<Vec<PathSegment>>,
    /// Only the schema rejects the arguments: pressing the same key again sends them unchecked.
    pub may_send_unchecked: bool,
    /// The user confirmed a repeat that may not be safe.
    pub is_confirmed: bool,
    /// The id of the new task while it is being saved.
    pub sent: Option<TaskId>,
    /// The task that this call repeats.
    pub origin: Option<TaskId>,
    /// Arguments from a typed command, kept until the tool is known.
    pub typed: Vec<TypedArgument>,
}

impl CallForm {
    /// Sets the tool, and fills its fields with `given` and the typed arguments. If one of these doesn't fit, shows what is
    /// wrong.
    pub(super) fn set_typed(
        &mut self,
        tool: Tool,
        mut given: Map<String, Value>,
        missing: InitialValue<'_>,
    ) {
        let typed = std::mem::take(&mut self.typed);
        self.set_tool(tool.clone(), &given, missing);
        let before = std::mem::take(&mut self.fields);
        let shapes = tool.form_fields();
        let mut keys = Vec::new();
        for argument in typed {
            let key = argument.key.clone();
            let shape = shapes.iter().find(|shape| shape.spec.name == key);
            let value = argument.read_unchecked(shape.map(|shape| &shape.spec));
            given.insert(key.clone(), value);
            keys.push(PathSegment::Key(key));
        }
        self.set_tool(tool, &given, missing);
        for (field, before) in self.fields.iter_mut().zip(before) {
            field.before = before.before;
        }
        let is_typed = |path: &Vec<PathSegment>| path.first().is_some_and(|it| keys.contains(it));
        if let Err(errors) = self.arguments()
            && errors.wrong.iter().any(is_typed)
        {
            (self.errors, self.wrong) = (errors.lines, errors.wrong);
        }
    }

    /// Sets the tool and its fields, filled with `given`, or `missing` for the others. Arguments without a field can only
    /// be shown as JSON.
    pub(super) fn set_tool(
        &mut self,
        tool: Tool,
        given: &Map<String, Value>,
        missing: InitialValue<'_>,
    ) {
        let shapes = tool.form_fields();
        let start = |name: &str| given.get(name).map_or(missing, InitialValue::Given);
        let fields = shapes.iter();
        let fields = fields.map(|shape| FormField::from_shape(shape, start(&shape.spec.name)));
        self.fields = fields.collect();
        self.raw = None;
        let is_known = |key: &String| shapes.iter().any(|shape| shape.spec.name == *key);
        if !given.keys().all(is_known) {
            let mut all = self.read().unwrap_or_default();
            all.extend(given.clone());
            self.raw = Some(Field::lines(display(&Value::Object(all))));
        }
        self.stage = Stage::Form;
        self.tool_name.clone_from(&tool.name);
        self.tool = Some(tool);
        self.at = 0;
        self.clear_errors();
    }

    /// Takes over a changed definition of the tool, keeping the input. What no longer has a field is shown as JSON.
    pub(super) fn change_tool(&mut self, tool: Tool) {
        let input = self.read().unwrap_or_default();
        let (old, raw) = (std::mem::take(&mut self.fields), self.raw.take());
        self.set_tool(tool, &Map::new(), InitialValue::Default);
        for field in old {
            let is_same = |new: &&mut FormField| {
                new.spec.name == field.spec.name
                    && new.spec.kind == field.spec.kind
                    && new.items == field.items
            };
            match self.fields.iter_mut().find(is_same) {
                Some(new) => new.value = field.value,
                None if field.is_changed() && self.raw.is_none() => {
                    self.raw = Some(Field::lines(pretty(&Value::Object(input.clone()))));
                }
                None => {}
            }
        }
        self.raw = raw.or_else(|| self.raw.take());
    }

    /// How many elements can be focused: arguments, name and button.
    pub fn focus_count(&self) -> usize {
        let arguments = if self.raw.is_some() {
            1
        } else {
            self.fields.len()
        };
        arguments + 2
    }

    /// Whether the name is focused.
    pub fn is_at_name(&self) -> bool {
        self.at + 2 == self.focus_count()
    }

    /// Whether the button is focused.
    pub fn is_at_button(&self) -> bool {
        self.at + 1 >= self.focus_count()
    }

    /// The arguments, or errors for unreadable values.
    fn read(&self) -> Result<Map<String, Value>, Vec<String>> {
        if let Some(raw) = &self.raw {
            return object(raw);
        }
        let mut errors = Vec::new();
        let mut arguments = Map::new();
        for field in &self.fields {
            match field.read() {
                Ok(value) => arguments.extend(value.map(|it| (field.spec.name.clone(), it))),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() {
            Ok(arguments)
        } else {
            Err(errors)
        }
    }

    /// The arguments to send, and why the schema could not check them if it is unusable; or the errors.
    pub fn arguments(&self) -> Result<(Map<String, Value>, Option<UnusableSchema>), FormErrors> {
        let arguments = self.read().map_err(|lines| FormErrors {
            lines,
            ..FormErrors::default()
        })?;
        let checked = self.tool.as_ref().map(|tool| tool.check(&arguments));
        let checked = checked.unwrap_or_default();
        if checked.errors.is_empty() {
            return Ok((arguments, checked.unusable));
        }
        let line = |error: &ValidationError| text::clean_line(&error.to_string()).into_owned();
        Err(FormErrors {
            lines: checked.errors.iter().map(line).collect(),
            wrong: checked.errors.into_iter().map(|it| it.path).collect(),
            arguments: Some(arguments),
        })
    }

    /// The key of its draft.
    pub(super) fn draft_key(&self) -> DraftKey {
        (
            self.server.clone(),
            self.tool_name.clone(),
            self.origin.clone(),
        )
    }

    /// Whether it has input worth saving as a draft.
    pub(super) fn has_input(&self) -> bool {
        let is_json = self.raw.is_some() && self.tool.is_some();
        is_json
            || !self.name.is_empty() && self.origin.is_none()
            || self.fields.iter().any(FormField::is_changed)
    }

    /// Whether it has the same input as another form.
    pub(super) fn has_same_input(&self, other: &Self) -> bool {
        let (raw, others) = (self.raw.as_ref(), other.raw.as_ref());
        self.fields == other.fields
            && self.name.text() == other.name.text()
            && raw.map(Field::text) == others.map(Field::text)
    }

    /// Clears the errors.
    pub(super) fn clear_errors(&mut self) {
        self.errors.clear();
        self.wrong.clear();
        self.may_send_unchecked = false;
    }

    /// Clears the messages, and the mark of the focused argument.
    pub(super) fn clear_error_here(&mut self) {
        let here = self.fields.get(self.at);
        self.errors.clear();
        self.may_send_unchecked = false;
        self.wrong
            .retain(|path| here.is_none_or(|here| !is_inside(path, here)));
    }

    /// Whether to mark a field as invalid: for its value, or for a value inside it.
    pub fn is_wrong(&self, field: &FormField) -> bool {
        self.wrong.iter().any(|path| is_inside(path, field))
    }

    /// Focuses the first invalid field; in JSON, moves the cursor to the error.
    pub(super) fn focus_first_error(&mut self) {
        if let Some(raw) = &mut self.raw {
            return go_to_json_error(raw);
        }
        let fields = &self.fields;
        let unread = fields.iter().position(|field| field.read().is_err());
        let wrong = || fields.iter().position(|field| self.is_wrong(field));
        let Some(at) = unread.or_else(wrong) else {
            return;
        };
        self.at = at;
        let field = self.argument();
        let field = field.filter(|field| unread.is_some() && field.is_json());
        if let Some(field) = field.and_then(FormField::typed) {
            go_to_json_error(field);
        }
    }

    /// Switches between fields and JSON, keeping the input.
    pub(super) fn toggle_raw(&mut self) {
        match self.raw.take() {
            None => match self.read() {
                Ok(arguments) => {
                    self.raw = Some(Field::lines(pretty(&Value::Object(arguments))));
                    self.clear_errors();
                }
                // An unreadable value can't be converted to JSON and would be lost.
                Err(errors) => {
                    self.errors = errors;
                    return self.focus_first_error();
                }
            },
            Some(mut raw) => {
                if let Err(errors) = self.show_fields(&raw) {
                    self.errors = errors;
                    go_to_json_error(&mut raw);
                    self.raw = Some(raw);
                }
            }
        }
        self.at = 0;
    }

    /// Turns JSON into fields; or the errors.
    fn show_fields(&mut self, raw: &Field) -> Result<(), Vec<String>> {
        let given = object(raw)?;
        let Some(tool) = self.tool.clone() else {
            return Err(vec![
                "the arguments of this tool aren't known yet".to_owned(),
            ]);
        };
        let named = |key: &String| self.fields.iter().any(|field| &field.spec.name == key);
        if !given.keys().all(named) {
            return Err(vec![
                "some of these are not arguments of this tool".to_owned(),
            ]);
        }
        let before = std::mem::take(&mut self.fields);
        self.set_tool(tool, &given, InitialValue::Omitted);
        // Unchanged values keep their old field, with what was typed as it was typed.
        for (field, before) in self.fields.iter_mut().zip(before) {
            if field.read() == before.read() {
                *field = before;
            }
        }
        Ok(())
    }

    /// The focused text field, if any.
    pub(super) fn text_field(&mut self) -> Option<&mut Field> {
        match self.stage {
            Stage::Server => Some(&mut self.url),
            Stage::Tool => Some(&mut self.filter),
            Stage::Form => {
                if self.is_at_button() {
                    None
                } else if self.is_at_name() {
                    Some(&mut self.name)
                } else if self.raw.is_some() {
                    self.raw.as_mut()
                } else {
                    self.argument()?.typed()
                }
            }
        }
    }

    /// The focused argument, if any.
    pub(super) fn argument(&mut self) -> Option<&mut FormField> {
        if self.raw.is_some() {
            return None;
        }
        self.fields.get_mut(self.at)
    }
}

/// Whether the value at a path belongs to a field.
fn is_inside(path: &[PathSegment], field: &FormField) -> bool {
    matches!(path.first(), Some(PathSegment::Key(name)) if *name == field.spec.name)
}

/// JSON for editing, with escapes for what can't be shown.
fn display(value: &Value) -> String {
    let is_hidden = |letter| letter != '\n' && text::is_hostile(letter);
    text::json_with_escapes(&pretty(value), is_hidden)
}

/// The arguments typed as JSON.
fn object(raw: &Field) -> Result<Map<String, Value>, Vec<String>> {
    let typed = raw.text().trim_end();
    let typed = if typed.is_empty() { "{}" } else { typed };
    match serde_json::from_str::<Value>(typed) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(vec![
            "the arguments must be a JSON object: {...}".to_owned(),
        ]),
        Err(error) => Err(vec![format!("invalid JSON: {}", JsonError::from(error))]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        app::{Setup, State},
        domain::Chord,
    };

    fn form(schema: &Value, given: &Value) -> CallForm {
        let state = State::new(Setup::default());
        let mut form = CallForm::new(&state);
        let tool = Tool::taking(schema);
        let given = given.as_object().unwrap();
        let missing = if given.is_empty() {
            InitialValue::Default
        } else {
            InitialValue::Omitted
        };
        form.set_tool(tool, given, missing);
        form
    }

    /// The arguments to send, or the error messages.
    fn sent(form: &CallForm) -> Result<Value, Vec<String>> {
        let sent = form.arguments().map_err(|errors| errors.lines)?;
        Ok(Value::Object(sent.0))
    }

    fn schema() -> Value {
        json!({"required": ["name", "n"], "properties": {
            "name": {"type": "string"},
            "n": {"type": "integer", "default": 100},
            "fast": {"type": "boolean"},
            "mode": {"enum": ["a", "b"]},
            "more": {"type": "object"},
        }})
    }

    #[test]
    fn fills_in_defaults_and_omits_empty_values() {
        let mut form = form(&schema(), &json!({}));
        assert_eq!(sent(&form), Err(vec!["name is missing".to_owned()]));
        assert!(form.text_field().unwrap().paste("eu"));
        assert_eq!(sent(&form), Ok(json!({"name": "eu", "n": 100})));
    }

    #[test]
    fn several_lines_stay_several_lines() {
        let mut form = form(&schema(), &json!({}));
        assert!(form.argument().unwrap().paste("a\r\nb\n"));
        assert_eq!(sent(&form), Ok(json!({"name": "a\nb", "n": 100})));
        let given = json!({"name": "a\nb", "n": 100});
        let mut again = self::form(&schema(), &given);
        assert!(again.text_field().unwrap().paste("c"));
        assert_eq!(sent(&again), Ok(json!({"name": "ca\nb", "n": 100})));
    }

    #[test]
    fn names_unreadable_values_before_sending() {
        let mut form = form(&schema(), &json!({"name": "x"}));
        form.at = 1;
        assert!(form.text_field().unwrap().paste("x"));
        assert_eq!(
            sent(&form),
            Err(vec!["n must be a whole number".to_owned()])
        );
    }

    #[test]
    fn toggles_and_choices_cycle_through_omitted() {
        let mut form = form(&schema(), &json!({"name": "x"}));
        let seen: Vec<_> = (0..4)
            .map(|_| {
                form.fields[2].change(true);
                form.fields[2].read().unwrap()
            })
            .collect();
        let [yes, no] = [Some(json!(true)), Some(json!(false))];
        assert_eq!(seen, [yes.clone(), no.clone(), None, yes]);
        for expected in [None, no] {
            form.fields[2].change(false);
            assert_eq!(form.fields[2].read(), Ok(expected));
        }
        form.fields[3].change(true);
        assert_eq!(form.fields[3].read(), Ok(Some(json!("a"))));
        form.fields[3].change(false);
        assert_eq!(form.fields[3].read(), Ok(None));
    }

    #[test]
    fn converts_fields_to_json_and_back() {
        let mut form = form(&schema(), &json!({"name": "x", "more": {"deep": [1]}}));
        let before = sent(&form);
        form.toggle_raw();
        assert!(form.raw.is_some());
        assert_eq!(sent(&form), before);
        form.toggle_raw();
        assert!(form.raw.is_none());
        assert_eq!(sent(&form), before);
    }

    #[test]
    fn arguments_outside_the_schema_stay_json() {
        let state = State::new(Setup::default());
        let mut form = CallForm::new(&state);
        let tool = Tool {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: schema().to_string(),
            read_only: None,
            destructive: None,
            idempotent: None,
            task_support: crate::domain::TaskSupport::Forbidden,
            fault: None,
        };
        let given = json!({"odd": 1});
        form.set_tool(tool, given.as_object().unwrap(), InitialValue::Omitted);
        assert!(form.raw.is_some());
    }

    #[test]
    fn keeps_a_typed_argument_that_the_tool_does_not_list() {
        let state = State::new(Setup::default());
        let typed = |words: &str| {
            let mut form = CallForm::new(&state);
            form.stage = Stage::Form;
            form.typed = words
                .split(' ')
                .map(|word| {
                    crate::app::typed_line::parse_argument(word)
                        .unwrap()
                        .unwrap()
                })
                .collect();
            let tool = Tool::taking(&schema());
            form.set_typed(tool, Map::new(), InitialValue::Default);
            form
        };
        let form = typed("nam=x n=5");
        assert_eq!(
            form.errors,
            [
                "name is missing",
                "nam is not an argument of this tool (did you mean name?)"
            ]
        );
        assert_eq!(sent(&form), Err(form.errors.clone()));
        assert!(form.raw.as_ref().unwrap().text().contains("\"nam\": \"x\""));
        // An unreadable value stays invalid.
        let form = typed("name=x n=y zebra=1");
        assert!(
            sent(&form)
                .unwrap_err()
                .contains(&"n must be a whole number".to_owned())
        );
        let form = typed("name=x n=5");
        assert!(form.raw.is_none() && form.errors.is_empty());
        assert!(form.fields[1].is_changed());
        // An error, because the form would round it.
        let form = typed("name=x n=12345678901234567890123");
        assert_eq!(form.errors, ["n must be a whole number"]);
    }

    fn nested() -> Value {
        json!({"required": ["to"], "properties": {
            "to": {"type": "object", "required": ["street"], "properties": {
                "street": {"type": "string"}, "zip": {"type": "integer"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "shape": {"oneOf": [
                {"title": "Circle", "type": "object", "required": ["kind", "r"],
                    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}},
                {"title": "Box", "type": "object", "required": ["kind", "w"],
                    "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}}]},
            "free": {"type": "object"},
        }})
    }

    fn type_at(form: &mut CallForm, name: &str, words: &str) {
        let named = |field: &FormField| field.spec.name == name;
        form.at = form.fields.iter().position(named).unwrap();
        assert!(form.text_field().unwrap().paste(words));
    }

    #[test]
    fn a_list_has_one_item_per_line() {
        let schema = json!({"required": ["to"], "properties": {
            "to": {"type": "array", "items": {"type": "string"}},
            "sizes": {"type": "array", "items": {"type": "integer"}},
            "flags": {"type": "array", "items": {"type": "boolean"}}}});
        let mut empty = form(&schema, &json!({}));
        assert_eq!(sent(&empty), Ok(json!({"to": []})));
        type_at(&mut empty, "to", "x=1, y\n\nz\n");
        type_at(&mut empty, "sizes", "1\nmany");
        type_at(&mut empty, "flags", "yes");
        empty.at = 0;
        empty.focus_first_error();
        let error = "line 2 of sizes must be a whole number";
        assert_eq!((sent(&empty), empty.at), (Err(vec![error.to_owned()]), 1));
        empty.text_field().unwrap().key(Chord::ctrl('u'));
        type_at(&mut empty, "sizes", "1\n 2");
        let given = json!({"to": ["x=1, y", "", "z"], "sizes": [1, 2], "flags": [true]});
        assert_eq!(sent(&empty), Ok(given.clone()));
        let filled = form(&schema, &given);
        assert!(filled.fields.iter().all(|field| !field.is_json()));
        // What lines can't hold stays JSON.
        for to in [json!([""]), json!(["a\nb"]), json!([1]), json!("a")] {
            let given = json!({"to": to});
            let form = form(&schema, &given);
            assert!(form.fields[0].is_json(), "{to}");
            assert_eq!(form.read(), Ok(given.as_object().unwrap().clone()));
        }
    }

    #[test]
    fn focuses_the_invalid_value() {
        let given = json!({"to": {"street": "x", "zip": "y"}, "free": {"a": 1}});
        let mut form = form(&nested(), &given);
        let errors = form.arguments().unwrap_err();
        assert_eq!(errors.lines, ["to.zip must be a whole number"]);
        form.wrong = errors.wrong;
        form.at = 3;
        form.focus_first_error();
        assert_eq!(form.at, 0);
        // In JSON, errors have a line and a column.
        form.at = 3;
        let field = form.text_field().unwrap();
        assert_eq!(field.text(), "{\n  \"a\": 1\n}");
        field.go_to(1, 5);
        assert!(field.paste("!"));
        let lines = sent(&form).unwrap_err();
        assert_eq!(lines, ["free must be JSON: line 2, column 6: expected `:`"]);
        form.at = 0;
        form.focus_first_error();
        assert_eq!(form.at, 3);
        assert_eq!(form.text_field().unwrap().cursor_position(), (1, 5));
    }

    fn any_pair() -> impl Strategy<Value = (Value, Value)> {
        let leaf = prop_oneof![
            any::<String>().prop_map(|it| (json!({"type": "string"}), json!(it))),
            any::<i64>().prop_map(|it| (json!({"type": "integer"}), json!(it))),
            any::<f64>().prop_map(|it| (
                json!({"type": "number"}),
                json!(if it.is_finite() { it } else { 0.5 })
            )),
            any::<bool>().prop_map(|it| (json!({"type": "boolean"}), json!(it))),
            (0_usize..3).prop_map(|it| {
                let choices = [json!("a"), json!(2), json!(null)];
                let value = if it == 2 {
                    json!("a")
                } else {
                    choices[it].clone()
                };
                (json!({"enum": choices}), value)
            }),
            Just((json!({"const": "x"}), json!("x"))),
            Just((
                json!({"type": "array", "items": {"enum": ["a", "b", "c"]}}),
                json!(["c", "a"])
            )),
            Just((json!({"type": "object"}), json!({"any": [1, {"x": null}]}))),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let object = prop::collection::vec((inner.clone(), any::<bool>(), any::<bool>()), 0..4);
            prop_oneof![
                object.prop_map(|members| {
                    let (mut properties, mut required, mut value) =
                        (Map::new(), Vec::new(), Map::new());
                    for (at, ((schema, one), is_present, is_required)) in
                        members.into_iter().enumerate()
                    {
                        let name = format!("m{at}");
                        properties.insert(name.clone(), schema);
                        if is_present {
                            value.insert(name.clone(), one);
                            required.extend(is_required.then_some(name));
                        }
                    }
                    (
                        json!({"type": "object", "properties": properties, "required": required}),
                        Value::Object(value),
                    )
                }),
                (inner.clone(), 0_usize..4).prop_map(|((schema, one), count)| {
                    (
                        json!({"type": "array", "items": schema}),
                        json!(vec![one; count]),
                    )
                }),
                (inner.clone(), inner).prop_map(|((one, value), (other, _))| {
                    (json!({"anyOf": [other, one]}), value)
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_values_survive_the_form_and_json(
            arguments in prop::collection::vec(any_pair(), 1..4), turns in prop::collection::vec((0_usize..12, any::<bool>()), 0..8)
        ) {
            let (mut properties, mut given) = (Map::new(), Map::new());
            for (at, (schema, value)) in arguments.into_iter().enumerate() {
                properties.insert(format!("a{at}"), schema);
                given.insert(format!("a{at}"), value);
            }
            let given = Value::Object(given);
            let mut form = form(&json!({"properties": properties}), &given);
            prop_assert!(form.raw.is_none());
            prop_assert_eq!(sent(&form), Ok(given.clone()));
            form.toggle_raw();
            prop_assert_eq!(sent(&form), Ok(given.clone()));
            form.toggle_raw();
            prop_assert_eq!(sent(&form), Ok(given));
            // After any changes, readable values survive a conversion to JSON and back.
            for (row, forward) in turns {
                form.at = row;
                if let Some(field) = form.argument() {
                    field.change(forward);
                }
            }
            if let Ok(read) = form.read() {
                form.toggle_raw();
                form.toggle_raw();
                prop_assert_eq!(form.read(), Ok(read));
            }
        }
    }
}
