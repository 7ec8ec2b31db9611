//! Writes small files atomically.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use super::{StoreError, StoreResult};

/// Writes `bytes` to `path` through a temporary file: after a crash it has the old or the new content.
///
/// The file gets mode 0600. Fails with [`StoreError::CannotWrite`].
pub fn write_atomically(path: &Path, bytes: &[u8]) -> StoreResult<()> {
    let directory = directory_of(path);
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        sync_directory(directory);
        Ok(())
    };
    write().map_err(StoreError::write_io(path))
}

/// Creates a new file atomically; an existing one is left alone.
///
/// It gets the user's default permissions.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::AlreadyExists`] if the file exists.
pub fn create_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let usual = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new()
        .permissions(usual)
        .tempfile_in(directory_of(path))?;
    file.write_all(bytes)?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Writes a file for the user. An existing one is replaced only after the new one is complete. Anything but a regular file
/// that belongs to this user and has one name, such as a device or a link, is written to directly.
///
/// # Errors
/// Those of the system.
pub fn replace_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let permissions = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Ok(found) if found.is_file() && found.nlink() == 1 && found.uid() == user => {
            // A rename needs no permission to write to the file that it replaces.
            File::options().write(true).open(path)?;
            Some(found.permissions())
        }
        _ => return File::create(path)?.write_all(bytes),
    };
    let usual = fs::Permissions::from_mode(0o666);
    let beside = tempfile::Builder::new()
        .permissions(usual)
        .tempfile_in(directory_of(path));
    let mut file = match beside {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return File::create(path)?.write_all(bytes);
        }
        beside => beside?,
    };
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.persist(path)?;
    Ok(())
}

/// The directory that a file is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a rename durable if the file system can sync a directory; the content itself was synced before.
pub(super) fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        // Some file systems refuse this; the file is safe anyway while the machine runs.
        let _ = directory.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_keeps_an_existing_file_and_leaves_no_temp_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        create_atomically(&path, b"one").unwrap();
        let again = create_atomically(&path, b"two").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // With the same permissions as the files of other programs.
        let usual = dir.path().join("usual");
        File::create_new(&usual).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&usual));
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_a_link_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        replace_atomically(&file, b"one").unwrap();
        for mode in [0o600, 0o666] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            replace_atomically(&file, b"two").unwrap();
            let found = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace_atomically(&link, b"three").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
