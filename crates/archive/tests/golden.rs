//! Bytes that each version of the format wrote once, and that every later version reads: one file an
//! object, under `testdata/v1` and so on, and the state beside them.
//!
//! Those of the newest version are made once, by
//! `CHRONOLITH_BLESS=1 cargo test -p chronolith-archive --test golden` where they are not there yet,
//! and stay as they are forever: a version that can no longer read them has lost somebody's archive.
//! What they must answer comes from the simulated chain of the same seed, so that stays, too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{
    Archive, AuditEntry, GcMode, Geometry, ObjectSort, Provenance, RangeState, Settings,
    StoredObject, TimeSide, TxCounts,
};
use chronolith_model::{
    Block, BlockMeta, BlockRange, Clause, Dataset, DatasetSet, Hash32, Log, LogFilter, LogParts,
    Order, Payload, Proof, Scope, Tx,
};
use chronolith_sim::{ChainSpec, Oracle, Shape, SimChain};
use chronolith_store::{BlobStore, MemoryBlobs, MemoryMeta, MetaStore};
use support::{Stores, assert_answers, tiny_settings};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
const NEWEST: u16 = 3;
const BYTES_MAX: usize = 384 << 10;
/// When ranges began, and when they were complete.
const BEGAN: u64 = 1_700_000_000;
const ENDED: u64 = 1_700_000_100;

/// An archive that is kept as files: its first blocks are in it, the others come later.
struct Golden {
    folder: PathBuf,
    settings: Settings,
    stored: Vec<Block>,
    later: Vec<Block>,
}

impl Golden {
    fn new(name: &str, settings: Settings, mut blocks: Vec<Block>, stored: usize) -> Self {
        let later = blocks.split_off(stored);
        let folder = PathBuf::from(name);
        Self {
            folder,
            settings,
            stored: blocks,
            later,
        }
    }

