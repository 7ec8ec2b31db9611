//! The tool definitions that clients see: names, descriptions, schemas and task support.

use rmcp::{
    model::{Tool, object},
    schemars::{generate::SchemaSettings, transform::RestrictFormats},
};
use serde_json::Value;

use super::tools::{PROCESSING, ToolInvocation};

/// Whether a tool can run as a server task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolTaskSupport {
    #[serde(rename = "forbidden")]
    Never,
    Optional,
    Required,
}

/// A tool's task support; `Never` for an unknown tool.
pub(super) fn task_support(name: &str) -> ToolTaskSupport {
    catalog()
        .into_iter()
        .find(|(tool, _)| tool.name == name)
        .map_or(ToolTaskSupport::Never, |(_, support)| support)
}

/// The tool definitions with their task support, in the order of `tools/list`.
pub(super) fn catalog() -> Vec<(Tool, ToolTaskSupport)> {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RestrictFormats::default());
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<ToolInvocation>();
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants
        .into_iter()
        .flatten()
        .filter_map(definition)
        .collect()
}

/// The definition of a tool from the schema of its [`ToolInvocation`].
fn definition(invocation: &mut Value) -> Option<(Tool, ToolTaskSupport)> {
    let name = invocation
        .pointer("/properties/tool/const")?
        .as_str()?
        .to_owned();
    let description = invocation.get("description")?.as_str()?.to_owned();
    let arguments = invocation.pointer_mut("/properties/arguments")?.take();
    let support = match name.as_str() {
        PROCESSING | "crunch" | "deploy" => ToolTaskSupport::Optional,
        "render_movie" => ToolTaskSupport::Required,
        _ => ToolTaskSupport::Never,
    };
    Some((Tool::new(name, description, object(arguments)), support))
}
