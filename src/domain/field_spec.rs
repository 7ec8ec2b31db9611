//! Form fields for nested arguments: members of an object, items of a list, or alternatives. Anything else is typed as
//! JSON.

use serde_json::{Map, Value};

use super::{ArgumentKind, ArgumentSpec, Tool};

/// One field of a form, possibly with nested fields; no text is sanitized.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSpec {
    /// Its name, labels and type.
    pub spec: ArgumentSpec,
    /// Its nested fields, if any.
    pub contents: FieldContents,
}

/// The nested fields of a [`FieldSpec`].
#[derive(Clone, Debug, PartialEq)]
pub enum FieldContents {
    /// None: a single value.
    Single,
    /// An object with these members.
    Members(Vec<FieldSpec>),
    /// A list; each item is such a field, without a name.
    Items(Box<FieldSpec>),
    /// One of these alternatives, with their labels.
    Variants(Vec<(String, FieldSpec)>),
}

/// Fields nested deeper than this are typed as JSON.
const DEPTH: usize = 5;
/// Maximum fields of one form; the rest is typed as JSON. Also ends a schema that refers to itself.
const FIELDS: usize = 200;
/// Maximum number of alternatives to choose from.
const VARIANTS: usize = 12;
/// Maximum length of a chain of references.
const HOPS: usize = 8;

impl Tool {
    /// The fields of a call form, in the order of the schema.
    pub fn form_fields(&self) -> Vec<FieldSpec> {
        let root: Value = serde_json::from_str(&self.input_schema).unwrap_or_default();
        let mut reader = Reader {
            root: &root,
            left: FIELDS,
        };
        reader.members(&root, DEPTH)
    }
}

struct Reader<'s> {
    root: &'s Value,
    left: usize,
}

impl Reader<'_> {
    fn members(&mut self, schema: &Value, depth: usize) -> Vec<FieldSpec> {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let required: Vec<&str> = list("required")
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                self.field(name, property, required.contains(&name.as_str()), depth)
            })
            .collect()
    }

    fn field(&mut self, name: &str, schema: &Value, is_required: bool, depth: usize) -> FieldSpec {
        // Resolving a reference clones its target, so this stops with the budget.
        let schema = if self.left > 0 {
            self.resolve(schema)
        } else {
            schema.clone()
        };
        let spec = ArgumentSpec::from_property(name, &schema, is_required);
        self.left = self.left.saturating_sub(1);
        let contents = if spec.kind == ArgumentKind::Json && depth > 0 && self.left > 0 {
            self.contents(&spec, &schema, depth - 1)
        } else {
            FieldContents::Single
        };
        FieldSpec { spec, contents }
    }

    fn contents(&mut self, spec: &ArgumentSpec, schema: &Value, depth: usize) -> FieldContents {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let variants = list("oneOf").or_else(|| list("anyOf"));
        let properties = schema.get("properties").and_then(Value::as_object);
        match (variants, properties, schema.get("items")) {
            (Some(variants), None, None) if (2..=VARIANTS).contains(&variants.len()) => {
                let fields = variants.iter().enumerate().map(|(index, variant)| {
                    let title = self.resolve(variant);
                    let title = title.get("title").and_then(Value::as_str);
                    let number = || format!("{} of {}", index + 1, variants.len());
                    let label = title.map_or_else(number, str::to_owned);
                    (label, self.field(&spec.name, variant, true, depth))
                });
                FieldContents::Variants(fields.collect())
            }
            (None, Some(properties), None)
                if !properties.is_empty() && properties.len() <= self.left =>
            {
                FieldContents::Members(self.members(schema, depth))
            }
            (None, None, Some(items @ Value::Object(_))) => {
                FieldContents::Items(Box::new(self.field("", items, true, depth)))
            }
            _ => FieldContents::Single,
        }
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
    fn finds_nested_fields_behind_references() {
        let fields = fields(&json!({
        "$defs": {"Mode": {"enum": ["a", "b"]}, "To": {"type": "object", "properties": {"street": {"type": "string"}}}},
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "default": "b"},
            "to": {"anyOf": [{"$ref": "#/$defs/To"}, {"type": "null"}], "default": null},
            "tags": {"type": "array", "items": {"type": "string"}},
            "either": {"anyOf": [{"type": "string", "title": "By name"}, {"type": "integer"}]},
            "free": {"type": "object"},
        }}));
        assert_eq!(
            fields[0].spec.kind,
            ArgumentKind::Choice(vec![json!("a"), json!("b")])
        );
        assert_eq!(fields[0].spec.default, Some(json!("b")));
        let FieldContents::Members(members) = &fields[1].contents else {
            panic!("{fields:?}");
        };
        assert_eq!(members[0].spec.name, "street");
        assert!(
            matches!(&fields[2].contents, FieldContents::Items(each) if each.spec.kind == ArgumentKind::Text)
        );
        let FieldContents::Variants(variants) = &fields[3].contents else {
            panic!("{fields:?}");
        };
        let titles: Vec<&str> = variants.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(titles, ["By name", "2 of 2"]);
        assert_eq!(fields[4].contents, FieldContents::Single);
    }

    #[test]
    fn recursive_schemas_make_finite_forms() {
        fn count(fields: &[FieldSpec]) -> usize {
            let nested = |field: &FieldSpec| match &field.contents {
                FieldContents::Single => 0,
                FieldContents::Members(all) => count(all),
                FieldContents::Variants(all) => all
                    .iter()
                    .map(|it| count(std::slice::from_ref(&it.1)))
                    .sum(),
                FieldContents::Items(each) => count(std::slice::from_ref(each)),
            };
            fields.iter().map(|field| 1 + nested(field)).sum()
        }
        let mut wide: Map<String, Value> = Map::new();
        for at in 0..20 {
            wide.insert(format!("m{at}"), json!({"$ref": "#"}));
        }
        let found = fields(&json!({"properties": wide}));
        assert!(
            (20..=FIELDS + 400).contains(&count(&found)),
            "{}",
            count(&found)
        );
        assert_eq!(
            count(&fields(
                &json!({"properties": {"x": {"$ref": "#/properties/x"}}})
            )),
            1
        );
    }
}
