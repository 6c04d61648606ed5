//! Small files and directories that are put in place whole, also after a power cut.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a small file, replacing the one that is there: whole or not at all. What is being written is
/// beside it with the extension `tmp`, so there is one writer at a time.
///
/// # Errors
/// What the file system says; the old file is there then, unless only the last sync failed.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let tmp = path.with_extension("tmp");
    let mut file = File::create(&tmp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename_durably(&tmp, path)
}

/// Renames a file or a directory and makes the new name durable.
///
/// # Errors
/// What the file system says.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        replace_file(&path, b"one").unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
