//! Why a new configuration of a server can't be applied now.

use serde::{Deserialize, Serialize};

use crate::domain::{ProtocolVersion, ServerName};

/// Why a new configuration has to wait: unsettled work would be lost with the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ConfigureError {
    /// The work depends on the revision that is in use.
    #[error(
        "{name} has unfinished calls in MCP {} that a change to {} would lose; wait for them, or use another --session",
        used.label(),
        wanted.map_or("auto", ProtocolVersion::label)
    )]
    VersionInUse {
        /// The server.
        name: ServerName,
        /// The revision in use.
        used: ProtocolVersion,
        /// The revision to change to; `None` for the automatic choice.
        wanted: Option<ProtocolVersion>,
    },
    /// The work depends on the URL that is in use.
    #[error(
        "{name} still uses {used}, because calls there are unfinished; {wanted} from the configuration applies once they have ended"
    )]
    UrlInUse {
        /// The server.
        name: ServerName,
        /// The URL in use, without secrets.
        used: String,
        /// The configured URL, without secrets.
        wanted: String,
    },
    /// The program of a stdio server still runs with its old command.
    #[error(
        "{0} still runs with its old command, because calls there are unfinished; the new one applies once they have ended"
    )]
    ProgramInUse(ServerName),
}
