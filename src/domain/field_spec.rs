//! The fields of a call form. A list of single values is typed with one item per line. Anything else that is nested is typed as
//! JSON, starting from a template.

use serde_json::{Map, Value};

use super::{
    ArgumentKind, ArgumentSpec, Tool,
    argument::{properties, required},
};

/// One field of a form; no text is sanitized.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSpec {
    /// Its name, labels and type.
    pub spec: ArgumentSpec,
    /// For a list of single values, the shape of an item.
    pub items: Option<Box<ArgumentSpec>>,
    /// For a nested value, an example with its required members and the schema's defaults.
    pub template: Option<Value>,
}

/// A template leaves out what is nested deeper than this.
const DEPTH: usize = 5;
/// Maximum values in the templates of one form. Also ends a schema that refers to itself.
const VALUES: usize = 200;
/// Maximum length of a chain of references.
const HOPS: usize = 8;

impl Tool {
    /// The fields of a call form, in the order of the schema.
    pub fn form_fields(&self) -> Vec<FieldSpec> {
        let root: Value = serde_json::from_str(&self.input_schema).unwrap_or_default();
        let mut reader = Reader {
            root: &root,
            left: VALUES,
        };
        let required = required(&root);
        properties(&root)
            .map(|(name, property)| reader.field(name, property, required.contains(&name.as_str())))
            .collect()
    }
}

struct Reader<'s> {
    root: &'s Value,
    left: usize,
}

