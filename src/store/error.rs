//! Errors of the session's files, grouped by what the caller can do.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::ErrorCode;

use super::schema;
use crate::domain::text;

/// What working with the session's files returns.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why the session's files could not be used; each message follows "could not".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The session name is invalid.
    #[error(
        "use {0:?} as a session name; use up to 64 lowercase letters, digits, `.`, `_` and `-`, and don't begin with a dot"
    )]
    BadName(String),
    /// The system has no directory for state.
    #[error(
        "find a directory for the session: this user has no home directory; choose one with --state-dir"
    )]
    NoHome,
    /// The path is not a regular file or directory of this user; a person has to check.
    #[error("use {}: {why}; move it away or choose another directory with --state-dir", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// What is there.
        why: String,
    },
    /// The path cannot be opened or created.
    #[error("open {}: {why}; {advice}choose another directory with --state-dir", path.display())]
    CannotOpen {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
        /// What else can be done about it.
        advice: &'static str,
    },
    /// Nothing was written; the same save can be tried again.
    #[error("write {}: {why}", path.display())]
    CannotWrite {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// The file exists but cannot be read.
    #[error("read {}: {why}; {advice}", path.display())]
    CannotRead {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
        /// What can be done about it.
        advice: &'static str,
    },
    /// One record cannot be parsed: it is corrupt, or another version of longhaul wrote it.
    #[error(
        "parse a record in {}: {why}; it is left untouched; everything else can still be used",
        path.display()
    )]
    NotUnderstood {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// The file is damaged; the next driver of the session quarantines it.
    #[error(
        "read {}: the file is damaged ({why}); the next longhaul process that runs this session moves the damaged file aside",
        path.display()
    )]
    Damaged {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
    },
    /// A newer longhaul wrote it; it can still be read.
    #[error(
        "write {}: a newer longhaul wrote it (format {found}, this one writes {known}); it can still be read; update longhaul to continue the session",
        path.display()
    )]
    Newer {
        /// Where.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this program writes.
        known: u32,
    },
    /// Something else failed after a damaged file was quarantined, which has to be reported as well.
    #[error("{error}; before that, {notice}")]
    AfterSettingAside {
        /// What to report.
        notice: String,
        /// What failed.
        error: Box<StoreError>,
    },
    /// The file system cannot hold a session.
    #[error(
        "keep a session at {}: this file system can't share memory, as SQLite's write-ahead log requires ({why}); \
         network file systems usually can't; choose a local one with --state-dir",
        path.display()
    )]
    NoWal {
        /// Where.
        path: PathBuf,
        /// In words.
        why: String,
    },
}

/// What a person can do if a file cannot be opened, besides choosing another place.
const FREE: &str = "free some space or ";
pub(super) const PERMIT: &str = "check its permissions or ";

/// What a person can do if a file that is theirs cannot be read.
pub(super) const CHECK_PERMISSIONS: &str = "check its permissions and those of its directory";

impl StoreError {
    pub(super) fn refused(path: &Path, why: impl Into<String>) -> Self {
        Self::Refused {
            path: path.to_owned(),
            why: why.into(),
        }
    }

    pub(super) fn cannot_open(path: &Path, why: impl Into<String>, advice: &'static str) -> Self {
        Self::CannotOpen {
            path: path.to_owned(),
            why: why.into(),
            advice,
        }
    }

