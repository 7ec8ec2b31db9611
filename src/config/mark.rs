//! Whether a file has changed.

use std::{os::unix::fs::MetadataExt as _, path::Path, time::SystemTime};

/// What tells a file from an earlier version of it, without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMark {
    modified: Option<SystemTime>,
    bytes: u64,
    /// An editor may replace the file by another one.
    inode: u64,
}

impl FileMark {
    /// The mark of the file as it is now.
    pub(crate) fn of(path: &Path) -> Self {
        let Ok(found) = path.metadata() else {
            return Self::default();
        };
        Self {
            modified: found.modified().ok(),
            bytes: found.len(),
            inode: found.ino(),
        }
    }
}
