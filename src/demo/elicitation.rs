//! Questions to the client: the form, and how its replies are parsed. `ToolContext` sends them.

use rmcp::ErrorData;
use serde_json::{Value, json};

use super::context::ToolContext;

/// A client's reply to a question.
pub(super) enum ElicitationReply {
    /// With the form's content.
    Accepted(Value),
    Declined,
    Cancelled,
    /// The client did not declare support for forms.
    Unsupported,
}

impl ElicitationReply {
    /// Parses the result of an elicitation.
    pub(super) fn parse(result: &Value) -> Self {
        match result.get("action").and_then(Value::as_str) {
            Some("accept") => Self::Accepted(result.get("content").cloned().unwrap_or(json!({}))),
            Some("decline") => Self::Declined,
            _ => Self::Cancelled,
        }
    }
}

/// Asks a form question and waits for the reply.
pub(super) async fn ask_form(
    context: &ToolContext,
    key: &str,
    params: Value,
) -> Result<ElicitationReply, ErrorData> {
    if !context.supports_forms() {
        return Ok(ElicitationReply::Unsupported);
    }
    Ok(ElicitationReply::parse(&context.ask(key, params).await?))
}

/// The form of `deploy`, with one field of each kind.
pub(super) fn release_form(env: &str) -> Value {
    json!({
        "mode": "form",
        "message": format!("What should be deployed to {env}?"),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "version": {"type": "string", "title": "Version", "minLength": 3,
                    "description": "the tag to deploy"},
                "replicas": {"type": "integer", "title": "Replicas", "minimum": 1, "maximum": 9, "default": 3},
                "notify": {"type": "boolean", "title": "Notify the team", "default": true},
                "strategy": {"type": "string", "title": "Strategy", "default": "rolling", "oneOf": [
                    {"const": "rolling", "title": "One machine at a time"},
                    {"const": "blue_green", "title": "All at once (blue-green)"}]},
                "regions": {"type": "array", "title": "Regions", "minItems": 1, "default": ["eu"],
                    "items": {"anyOf": [
                        {"const": "eu", "title": "Europe"},
                        {"const": "us", "title": "America"},
                        {"const": "ap", "title": "Asia"}]}},
            },
            "required": ["version", "strategy"],
        },
    })
}
