//! A server's list of tools as the host gets it: with our own tools, and with output schemas that allow a ticket.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    message::Members,
    ticket::{self, COLLECT, TASKS},
};

/// What the host has seen of the tools' output schemas.
#[derive(Debug, Default)]
pub(super) struct OutputSchemas(BTreeMap<String, Strictness>);

/// Whether the output schema of a tool allows a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// As structured content.
    AllowsTicket,
    /// Only as an error.
    Strict,
}

impl OutputSchemas {
    /// What a tool's output schema allows, if it has one.
    pub(super) fn of(&self, tool: &str) -> Option<Strictness> {
        self.0.get(tool).copied()
    }

    /// One page of a server's list, for the host. `is_first`: the page that our own tools are added to. `offers_tasks`:
    /// the host may ask for tasks (2025-11-25).
    pub(super) fn page(
        &mut self,
        result: &str,
        is_first: bool,
        offers_tasks: bool,
    ) -> Option<String> {
        let mut result: Members = serde_json::from_str(result).ok()?;
        let tools = result.get_mut("tools")?.as_array_mut()?;
        // Names that are ours. A server that uses them could forge tickets.
        tools.retain(|tool| {
            let name = tool.get("name").and_then(Value::as_str);
            !matches!(name, Some(COLLECT | TASKS))
        });
        for tool in tools.iter_mut() {
            // The server's own tasks are longhaul's; every call through the proxy can be a task of longhaul's.
            if let Some(tool) = tool.as_object_mut() {
                tool.remove("execution");
                if offers_tasks {
                    let execution = json!({"taskSupport": "optional"});
                    tool.insert("execution".to_owned(), execution);
                }
            }
            let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
            let schema = tool
                .get("outputSchema")
                .filter(|it| it.is_object())
                .cloned();
            let (Some(name), Some(schema)) = (name, schema) else {
                continue;
            };
            let strictness = match (widened(schema), tool.as_object_mut()) {
                (Some(wider), Some(tool)) => {
                    tool.insert("outputSchema".to_owned(), wider);
                    Strictness::AllowsTicket
                }
                _ => Strictness::Strict,
            };
            self.0.insert(name, strictness);
        }
        if is_first {
            tools.extend(ticket::tools());
        }
        Some(Value::Object(result).to_string())
    }
}

/// The keywords under which a schema keeps what its references point to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// A schema that a ticket matches too; `None` if its references would no longer work.
fn widened(schema: Value) -> Option<Value> {
    let Value::Object(mut schema) = schema else {
        return None;
    };
    let definitions: Vec<(&str, Value)> = DEFINITIONS
        .into_iter()
        .filter_map(|key| Some((key, schema.remove(key)?)))
        .collect();
    let schema = Value::Object(schema);
    let all = definitions.iter().map(|(_, value)| value);
    if !all.chain([&schema]).all(has_movable_references) {
        return None;
    }
    let mut wider = json!({"type": "object", "anyOf": [schema, ticket::schema()]});
    if let Some(wider) = wider.as_object_mut() {
        let definitions = definitions.into_iter();
        wider.extend(definitions.map(|(key, value)| (key.to_owned(), value)));
    }
    Some(wider)
}

/// Whether all references in a schema still point to the same when it moves below `anyOf`.
fn has_movable_references(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().all(|(key, value)| match key.as_str() {
            "$ref" => value.as_str().is_some_and(|target| {
                DEFINITIONS
                    .iter()
                    .any(|key| target.starts_with(&format!("#/{key}/")))
            }),
            "$id" | "$anchor" | "$dynamicRef" | "$recursiveRef" => false,
            _ => has_movable_references(value),
        }),
        Value::Array(items) => items.iter().all(has_movable_references),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(list: &Value, is_first: bool) -> (OutputSchemas, Value) {
        let mut schemas = OutputSchemas::default();
        let page = schemas.page(&list.to_string(), is_first, false).unwrap();
        (schemas, serde_json::from_str(&page).unwrap())
    }

    #[test]
    fn our_tools_are_on_the_first_page_only_and_cannot_be_imitated() {
        let list =
            json!({"tools": [{"name": "a", "x": 1}, {"name": COLLECT}], "nextCursor": "c", "y": 2});
        let (_, first) = page(&list, true);
        let names: Vec<&str> = first["tools"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(names, ["a", COLLECT, TASKS]);
        assert_eq!(
            (&first["tools"][0]["x"], &first["y"]),
            (&json!(1), &json!(2))
        );
        let (_, next) = page(&list, false);
        assert_eq!(next["tools"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn output_schemas_allow_a_ticket() {
        let output = json!({"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"type": "number"}}});
        let (schemas, first) = page(
            &json!({"tools": [{"name": "a", "outputSchema": output}]}),
            false,
        );
        assert_eq!(schemas.of("a"), Some(Strictness::AllowsTicket));
        let schema = &first["tools"][0]["outputSchema"];
        assert_eq!(schema["type"], "object");
        let matches = |value: Value| jsonschema::is_valid(schema, &value);
        assert!(matches(json!({"n": 1})) && matches(json!({"longhaul_ticket": {}})));
        assert!(!matches(json!({"n": "1"})) && !matches(json!({})));
    }

    #[test]
    fn references_into_the_schema_itself_stay() {
        let output = json!({"type": "object", "properties": {"n": {"$ref": "#/properties/m"}}});
        let (schemas, first) = page(
            &json!({"tools": [{"name": "a", "outputSchema": output}]}),
            false,
        );
        assert_eq!(schemas.of("a"), Some(Strictness::Strict));
        assert_eq!(first["tools"][0]["outputSchema"], output);
    }
}
