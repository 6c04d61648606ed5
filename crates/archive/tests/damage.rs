//! A damaged object is an error that names it, or changes nothing: never a wrong answer, never a
//! shorter one, never a panic.
//!
//! By default a sample of all bytes is flipped; with `CHRONOLITH_TORTURE=1` every one of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{
    Archive, Error, GcMode, LogRecord, Provenance, Result, Settings, TimeSide, TxLocation,
};
use chronolith_model::{
    Block, BlockMeta, BlockRange, Clause, Dataset, DatasetSet, ErrorKind, Hash32, Log, LogFilter,
    LogParts, Order, Payload, Select,
};
use chronolith_sim::{ChainSpec, SimChain, flip_byte};
use chronolith_store::{BlobStore, MemoryBlobs, MemoryMeta, MetaStore};
use support::{Stores, tiny_settings};

const BLOCKS: u64 = 90;
/// How far apart the flipped bytes of an object are by default: prime, so that no column of a
/// table is always missed.
const STRIDE: usize = 89;

/// An archive with every kind of object, and what it answers while it is whole.
struct Whole {
    settings: Settings,
    blobs: Arc<MemoryBlobs>,
    state: Bytes,
    objects: BTreeMap<String, Bytes>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug)]
enum Request {
    Logs(LogFilter),
    Number(u64),
    Hash(Hash32),
    Time(u64, TimeSide),
    Tx(Hash32),
    Block(u64),
    Payload(u64, Dataset),
    Root(BlockRange),
}

#[derive(Clone, PartialEq, Debug)]
enum Answer {
    Logs(Vec<LogRecord>, bool),
    Clock(Option<BlockMeta>),
    Tx(Option<TxLocation>),
    Block(Box<Block>),
    Payload(Payload),
    Root(Hash32),
}

async fn ask(archive: &Archive, request: &Request) -> Result<Answer> {
    Ok(match request {
        Request::Logs(filter) => {
            let page = archive.query_finalized(filter).await?;
            Answer::Logs(page.logs, page.has_more)
        }
        Request::Number(number) => Answer::Clock(Some(archive.block_by_number(*number).await?)),
        Request::Hash(hash) => Answer::Clock(archive.block_by_hash(hash).await?),
        Request::Time(time, side) => Answer::Clock(archive.block_at(*time, *side).await?),
        Request::Tx(hash) => Answer::Tx(archive.transaction_by_hash(hash).await?),
        Request::Block(number) => Answer::Block(Box::new(archive.block(*number).await?)),
        Request::Payload(number, dataset) => {
            Answer::Payload(archive.payload(*number, *dataset).await?)
        }
        Request::Root(range) => Answer::Root(archive.content_root(*range).await?),
    })
}

fn one_of(values: &[&[u8]]) -> Clause {
    Clause::OneOf(
        values
            .iter()
            .map(|value| Bytes::copy_from_slice(value))
            .collect(),
    )
}

/// Every emitter, or every topic, that the chain has: all lists are looked up.
fn every(len: usize) -> Clause {
    let fills = [0, 1, 0x12, 0x13, 0x14, 0x77, 0xff];
    Clause::OneOf(fills.map(|fill| vec![fill; len].into()).to_vec())
}

/// Small blocks, and a crowded one, so that there are long lists as well as short ones.
fn blocks() -> Vec<Block> {
    let of_seed = |seed: u64| {
        let spec = ChainSpec {
            logs_per_block: 3,
            ..ChainSpec::tiny(seed)
        };
        let chain = SimChain::new(spec);
        chain.blocks(BlockRange::new(0, BLOCKS)).collect::<Vec<_>>()
    };
    let small = |blocks: &Vec<Block>| blocks.iter().all(|block| block.logs.len() < 100);
    let mut blocks = (0..).map(of_seed).find(small).unwrap();
    let crowded = blocks
        .iter_mut()
        .skip(40)
        .find(|block| !block.txs.is_empty())
        .unwrap();
    let log = |log_index: u32| {
        let parts = LogParts {
            tx_index: crowded.txs[0].index,
            log_index,
            emitter: &[0x77; 20],
            topics: &[&[log_index as u8 & 1; 32]],
            ..LogParts::default()
        };
        Log::new(&parts).unwrap()
    };
    crowded.logs = (0..300).map(log).collect();
    blocks
}

