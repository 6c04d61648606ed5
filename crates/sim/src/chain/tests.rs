//! Determinism, links, shapes, and how near the mainnet shape comes to real logs.

use std::collections::BTreeMap;
use std::path::Path;

use chronolith_model::{ChainProfile, Log};

use super::*;

fn specs() -> [ChainSpec; 3] {
    let tiny = ChainSpec::tiny(7);
    let varied = ChainSpec {
        shape: Shape::TinyVaried,
        ..tiny
    };
    let mainnet = ChainSpec {
        datasets: DatasetSet::of(&Dataset::ALL),
        ..ChainSpec::mainnet(7)
    };
    [tiny, varied, mainnet]
}

#[test]
fn same_seed_same_blocks_and_random_access_equals_iteration() {
    for spec in specs() {
        let chain = SimChain::new(spec);
        let again = SimChain::new(spec);
        for block in chain.blocks(BlockRange::new(95, 105)) {
            assert_eq!(block, again.block(block.clock.number));
        }
        let other = SimChain::new(ChainSpec { seed: 8, ..spec });
        assert_ne!(chain.block(100).clock.hash, other.block(100).clock.hash);
    }
}

/// If one of these changes, every seed named in a bug report is void.
#[test]
fn golden_blocks_never_change() {
    let digests = specs().map(|spec| digest(&SimChain::new(spec)));
    let golden = [
        0x493a_6513_6eed_22f8,
        0x5128_0b26_8854_3970,
        0x8e9e_417c_b7f2_a608,
    ];
    assert_eq!(digests, golden, "{digests:x?}");
}

/// A number that stands for everything in the first blocks.
fn digest(chain: &SimChain) -> u64 {
    let mut parts = Vec::new();
    let mut add = |bytes: &[u8]| {
        parts.push(bytes.len() as u64);
        parts.extend(bytes.iter().copied().map(u64::from));
    };
    for block in chain.blocks(BlockRange::new(0, 8)) {
        add(block.clock.hash.as_bytes());
        add(&block.clock.timestamp.to_le_bytes());
        block.txs.iter().for_each(|tx| add(tx.hash.as_bytes()));
        for log in &block.logs {
            add(&log.tx_index().to_le_bytes());
            add(&[log.kind()]);
            add(log.emitter());
            log.topics().for_each(&mut add);
            add(log.data());
            add(log.suffix());
        }
        let Payload {
            header,
            bodies,
            raw,
        } = &block.payload;
        let parts = header.iter().chain(bodies.iter().flatten()).chain(raw);
        parts.for_each(|part| add(part));
    }
    rng::key(&parts)
}

#[test]
fn blocks_link_and_keep_their_profile() {
    for spec in specs() {
        let chain = SimChain::new(spec);
        let profile = match spec.shape {
            Shape::TinyVaried => ChainProfile::STELLAR,
            Shape::Tiny | Shape::Mainnet => ChainProfile::EVM,
        };
        let mut parent = Hash32::ZERO;
        let mut timestamp = 0;
        for block in chain.blocks(BlockRange::new(0, 60)) {
            assert_eq!(block.clock.parent_hash, parent);
            assert!(block.clock.timestamp >= timestamp);
            profile.check(&block, true).unwrap();
            let indexes = block.txs.iter().map(|tx| tx.index);
            assert!(indexes.eq(0..block.txs.len() as u32), "all are listed");
            assert!(block.payload.header.is_some() && block.payload.raw.is_some());
            parent = block.clock.hash;
            timestamp = block.clock.timestamp;
        }
    }
}

#[test]
fn datasets_change_the_payload_and_nothing_else() {
    let full = SimChain::new(ChainSpec::tiny(3)).block(9);
    let spec = ChainSpec {
        datasets: DatasetSet::of(&[Dataset::Headers]),
        ..ChainSpec::tiny(3)
    };
    let bare = SimChain::new(spec).block(9);
    assert_eq!((&bare.txs, &bare.logs), (&full.txs, &full.logs));
    assert_eq!(bare.payload.header, full.payload.header);
    assert_eq!((bare.payload.bodies, bare.payload.raw), (None, None));
}

#[test]
fn forks_share_what_lies_below_them() {
    let trunk = SimChain::new(ChainSpec::tiny(1));
    let fork = trunk.fork(10, 1);
    assert_eq!(trunk.block(9), fork.block(9));
    assert_ne!(trunk.block_hash(10), fork.block_hash(10));
    assert_eq!(fork.block(10).clock.parent_hash, trunk.block_hash(9));
    assert_ne!(fork.block_hash(10), trunk.fork(10, 2).block_hash(10));
    let second = fork.fork(20, 1);
    assert_eq!(second.block(19), fork.block(19));
    assert_ne!(second.block_hash(20), trunk.fork(20, 1).block_hash(20));
    let lower = second.fork(5, 1);
    assert_eq!(lower.block(4), trunk.block(4));
    assert_ne!(lower.block_hash(25), second.block_hash(25));
}

