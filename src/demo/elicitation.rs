//! Questions to the client: the forms, what a client supports, and how its replies are parsed. `ToolContext` sends
//! them.

use rmcp::ErrorData;
use serde_json::{Value, json};

use super::context::ToolContext;

/// A client's reply to a question.
pub(super) enum ElicitationReply {
    /// With the form's content.
    Accepted(Value),
    Declined,
    Cancelled,
    /// The client did not declare support for this mode.
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
    if !context.elicitation_support().form {
        return Ok(ElicitationReply::Unsupported);
    }
    Ok(ElicitationReply::parse(&context.ask(key, params).await?))
}

/// Asks the user to open a page. The reply says whether the user agreed, not whether the page was opened.
pub(super) async fn ask_page(
    context: &ToolContext,
    key: &str,
    message: &str,
    token: &str,
) -> Result<ElicitationReply, ErrorData> {
    if !context.elicitation_support().url {
        return Ok(ElicitationReply::Unsupported);
    }
    let params = json!({
        "mode": "url",
        "message": message,
        "url": context.shared.tokens.page_url(token),
        "elicitationId": token,
    });
    Ok(ElicitationReply::parse(&context.ask(key, params).await?))
}

/// The form of `book_room`.
pub(super) fn guest_form(city: &str) -> Value {
    json!({
        "mode": "form",
        "message": format!("Who is staying in {city}?"),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "minLength": 1},
                "nights": {"type": "integer", "title": "Nights", "minimum": 1, "maximum": 30, "default": 2},
            },
            "required": ["name"],
        },
    })
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
