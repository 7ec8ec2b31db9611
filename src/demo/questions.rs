//! Questions to a client: what is asked, what may be asked, and how a reply is understood.
//!
//! Must not know by which way a question travels: `Call` does.

use rmcp::{ErrorData, model::ClientCapabilities};
use serde_json::{Value, json};

use super::call::Call;

/// The method of every question.
pub(super) const METHOD: &str = "elicitation/create";

/// What a client can be asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) form: bool,
    pub(super) url: bool,
}

impl Asking {
    pub(super) const ANYTHING: Self = Self {
        form: true,
        url: true,
    };

    /// Reads it from what the client declared; nothing inside `elicitation` means forms.
    pub(super) fn of(capabilities: Option<&ClientCapabilities>) -> Self {
        let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
        let url = elicitation.is_some_and(|elicitation| elicitation.url.is_some());
        let form = elicitation.is_some_and(|elicitation| elicitation.form.is_some() || !url);
        Self { form, url }
    }
}

/// A reply to a question.
pub(super) enum Reply {
    /// With the content of the form.
    Accepted(Value),
    Declined,
    Cancelled,
    /// The client has not declared that it can be asked this.
    CannotBeAsked,
}

impl Reply {
    /// Understands the result of a question.
    pub(super) fn of(result: &Value) -> Self {
        match result.get("action").and_then(Value::as_str) {
            Some("accept") => Self::Accepted(result.get("content").cloned().unwrap_or(json!({}))),
            Some("decline") => Self::Declined,
            _ => Self::Cancelled,
        }
    }
}

/// Asks with a form and waits for the reply.
pub(super) async fn ask(call: &Call, key: &str, params: Value) -> Result<Reply, ErrorData> {
    if !call.asking().form {
        return Ok(Reply::CannotBeAsked);
    }
    Ok(Reply::of(&call.ask(key, params).await?))
}

/// Asks to open a page and waits for the reply: whether the person agreed, not whether the page was opened.
pub(super) async fn ask_page(
    call: &Call,
    key: &str,
    message: &str,
    ticket: &str,
) -> Result<Reply, ErrorData> {
    if !call.asking().url {
        return Ok(Reply::CannotBeAsked);
    }
    let params = json!({
        "mode": "url",
        "message": message,
        "url": call.shared.tickets.page(ticket),
        "elicitationId": ticket,
    });
    Ok(Reply::of(&call.ask(key, params).await?))
}

/// The form of a booking.
pub(super) fn guest(city: &str) -> Value {
    json!({
        "mode": "form",
        "message": format!("Who stays in {city}?"),
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

/// The form of a deployment: one field of each kind.
pub(super) fn release(env: &str) -> Value {
    json!({
        "mode": "form",
        "message": format!("What shall be deployed to {env}?"),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "version": {"type": "string", "title": "Version", "minLength": 3,
                    "description": "as it is tagged"},
                "replicas": {"type": "integer", "title": "Replicas", "minimum": 1, "maximum": 9, "default": 3},
                "notify": {"type": "boolean", "title": "Tell the team", "default": true},
                "strategy": {"type": "string", "title": "Strategy", "default": "rolling", "oneOf": [
                    {"const": "rolling", "title": "One machine after the other"},
                    {"const": "blue_green", "title": "All at once, beside the old ones"}]},
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
