//! New forms, and what they take from the tools of a server and from earlier calls.

use serde_json::{Map, Value};

use crate::{
    app::{
        CallForm, Field, FormField, Stage, State, TypedArgument, form::InitialValue,
        typed_line::TypedCall,
    },
    domain::{ServerName, Task, has_large_integer, server_url},
};

use super::display;

impl CallForm {
    /// An empty form. With a single server, it starts with that server's tools.
    pub(in crate::app) fn new(state: &State) -> Self {
        let is_in_directory = |url: &str| server_url::process_in(url).is_some();
        let servers = state.servers.iter();
        let mut own = servers
            .filter(|server| !is_in_directory(&server.url))
            .map(|it| it.name.clone());
        let only = own.next().filter(|_| own.next().is_none());
        let selected = state
            .selected()
            .and_then(|task_row| {
                let name = &task_row.view.task.server;
                state.servers.iter().position(|server| &server.name == name)
            })
            .unwrap_or(0);
        Self {
            stage: if only.is_some() {
                Stage::Tool
            } else {
                Stage::Server
            },
            server_at: selected,
            server: only,
            ..Self::default()
        }
    }

    /// A form that repeats a task, with some arguments changed.
    pub(in crate::app) fn from_task(
        state: &State,
        task: &Task,
        changed: Vec<TypedArgument>,
    ) -> Self {
        let mut form = Self {
            stage: Stage::Form,
            server: Some(task.server.clone()),
            tool_name: task.tool.clone(),
            name: Field::new(task.name.clone().unwrap_or_default()),
            // JSON until the tool is known and has fields.
            raw: Some(Field::lines(display_arguments(&task.arguments))),
            origin: Some(task.id.clone()),
            typed: changed,
            ..Self::new(state)
        };
        form.on_tools(state);
        form
    }

    /// A form for a typed command.
    pub(in crate::app) fn from_line(state: &State, server: ServerName, call: TypedCall) -> Self {
        let mut form = Self {
            stage: Stage::Form,
            server: Some(server),
            tool_name: call.tool,
            name: Field::new(call.name),
            raw: Some(Field::lines(as_text(&call.arguments))),
            typed: call.arguments,
            ..Self::new(state)
        };
        form.on_tools(state);
        form
    }

    /// Turns JSON into fields once the tool's schema is known, or has changed.
    pub(in crate::app) fn on_tools(&mut self, state: &State) {
        if self.stage != Stage::Form {
            return;
        }
        let server = self.server.as_ref();
        let tools = server.and_then(|server| state.tools.get(server));
        let tool =
            tools.and_then(|tools| tools.list.iter().find(|tool| tool.name == self.tool_name));
        let Some(tool) = tool.cloned() else {
            let server = self.server.as_ref().map_or("it", ServerName::as_str);
            let known = tools.filter(|tools| tools.request.is_none());
            if let Some(why) = known.and_then(|tools| tools.error.as_ref()) {
                let text =
                    format!("can't check the arguments: the tools of {server} are unknown: {why}");
                self.errors = vec![text];
            } else if known.is_some_and(|tools| tools.is_known) {
                self.errors = vec![format!("{server} has no tool {}", self.tool_name)];
            }
            return;
        };
        if let Some(known) = &self.tool {
            if known.input_schema != tool.input_schema {
                let words = format!("{} has changed; check its arguments", tool.name);
                self.change_tool(tool);
                self.errors = vec![words];
            }
            return;
        }
        let origin = self.origin.as_ref().and_then(|id| state.task(id));
        let arguments = origin.map(|task_row| task_row.view.task.arguments.as_str());
        let initial = arguments.map_or_else(|| as_text(&self.typed), display_arguments);
        if self.raw.as_ref().map(Field::text) != Some(initial.as_str()) {
            // The user is editing the JSON, which stays as it is until the user wants fields.
            self.tool = Some(tool);
            return self.clear_errors();
        }
        let given = arguments.and_then(|text| serde_json::from_str(text).ok());
        let missing = match &given {
            Some(_) => InitialValue::Omitted,
            None => InitialValue::Default,
        };
        self.set_typed(tool, given.unwrap_or_default(), missing);
    }

    /// The arguments of the repeated task, if these are still the same. They are sent as they are: a
    /// field leaves out `null` and control characters, and holds no number above 64 bits.
    pub(super) fn unedited(&self, state: &State, now: &Map<String, Value>) -> Option<String> {
        let task = &state.task(self.origin.as_ref()?)?.view.task;
        let then = if self.raw.is_some() {
            serde_json::from_str(&task.arguments).ok()?
        } else {
            let filled = Self::from_task(state, task, Vec::new());
            filled.arguments().ok()?.0
        };
        (then == *now).then(|| task.arguments.clone())
    }

    /// Whether the form can't keep a whole number that was filled in or typed.
    pub(super) fn would_round(&self, state: &State) -> bool {
        let from = self.origin.as_ref().and_then(|id| state.task(id));
        let filled = from.map(|task_row| task_row.view.task.arguments.as_str());
        let typed = self
            .raw
            .iter()
            .chain(self.fields.iter().filter_map(FormField::json));
        let mut texts = filled.into_iter().chain(typed.map(Field::text));
        texts.any(has_large_integer)
    }
}

/// Arguments as text for editing.
fn display_arguments(arguments: &str) -> String {
    let value = serde_json::from_str(arguments);
    value.map_or_else(|_| arguments.to_owned(), |value| display(&value))
}

/// Typed arguments as JSON while the tool, and so their types, are unknown.
fn as_text(arguments: &[TypedArgument]) -> String {
    let arguments = arguments.iter().cloned();
    let all = arguments.map(|pair| (pair.key.clone(), pair.read_unchecked(None)));
    display(&Value::Object(all.collect()))
}
