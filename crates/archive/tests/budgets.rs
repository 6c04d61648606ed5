//! What a query may cost in reads of the store, counted per class of query.
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
use chronolith_archive::{Archive, Settings, TimeSide};
use chronolith_model::{BlockRange, ChainId, Clause, LogFilter};
use chronolith_sim::{ChainSpec, CountingBlobs, Operation, SimChain};
use support::{Stores, assert_answers, ingest, oracle_of};

/// Cold reads of one segment in which nothing matches: its tables, one page of its dictionary.
const ABSENT_READS: u64 = 2;
/// Cold reads of one segment besides that where logs match: the posting record and its body.
const RECORD_READS: u64 = 2;
/// And for each log that matches: its frame, and the block of its transaction's hash.
const MATCH_READS: u64 = 2;

/// Ranges and whole objects read, and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Reads {
    reads: u64,
    bytes: u64,
}

/// An archive whose reads are counted, over a chain with rare terms.
struct Counted {
    stores: Stores,
    counting: Arc<CountingBlobs>,
    settings: Settings,
    chain: SimChain,
    range: BlockRange,
}

impl Counted {
    async fn build(blocks: u64) -> Self {
        let spec = ChainSpec {
            logs_per_block: 12,
            ..ChainSpec::mainnet(61)
        };
        let chain = SimChain::new(spec);
        let mut settings = Settings::evm(ChainId(1));
        settings.seal.weight = 120;
        settings.seal.fan_in = 4;
        settings.seal.grid_blocks = 500;
        settings.seal.batches_max = 4;
        let counting = Arc::new(CountingBlobs::new(Stores::memory().blobs));
        let stores = Stores {
            blobs: counting.clone(),
            ..Stores::memory()
        };
        let range = BlockRange::new(0, blocks);
        let writer = stores.writer(&settings).await;
        ingest(&writer, &chain, range, &[3]).await;
        counting.take();
        Self {
            stores,
            counting,
            settings,
            chain,
            range,
        }
    }

    /// A reader with nothing in its cache, and nothing counted yet.
    async fn cold(&self) -> Archive {
        let reader = self.stores.reader(&self.settings).await;
        self.counting.take();
        reader
    }

    /// What was read since the last time, by object.
    fn by_object(&self) -> BTreeMap<String, Reads> {
        let mut reads: BTreeMap<String, Reads> = BTreeMap::new();
        for ((operation, name), count) in self.counting.take() {
            let number = match operation {
                Operation::BlobGet | Operation::BlobRange => count.calls,
                Operation::BlobRanges => count.ranges,
                other => panic!("a reader asked for {other} of {name}"),
            };
            let entry = reads.entry(name).or_default();
            entry.reads += number;
            entry.bytes += count.bytes;
        }
        reads
    }

    fn total(&self) -> Reads {
        let add = |sum: Reads, one: Reads| Reads {
            reads: sum.reads + one.reads,
            bytes: sum.bytes + one.bytes,
        };
        self.by_object().into_values().fold(Reads::default(), add)
    }

    fn filter(&self, topics: Vec<Clause>) -> LogFilter {
        let mut filter = LogFilter::over(self.range);
        filter.topics = topics;
        filter
    }

    /// Second topics that occur this often, with one of their logs.
    fn topics_with(&self, count: usize) -> Vec<Bytes> {
        let mut counts: BTreeMap<Bytes, usize> = BTreeMap::new();
        for log in self.chain.blocks(self.range).flat_map(|block| block.logs) {
            if let Some(topic) = log.topic(1) {
                *counts.entry(Bytes::copy_from_slice(topic)).or_default() += 1;
            }
        }
        counts.retain(|_, occurs| *occurs == count);
        counts.into_keys().collect()
    }
}

fn one_of(value: &[u8]) -> Clause {
    Clause::OneOf(vec![Bytes::copy_from_slice(value)])
}

#[tokio::test]
async fn an_absent_term_reads_tables_and_one_dictionary_page_and_no_payload() {
    let counted = Counted::build(150).await;
    let reader = counted.cold().await;
    let absent = counted.filter(vec![Clause::Any, one_of(&[0xee; 32])]);
    let page = reader.query_finalized(&absent).await.unwrap();
    assert!(page.logs.is_empty() && page.cost.candidates == 0);
    let reads = counted.by_object();
    assert_eq!(reads.len() as u64, page.cost.segments);
    assert!(page.cost.segments > 5);
    for (name, read) in &reads {
        let object = counted.stores.blobs.get(name).await.unwrap();
        let terms = sections::find(&object, sections::TERMS);
        let last_data = sections::of(&object)
            .into_iter()
            .filter(|place| !place.table);
        let tables = object.len() - last_data.map(|place| place.range.end).max().unwrap();
        assert!(read.reads <= ABSENT_READS, "{name}: {read:?}");
        let most = (tables + terms.len()) as u64;
        assert!(
            read.bytes <= most,
            "{name}: {read:?}, tables and dictionary have {most}"
        );
    }
    counted.counting.take();
    println!(
        "absent, cold: at most {ABSENT_READS} reads in each of {} segments",
        reads.len()
    );
    reader.query_finalized(&absent).await.unwrap();
    assert_eq!(counted.total(), Reads::default(), "warm");
}

