//! What an entry of another program's file is to longhaul.
//!
//! Invariant: a literal secret is in no endpoint; a variable stands for it.

use super::reason::SkipReason;
use crate::{
    config::{Endpoint, approval::variable_for},
    domain::Template,
};

/// A server entry of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImportEntry {
    /// As in the file, not sanitized.
    pub(crate) name: String,
    /// `Err` is the reason why the entry is skipped; it can contain text from the file.
    pub(crate) outcome: Result<ImportableServer, SkipReason>,
}

/// A server that can be imported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImportableServer {
    pub(crate) endpoint: Endpoint,
    /// What the user should know about it.
    pub(crate) notes: Vec<String>,
    pub(crate) unset: Vec<UnsetVariable>,
}

/// A variable that stands for what only the file has: a secret, or an input of the editor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnsetVariable {
    pub(crate) name: String,
    /// What the file has in its place. May be a secret.
    pub(crate) written: String,
    /// How the user can set it.
    pub(crate) note: String,
}

/// Names of variables, with the values that a host's file has for them. May be secrets.
pub(crate) type PassedVariables = Vec<(String, String)>;

impl ImportableServer {
    /// The endpoint with what only the file has in variables of this server's own, and these variables.
    pub(super) fn with_own_variables(&self, own: &str) -> (Endpoint, PassedVariables) {
        let mut endpoint = self.endpoint.clone();
        let mut passed = Vec::new();
        for UnsetVariable { name, written, .. } in &self.unset {
            let holds_it = |(_, value): &&(String, Template)| value.variables().eq([name.as_str()]);
            let key = self.endpoint.values().iter().find(holds_it);
            let mut variable = variable_for(own, key.map_or(name, |(key, _)| key));
            while variable != *name && endpoint.variables().contains(&variable) {
                variable.push('_');
            }
            endpoint.rename_variable(name, &variable);
            passed.push((variable, written.clone()));
        }
        (endpoint, passed)
    }
}
