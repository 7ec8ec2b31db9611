//! A server's list of tools as the host gets it: with our own tools, and with output schemas that allow a ticket.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::{
    raw::RawMembers,
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
        let mut result = RawMembers::parse(result)?;
        let listed: Vec<Box<RawValue>> = serde_json::from_str(result.get("tools")?).ok()?;
        let mut tools: Vec<String> = Vec::new();
        for json in listed {
            let Some(mut tool) = RawMembers::parse(json.get()) else {
                tools.push(json.get().to_owned());
                continue;
            };
            let name = tool.get("name");
            let name = name.and_then(|name| serde_json::from_str::<String>(name).ok());
            if matches!(name.as_deref(), Some(COLLECT | TASKS)) {
                // Names that are ours. A server that uses them could forge tickets.
                continue;
            }
            // The server's own tasks are longhaul's; every call through the proxy can be a task of longhaul's.
            tool.remove("execution");
            if offers_tasks {
                tool.set("execution", r#"{"taskSupport":"optional"}"#);
            }
            let schema = tool.get("outputSchema").and_then(RawMembers::parse);
            if let (Some(name), Some(schema)) = (name, schema) {
                let strictness = match widened(schema) {
                    Some(wider) => {
                        tool.set("outputSchema", &wider);
                        Strictness::AllowsTicket
                    }
                    None => Strictness::Strict,
                };
                self.0.insert(name, strictness);
            }
            tools.push(tool.to_string());
        }
        if is_first {
            tools.extend(ticket::tools().map(|tool| tool.to_string()));
        }
        result.set("tools", &format!("[{}]", tools.join(",")));
        Some(result.to_string())
    }
}

/// The keywords under which a schema keeps what its references point to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// A schema that a ticket matches too; `None` if its references would no longer work.
fn widened(mut schema: RawMembers) -> Option<String> {
    let whole: Value = serde_json::from_str(&schema.to_string()).ok()?;
    if !has_movable_references(&whole) {
        return None;
    }
    let mut wider = RawMembers::default();
    wider.set("type", r#""object""#);
    for key in DEFINITIONS {
        if let Some(definitions) = schema.get(key) {
            wider.set(key, definitions);
        }
        schema.remove(key);
    }
    wider.set("anyOf", &format!("[{schema},{}]", ticket::schema()));
    Some(wider.to_string())
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
    use serde_json::json;

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

    #[test]
    fn numbers_keep_all_their_digits() {
        let schema = r#"{"type":"object","properties":{"n":{"maximum":1180591620717411303424}}}"#;
        let list = format!(
            r#"{{"tools":[{{"name":"a","inputSchema":{schema},"outputSchema":{schema},"x":{schema}}}],"y":{schema}}}"#
        );
        let page = OutputSchemas::default().page(&list, true, true).unwrap();
        assert_eq!(page.matches(schema).count(), 4, "{page}");
    }
}