#[test]
fn tiny_blocks_meet_every_odd_case() {
    let chain = SimChain::new(ChainSpec::tiny(2));
    let blocks: Vec<Block> = chain.blocks(BlockRange::new(0, 200)).collect();
    let logs: Vec<&Log> = blocks.iter().flat_map(|block| &block.logs).collect();
    assert!(blocks.iter().any(|block| block.txs.is_empty()));
    assert!(blocks.iter().any(|block| block.logs.is_empty()));
    assert!(blocks.iter().any(|block| block.logs.len() == 300));
    for topics in 0..5 {
        assert!(logs.iter().any(|log| log.topic_count() == topics));
    }
    for len in [0, 1, 31, 33, 257] {
        assert!(logs.iter().any(|log| log.data().len() == len));
    }
    let equal_times = |pair: &[Block]| pair[0].clock.timestamp == pair[1].clock.timestamp;
    assert!(blocks.windows(2).any(equal_times));
    assert!(!blocks.windows(2).all(equal_times));
    let bodies = blocks
        .iter()
        .filter_map(|block| block.payload.bodies.as_ref());
    assert!(
        bodies.flatten().any(Bytes::is_empty),
        "an empty body is kept"
    );
}

/// What logs look like, in shares of a thousand.
#[derive(Debug)]
struct Portrait {
    mean_bytes: f64,
    topic_counts: [u64; 5],
    no_data: u64,
    one_word: u64,
    /// Shares of the most frequent ones, falling.
    topic0: Vec<u64>,
    emitters: Vec<u64>,
}

/// Emitter, topics, length of the data.
type Row = (Vec<u8>, Vec<Vec<u8>>, usize);

fn portrait(rows: &[Row]) -> Portrait {
    let total = rows.len() as u64;
    let share = |wanted: &dyn Fn(&Row) -> bool| {
        rows.iter().filter(|row| wanted(row)).count() as u64 * 1_000 / total
    };
    let shares = |key: &dyn Fn(&Row) -> Vec<u8>| {
        let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        rows.iter()
            .for_each(|row| *counts.entry(key(row)).or_default() += 1);
        let mut shares: Vec<u64> = counts.values().map(|n| n * 1_000 / total).collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares
    };
    let bytes: usize = rows.iter().map(|row| 20 + 32 * row.1.len() + row.2).sum();
    Portrait {
        mean_bytes: bytes as f64 / total as f64,
        topic_counts: [0, 1, 2, 3, 4].map(|n| share(&|row| row.1.len() == n)),
        no_data: share(&|row| row.2 == 0),
        one_word: share(&|row| row.2 == 32),
        topic0: shares(&|row| row.1.first().cloned().unwrap_or_default()),
        emitters: shares(&|row| row.0.clone()),
    }
}

fn generated() -> Portrait {
    let chain = SimChain::new(ChainSpec::mainnet(1));
    let logs = chain
        .blocks(BlockRange::new(1_000, 1_160))
        .flat_map(|block| block.logs);
    let row = |log: Log| {
        let topics = log.topics().map(<[u8]>::to_vec).collect();
        (log.emitter().to_vec(), topics, log.data().len())
    };
    portrait(&logs.map(row).collect::<Vec<_>>())
}

#[track_caller]
fn near(actual: u64, expected: u64, tolerance: u64) {
    assert!(
        actual.abs_diff(expected) <= tolerance,
        "{actual} is not within {tolerance} of {expected}"
    );
}

#[test]
fn mainnet_blocks_have_the_skew_of_the_workload() {
    let portrait = generated();
    assert!(
        (182.0..194.0).contains(&portrait.mean_bytes),
        "{portrait:?}"
    );
    let [none, one, two, three, four] = portrait.topic_counts;
    assert_eq!(none, 0);
    near(one, 70, 12);
    near(two, 110, 15);
    near(three, 620, 25);
    near(four, 200, 25);
    near(portrait.one_word, 540, 25);
    near(portrait.no_data, 150, 20);
    near(portrait.topic0[0], 450, 20);
    near(portrait.topic0[1], 100, 15);
    near(portrait.topic0[2], 40, 10);
    near(portrait.emitters[0], 130, 15);
}

#[test]
fn mainnet_blocks_hold_as_many_logs_and_transactions_as_wanted() {
    let chain = SimChain::new(ChainSpec::mainnet(1));
    let (mut logs, mut txs, mut logging) = (0, 0, 0);
    for block in chain.blocks(BlockRange::new(0, 160)) {
        logs += block.logs.len() as u64;
        txs += block.txs.len() as u64;
        let by_tx = block.logs.chunk_by(|a, b| a.tx_index() == b.tx_index());
        logging += by_tx.count() as u64;
    }
    near(logs / 160, 250, 15);
    near(100 * logs / logging, 305, 12);
    near(100 * (txs - logging) / txs, 27, 3);
}

#[test]
fn mainnet_blocks_resemble_real_logs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/evm");
    let path = Path::new(folder).join("ethereum-logs.ndjson");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no fixtures (path={})", path.display());
        return;
    };
    let real = portrait(&text.lines().map(real_row).collect::<Vec<_>>());
    let made = generated();
    assert!(
        (real.mean_bytes - made.mean_bytes).abs() < 8.0,
        "{real:?} {made:?}"
    );
    near(made.one_word, real.one_word, 40);
    near(made.no_data, real.no_data, 60);
    near(made.topic0[0], real.topic0[0], 30);
    near(made.emitters[0], real.emitters[0], 30);
    for (made, real) in made.topic_counts.into_iter().zip(real.topic_counts) {
        near(made, real, 40);
    }
}

fn real_row(line: &str) -> Row {
    let row: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().as_bytes().to_vec();
    let topics = row["topics"].as_array().unwrap();
    let data_len = (row["data"].as_str().unwrap().len() - 2) / 2;
    (
        text(&row["address"]),
        topics.iter().map(text).collect(),
        data_len,
    )
}