impl Reader<'_> {
    fn field(&mut self, name: &str, schema: &Value, is_required: bool) -> FieldSpec {
        // Resolving a reference clones its target, so this stops with the budget.
        let schema = if self.left > 0 {
            self.resolve(schema)
        } else {
            schema.clone()
        };
        let spec = ArgumentSpec::from_property(name, &schema, is_required);
        self.left = self.left.saturating_sub(1);
        let is_nested = spec.kind == ArgumentKind::Json;
        let is_union = schema.get("oneOf").is_some() || schema.get("anyOf").is_some();
        let items = schema.get("items").filter(|_| is_nested && !is_union);
        let items = items.filter(|it| it.is_object() && self.left > 0);
        let items = items.map(|items| ArgumentSpec::from_property("", &self.resolve(items), true));
        let items =
            items.filter(|it| !matches!(it.kind, ArgumentKind::Json | ArgumentKind::Many(_)));
        let template = (is_nested && items.is_none()).then(|| self.template(&schema, DEPTH));
        FieldSpec {
            spec,
            items: items.map(Box::new),
            template: template.filter(|template| !template.is_null()),
        }
    }

    /// An example: required members and those with a default, one item per list, the first of several alternatives.
    fn template(&mut self, schema: &Value, depth: usize) -> Value {
        if depth == 0 || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        let schema = self.resolve(schema);
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let is_null = |one: &&Value| one.get("type").is_some_and(|it| it == "null");
        let given = schema.get("default").filter(|it| !it.is_null());
        let only = schema.get("const");
        let given = given
            .or(only)
            .or_else(|| list("enum").and_then(|all| all.first()));
        if let Some(given) = given {
            return given.clone();
        }
        let alternatives = list("oneOf").or_else(|| list("anyOf"));
        let first = alternatives.and_then(|all| all.iter().find(|one| !is_null(one)));
        if let Some(first) = first.filter(|_| schema.get("properties").is_none()) {
            return self.template(first, depth - 1);
        }
        let kind = match schema.get("type") {
            Some(Value::Array(names)) => names.iter().find(|name| *name != "null"),
            kind => kind,
        };
        match kind.and_then(Value::as_str) {
            Some("string") => Value::String(String::new()),
            Some("boolean") => Value::Bool(false),
            Some("number" | "integer") => {
                let least = schema.get("minimum").filter(|it| it.is_number());
                least.cloned().unwrap_or_else(|| Value::from(0))
            }
            Some("array") => {
                let item = schema.get("items").map(|it| self.template(it, depth - 1));
                Value::Array(item.into_iter().filter(|item| !item.is_null()).collect())
            }
            Some("object") => self.members(&schema, depth - 1),
            None if schema.get("properties").is_some() => self.members(&schema, depth - 1),
            _ => Value::Null,
        }
    }

    fn members(&mut self, schema: &Value, depth: usize) -> Value {
        let required = required(schema);
        let has_default =
            |one: &Value| one.get("default").is_some_and(|default| !default.is_null());
        let members = properties(schema)
            .filter(|(name, one)| required.contains(&name.as_str()) || has_default(one));
        let members = members.map(|(name, one)| (name.clone(), self.template(one, depth)));
        Value::Object(members.collect())
    }

    /// Replaces a reference, or an only alternative besides null, by its target, merged with the keywords next to it.
    fn resolve(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        for _ in 0..HOPS {
            let Some(members) = schema.as_object() else {
                break;
            };
            let (key, target) = if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                let pointer = to.strip_prefix('#');
                (
                    "$ref",
                    pointer.and_then(|pointer| self.root.pointer(pointer)),
                )
            } else {
                let only = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| {
                    let all = members.get(key)?.as_array()?;
                    let is_null = |one: &&Value| one.get("type").is_some_and(|it| it == "null");
                    let mut some = all.iter().filter(|one| !is_null(one));
                    let only = some.next().filter(|_| some.next().is_none())?;
                    Some((key, only))
                });
                match only {
                    Some((key, only)) => (key, Some(only)),
                    None => break,
                }
            };
            let Some(Value::Object(target)) = target else {
                break;
            };
            let mut merged: Map<String, Value> = target.clone();
            let siblings = members.iter().filter(|(name, _)| *name != key);
            merged.extend(siblings.map(|(name, value)| (name.clone(), value.clone())));
            schema = Value::Object(merged);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(schema: &Value) -> Vec<FieldSpec> {
        let tool = Tool::taking(schema);
        tool.form_fields()
    }

    #[test]
    fn single_values_have_fields_and_nested_ones_a_template() {
        let fields = fields(&json!({
        "$defs": {"Mode": {"enum": ["a", "b"]}, "To": {"type": "object", "required": ["street", "floor"], "properties": {
            "street": {"type": "string"}, "floor": {"type": "integer", "minimum": 1}, "door": {"type": "string"},
            "mode": {"$ref": "#/$defs/Mode", "default": "b"}}}},
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "default": "b"},
            "to": {"anyOf": [{"$ref": "#/$defs/To"}, {"type": "null"}], "default": null},
            "tags": {"type": "array", "items": {"type": "string"}},
            "modes": {"type": "array", "items": {"$ref": "#/$defs/Mode"}},
            "either": {"anyOf": [{"type": "null"}, {"type": "boolean"}, {"type": "integer"}]},
            "free": {"type": "object"},
            "stops": {"type": "array", "items": {"type": "object", "required": ["kind", "at", "on"], "properties": {
                "kind": {"const": "stop"}, "at": {"type": ["number", "null"]}, "on": {"enum": ["left", "right"]}}}},
            "any": {},
        }}));
        let choices = ArgumentKind::Choice(vec![json!("a"), json!("b")]);
        assert_eq!(fields[0].spec.kind, choices);
        assert_eq!(fields[0].spec.default, Some(json!("b")));
        let items = |at: usize| fields[at].items.as_ref().map(|each| each.kind.clone());
        assert_eq!(items(2), Some(ArgumentKind::Text));
        assert_eq!(items(3), Some(choices));
        let templates: Vec<Option<Value>> = fields.iter().map(|it| it.template.clone()).collect();
        assert_eq!(
            templates,
            [
                None,
                Some(json!({"street": "", "floor": 1, "mode": "b"})),
                None,
                None,
                Some(json!(false)),
                Some(json!({})),
                Some(json!([{"kind": "stop", "at": 0, "on": "left"}])),
                None,
            ]
        );
    }

    #[test]
    fn recursive_schemas_make_finite_templates() {
        fn count(value: &Value) -> usize {
            match value {
                Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
                Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
                _ => 1,
            }
        }
        let names: Vec<String> = (0..20).map(|at| format!("m{at}")).collect();
        let wide: Map<String, Value> = names
            .iter()
            .map(|name| (name.clone(), json!({"$ref": "#"})))
            .collect();
        let found = fields(&json!({"type": "object", "required": names, "properties": wide}));
        let templates = found.iter().filter_map(|field| field.template.as_ref());
        assert!(templates.map(count).sum::<usize>() <= VALUES * 20);
        assert_eq!(found.len(), 20);
        let endless = fields(&json!({"properties": {"x": {"$ref": "#/properties/x"}}}));
        assert_eq!(endless[0].template, None);
    }
}
