//! The one lock that makes a process the driver of a session.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{ErrorKind, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use super::{
    Paths, StoreError, StoreResult,
    paths::{check_file, companion, modified_at, open_own_file, system_time},
};
use crate::domain::{Wall, text};

/// Held by a client that starts a keeper, so that of several only one does.
#[derive(Debug)]
pub struct StartLock(File);

impl StartLock {
    /// Takes the lock if it is free.
    ///
    /// Fails with [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn try_take(paths: &Paths) -> StoreResult<Option<Self>> {
        Ok(try_lock(&paths.start_lock())?.map(Self))
    }
}

impl Drop for StartLock {
    fn drop(&mut self) {
        // Closing the file is not enough: the keeper that is being started may hold it too until it is loaded.
        let _ = self.0.unlock();
    }
}

/// Opens a file and locks it; `None` if another process holds it.
pub(super) fn try_lock(path: &Path) -> StoreResult<Option<File>> {
    let file = open_own_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            let why = format!("its file system has no locks ({})", text::os_error(&error));
            Err(StoreError::cannot_open(path, why, ""))
        }
    }
}

/// Held by the driver of a session; the operating system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct DriverLock {
    /// The open file that holds the lock. A process with a duplicate of it also holds the lock.
    pub file: File,
    /// When the last driver before this one gave a sign of life.
    pub driven_until: Option<Wall>,
}

impl DriverLock {
    /// Takes the lock if it is free, and writes our process id into it.
    pub fn try_take(paths: &Paths) -> StoreResult<Option<Self>> {
        let path = paths.lock();
        let mut file = loop {
            let Some(file) = try_lock(&path)? else {
                return Ok(None);
            };
            // Removing a session removes this file: a lock on an unlinked file excludes no one.
            if is_at(&file, &path) {
                break file;
            }
        };
        let before = file.metadata().ok().filter(|before| before.len() > 0);
        let driven_until = before.as_ref().and_then(modified_at);
        // Only for display: on a full disk the lock itself still holds.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Some(Self { file, driven_until }))
    }

    /// Notes that this process drives the session now.
    pub fn note_driven(&self, now: Wall) {
        // Without it, the next driver shows a longer time as unwatched.
        let _ = self.file.set_modified(system_time(now));
    }

    /// Continues to hold the lock of a keeper whose program was replaced by this one.
    pub fn inherit(file: File) -> Self {
        Self {
            file,
            driven_until: None,
        }
    }

    /// Removes every file of the session except quarantined copies, and releases the lock.
    ///
    /// Fails with [`StoreError::CannotOpen`].
    pub fn remove_session(self, paths: &Paths) -> StoreResult<()> {
        let trace = paths.trace_dir();
        gone(&trace, fs::remove_dir_all(&trace))?;
        let db = paths.db();
        // A log without its file counts as damage, a file without its log does not.
        let files = [
            companion(&db, "-wal"),
            companion(&db, "-shm"),
            db,
            paths.socket(),
            paths.start_lock(),
            paths.log(),
            paths.older_log(),
            paths.watched(),
            paths.lock(),
        ];
        for path in files {
            gone(&path, fs::remove_file(&path))?;
        }
        drop(self);
        Ok(())
    }

    /// The process id of the driver; `None` without a driver.
    pub fn holder(paths: &Paths) -> Option<u32> {
        alive(&noted(paths)?).filter(|pid| has_open(*pid, &paths.lock()))
    }
}

/// A file or directory that was not there counts as removed.
fn gone(path: &Path, removed: std::io::Result<()>) -> StoreResult<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::open_io(path)(error)),
        _ => Ok(()),
    }
}

/// The text of the lock file.
fn noted(paths: &Paths) -> Option<String> {
    let path = paths.lock();
    check_file(&path).ok()??;
    std::io::read_to_string(File::open(&path).ok()?.take(16)).ok()
}

/// The process with this id, if it is running.
fn alive(pid: &str) -> Option<u32> {
    let pid: i32 = pid.trim().parse().ok()?;
    // After kill -9 the id is still there. Testing the lock itself could keep a new driver from taking it.
    let is_alive = match rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid)?) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    };
    let pid = pid.cast_unsigned();
    // One that was killed and that nobody has waited for yet holds no lock any more.
    (is_alive && process_state(pid) != Some('Z')).then_some(pid)
}

/// Whether a process has a file open. Where the system doesn't tell, it is assumed: without that check, an id in a leftover
/// lock file can be that of any new process.
fn has_open(pid: u32, path: &Path) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return true;
    };
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let Ok(there) = place(path) else {
        return false;
    };
    let mut files = files.flatten().map(|file| place(&file.path()));
    files.any(|here| here.is_ok_and(|here| here == there))
}

/// The state of a process as proc(5) names it, e.g. `T` for a stopped one; `None` if the system does not report it.
pub fn process_state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether an open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: Metadata| (found.dev(), found.ino());
    let held = file.metadata().map(place);
    let there = std::fs::symlink_metadata(path).map(place);
    matches!((held, there), (Ok(held), Ok(there)) if held == there)
}

impl Drop for DriverLock {
    fn drop(&mut self) {
        // An empty file means that there is no driver.
        let _ = self.file.rewind().and_then(|()| self.file.set_len(0));
        // Closing the file is not enough: a child that is being started at this moment holds it too.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_when_a_driver_that_was_killed_last_drove() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let lock = DriverLock::try_take(&paths).unwrap().unwrap();
        assert_eq!(lock.driven_until, None);
        let last = Wall(1_700_000_000_000);
        lock.note_driven(last);
        // Nothing else is done when a process is killed.
        lock.file.unlock().unwrap();
        let next = DriverLock::try_take(&paths).unwrap().unwrap();
        assert_eq!(next.driven_until, Some(last));
        drop(lock);
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("default.lock");
        let held = open_own_file(&path).unwrap();
        assert!(is_at(&held, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&held, &path));
        let other = open_own_file(&path).unwrap();
        assert!(is_at(&other, &path) && !is_at(&held, &path));
    }
}