/// Requests that together look at every part of every object.
fn requests(blocks: &[Block]) -> Vec<Request> {
    let range = BlockRange::new(0, BLOCKS);
    let all = LogFilter::over(range);
    let some = blocks.iter().flat_map(|block| &block.logs);
    let some = some.filter(|log| log.topic_count() > 1).nth(7).unwrap();
    let (topic0, topic1) = (some.topic(0).unwrap(), some.topic(1).unwrap());
    let filter = |emitters: Clause, topics: Vec<Clause>| {
        let mut filter = all.clone();
        (filter.emitters, filter.topics) = (emitters, topics);
        Request::Logs(filter)
    };
    let mut newest = all.clone();
    (newest.order, newest.limit) = (Order::Descending, Some(25));
    let mut of_block = all.clone();
    of_block.select = Select::Block(blocks[11].clock.hash);
    let mut requests = vec![
        Request::Logs(all.clone()),
        filter(every(20), vec![]),
        filter(Clause::Any, vec![every(32)]),
        filter(Clause::Any, vec![Clause::Any, every(32)]),
        filter(Clause::Any, vec![one_of(&[topic0, topic1])]),
        filter(
            one_of(&[some.emitter(), b"absent"]),
            vec![one_of(&[topic0]), one_of(&[topic1])],
        ),
        filter(Clause::Any, vec![Clause::Any]),
        filter(
            Clause::Any,
            vec![Clause::Any, Clause::Any, every(32), every(32)],
        ),
        filter(one_of(&[b"absent"]), vec![]),
        filter(one_of(&[&[0x77; 20]]), vec![one_of(&[&[1; 32]])]),
        Request::Logs(newest),
        Request::Logs(of_block),
        Request::Hash(Hash32([5; 32])),
        Request::Tx(Hash32([5; 32])),
        Request::Root(range),
        Request::Root(BlockRange::new(range.start + 3, range.end - 5)),
    ];
    for block in blocks.iter().step_by(6) {
        let clock = block.clock;
        requests.push(Request::Number(clock.number));
        requests.push(Request::Hash(clock.hash));
        requests.push(Request::Time(clock.timestamp, TimeSide::AtOrAfter));
        requests.extend(block.txs.last().map(|tx| Request::Tx(tx.hash)));
    }
    for block in blocks {
        let number = block.clock.number;
        requests.push(Request::Block(number));
        if number.is_multiple_of(2) {
            requests.push(Request::Payload(number, Dataset::Payload));
        }
    }
    requests
}

impl Whole {
    async fn build() -> Self {
        let mut settings = tiny_settings();
        settings.datasets = DatasetSet::of(&Dataset::ALL);
        settings.seal.grid_blocks = 32;
        settings.seal.weight = 24;
        settings.seal.pack_bytes = 3_000;
        settings.garbage.grace = std::time::Duration::ZERO;
        let blocks = blocks();
        let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
        let stores = Stores {
            meta: meta.clone(),
            blobs: blobs.clone(),
        };
        let archive = stores.writer(&settings).await;
        for batch in blocks.chunks(3) {
            let how = Provenance::default();
            let batch = batch.to_vec();
            archive.ingest_finalized_blocks(batch, &how).await.unwrap();
            while archive.maintain().await.unwrap() {}
        }
        // What nothing names cannot be damaged: only live objects stay.
        for _ in 0..2 {
            archive.collect_garbage(GcMode::Remove).await.unwrap();
        }
        let left = archive.collect_garbage(GcMode::DryRun).await.unwrap();
        assert!(left.orphans.is_empty(), "{left:?}");
        let health = archive.health();
        let [batches, sealed, merged @ ..] = health.tiers.as_slice() else {
            panic!("{health:?}");
        };
        assert!(
            *batches > 0 && *sealed > 0 && !merged.is_empty(),
            "{health:?}"
        );
        let mut objects = BTreeMap::new();
        for info in blobs.list("", None, 10_000).await.unwrap() {
            let bytes = blobs.get(&info.name).await.unwrap();
            objects.insert(info.name, bytes);
        }
        for folder in ["bat/", "seg/", "run/", "pack/", "cat/"] {
            let found = objects.keys().any(|name| name.starts_with(folder));
            assert!(found, "no object in {folder}: {:?}", objects.keys());
        }
        let requests = requests(&blocks);
        let reader = stores.reader(&settings).await;
        let mut answers = Vec::new();
        for request in &requests {
            answers.push(ask(&reader, request).await.unwrap());
        }
        let state = meta.load().await.unwrap().unwrap().bytes;
        Self {
            settings,
            blobs,
            state,
            objects,
            requests,
            answers,
        }
    }

    /// Asks everything of a fresh reader on this state. Returns the objects that errors named.
    async fn check(&self, state: &Bytes, what: &str) -> Vec<String> {
        let _context = Context(what);
        let meta = MemoryMeta::new();
        meta.swap(None, state.clone()).await.unwrap();
        let settings = self.settings.clone();
        let opened = Archive::open_reader(Arc::new(meta), self.blobs.clone(), settings).await;
        let archive = match opened {
            Ok(archive) => archive,
            Err(error) => return vec![named(&error, what)],
        };
        let mut errors = Vec::new();
        for (request, answer) in self.requests.iter().zip(&self.answers) {
            match ask(&archive, request).await {
                Ok(found) => assert!(found == *answer, "{what}: a wrong answer to {request:?}"),
                Err(error) => errors.push(named(&error, what)),
            }
        }
        errors
    }

    /// As [`Self::check`], with one object replaced or taken away.
    async fn check_object(&self, name: &str, bytes: Option<Bytes>, what: &str) -> Vec<String> {
        self.blobs.delete(name).await.unwrap();
        if let Some(bytes) = bytes {
            self.blobs.put(name, bytes).await.unwrap();
        }
        let errors = self.check(&self.state, &format!("{name}: {what}")).await;
        let whole = self.objects[name].clone();
        self.blobs.put(name, whole).await.unwrap();
        assert!(
            errors.iter().all(|named| named == name),
            "{name}: {what}: other objects are blamed: {errors:?}"
        );
        errors
    }
}

