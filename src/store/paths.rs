//! Where a session's files are, and the refusal to use anything that does not belong to this user.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, ErrorKind},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use itertools::Itertools as _;

use super::{StoreError, StoreResult};
use crate::domain::{ServerName, Wall};

/// The number of the protocol on the socket. The socket's path carries it, so a client never talks to a keeper that it
/// doesn't understand, whatever their package versions are.
pub const CONTRACT: u32 = 6;

/// The oldest contract that this version still serves, beside its own: the one before it.
const OLDEST_SERVED: u32 = 5;

/// The contracts that a driver of another version may speak.
const CONTRACTS: std::ops::Range<u32> = 1..CONTRACT + 20;

/// The longest session name.
const NAME_LIMIT: usize = 64;
/// A Unix socket's path has to fit into 108 bytes on Linux and 104 on macOS.
const SOCKET_PATH_LIMIT: usize = 100;

/// The given directory, or the system's default.
fn wanted_dir(state_dir: Option<PathBuf>) -> StoreResult<PathBuf> {
    if let Some(dir) = state_dir {
        return Ok(dir);
    }
    let own = dirs::state_dir().or_else(dirs::data_local_dir);
    Ok(own.ok_or(StoreError::NoHome)?.join("longhaul"))
}

/// The files of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The state directory, without symlinks.
    pub dir: PathBuf,
    /// The name of the session.
    pub session: String,
    /// The sockets' path without the contract and the extension.
    socket_stem: PathBuf,
    /// The contract that this program speaks.
    pub contract: u32,
}

