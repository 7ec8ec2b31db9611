//! Small files, written whole or not at all.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use super::StoreError;

/// Writes `bytes` to `path` through a temporary file beside it: after a crash the old or the new content stands there.
///
/// The file gets mode 0600. Fails with [`StoreError::CannotWrite`].
pub fn write_atomically(path: &Path, mut bytes: &[u8]) -> Result<(), StoreError> {
    copy_atomically(path, &mut bytes).map_err(|error| StoreError::write_io(path, &error))
}

/// Writes a file that is not there yet: it comes to its name whole, and what has that name already stays.
///
/// Who may read it is as for any file that the user makes.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::AlreadyExists`] where there is one.
pub fn create_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let usual = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new()
        .permissions(usual)
        .tempfile_in(directory_of(path))?;
    file.write_all(bytes)?;
    file.persist_noclobber(path)?;
    Ok(())
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes what is left of `from` as [`write_atomically`] does.
pub(super) fn copy_atomically(path: &Path, from: &mut impl Read) -> io::Result<()> {
    let directory = directory_of(path);
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    io::copy(from, file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_directory(directory);
    Ok(())
}

/// Makes a rename durable where the file system lets a directory be synced; the content itself is synced before.
pub(super) fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        // Some file systems refuse this, and none loses the file over it while the machine runs.
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
        // As readable as the file of any other program.
        let usual = dir.path().join("usual");
        File::create_new(&usual).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&usual));
    }
}
