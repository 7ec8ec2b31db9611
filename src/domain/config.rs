//! What the user's file of configuration says, as data; `assets/config.toml` documents the file.

use serde::{Deserialize, Serialize};

use super::{ProtocolChoice, ServerName};

/// What the configuration says of one server. It wins over what the session remembers, and is never saved there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The user's name for it.
    pub name: ServerName,
    /// Its endpoint, without credentials; absent where only the session knows it.
    pub url: Option<String>,
    /// The revision to speak; what was chosen before holds when absent.
    pub protocol: Option<ProtocolChoice>,
    /// Whether a percentage may be read out of its words, where it gives no numbers.
    pub progress_from_text: bool,
}

impl ServerConfig {
    /// A server of which nothing is said.
    pub fn new(name: ServerName) -> Self {
        Self {
            name,
            url: None,
            protocol: None,
            progress_from_text: false,
        }
    }
}