impl Paths {
    /// Finds the files of `session` and creates their directory (0700) if necessary.
    ///
    /// Without `state_dir` they are in the system's state directory. Fails with
    /// [`StoreError::BadName`], [`StoreError::NoHome`], [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn resolve(state_dir: Option<PathBuf>, session: &str) -> StoreResult<Self> {
        if !is_session_name(session) {
            return Err(StoreError::BadName(session.to_owned()));
        }
        let wanted = wanted_dir(state_dir)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&wanted)
            .map_err(StoreError::open_io(&wanted))?;
        // SQLite is told to follow no symlinks, so they are resolved here.
        let dir = fs::canonicalize(&wanted).map_err(StoreError::open_io(&wanted))?;
        let sessions = dir.join("sessions");
        own_directory(&sessions)?;
        let beside = sessions.join(session);
        let suffix = socket_at(Path::new(""), CONTRACTS.end - 1);
        let length = beside.as_os_str().len() + suffix.as_os_str().len();
        let socket_stem = if length <= SOCKET_PATH_LIMIT {
            beside
        } else {
            short_stem(&beside)?
        };
        Ok(Self::at(dir, session, socket_stem))
    }

    fn at(dir: PathBuf, session: &str, socket_stem: PathBuf) -> Self {
        Self {
            dir,
            session: session.to_owned(),
            socket_stem,
            contract: CONTRACT,
        }
    }

    /// The same session for a program that speaks another contract, as the next version may.
    #[must_use]
    pub fn speaking(mut self, contract: u32) -> Self {
        self.contract = contract;
        self
    }

    /// The contracts that a keeper serves, the newest first: its own and the one before.
    pub fn served_contracts(&self) -> impl Iterator<Item = u32> + use<> {
        let oldest = self.contract.saturating_sub(1).max(OLDEST_SERVED);
        (oldest..=self.contract).rev()
    }

    /// The files of `session` in a directory that could not be opened, for error messages; creates nothing.
    ///
    /// Fails with [`StoreError::NoHome`].
    pub fn unopened(state_dir: Option<PathBuf>, session: &str) -> StoreResult<Self> {
        let dir = wanted_dir(state_dir)?;
        let dir = fs::canonicalize(&dir).unwrap_or(dir);
        let socket_stem = dir.join("sessions").join(session);
        Ok(Self::at(dir, session, socket_stem))
    }

    /// The session file.
    pub fn db(&self) -> PathBuf {
        self.beside("db")
    }

    /// The file whose lock the driver holds.
    pub fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    /// The driver's Unix socket; at a shorter path if the session's own path is too long for one.
    pub fn socket(&self) -> PathBuf {
        self.socket_of(self.contract)
    }

    /// The socket of the driver for the clients of one contract.
    pub fn socket_of(&self, contract: u32) -> PathBuf {
        socket_at(&self.socket_stem, contract)
    }

    /// Where the drivers of other contracts have their sockets, newest first.
    pub fn other_sockets(&self) -> impl Iterator<Item = PathBuf> {
        CONTRACTS
            .rev()
            .filter(|contract| *contract != self.contract)
            .map(|contract| socket_at(&self.socket_stem, contract))
    }

    /// The file whose lock a client holds while it starts a keeper.
    pub fn start_lock(&self) -> PathBuf {
        self.beside("start")
    }

    /// The log file.
    pub fn log(&self) -> PathBuf {
        self.beside("log")
    }

    /// The log file before the current one.
    pub fn older_log(&self) -> PathBuf {
        self.beside("log.1")
    }

    /// Opens the log file for appending.
    ///
    /// Fails with [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn open_log(&self) -> StoreResult<fs::File> {
        open_own(&self.log(), OpenOptions::new().append(true))
    }

    /// The file whose modification time says when a screen last showed the session.
    pub fn watched(&self) -> PathBuf {
        self.beside("watched")
    }

    /// When a screen last showed the session, if one ever did.
    pub fn watched_at(&self) -> Option<Wall> {
        modified_at(&fs::symlink_metadata(self.watched()).ok()?)
    }

    /// Notes that a screen shows the session now.
    ///
    /// Fails with [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn note_watched(&self, now: Wall) -> StoreResult<()> {
        let path = self.watched();
        let file = open_own_file(&path)?;
        file.set_modified(system_time(now))
            .map_err(StoreError::open_io(&path))
    }

    /// The directory of the traces; exists once something was recorded.
    pub fn trace_dir(&self) -> PathBuf {
        self.beside("trace")
    }

    /// The trace files of a server: the older one, which may not exist, and the current one.
    pub fn trace(&self, server: &ServerName) -> [PathBuf; 2] {
        let name = file_name(server.as_str());
        ["1.jsonl", "jsonl"].map(|ending| self.trace_dir().join(format!("{name}.{ending}")))
    }

    /// The file of logins, which all sessions share.
    pub fn logins(&self) -> PathBuf {
        self.dir.join("logins.json")
    }

    /// The demo server's data; not created here.
    pub fn demo_dir(&self) -> PathBuf {
        self.dir.join("demo")
    }

    /// The directory of the session files.
    pub fn sessions_dir(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    /// Every session of the state directory, by name. Fails with [`StoreError::CannotOpen`].
    pub fn all(&self) -> StoreResult<Vec<Self>> {
        let paths = |name: String| Self::resolve(Some(self.dir.clone()), &name).ok();
        Ok(self.names()?.into_iter().filter_map(paths).collect())
    }

    /// The names of damaged files that were moved aside, without `.db`. Fails with [`StoreError::CannotOpen`].
    pub fn quarantined(&self) -> StoreResult<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| name.contains(".damaged-"));
        Ok(names)
    }

    fn names(&self) -> StoreResult<Vec<String>> {
        let dir = self.sessions_dir();
        let entries = fs::read_dir(&dir).map_err(StoreError::open_io(&dir))?;
        let name = |entry: fs::DirEntry| {
            let name = entry.file_name();
            Some(name.to_str()?.strip_suffix(".db")?.to_owned())
        };
        Ok(entries.flatten().filter_map(name).sorted().collect())
    }

    /// The size of the session on disk in bytes, including its write-ahead log and traces.
    pub fn size(&self) -> u64 {
        let db = self.db();
        let files = [db.clone(), companion(&db, "-wal"), companion(&db, "-shm")];
        let traces = fs::read_dir(self.trace_dir()).into_iter().flatten();
        let traces = traces.flatten().map(|entry| entry.path());
        let size = |path: PathBuf| fs::symlink_metadata(path).map_or(0, |found| found.len());
        files.into_iter().chain(traces).map(size).sum()
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.sessions_dir()
            .join(format!("{}.{extension}", self.session))
    }
}

/// Whether a session can have this name.
pub fn is_session_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_LIMIT
        && !name.starts_with('.')
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
        })
}

/// A file name that is unique for each server name, whatever its characters.
fn file_name(name: &str) -> String {
    let plain = |letter: &char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-".contains(*letter)
    };
    let safe: String = name.chars().filter(plain).take(NAME_LIMIT).collect();
    if safe == name && !safe.is_empty() {
        return safe;
    }
    // Plain names have no dot.
    format!("{safe}.{:016x}", fnv(name.as_bytes()))
}

/// Creates a private directory or checks that it is one; removes other users' access.
pub(super) fn own_directory(path: &Path) -> StoreResult<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(StoreError::open_io(path)(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(StoreError::open_io(path))?;
    if found.file_type().is_symlink() {
        return Err(StoreError::refused(path, "it is a symbolic link"));
    }
    if !found.is_dir() {
        return Err(StoreError::refused(path, "it is not a directory"));
    }
    check_owner(path, &found)?;
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(StoreError::open_io(path))?;
    }
    Ok(())
}

