//! Moves damaged session files aside under a name of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    domain::Wall,
    store::{
        Paths, StoreResult,
        atomic::sync_directory,
        paths::{companion, set_aside},
    },
};

/// Renames the file and its companions and returns the new name.
pub(super) fn quarantine(paths: &Paths, now: Wall) -> StoreResult<PathBuf> {
    let (db, place) = (paths.db(), free_place(paths, now));
    // The file first: if the process dies in between, the next start finds and quarantines the log.
    for suffix in ["", "-wal", "-shm"] {
        set_aside(&companion(&db, suffix), &companion(&place, suffix))?;
    }
    sync_directory(&paths.sessions_dir());
    Ok(place)
}

/// A free name for a quarantined file.
pub(super) fn free_place(paths: &Paths, now: Wall) -> PathBuf {
    let mut stamp = now.rfc3339();
    stamp.retain(|letter| letter.is_ascii_alphanumeric());
    let tails = (1_u32..).map(|number| format!("-{number}"));
    let places = std::iter::once(String::new()).chain(tails).map(|tail| {
        // No session can have this name: session names have no upper-case letters.
        let name = format!("{}.damaged-{stamp}{tail}.db", &paths.session);
        paths.sessions_dir().join(name)
    });
    let is_free = |place: &PathBuf| {
        let mut files = ["", "-wal", "-shm"].iter();
        files.all(|suffix| fs::symlink_metadata(companion(place, suffix)).is_err())
    };
    places.into_iter().find(is_free).unwrap_or_default()
}

/// The notice on a quarantined file. The most important part comes first: a narrow screen cuts the rest.
pub(super) fn set_aside_as(db: &Path, place: &Path, words: &str) -> String {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    format!(
        "{} was damaged and has been moved to {}: {words}; both files are in {}",
        name(db),
        name(place),
        place.parent().unwrap_or(place).display()
    )
}