    /// A newer longhaul wrote the file in this format.
    pub(super) fn newer(path: &Path, found: u32) -> Self {
        Self::Newer {
            path: path.to_owned(),
            found,
            known: schema::VERSION,
        }
    }

    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            why: why.into(),
        }
    }

    pub(super) fn open_io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| match error.kind() {
            _ if is_full(&error) => Self::cannot_open(path, "the disk is full", FREE),
            io::ErrorKind::PermissionDenied => {
                Self::cannot_open(path, text::os_error(&error), PERMIT)
            }
            _ => Self::cannot_open(path, text::os_error(&error), ""),
        }
    }

    pub(super) fn cannot_set_aside(path: &Path, error: &io::Error) -> Self {
        let why = format!(
            "it is damaged and can't be moved aside: {}",
            text::os_error(error)
        );
        Self::cannot_open(path, why, if is_full(error) { FREE } else { PERMIT })
    }

    /// The error of a statement on a file that is being opened.
    pub(super) fn opening(path: &Path, error: &rusqlite::Error) -> Self {
        let advice = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => FREE,
            _ if has_no_room_for_shared_memory(error) => FREE,
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                PERMIT
            }
            _ => "",
        };
        Self::cannot_open(path, message(error), advice)
    }

    pub(super) fn write_io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::CannotWrite {
            path: path.to_owned(),
            why: text::os_error(&error),
        }
    }

    /// The error of a statement on an open file that is being read.
    pub(super) fn reading(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, why) = (path.to_owned(), message(error));
        if is_damage(error) {
            return Self::Damaged { path, why };
        }
        let advice = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "free some space and try again",
            _ if has_no_room_for_shared_memory(error) => "free some space and try again",
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                CHECK_PERMISSIONS
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "try again in a moment",
            _ => {
                "if this persists, copy the state directory to another disk and pass the copy with --state-dir"
            }
        };
        Self::CannotRead { path, why, advice }
    }

    /// The error of a statement that writes.
    pub(super) fn writing(path: &Path, error: &rusqlite::Error) -> Self {
        match Self::reading(path, error) {
            Self::CannotRead { path, why, .. } => Self::CannotWrite { path, why },
            damaged => damaged,
        }
    }
}

/// Whether SQLite reports that the file is not a database, or a corrupt one.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    ) || is_end_missing(error)
}

/// Whether SQLite read beyond the end of the file.
fn is_end_missing(error: &rusqlite::Error) -> bool {
    let short = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == short)
}

/// Whether SQLite failed over the shared memory of its write-ahead log.
pub(super) fn is_without_shared_memory(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi;
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if matches!(
        failure.extended_code,
        ffi::SQLITE_IOERR_SHMOPEN
            | ffi::SQLITE_IOERR_SHMSIZE
            | ffi::SQLITE_IOERR_SHMLOCK
            | ffi::SQLITE_IOERR_SHMMAP
    ) || failure.code == ErrorCode::FileLockingProtocolFailed)
}

/// Whether the shared memory could not be extended; SQLite does not say why.
pub(super) fn has_no_room_for_shared_memory(error: &rusqlite::Error) -> bool {
    let size = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == size)
}

/// The notice on records that were skipped.
pub(super) fn passed_over(count: u64, path: &Path) -> String {
    format!(
        "{} in {} could not be read and was left untouched",
        text::plural(count, "record"),
        path.display()
    )
}

/// SQLite's errors in plain words.
pub(super) fn message(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        _ if has_no_room_for_shared_memory(error) => "the disk is full or failing".to_owned(),
        _ if is_end_missing(error) => "its end is missing".to_owned(),
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the file or its disk is read-only".to_owned(),
        Some(ErrorCode::SystemIoFailure) if has_met_file_size_limit() => {
            "files may not grow any larger here (ulimit -f)".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => "the disk reports an error".to_owned(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process keeps it locked".to_owned()
        }
        // SQLite's own words contain the URI that it was given.
        Some(ErrorCode::CannotOpen) => "the file can't be opened".to_owned(),
        Some(ErrorCode::NotADatabase) => "it is not a session file".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => "its contents are inconsistent".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether a write hit the limit on the size of a file (`ulimit -f`, `LimitFSIZE`) since the last call. The system enforces
/// it with a signal that kills.
static IS_MET: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes a write beyond the limit fail as on a full disk. Child processes are not affected.
///
/// # Errors
/// If the system does not allow a signal handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    let is_met = IS_MET.get_or_init(Arc::default);
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::clone(is_met)).map(drop)
}

/// Whether a write hit the limit since the last call.
fn has_met_file_size_limit() -> bool {
    IS_MET
        .get()
        .is_some_and(|is_met| is_met.swap(false, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_cause() {
        for (kind, message) in [
            (
                io::ErrorKind::StorageFull,
                "open /s: the disk is full; free some space or choose another directory with --state-dir",
            ),
            (
                io::ErrorKind::PermissionDenied,
                "open /s: permission denied; check its permissions or choose another directory with --state-dir",
            ),
            (
                io::ErrorKind::NotADirectory,
                "open /s: not a directory; choose another directory with --state-dir",
            ),
        ] {
            let error = StoreError::open_io(Path::new("/s"))(kind.into());
            assert_eq!(error.to_string(), message);
        }
    }
}