fn check_owner(path: &Path, found: &fs::Metadata) -> StoreResult<()> {
    if found.uid() == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(StoreError::refused(path, "it belongs to another user"))
    }
}

/// Whether a regular file of this user is at `path`; anything else is an error.
pub(super) fn check_file(path: &Path) -> StoreResult<Option<fs::Metadata>> {
    use std::os::unix::fs::FileTypeExt as _;
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::open_io(path)(error)),
    };
    let kind = found.file_type();
    let what = if kind.is_symlink() {
        "it is a symbolic link"
    } else if kind.is_dir() {
        "it is a directory"
    } else if kind.is_fifo() {
        "it is a named pipe"
    } else if !kind.is_file() {
        "it is not a regular file"
    } else {
        check_owner(path, &found)?;
        return Ok(Some(found));
    };
    Err(StoreError::refused(path, what))
}

/// Opens a regular file of this user for writing, creating it with mode 0600.
pub(super) fn open_own_file(path: &Path) -> StoreResult<fs::File> {
    open_own(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file, but follows no symbolic link to it and never waits for a pipe.
pub fn open_directly(path: &Path, how: &mut OpenOptions) -> io::Result<fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    how.custom_flags(flags.bits().cast_signed()).open(path)
}

fn open_own(path: &Path, how: &mut OpenOptions) -> StoreResult<fs::File> {
    check_file(path)?;
    // Checked above for a clear message; this also holds if something is put there in between.
    let file = open_directly(path, how.create(true).mode(0o600));
    let file = file.map_err(StoreError::open_io(path))?;
    let found = file.metadata().map_err(StoreError::open_io(path))?;
    check_owner(path, &found)?;
    if found.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(StoreError::open_io(path))?;
    }
    Ok(file)
}

/// The path of an SQLite companion file: `NAME.db-wal`, `NAME.db-shm`.
pub(super) fn companion(db: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(db);
    name.push(suffix);
    PathBuf::from(name)
}

/// SQLite deletes a log beside an empty or missing file, even when it only reads; its contents would be
/// lost.
pub(super) fn check_whole(db: &Path) -> StoreResult<()> {
    // The log first: a process that creates a session now writes the file before the log.
    let log = check_file(&companion(db, "-wal"))?.map_or(0, |found| found.len());
    let why = match check_file(db)?.map_or(0, |found| found.len()) {
        // SQLite treats a file of one byte as empty.
        0 | 1 if log > 0 => "it is empty, but its log is not",
        1 => "its end is missing",
        _ => return Ok(()),
    };
    Err(StoreError::damaged(db, why))
}

fn socket_at(stem: &Path, contract: u32) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(format!(".{contract}.sock"));
    path.into()
}

/// The path of sockets whose own path is too long, the same for every process of this user. Not in `XDG_RUNTIME_DIR`,
/// which disappears when the user logs out.
fn short_stem(beside: &Path) -> StoreResult<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let dir = Path::new("/tmp").join(format!("longhaul-{user}"));
    own_directory(&dir)?;
    Ok(dir.join(format!("{:016x}", fnv(beside.as_os_str().as_bytes()))))
}

/// FNV-1a, 64 bits: equal in every build, which the standard library's hasher does not promise.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Renames `from`, if it exists, to a free name.
pub(super) fn set_aside(from: &Path, to: &Path) -> StoreResult<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::cannot_set_aside(from, &error))
        }
        _ => Ok(()),
    }
}

/// When a file was last modified.
pub(super) fn modified_at(file: &fs::Metadata) -> Option<Wall> {
    let since = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Wall(since.as_millis().try_into().ok()?))
}

pub(super) fn system_time(at: Wall) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.0.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_cannot_leave_their_directory() {
        for name in ["default", "demo", "a.b_c-9", "9"] {
            assert!(is_session_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "A",
            "ä",
            "a b",
            "a\0",
            &"x".repeat(65),
        ] {
            assert!(!is_session_name(name), "{name}");
        }
    }

    #[test]
    fn socket_path_stays_short_for_a_deep_session() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(60)).join("e".repeat(60));
        let paths = Paths::resolve(Some(deep.clone()), "default").unwrap();
        assert!(paths.socket().as_os_str().len() <= SOCKET_PATH_LIMIT);
        let again = Paths::resolve(Some(deep.clone()), "default").unwrap();
        assert_eq!(paths.socket(), again.socket());
        let other = Paths::resolve(Some(deep), "other").unwrap();
        assert_ne!(paths.socket(), other.socket());
        let mode = fs::metadata(paths.socket().parent().unwrap())
            .unwrap()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
