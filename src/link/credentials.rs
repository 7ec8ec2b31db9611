//! The user's credentials, and the text of a refusal.

use crate::{
    domain::{ServerName, text},
    protocol::HttpError,
};

/// The user's headers for a server, for messages about a refusal; without their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Their names.
    pub names: Vec<String>,
    /// The environment variables that the configuration puts into them.
    pub variables: Vec<String>,
}

impl Sent {
    /// What was sent: `the header Authorization from $LAB_TOKEN`.
    pub(crate) fn message(&self) -> String {
        let header = match self.names.as_slice() {
            [_] => "header",
            _ => "headers",
        };
        let from = match self.variables.as_slice() {
            [] => String::new(),
            variables => format!(" from ${}", variables.join(", $")),
        };
        format!("the {header} {}{from}", self.names.join(", "))
    }

    /// What to do once that was refused.
    pub(crate) fn next(&self) -> String {
        match self.variables.as_slice() {
            [] => "pass other credentials with -H or --bearer-env".to_owned(),
            variables => format!(
                "correct ${} in the shell from which you run longhaul, or pass other credentials with -H or --bearer-env",
                variables.join(", $")
            ),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// Whether the credentials come from a sign-in, not from the user's own headers.
    pub(super) from_sign_in: bool,
    /// The names of the user's own headers.
    pub(super) headers: Sent,
    /// Whether the configuration allows to start the server's program (stdio).
    pub(super) is_program_approved: bool,
}

/// Why a server requires other credentials.
pub(super) struct AuthRefusal {
    /// What happened: `lab requires sign-in (HTTP 401)`.
    pub(super) reason: String,
    /// The same with what to do about it.
    pub(super) advice: String,
}

impl Credentials {
    /// Describes a 401 or 403.
    pub(super) fn refused(&self, name: &ServerName, refusal: &HttpError) -> AuthRefusal {
        let withheld = refusal.withheld.clone();
        let reason = withheld.unwrap_or_else(|| self.reason(name, refusal));
        let advice = if self.from_sign_in {
            format!(
                "{reason}; sign in with `longhaul login {}`, or pass credentials with -H or --bearer-env",
                text::shell_word(name.as_str())
            )
        } else if refusal.withheld.is_none() && !self.headers.names.is_empty() {
            format!("{reason}; {}", self.headers.next())
        } else {
            reason.clone()
        };
        AuthRefusal { reason, advice }
    }

    fn reason(&self, name: &ServerName, refusal: &HttpError) -> String {
        let said = refusal.server_text.as_deref();
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        match refusal.status {
            401 if self.from_sign_in => format!("{name} requires sign-in (HTTP 401{said})"),
            403 if self.from_sign_in => format!("{name} denied access (HTTP 403{said})"),
            status if !self.headers.names.is_empty() => format!(
                "{name} rejected {} (HTTP {status}{said})",
                self.headers.message()
            ),
            status => format!("{name} requires credentials (HTTP {status}{said})"),
        }
    }
}
