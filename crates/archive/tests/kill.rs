//! A process that ingests, merges and collects garbage in a directory is killed at steps of its writes.
//! After each kill the lock is free, every block that was acknowledged is there, and every log is as
//! it went in. All the while a reader in this process asks the directory, and sees no error and no
//! shorter answer.
//!
//! The killed process is this test binary itself, started with a directory in its environment.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use chronolith_archive::{Archive, GcMode, IngestOutcome, Provenance, Settings};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet, LogFilter};
use chronolith_sim::{Oracle, SimChain};
use chronolith_store::{FileBlobs, FileMeta};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::{Stores, assert_answers, tiny_chain, tiny_settings};
use tokio::sync::Notify;

const DIRECTORY: &str = "CHRONOLITH_TEST_KILLED_DIRECTORY";
const LIFE: &str = "CHRONOLITH_TEST_KILLED_LIFE";
const SEED: u64 = 51;
const STEPS: &str = "CHRONOLITH_TEST_KILLED_STEPS";
const KILLS: u64 = 16;
const KILLS_WITHIN_A_WRITE: u64 = 2;
/// How long garbage stays for readers in other processes: no reader here is slower than a life.
const GRACE: Duration = Duration::from_secs(1);
/// How many steps of writes a life has. Some have many, and continue until garbage was removed.
const LIFE_STEPS: std::ops::Range<u64> = 1..250;
const LONG_LIFE_STEPS: std::ops::Range<u64> = 1..60;
const LONG_LIFE_EVERY: u64 = 5;
/// The reader asks for so many blocks at once.
const WINDOW: u64 = 200;

fn settings() -> Settings {
    let mut settings = tiny_settings();
    settings.datasets = DatasetSet::of(&Dataset::ALL);
    settings.garbage.grace = GRACE;
    settings
}

async fn open_writer(directory: &Path) -> Archive {
    let stores = Stores {
        meta: Arc::new(FileMeta::open_writer(directory).expect("the lock is free")),
        blobs: Arc::new(FileBlobs::open_writer(directory).unwrap()),
    };
    stores.writer(&settings()).await
}

async fn open_reader(directory: &Path) -> Archive {
    let stores = Stores {
        meta: Arc::new(FileMeta::open_reader(directory)),
        blobs: Arc::new(FileBlobs::open_reader(directory)),
    };
    stores.reader(&settings()).await
}

fn say(what: &str, number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{what} {number}").unwrap();
    out.flush().unwrap();
}

/// What the killed process does: ingest, merge and collect, all at the same time.
async fn write_forever(directory: &Path, life: u64, steps: u64) {
    if life % LONG_LIFE_EVERY != LONG_LIFE_EVERY - 1 {
        chronolith_store::crash::after_steps(steps);
    }
    let archive = open_writer(directory).await;
    let chain = tiny_chain(SEED);
    let (merge, sweep) = (Notify::new(), Notify::new());
    let ingest = async {
        let mut random = StdRng::seed_from_u64(SEED ^ life);
        let mut next = archive.indexed_finalized_head().map_or(0, |head| head + 1);
        loop {
            let end = next + random.random_range(1..12);
            let blocks: Vec<Block> = chain.blocks(BlockRange::new(next, end)).collect();
            let how = Provenance::default();
            let outcome = archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
            assert!(matches!(outcome, IngestOutcome::Appended { .. }));
            say("acknowledged", end - 1);
            next = end;
            merge.notify_one();
            sweep.notify_one();
        }
    };
    let maintain = async {
        loop {
            merge.notified().await;
            while archive.maintain().await.unwrap() {
                say("maintained", 1);
            }
        }
    };
    let collect = async {
        loop {
            sweep.notified().await;
            let report = archive.collect_garbage(GcMode::Remove).await.unwrap();
            say("removed", report.removed);
            // A long life has collected something; its steps count from there.
            if report.removed > 0 && life % LONG_LIFE_EVERY == LONG_LIFE_EVERY - 1 {
                chronolith_store::crash::after_steps(steps);
            }
        }
    };
    let _: ((), (), ()) = futures::join!(ingest, maintain, collect);
}

/// Not a test: what the killed process runs. Without the variable there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_process() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let life = std::env::var(LIFE).unwrap().parse().unwrap();
        let steps = std::env::var(STEPS).unwrap().parse().unwrap();
        Box::pin(write_forever(Path::new(&directory), life, steps)).await;
    }
}

/// What killed processes have said so far.
#[derive(Debug, Default)]
struct WriterLog {
    acknowledged: AtomicU64,
    maintained: AtomicU64,
    removed: AtomicU64,
}