#[tokio::test]
async fn a_rare_match_costs_a_few_reads_in_each_segment_and_none_when_repeated() {
    let counted = Counted::build(150).await;
    let oracle = oracle_of(&counted.chain, counted.range);
    for occurs in [1, 2, 3] {
        let mut most = 0;
        let budget = ABSENT_READS + RECORD_READS + occurs as u64 * MATCH_READS;
        let topics = counted.topics_with(occurs);
        for topic in topics.iter().step_by(topics.len().div_ceil(12).max(1)) {
            let reader = counted.cold().await;
            let filter = counted.filter(vec![Clause::Any, one_of(topic)]);
            let page = reader.query_finalized(&filter).await.unwrap();
            assert_answers(&page, &oracle, &filter);
            assert_eq!(page.logs.len(), occurs);
            assert_eq!(page.cost.candidates, occurs as u64, "no false candidates");
            for (name, read) in counted.by_object() {
                assert!(read.reads <= budget, "{name}: {read:?}");
                most = most.max(read.reads);
            }
            let again = reader.query_finalized(&filter).await.unwrap();
            assert_eq!(again.logs, page.logs);
            assert_eq!(counted.total(), Reads::default(), "warm");
        }
        assert!(most > ABSENT_READS, "nothing was found in any segment");
        println!("{occurs} rare, cold: at most {most} reads in a segment (budget {budget})");
    }
}

/// Recovery without a scan: however long the history, opening reads the catalog and lists nothing.
#[tokio::test]
async fn opening_reads_one_object_whatever_the_number_of_segments() {
    let mut segments = Vec::new();
    for blocks in [30, 150, 600] {
        let counted = Counted::build(blocks).await;
        let reader = counted.stores.reader(&counted.settings).await;
        let opened = counted.by_object();
        assert_eq!(opened.len(), 1, "{opened:?}");
        assert!(
            opened
                .iter()
                .all(|(name, read)| name.starts_with("cat/") && read.reads == 1)
        );
        counted.stores.writer(&counted.settings).await;
        assert_eq!(
            counted.by_object(),
            opened,
            "a writer reads what a reader does"
        );
        segments.push(reader.health().segments.0);
    }
    assert!(
        segments.is_sorted() && segments[0] < segments[2],
        "{segments:?}"
    );
    println!("opening: 1 read with {segments:?} segments");
}

#[tokio::test]
async fn lookups_cost_a_bounded_number_of_reads() {
    let counted = Counted::build(150).await;
    let health = counted.cold().await.health();
    let tables = (health.tiers.iter().take(2).sum::<usize>() + health.runs_and_packs.0) as u64;
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    let mut note = |what, budget| {
        let reads = counted.total().reads;
        assert!(reads <= budget, "{what}: {reads} reads, budget {budget}");
        let entry = most.entry(what).or_default();
        *entry = reads.max(*entry);
    };
    for block in counted.chain.blocks(counted.range).skip(1).step_by(23) {
        let clock = block.clock;
        let reader = counted.cold().await;
        assert_eq!(reader.block_by_number(clock.number).await.unwrap(), clock);
        note("block by number", 2);
        reader.block_by_number(clock.number).await.unwrap();
        note("block by number, warm", 0);
        let reader = counted.cold().await;
        assert!(
            reader
                .block_at(clock.timestamp, TimeSide::AtOrAfter)
                .await
                .unwrap()
                == Some(clock)
        );
        note("block at or after a time", 2);
        let reader = counted.cold().await;
        reader
            .block_at(clock.timestamp - 1, TimeSide::AtOrBefore)
            .await
            .unwrap();
        note("block at or before a time", 3);
        let reader = counted.cold().await.pin().unwrap();
        let after = (clock.timestamp, TimeSide::AtOrAfter);
        let found = reader.number_at(after.0, after.1).await.unwrap().unwrap();
        assert_eq!((found.number, found.timestamp), (clock.number, after.0));
        note("number at or after a time", 1);
        reader.number_at(after.0, after.1).await.unwrap();
        note("number at or after a time, warm", 0);
        let reader = counted.cold().await;
        assert_eq!(
            reader.block_by_hash(&clock.hash).await.unwrap(),
            Some(clock)
        );
        note("block by hash", 2 * tables + 2);
        reader.block_by_hash(&clock.hash).await.unwrap();
        note("block by hash, warm", 0);
        let Some(tx) = block.txs.last() else { continue };
        let reader = counted.cold().await;
        let place = reader.transaction_by_hash(&tx.hash).await.unwrap().unwrap();
        assert_eq!((place.block, place.index), (clock, tx.index));
        note("transaction by hash", 2 * tables + 4);
        reader.transaction_by_hash(&tx.hash).await.unwrap();
        note("transaction by hash, warm", 0);
    }
    println!("tables of hashes: {tables}");
    most.iter()
        .for_each(|(what, reads)| println!("{what}: at most {reads} reads"));
}
