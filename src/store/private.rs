//! A small file of secrets: mode 0600, written atomically, with a lock for writers.

use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
};

use super::{
    StoreError, StoreResult,
    atomic::write_atomically,
    error::CHECK_PERMISSIONS,
    lock::try_lock,
    paths::{check_file, open_directly, set_aside},
};
use crate::domain::text;

/// Far more than a file of secrets needs; a larger one is damaged.
const BYTES: u64 = 4 << 20;

/// The file; nothing is opened or created before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    /// Its path.
    pub path: PathBuf,
}

/// Identifies a version of the file's contents; `None` without a file.
pub type Edition = Option<(u64, i64, i64, u64)>;

/// Held by the one process that changes the file; the operating system releases it when the process ends.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

impl PrivateFile {
    /// Its current edition; an error counts as no file and appears when it is read.
    pub fn edition(&self) -> Edition {
        let found = check_file(&self.path).ok().flatten()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    }

    /// Its contents, `None` without a file; other users' access is removed.
    ///
    /// # Errors
    /// [`StoreError::Refused`], [`StoreError::CannotRead`], and [`StoreError::Damaged`] if it is too large.
    pub fn read(&self) -> StoreResult<Option<Vec<u8>>> {
        let Some(found) = check_file(&self.path)? else {
            return Ok(None);
        };
        let failed = |error| StoreError::CannotRead {
            path: self.path.clone(),
            why: text::os_error(&error),
            advice: CHECK_PERMISSIONS,
        };
        // Checked above for a clear message; this also holds if something is put there in between.
        let file = open_directly(&self.path, OpenOptions::new().read(true)).map_err(failed)?;
        if found.mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))
                .map_err(failed)?;
        }
        let mut bytes = Vec::new();
        let read = file.take(BYTES + 1).read_to_end(&mut bytes);
        read.map_err(failed)?;
        if bytes.len() as u64 > BYTES {
            return Err(StoreError::damaged(&self.path, "it is too large"));
        }
        Ok(Some(bytes))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// [`StoreError::Refused`] and [`StoreError::CannotOpen`].
    pub fn try_hold(&self) -> StoreResult<Option<Held>> {
        let lock = try_lock(&self.path.with_extension("lock"))?;
        Ok(lock.map(|file| Held { _lock: file }))
    }

    /// Writes it atomically.
    ///
    /// # Errors
    /// [`StoreError::CannotWrite`].
    pub fn write(&self, _held: &Held, bytes: &[u8]) -> StoreResult<()> {
        write_atomically(&self.path, bytes)
    }

    /// Renames it to a free name, which is returned.
    ///
    /// # Errors
    /// [`StoreError::CannotOpen`].
    pub fn set_aside(&self, _held: &Held) -> StoreResult<PathBuf> {
        let mut name = self.path.with_extension("damaged.json");
        let mut number = 1;
        while name.exists() {
            number += 1;
            name = self.path.with_extension(format!("damaged-{number}.json"));
        }
        set_aside(&self.path, &name)?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_file_is_private_and_rejects_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        let file = PrivateFile {
            path: dir.path().join("logins.json"),
        };
        assert_eq!((file.read().unwrap(), file.edition()), (None, None));
        let held = file.try_hold().unwrap().unwrap();
        file.write(&held, b"one").unwrap();
        let mode = || std::fs::metadata(&file.path).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        let wide = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&file.path, wide).unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(mode(), 0o600);
        let first = file.edition();
        file.write(&held, b"two").unwrap();
        assert_ne!(file.edition(), first);
        assert!(file.try_hold().unwrap().is_none());
        drop(held);
        let held = file.try_hold().unwrap().unwrap();
        for expected in ["logins.damaged.json", "logins.damaged-2.json"] {
            let aside = file.set_aside(&held).unwrap();
            assert_eq!(aside.file_name().unwrap(), expected);
            file.write(&held, b"three").unwrap();
        }
        file.set_aside(&held).unwrap();
        std::os::unix::fs::symlink(dir.path().join("logins.damaged.json"), &file.path).unwrap();
        assert!(matches!(file.read(), Err(StoreError::Refused { .. })));
    }
}
