//! What was replaced in a host's file, kept beside it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::entry::WrapError;
use crate::store::write_atomically;

/// A server's entry that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// The server's name in the file.
    pub(crate) server: String,
    /// The directory of its project, if the file has servers of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    pub(crate) original: String,
    pub(crate) wrapped: String,
}

/// The backup of a host's file. It may hold secrets of that file, so it lies beside it and only its owner can read it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Backup {
    pub(crate) replaced: Vec<Replaced>,
}

impl Backup {
    /// Where the backup of a file is.
    pub(crate) fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".longhaul-backup");
        PathBuf::from(name)
    }

    /// Reads the backup of a file; empty if there is none.
    pub(crate) fn of(file: &Path) -> Result<Self, WrapError> {
        let path = Self::path(file);
        let damaged = |why: String| WrapError::Backup {
            path: path.display().to_string(),
            why,
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| damaged(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    /// Writes the backup, or removes it once nothing is wrapped.
    pub(crate) fn save(&self, file: &Path) -> Result<(), WrapError> {
        let path = Self::path(file);
        if self.replaced.is_empty() {
            // There may be none.
            let _ = std::fs::remove_file(path);
            return Ok(());
        }
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        Ok(write_atomically(&path, text.as_bytes())?)
    }
}