    /// Terms of any length, several kinds, suffixes and every payload; small segments, merged.
    fn varied() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::of(&Dataset::ALL);
        settings.seal.pack_bytes = 6_000;
        let chain = SimChain::new(ChainSpec {
            shape: Shape::TinyVaried,
            logs_per_block: 4,
            ..ChainSpec::tiny(124)
        });
        let blocks = chain.blocks(BlockRange::new(1_000, 1_200)).collect();
        Self::new("varied", settings, blocks, 140)
    }

    /// Segments large enough for a dictionary, long lists, and blocks that list some of their
    /// transactions.
    fn regular() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::of(&[Dataset::Logs]);
        settings.seal.weight = 400;
        settings.seal.fan_in = 2;
        Self::new(
            "regular",
            settings,
            (0..60).map(regular_block).collect(),
            30,
        )
    }

    /// Nothing but clocks: steady, uneven, standing still.
    fn clocks() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::CLOCK;
        settings.seal.weight = 100;
        settings.seal.fan_in = 2;
        let clock = |number: u64| {
            let step = [12, 0, 2, 300][number as usize / 45 % 4];
            let uneven = number % 45 * step + u64::from(number % 7 == 3 && step > 2);
            let mut block = regular_block(number);
            (block.txs, block.logs) = (Vec::new(), Vec::new());
            block.clock.timestamp = 1_000_000 + number / 45 * 50_000 + uneven;
            block
        };
        Self::new("clocks", settings, (0..330).map(clock).collect(), 210)
    }

    /// Clocks of which some are set back, also at the end of segments.
    fn falling() -> Self {
        let mut falling = Self::clocks();
        for block in falling.stored.iter_mut().chain(&mut falling.later) {
            let number = block.clock.number;
            let back = if number % 9 == 4 || number % 50 > 45 {
                700
            } else {
                0
            };
            block.clock.timestamp = 1_000_000 + number * 12 - back.min(number * 12);
        }
        falling.folder = PathBuf::from("falling");
        falling
    }

    /// Ranges, one of them complete, with times.
    fn ranges() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::of(&[Dataset::TxHashes]);
        settings.seal.first_block = 2;
        settings.seal.grid_blocks = 8;
        settings.seal.range_blocks = 8;
        settings.seal.weight = 5;
        settings.seal.fan_in = 2;
        let bare = |number: u64| {
            let mut block = regular_block(number);
            block.logs.clear();
            block
        };
        Self::new("ranges", settings, (2..30).map(bare).collect(), 17)
    }

    /// Bodies that resemble each other, and packs with dictionaries.
    fn packed() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::of(&Dataset::ALL);
        settings.seal.weight = 30;
        settings.seal.fan_in = 2;
        settings.seal.pack_bytes = 12_000;
        settings.seal.pack_dictionary_bytes = 60_000;
        let block = |number: u64| {
            let mut block = regular_block(number);
            let logs = std::mem::take(&mut block.logs);
            let body = |at: u64| {
                let rows = (0..12 + at).map(|row| {
                    let of = at * 31 + number * row;
                    format!("entry {of} of branch {}: paid {}; ", row % 7, of * 7919)
                });
                rows.collect::<String>().into()
            };
            block.payload = Payload {
                header: Some(format!("header of block {number}").into()),
                bodies: Some((0..8).map(body).collect()),
                raw: Some(format!("block {number} as it came").into()),
            };
            block.logs = logs.into_iter().take(2).collect();
            block
        };
        Self::new("packed", settings, (0..90).map(block).collect(), 60)
    }

    /// Where the files of a version are.
    fn of_version(mut self, version: u16) -> Self {
        let name = std::mem::take(&mut self.folder);
        self.folder = Path::new(FOLDER).join(format!("v{version}")).join(name);
        self
    }

    fn is_of(&self, version: u16) -> bool {
        let folder = Path::new(FOLDER).join(format!("v{version}"));
        self.folder.starts_with(folder)
    }

    /// Writes the archive, with an act of an operator in its audit, and stores its objects as files.
    async fn bless(&self) {
        let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
        let stores = Stores {
            meta: meta.clone(),
            blobs: blobs.clone(),
        };
        let settings = Settings {
            garbage: no_grace(),
            ..self.settings.clone()
        };
        let archive = stores.writer(&settings).await;
        ingest(&archive, &self.stored, 3).await;
        let (kept, again) = self.stored.split_at(self.stored.len() - 2);
        let to = kept[kept.len() - 1].clock.number;
        let act = "rewind, and on again to the golden head".to_owned();
        archive.rewind(to, AuditEntry { at: 1, act }).await.unwrap();
        ingest(&archive, again, 1).await;
        for _ in 0..2 {
            archive.collect_garbage(GcMode::Remove).await.unwrap();
        }
        let root = archive
            .content_root(self.range())
            .await
            .unwrap()
            .to_string();
        let state = meta.load().await.unwrap().unwrap().bytes;
        let mut files = vec![
            ("root".to_owned(), root.into()),
            ("state".to_owned(), state),
        ];
        for info in blobs.list("", None, 10_000).await.unwrap() {
            let bytes = blobs.get(&info.name).await.unwrap();
            files.push((info.name, bytes));
        }
        for (name, bytes) in files {
            let path = self.folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn range(&self) -> BlockRange {
        let first = self.stored[0].clock.number;
        BlockRange::new(first, first + self.stored.len() as u64)
    }
}

fn no_grace() -> chronolith_archive::GarbageSettings {
    chronolith_archive::GarbageSettings {
        grace: Duration::ZERO,
        ..Default::default()
    }
}

/// A block of logs that resemble each other: they compress well, and better with a dictionary.
fn regular_block(number: u64) -> Block {
    let word = |value: u64| {
        let mut word = [0; 32];
        word[24..].copy_from_slice(&value.to_be_bytes());
        word
    };
    let hash = |number: u64| {
        Hash32(word(
            0xabcd_0000_0000_0000 | number.wrapping_mul(0x9e37_79b9),
        ))
    };
    let log = |at: u64| {
        let text = format!(
            "account {} of branch {} pays {} to account {} of branch {}, with thanks; \
             the fee of {} goes to the house, the receipt is kept in drawer {} of shelf {}, \
             and whoever finds an error in it may complain at counter {} until noon",
            at * 37 % 101,
            number % 7,
            1_000_003 * at + number,
            at * 53 % 211,
            at % 7,
            at + 3,
            number % 13,
            at % 11,
            number % 3,
        );
        let topics = [word(1 + at % 3), word(number % 5), word(number * 100 + at)];
        let parts = LogParts {
            tx_index: (at / 4 * 2) as u32,
            log_index: at as u32,
            emitter: &[0xe0 + (at % 2) as u8; 20],
            topics: &[&topics[0], &topics[1], &topics[2]],
            data: text.as_bytes(),
            ..LogParts::default()
        };
        Log::new(&parts).unwrap()
    };
    let tx = |at: u64| Tx {
        index: at as u32 * 2,
        hash: hash(1_000_000 + number * 100 + at),
    };
    Block {
        clock: BlockMeta {
            number,
            hash: hash(number),
            parent_hash: number.checked_sub(1).map_or(Hash32::ZERO, hash),
            timestamp: 5_000 + number / 2,
        },
        txs: (0..8).map(tx).collect(),
        logs: (0..32).map(log).collect(),
        payload: Payload::default(),
    }
}

async fn ingest(archive: &Archive, blocks: &[Block], size: usize) {
    for batch in blocks.chunks(size) {
        let how = Provenance {
            now: BEGAN,
            ..Provenance::default()
        };
        archive
            .ingest_finalized_blocks(batch.to_vec(), &how)
            .await
            .unwrap();
        while archive.maintain_at(ENDED).await.unwrap() {}
    }
}

/// The files below a folder, by their path in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            found.insert(name.to_owned(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Everything the archive says about the blocks is right.
async fn answers(archive: &Archive, blocks: &[Block], kept: DatasetSet) {
    let mut oracle = Oracle::new();
    blocks.iter().for_each(|block| oracle.push(block.clone()));
    if kept.contains(Dataset::Logs) {
        logs_are_found(archive, &oracle).await;
        blocks_are_whole(archive, blocks, kept).await;
    }
    let first = blocks[0].clock;
    for block in blocks {
        let clock = block.clock;
        assert_eq!(archive.block_by_number(clock.number).await.unwrap(), clock);
        assert_eq!(
            archive.block_by_hash(&clock.hash).await.unwrap(),
            Some(clock)
        );
        if clock.timestamp > first.timestamp {
            let at = archive
                .block_at(clock.timestamp, TimeSide::AtOrAfter)
                .await
                .unwrap();
            let expected = oracle
                .block_at_or_after(clock.timestamp)
                .map(|block| block.clock);
            assert_eq!(at, expected);
        }
        for tx in &block.txs {
            let place = archive
                .transaction_by_hash(&tx.hash)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((place.block, place.index), (clock, tx.index));
        }
    }
}

/// Filters of every kind find what is there.
async fn logs_are_found(archive: &Archive, oracle: &Oracle) {
    let numbers = || oracle.blocks().map(|block| block.clock.number);
    let range = BlockRange::new(numbers().min().unwrap(), numbers().max().unwrap() + 1);
    let some = oracle.blocks().flat_map(|block| &block.logs);
    let some = some.filter(|log| log.topic_count() > 2).nth(3).unwrap();
    let value = |bytes: &[u8]| Clause::OneOf(vec![bytes.to_vec().into()]);
    let mut filters = vec![LogFilter::over(range)];
    for (emitters, topics) in [
        (value(some.emitter()), vec![]),
        (Clause::Any, vec![value(some.topic(0).unwrap())]),
        (Clause::Any, some.topics().map(value).collect()),
        (
            value(some.emitter()),
            vec![Clause::Any, Clause::Any, value(some.topic(2).unwrap())],
        ),
        (value(b"absent"), vec![]),
    ] {
        let mut filter = LogFilter::over(range);
        (filter.emitters, filter.topics, filter.order) = (emitters, topics, Order::Descending);
        filters.push(filter);
    }
    for filter in &filters {
        let page = archive.query_finalized(filter).await.unwrap();
        assert_answers(&page, oracle, filter);
        assert_eq!(page.level, Some(Proof::CLAIMED));
    }
}

/// Each block comes out as it went in.
async fn blocks_are_whole(archive: &Archive, blocks: &[Block], kept: DatasetSet) {
    for block in blocks {
        let number = block.clock.number;
        let mut found = archive.block(number).await.unwrap();
        if kept.contains(Dataset::Payload) {
            found.payload = archive.payload(number, Dataset::Payload).await.unwrap();
        }
        assert_eq!(&found, block);
    }
}

/// Reads the files, checks every answer, and continues writing where they end. Returns which
/// sections their objects have, with the bytes of the largest of each.
async fn check(golden: &Golden) -> BTreeMap<(String, u16), usize> {
    let mut files = files(&golden.folder);
    let (root, state) = (
        files.remove("root").unwrap(),
        files.remove("state").unwrap(),
    );
    let stores = Stores::memory();
    stores.meta.swap(None, state.into()).await.unwrap();
    let mut found: BTreeMap<(String, u16), usize> = BTreeMap::new();
    for (name, bytes) in files {
        let folder = name.split('/').next().unwrap().to_owned();
        for place in sections::of(&bytes) {
            let most = found.entry((folder.clone(), place.kind)).or_default();
            *most = place.range.len().max(*most);
        }
        stores.blobs.put(&name, bytes.into()).await.unwrap();
    }
    let settings = Settings {
        garbage: no_grace(),
        ..golden.settings.clone()
    };
    let kept = settings.datasets;
    let reader = stores.reader(&settings).await;
    let health = reader.health();
    assert_eq!(health.covered, Some(golden.range()));
    assert_eq!(health.audit.len(), 1);
    assert!(
        health.tiers.len() > 2 && health.tiers[0] > 0,
        "{:?}",
        health.tiers
    );
    answers(&reader, &golden.stored, kept).await;
    let found_root = reader
        .content_root(golden.range())
        .await
        .unwrap()
        .to_string();
    assert_eq!(found_root.as_bytes(), root);

    if golden.folder.ends_with("ranges") {
        range_is_complete(&reader).await;
    }
    let writer = stores.writer(&settings).await;
    ingest(&writer, &golden.later, 7).await;
    writer.collect_garbage(GcMode::Remove).await.unwrap();
    let all = [&golden.stored[..], &golden.later[..]].concat();
    answers(&stores.reader(&settings).await, &all, kept).await;
    ranges_are_counted(&writer, all.len()).await;
    let first = writer.ranges().await.remove(0);
    // Those of version 2 that are no ranges were made before it was written down.
    let is_known = golden.folder.ends_with("ranges") || golden.is_of(NEWEST);
    let known = is_known.then_some(BEGAN);
    assert_eq!(
        first.created_at, known,
        "whether anybody knew when it began"
    );
    worked_on(&stores, golden, &root).await;
    found
}

/// Also in an archive that was begun before anybody counted: maintenance makes good for it.
async fn ranges_are_counted(archive: &Archive, blocks: usize) {
    let ranges = archive.ranges().await;
    let counted: u64 = ranges.iter().map(|range| range.blocks).sum();
    assert_eq!(counted, blocks as u64);
    for range in ranges {
        let mut keys = TxCounts::default();
        for number in range.first..=range.last_committed.unwrap() {
            // Some archives keep no logs, and some list no transactions.
            let txs = match archive.block(number).await {
                Ok(block) => Ok(block.txs),
                Err(_) => archive.pin().unwrap().transactions(number).await,
            };
            let txs = txs.unwrap_or_default();
            txs.iter().for_each(|tx| keys.count(&tx.hash));
        }
        assert_eq!(range.keys, Some(keys));
    }
}

/// What was written down of the first range is read again.
async fn range_is_complete(archive: &Archive) {
    let first = archive.ranges().await.remove(0);
    assert_eq!(first.state, RangeState::Complete);
    assert_eq!((first.first, first.last, first.blocks), (2, 9, 8));
    let times = (first.created_at, first.completed_at);
    assert_eq!(times, (Some(BEGAN), Some(ENDED)));
    assert_eq!(first.verified_keys, Some(8 * 8));
    assert_eq!(archive.geometry(), Geometry { first: 2, size: 8 });
}

/// What operators do with an archive whose objects are of several versions: nothing of it is damaged,
/// what was there has the root it had, runs can be rebuilt, and blocks can be taken back.
async fn worked_on(stores: &Stores, golden: &Golden, root: &[u8]) {
    let kept = golden.settings.datasets;
    let writer = stores.writer(&golden.settings).await;
    let range = golden.range();
    let all = BlockRange::new(range.start, range.end + golden.later.len() as u64);
    let damaged = writer.inspect(all, &mut |_| {}).await.unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    let found = writer.content_root(range).await.unwrap().to_string();
    assert_eq!(found.as_bytes(), root);
    let audit = |act: &str| AuditEntry {
        at: 2,
        act: act.to_owned(),
    };
    for info in stores.blobs.list("run/", None, 10_000).await.unwrap() {
        let run = StoredObject {
            name: info.name,
            sort: ObjectSort::Run,
            range: all,
            datasets: DatasetSet::CLOCK,
            scope: Scope::All,
        };
        if writer.names(&run) {
            writer.rebuild_run(&run, audit("mend")).await.unwrap();
        }
    }
    let both = [&golden.stored[..], &golden.later[..]].concat();
    answers(&stores.reader(&golden.settings).await, &both, kept).await;
    for count in [golden.stored.len() / 2 + 1, 7] {
        let left = &both[..count];
        let to = left[count - 1].clock.number;
        writer.rewind(to, audit("rewind")).await.unwrap();
        answers(&stores.reader(&golden.settings).await, left, kept).await;
        let damaged = writer.inspect(all, &mut |_| {}).await.unwrap();
        assert!(damaged.is_empty(), "{damaged:?}");
    }
    ingest(&writer, &both[7..], 5).await;
    answers(&stores.reader(&golden.settings).await, &both, kept).await;
    let found = writer.content_root(range).await.unwrap().to_string();
    assert_eq!(found.as_bytes(), root);
}

/// Checks the archives of a version, and that they have all of its sections.
async fn check_version(version: u16, goldens: &[Golden], sections: u16) {
    let folder = Path::new(FOLDER).join(format!("v{version}"));
    let bytes: usize = files(&folder).values().map(Vec::len).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes in {}", folder.display());
    let mut found = BTreeMap::new();
    for golden in goldens {
        for (section, bytes) in check(golden).await {
            let most: &mut usize = found.entry(section).or_default();
            *most = bytes.max(*most);
        }
    }
    println!("{bytes} golden bytes: {found:?}");
    for folder in ["bat", "cat", "pack", "run", "seg"] {
        assert!(
            found.keys().any(|(name, _)| name == folder),
            "no object in {folder}"
        );
    }
    for section in 1..=sections {
        let most = found
            .iter()
            .filter(|((_, kind), _)| *kind == section)
            .map(|(_, most)| *most);
        assert!(
            most.max() > Some(0),
            "section {section} is empty in every object"
        );
    }
}

#[tokio::test]
async fn version_one_is_read_and_written_further() {
    let goldens = [Golden::varied(), Golden::regular(), Golden::clocks()];
    let goldens = goldens.map(|golden| golden.of_version(1));
    check_version(1, &goldens, 17).await;
}

fn all() -> [Golden; 5] {
    [
        Golden::varied(),
        Golden::regular(),
        Golden::clocks(),
        Golden::ranges(),
        Golden::packed(),
    ]
}

/// Its terms have no key: what is written now lies beside what was written then.
#[tokio::test]
async fn version_two_is_read_and_written_further() {
    check_version(2, &all().map(|golden| golden.of_version(2)), 19).await;
}

/// One test, not several: rebuilding the files must come before reading them.
#[tokio::test]
async fn the_newest_version_is_read_and_written_further() {
    let goldens = all().into_iter().chain([Golden::falling()]);
    let goldens: Vec<Golden> = goldens.map(|golden| golden.of_version(NEWEST)).collect();
    if std::env::var_os("CHRONOLITH_BLESS").is_some_and(|value| value == "1") {
        for golden in goldens.iter().filter(|golden| !golden.folder.exists()) {
            golden.bless().await;
        }
    }
    check_version(NEWEST, &goldens, 19).await;
}
