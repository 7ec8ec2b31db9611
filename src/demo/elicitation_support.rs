//! Which kinds of questions a client can show.

use rmcp::model::ClientCapabilities;

/// The JSON-RPC method of an elicitation.
pub(super) const METHOD: &str = "elicitation/create";

/// The elicitation modes that a client supports.
#[derive(Debug, Clone, Copy)]
pub(super) struct ElicitationSupport {
    pub(super) form: bool,
    pub(super) url: bool,
}

impl ElicitationSupport {
    pub(super) const ALL: Self = Self {
        form: true,
        url: true,
    };

    /// Reads the declared capabilities; an empty `elicitation` object means forms.
    pub(super) fn of(capabilities: Option<&ClientCapabilities>) -> Self {
        let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
        let url = elicitation.is_some_and(|elicitation| elicitation.url.is_some());
        let form = elicitation.is_some_and(|elicitation| elicitation.form.is_some() || !url);
        Self { form, url }
    }
}
