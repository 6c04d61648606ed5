//! A data directory below one that its user may pass through but not read, as `/home` often is.
//!
//! Root may read everything, so that root starts this test binary once more as another user.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use chronolith_store::{BlobStore, FileBlobs, FileMeta, MetaStore};

const CHILD: &str = "CHRONOLITH_TEST_UNREADABLE_PARENT";
/// A user without rights.
const NOBODY: u32 = 65_534;

async fn open_and_write(directory: &Path) {
    let parent = directory.parent().unwrap();
    let refused = fs::read_dir(parent).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    // Once where the directories are to be created, once where they are there.
    for _ in 0..2 {
        let meta = FileMeta::open_writer(directory.join("chains/1")).unwrap();
        let blobs = FileBlobs::open_writer(directory.join("chains/1")).unwrap();
        blobs.put("seg/a", Bytes::from_static(b"a")).await.unwrap();
        let found = meta.load().await.unwrap().map(|found| found.version);
        let state = Bytes::from_static(b"state");
        meta.swap(found, state).await.unwrap();
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// All directories up to the root were opened and synced at every start. A user with a directory of
/// its own below one of mode 0711 got `sync directory: Permission denied`, and no archive.
#[tokio::test]
async fn directories_above_ours_need_not_be_readable() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return open_and_write(Path::new(&directory)).await;
    }
    let temporary = tempfile::tempdir().unwrap();
    let parent = temporary.path().join("home");
    let directory = parent.join("user");
    fs::create_dir_all(&directory).unwrap();
    let own = fs::metadata(&directory).unwrap().uid();
    if own != 0 {
        set_mode(&parent, 0o300);
        open_and_write(&directory).await;
        return set_mode(&parent, 0o700);
    }
    set_mode(temporary.path(), 0o711);
    set_mode(&parent, 0o711);
    chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    // Where this binary lies, others may not look.
    let program = temporary.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&program, 0o755);
    let done = Command::new(&program)
        .args(["--exact", "directories_above_ours_need_not_be_readable"])
        .env(CHILD, &directory)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{reported}");
    assert!(reported.contains("1 passed"), "{reported}");
}
