//! The one lock that makes a process the driver of a session.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{ErrorKind, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use super::{
    Paths, StoreError,
    error::{Advice, plain},
    paths::{check_file, companion, open_own_file},
};

/// Held by the driver of a session; the operating system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DriverLock {
    file: File,
    /// What is noted in it is for whoever comes next.
    is_handed_on: bool,
}

/// What stands before the id of a process that the lock was handed to.
const SUCCESSOR: &str = "heir ";

impl DriverLock {
    /// Takes the lock if nobody holds it, and notes our process id in it.
    pub fn try_take(paths: &Paths) -> Result<Option<Self>, StoreError> {
        let path = paths.lock();
        let mut file = loop {
            let file = open_own_file(&path)?;
            match file.try_lock() {
                // Who removes the session removes this file with it: a lock on a file without a name keeps nobody out.
                Ok(()) if is_at(&file, &path) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::CannotOpen {
                        path,
                        why: format!("its file system has no locks ({})", plain(&error)),
                        advice: Advice::None,
                    });
                }
            }
        };
        // Only for showing: on a full disk the lock itself still holds.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Some(Self {
            file,
            is_handed_on: false,
        }))
    }

    /// Removes every file of the session except copies that were set aside as damaged, and releases the lock.
    ///
    /// Fails with [`StoreError::CannotOpen`].
    pub fn remove_session(self, paths: &Paths) -> Result<(), StoreError> {
        let trace = paths.trace_dir();
        match fs::remove_dir_all(&trace) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::open_io(&trace, &error));
            }
            _ => {}
        }
        let db = paths.db();
        // A log without its file is taken for damage, a file without its log is not.
        let files = [
            companion(&db, "-wal"),
            companion(&db, "-shm"),
            db,
            paths.socket(),
            paths.log(),
            paths.lock(),
        ];
        for path in files {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::open_io(&path, &error));
                }
                _ => {}
            }
        }
        drop(self);
        Ok(())
    }

    /// Lets go of it so that this process can take it first, which is only noted: the others look at [`Self::successor`].
    pub fn hand_to(mut self, successor: u32) {
        // Without the note whoever is first takes the lock.
        let cleared = self.file.rewind().and_then(|()| self.file.set_len(0));
        let noted = cleared.and_then(|()| write!(self.file, "{SUCCESSOR}{successor}"));
        self.is_handed_on = noted.is_ok();
    }

    /// The process that the lock was handed to, as long as it lives and has not taken it.
    pub fn successor(paths: &Paths) -> Option<u32> {
        alive(noted(paths)?.strip_prefix(SUCCESSOR)?)
    }

    /// The process id of the driver; `None` when nobody drives.
    pub fn holder(paths: &Paths) -> Option<u32> {
        alive(&noted(paths)?)
    }
}

/// What is noted in the lock's file.
fn noted(paths: &Paths) -> Option<String> {
    let path = paths.lock();
    check_file(&path).ok()??;
    let mut text = String::new();
    File::open(&path)
        .ok()?
        .take(16)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// The process of this id, if it lives.
fn alive(pid: &str) -> Option<u32> {
    let pid: i32 = pid.trim().parse().ok()?;
    // After kill -9 the id is still noted. Asking the lock itself could keep a new driver from taking it.
    let is_alive = match rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid)?) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    };
    is_alive.then(|| pid.cast_unsigned())
}

/// Whether an open file is the one at this place.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: Metadata| (found.dev(), found.ino());
    let held = file.metadata().map(place);
    let there = std::fs::symlink_metadata(path).map(place);
    matches!((held, there), (Ok(held), Ok(there)) if held == there)
}

impl Drop for DriverLock {
    fn drop(&mut self) {
        // An empty file says that nobody drives.
        if !self.is_handed_on {
            let _ = self.file.rewind().and_then(|()| self.file.set_len(0));
        }
        // To close the file is not enough: a child that is being started at this moment holds it too.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handed_over_lock_names_its_successor_until_taken() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let take = || DriverLock::try_take(&paths).unwrap().unwrap();
        let us = std::process::id();
        assert_eq!(DriverLock::successor(&paths), None);
        take().hand_to(us);
        assert_eq!(DriverLock::successor(&paths), Some(us));
        assert_eq!(DriverLock::holder(&paths), None);
        let lock = take();
        assert_eq!(DriverLock::successor(&paths), None);
        assert_eq!(DriverLock::holder(&paths), Some(us));
        // One that is dead comes no more.
        lock.hand_to(i32::MAX.cast_unsigned());
        assert_eq!(DriverLock::successor(&paths), None);
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
