//! One process writes a directory and is killed at arbitrary moments; this one reads it all the
//! while. No state ever names a missing or cut object, no list shows a cut one, nothing that was
//! seen goes away, and the lock is free after each kill.
//!
//! The writer is this test binary itself, started with a directory in its environment.

#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chronolith_store::{BlobStore, Error, FileBlobs, FileMeta, MetaStore, Versioned};

const CHILD: &str = "CHRONOLITH_TEST_WRITER_DIRECTORY";
/// At least so many kills, and on until so many of them hit the write of an object.
const KILLS: u64 = 24;
const KILLS_WITHIN_A_WRITE: usize = 3;
const KILLS_MAX: u64 = 200;
/// How many of the newest objects a state names.
const NAMED: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// The object of a number: its name, and bytes that say which it is.
fn object(number: u64) -> (String, Bytes) {
    let len = (number * 791_983 % 600_000) as usize;
    let line = format!("object {number}\n");
    let mut text = line.repeat(len / line.len() + 1);
    text.truncate(len);
    (format!("objects/{}/{number:06}", number % 3), text.into())
}

fn newest_number(state: &Versioned) -> u64 {
    std::str::from_utf8(&state.bytes).unwrap().parse().unwrap()
}

/// Checks every object that a state names.
async fn check(state: &Versioned, blobs: &FileBlobs) {
    let newest = newest_number(state);
    for number in newest.saturating_sub(NAMED - 1).max(1)..=newest {
        let (name, bytes) = object(number);
        let found = blobs.get(&name).await;
        let found = found.unwrap_or_else(|error| panic!("version {:?}: {error}", state.version));
        assert!(
            found == bytes,
            "{name} is cut or other: {} bytes",
            found.len()
        );
    }
}

/// Checks that what exists is whole, named by a state or not.
async fn check_list(blobs: &FileBlobs) {
    for info in blobs.list("", None, usize::MAX).await.unwrap() {
        let number = info.name.rsplit('/').next().unwrap().parse().unwrap();
        let (name, bytes) = object(number);
        assert_eq!(
            (&info.name, info.len),
            (&name, bytes.len() as u64),
            "listed, but cut"
        );
    }
}

async fn write_forever(directory: &Path) {
    let meta = FileMeta::open_writer(directory).unwrap();
    let blobs = FileBlobs::open_writer(directory).unwrap();
    let mut state = meta.load().await.unwrap();
    if let Some(state) = &state {
        check(state, &blobs).await;
    }
    loop {
        let number = state.as_ref().map_or(0, newest_number) + 1;
        let (name, bytes) = object(number);
        if number.is_multiple_of(4) {
            blobs.put(&name, bytes).await.unwrap();
        } else {
            let mut writer = blobs.create(&name).await.unwrap();
            let len = bytes.len() as u64;
            for start in (0..bytes.len()).step_by(100_000) {
                let end = bytes.len().min(start + 100_000);
                writer.write(bytes.slice(start..end)).await.unwrap();
            }
            writer.finish(len).await.unwrap();
        }
        let expected = state.as_ref().map(|state| state.version);
        let bytes = Bytes::from(number.to_string());
        let version = meta.swap(expected, bytes.clone()).await.unwrap();
        state = Some(Versioned { version, bytes });
    }
}

/// Not a test: what the killed process runs. Without the variable there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_process() {
    if let Some(directory) = std::env::var_os(CHILD) {
        write_forever(Path::new(&directory)).await;
    }
}

/// The killed process, which does not outlive a failed test either.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start_writer(directory: &Path) -> Writer {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer_process", "--nocapture"]);
    command.env(CHILD, directory).stdout(Stdio::null());
    Writer(command.spawn().unwrap())
}

/// Files in `tmp/` that a killed writer left, besides the lock.
fn leftovers(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory.join("tmp")).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().file_name() != "lock")
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_leaves_nothing_half_done() {
    let root = tempfile::tempdir().unwrap();
    let meta = FileMeta::open_reader(root.path());
    let mut seen: Option<Versioned> = None;
    let (mut reads, mut cut_short, mut locked) = (0, 0, 0);
    let mut kill = 0;
    while kill < KILLS || cut_short < KILLS_WITHIN_A_WRITE {
        assert!(
            kill < KILLS_MAX,
            "too few kills hit a write: this test proved nothing"
        );
        let mut writer = start_writer(root.path());
        let blobs = FileBlobs::open_reader(root.path());
        // How far the writer gets is its own affair; when it dies is counted in what is read here.
        let (start, mut news, mut after) = (Instant::now(), 0, kill * 5 % 7);
        while news < 1 + kill * 3 % 5 || after > 0 {
            assert!(start.elapsed() < PATIENCE, "the writer does not write");
            assert_eq!(
                writer.0.try_wait().unwrap(),
                None,
                "the writer ended by itself"
            );
            let Some(state) = meta.load().await.unwrap() else {
                continue;
            };
            check(&state, &blobs).await;
            check_list(&blobs).await;
            reads += 1;
            let before = seen.replace(state.clone());
            assert!(
                before.as_ref().map(|b| b.version) <= Some(state.version),
                "went backwards"
            );
            match before == seen {
                false => news += 1,
                true => after = after.saturating_sub(1),
            }
        }
        let refused = FileMeta::open_writer(root.path());
        locked += u64::from(matches!(refused, Err(Error::Conflict { .. })));
        drop(refused);
        drop(writer);

        cut_short += usize::from(leftovers(root.path()) > 0);
        let again = FileMeta::open_writer(root.path()).expect("the lock is free");
        let cleaned = FileBlobs::open_writer(root.path()).unwrap();
        assert_eq!(leftovers(root.path()), 0);
        let state = again.load().await.unwrap().unwrap();
        assert!(Some(state.version) >= seen.as_ref().map(|seen| seen.version));
        check(&state, &cleaned).await;
        check_list(&cleaned).await;
        // The killed writer's last swap is no news of the next one, which may not be locked yet.
        seen = Some(state);
        kill += 1;
    }
    println!("{kill} kills, {cut_short} within a write of an object, {reads} states read");
    assert_eq!(locked, kill, "a living writer holds the lock");
}