fn named(error: &Error, what: &str) -> String {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
    match error {
        Error::Corrupt { object, .. } => object.clone(),
        other => panic!("{what}: {other}"),
    }
}

/// Says what was being done when something panics further down.
struct Context<'a>(&'a str);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("while checking {}", self.0);
        }
    }
}

fn stride() -> usize {
    let torture = std::env::var_os("CHRONOLITH_TORTURE").is_some_and(|value| value == "1");
    if torture { 1 } else { STRIDE }
}

/// Detected and harmless flips, by what was hit.
#[derive(Default)]
struct Tally(BTreeMap<String, (u64, u64)>);

impl Tally {
    fn add(&mut self, what: String, detected: bool) {
        let entry = self.0.entry(what).or_default();
        entry.0 += u64::from(detected);
        entry.1 += u64::from(!detected);
    }

    fn print(&self) -> (u64, u64) {
        let mut total = (0, 0);
        for (what, (detected, harmless)) in &self.0 {
            println!("{what}: {detected} detected, {harmless} harmless");
            total = (total.0 + detected, total.1 + harmless);
        }
        println!("flips: {} detected, {} harmless", total.0, total.1);
        total
    }
}

#[tokio::test]
async fn a_flipped_byte_is_an_error_or_changes_nothing() {
    let whole = Whole::build().await;
    assert!(whole.check(&whole.state, "nothing").await.is_empty());
    let mut tally = Tally::default();
    for (number, (name, bytes)) in whole.objects.iter().enumerate() {
        let folder = name.split('/').next().unwrap_or_default();
        for offset in (number % stride()..bytes.len()).step_by(stride()) {
            let what = format!("{name}: flipped byte {offset}");
            flip_byte(&*whole.blobs, name, offset as u64).await.unwrap();
            let errors = whole.check(&whole.state, &what).await;
            flip_byte(&*whole.blobs, name, offset as u64).await.unwrap();
            assert!(
                errors.iter().all(|named| named == name),
                "{what}: blamed {errors:?}"
            );
            let section = sections::name_at(bytes, offset);
            tally.add(format!("{folder} {section}"), !errors.is_empty());
        }
    }
    for offset in (0..whole.state.len()).step_by(stride()) {
        let mut state = whole.state.to_vec();
        state[offset] ^= 1;
        let errors = whole
            .check(&state.into(), &format!("state: flipped byte {offset}"))
            .await;
        tally.add("state".to_owned(), !errors.is_empty());
    }
    let (detected, _) = tally.print();
    assert!(detected > 400, "too little was detected: {detected}");
    // Nothing reads the magic number in front; and a segment that was promoted alone, without a
    // merge, keeps a table of hashes that its run has replaced. Only these may go unnoticed.
    let spare = |what: &str| what.ends_with(" magic") || what == "seg hashes";
    for (what, (_, harmless)) in &tally.0 {
        assert!(
            spare(what) || *harmless == 0,
            "{what}: {harmless} went unnoticed"
        );
    }
}

#[tokio::test]
async fn a_cut_or_missing_object_is_an_error_that_names_it() {
    let whole = Whole::build().await;
    for (name, bytes) in &whole.objects {
        for keep in [bytes.len() - 1, bytes.len() / 2, 0] {
            let cut = Some(bytes.slice(..keep));
            let errors = whole
                .check_object(name, cut, &format!("cut to {keep}"))
                .await;
            assert!(
                !errors.is_empty(),
                "{name}: cut to {keep} bytes, and nobody noticed"
            );
        }
        let errors = whole.check_object(name, None, "missing").await;
        assert!(!errors.is_empty(), "{name}: missing, and nobody noticed");
    }
    for keep in [whole.state.len() - 1, whole.state.len() / 2, 0] {
        let errors = whole.check(&whole.state.slice(..keep), "a cut state").await;
        assert!(!errors.is_empty(), "a cut state was read");
    }
}

/// Bytes behind the end of an object were seen by nobody but a rebuild of the state, which then called
/// the whole object unreadable.
#[tokio::test]
async fn bytes_behind_the_end_of_an_object_are_found() {
    let (stores, settings) = (Stores::memory(), tiny_settings());
    let archive = stores.writer(&settings).await;
    let chain = SimChain::new(ChainSpec::tiny(9));
    let range = BlockRange::new(0, 60);
    support::ingest(&archive, &chain, range, &[9]).await;
    let objects = archive.inspect(range, &mut |_| {}).await.unwrap();
    assert_eq!(objects, []);
    let victim = archive.segments_of(30).remove(0);
    let mut bytes = stores.blobs.get(&victim.name).await.unwrap().to_vec();
    bytes.extend([7; 100]);
    stores.blobs.delete(&victim.name).await.unwrap();
    stores.blobs.put(&victim.name, bytes.into()).await.unwrap();
    let found = archive.inspect(range, &mut |_| {}).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].object, victim);
    assert!(found[0].reason.contains("behind its end"), "{found:?}");
}