impl WriterLog {
    fn record(&self, line: &str) {
        let Some((what, number)) = line.split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse() else { return };
        match what {
            "acknowledged" => {
                self.acknowledged.fetch_max(number, Ordering::SeqCst);
            }
            "maintained" => {
                self.maintained.fetch_add(number, Ordering::SeqCst);
            }
            "removed" => {
                self.removed.fetch_add(number, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

/// The process that will be killed. It does not outlive a failed test either.
struct Writer {
    process: Child,
    hearing: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(directory: &Path, (life, steps): (u64, u64), log: &Arc<WriterLog>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writer_process", "--nocapture"]);
        command
            .env(DIRECTORY, directory)
            .env(LIFE, life.to_string())
            .env(STEPS, steps.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let log = log.clone();
        let hearing = std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .for_each(|line| log.record(&line));
        });
        Self {
            process,
            hearing: Some(hearing),
        }
    }

    /// Whether it has not come to its last step. It ends in no other way.
    fn is_alive(&mut self) -> bool {
        let ended = self.process.try_wait().unwrap();
        let code = ended.and_then(|status| status.code());
        assert_eq!(code, None, "the writer ended by itself");
        ended.is_none()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have ended by now.
        let _ = self.process.kill();
        self.process.wait().unwrap();
        // All that it said before it died counts.
        if let Some(hearing) = self.hearing.take() {
            hearing.join().unwrap();
        }
    }
}

/// The reader, and what it has seen.
struct Witness {
    archive: Archive,
    chain: SimChain,
    oracle: Oracle,
    random: StdRng,
    head: Option<u64>,
    answers: u64,
}

impl Witness {
    fn learn(&mut self, head: u64) {
        let known = self.oracle.head().map_or(0, |clock| clock.number + 1);
        let news = self.chain.blocks(BlockRange::new(known, head + 1));
        news.for_each(|block| self.oracle.push(block));
    }

    async fn assert_range(&self, archive: &Archive, range: BlockRange) {
        let mut filter = LogFilter::over(range);
        filter.limit = Some(10_000_000);
        let page = archive.query_finalized(&filter).await.unwrap();
        assert_answers(&page, &self.oracle, &filter);
    }

    /// Asks once. What was acknowledged before must be there.
    async fn ask(&mut self, log: &WriterLog) {
        let acknowledged = log.acknowledged.load(Ordering::SeqCst);
        self.archive.refresh().await.unwrap();
        let head = self.archive.indexed_finalized_head();
        assert!(
            head >= self.head,
            "went back from {:?} to {head:?}",
            self.head
        );
        assert!(head.unwrap_or(0) >= acknowledged, "{acknowledged} is gone");
        self.head = head;
        let Some(head) = head else { return };
        self.learn(head);
        let end = head + 1 - self.random.random_range(0..=head.min(WINDOW));
        let range = BlockRange::new(end.saturating_sub(WINDOW), end);
        let archive = self.archive.clone();
        self.assert_range(&archive, range).await;
        let block = self
            .oracle
            .block(self.random.random_range(0..=head))
            .unwrap();
        let number = block.clock.number;
        let found = archive.block_by_hash(&block.clock.hash).await.unwrap();
        assert_eq!(found, Some(block.clock));
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        assert_eq!(payload, block.payload);
        self.answers += 1;
    }

    /// Opens the directory for writing, as the next process would, and looks at all of it.
    async fn check_killed(&mut self, directory: &Path, log: &WriterLog) {
        let archive = open_writer(directory).await;
        let Some(head) = archive.indexed_finalized_head() else {
            assert_eq!(log.acknowledged.load(Ordering::SeqCst), 0);
            return;
        };
        assert!(Some(head) >= self.head);
        assert!(head >= log.acknowledged.load(Ordering::SeqCst));
        self.learn(head);
        self.assert_range(&archive, BlockRange::new(0, head + 1))
            .await;
        let newest = self.oracle.head();
        assert_eq!(archive.health().head, newest.map(|clock| clock.block_ref()));
    }
}

/// Unfinished objects that the killed process left.
fn leftovers(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory.join("tmp")) else {
        return 0;
    };
    let files = entries.map(|entry| entry.unwrap().file_name());
    files.filter(|name| name != "lock").count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    println!("seed {SEED}");
    let root = tempfile::tempdir().unwrap();
    let log = Arc::new(WriterLog::default());
    let mut moments = StdRng::seed_from_u64(SEED);
    let mut witness = Witness {
        archive: open_reader(root.path()).await,
        chain: tiny_chain(SEED),
        oracle: Oracle::new(),
        random: StdRng::seed_from_u64(SEED + 1),
        head: None,
        answers: 0,
    };
    let mut cut_short = 0;
    for life in 0..KILLS {
        let long = life % LONG_LIFE_EVERY == LONG_LIFE_EVERY - 1;
        let steps = moments.random_range(if long { LONG_LIFE_STEPS } else { LIFE_STEPS });
        let mut writer = Writer::start(root.path(), (life, steps), &log);
        while writer.is_alive() {
            witness.ask(&log).await;
        }
        drop(writer);
        cut_short += u64::from(leftovers(root.path()) > 0);
        witness.check_killed(root.path(), &log).await;
    }
    assert!(
        cut_short >= KILLS_WITHIN_A_WRITE,
        "too few kills hit a write: this proved nothing"
    );
    let (maintained, removed) = (
        log.maintained.load(Ordering::SeqCst),
        log.removed.load(Ordering::SeqCst),
    );
    println!(
        "{KILLS} kills, {cut_short} within a write of an object; head {:?}, {maintained} steps of \
         maintenance, {removed} objects removed, {} answers",
        witness.head, witness.answers
    );
    assert!(maintained > 0 && removed > 0 && witness.answers > 0);
}
