//! What a form asks for where an argument is more than one value: the members of an object, the items of a list, one of
//! several alternatives. What fits none of these is typed as JSON.

use serde_json::{Map, Value};

use super::{ArgumentKind, ArgumentSpec, Tool};

/// One thing that a form asks for; every text in it is the server's and not yet sanitised.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSpec {
    /// Its name, its words and, where it is a single value, its kind.
    pub spec: ArgumentSpec,
    /// What it is made of.
    pub contents: FieldContents,
}

/// What a thing in a form is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldContents {
    /// A single value.
    Nothing,
    /// An object with these members.
    Members(Vec<FieldSpec>),
    /// A list of such items; an item has no name.
    Items(Box<FieldSpec>),
    /// One of these, by what they are called.
    Variants(Vec<(String, FieldSpec)>),
}

/// Deeper than this is typed as JSON.
const DEPTH: usize = 5;
/// Fields of one form at most; what is more is typed as JSON. A schema that refers to itself ends here too.
const FIELDS: usize = 200;
/// Alternatives that one can choose between.
const VARIANTS: usize = 12;
/// References that lead to references.
const HOPS: usize = 8;

impl Tool {
    /// What a form asks for, in the order of the schema.
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
                self.shape(name, property, required.contains(&name.as_str()), depth)
            })
            .collect()
    }

    fn shape(&mut self, name: &str, schema: &Value, is_required: bool, depth: usize) -> FieldSpec {
        // Following references costs as much as what they lead to.
        let schema = if self.left > 0 {
            self.plain(schema)
        } else {
            schema.clone()
        };
        let spec = ArgumentSpec::from_property(name, &schema, is_required);
        self.left = self.left.saturating_sub(1);
        let within = if spec.kind == ArgumentKind::Json && depth > 0 && self.left > 0 {
            self.within(&spec, &schema, depth - 1)
        } else {
            FieldContents::Nothing
        };
        FieldSpec { spec, within }
    }

    fn within(&mut self, spec: &ArgumentSpec, schema: &Value, depth: usize) -> FieldContents {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let variants = list("oneOf").or_else(|| list("anyOf"));
        let properties = schema.get("properties").and_then(Value::as_object);
        match (variants, properties, schema.get("items")) {
            (Some(variants), None, None) if (2..=VARIANTS).contains(&variants.len()) => {
                let shapes = variants.iter().enumerate().map(|(place, variant)| {
                    let title = self.plain(variant);
                    let title = title.get("title").and_then(Value::as_str);
                    let number = || format!("{} of {}", place + 1, variants.len());
                    let label = title.map_or_else(number, str::to_owned);
                    (label, self.shape(&spec.name, variant, true, depth))
                });
                FieldContents::Variants(shapes.collect())
            }
            (None, Some(properties), None)
                if !properties.is_empty() && properties.len() <= self.left =>
            {
                FieldContents::Members(self.members(schema, depth))
            }
            (None, None, Some(items @ Value::Object(_))) => {
                FieldContents::Items(Box::new(self.shape("", items, true, depth)))
            }
            _ => FieldContents::Nothing,
        }
    }

    /// The schema that a reference, or the only alternative beside null, stands for, with what is said beside it.
    fn plain(&self, schema: &Value) -> Value {
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
            let beside = members.iter().filter(|(name, _)| *name != key);
            merged.extend(beside.map(|(name, value)| (name.clone(), value.clone())));
            schema = Value::Object(merged);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shapes(schema: &Value) -> Vec<FieldSpec> {
        let tool = Tool::taking(schema);
        tool.form_fields()
    }

    #[test]
    fn objects_lists_and_alternatives_are_found_behind_references_too() {
        let shapes = shapes(&json!({
        "$defs": {"Mode": {"enum": ["a", "b"]}, "To": {"type": "object", "properties": {"street": {"type": "string"}}}},
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "default": "b"},
            "to": {"anyOf": [{"$ref": "#/$defs/To"}, {"type": "null"}], "default": null},
            "tags": {"type": "array", "items": {"type": "string"}},
            "either": {"anyOf": [{"type": "string", "title": "By name"}, {"type": "integer"}]},
            "free": {"type": "object"},
        }}));
        assert_eq!(
            shapes[0].spec.kind,
            ArgumentKind::Choice(vec![json!("a"), json!("b")])
        );
        assert_eq!(shapes[0].spec.default, Some(json!("b")));
        let FieldContents::Members(members) = &shapes[1].within else {
            panic!("{shapes:?}");
        };
        assert_eq!(members[0].spec.name, "street");
        assert!(
            matches!(&shapes[2].within, FieldContents::Items(each) if each.spec.kind == ArgumentKind::Text)
        );
        let FieldContents::Variants(variants) = &shapes[3].within else {
            panic!("{shapes:?}");
        };
        let titles: Vec<&str> = variants.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(titles, ["By name", "2 of 2"]);
        assert_eq!(shapes[4].within, FieldContents::Nothing);
    }

    #[test]
    fn a_schema_that_refers_to_itself_makes_no_endless_form() {
        fn count(shapes: &[FieldSpec]) -> usize {
            let within = |shape: &FieldSpec| match &shape.within {
                FieldContents::Nothing => 0,
                FieldContents::Members(all) => count(all),
                FieldContents::Variants(all) => all
                    .iter()
                    .map(|it| count(std::slice::from_ref(&it.1)))
                    .sum(),
                FieldContents::Items(each) => count(std::slice::from_ref(each)),
            };
            shapes.iter().map(|shape| 1 + within(shape)).sum()
        }
        let mut wide: Map<String, Value> = Map::new();
        for at in 0..20 {
            wide.insert(format!("m{at}"), json!({"$ref": "#"}));
        }
        let found = shapes(&json!({"properties": wide}));
        assert!(
            (20..=FIELDS + 400).contains(&count(&found)),
            "{}",
            count(&found)
        );
        assert_eq!(
            count(&shapes(
                &json!({"properties": {"x": {"$ref": "#/properties/x"}}})
            )),
            1
        );
    }
}
