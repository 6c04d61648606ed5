//! One chain's logs, and questions about them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, BlockRange, ChainId, Proof, Verification};
use chronolith_sim::{ChainSpec, SimChain};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use const_hex::encode_prefixed;
use serde_json::{Value, json};

const BLOCKS: u64 = 40_000;
const LOGS_PER_BLOCK: u32 = 50;
/// Blocks that are archived at a time.
const CHUNK: u64 = 1_000;
/// Where questions begin, as a part of the chain.
const FROM_PART: u64 = 4;
/// How often a pair comes in 10,000 blocks, so that the median answer has 23 logs.
const PAIR_LOGS: std::ops::RangeInclusive<usize> = 17..=37;
const PAIRS: usize = 500;
/// Blocks of which all logs are asked for.
const ALL_OF: u64 = 100;

/// A chain and what is asked about it.
pub(crate) struct Data {
    pub(crate) chain: SimChain,
    pub(crate) blocks: u64,
    pub(crate) logs: u64,
    pub(crate) pairs: Vec<Pair>,
    commonest: String,
    from: u64,
    span: u64,
}

/// An address with a first topic, and how often it is in the longest range.
pub(crate) struct Pair {
    pub(crate) address: String,
    topic: String,
    pub(crate) logs: usize,
}

impl Data {
    /// Archives a chain under a directory, as the program would.
    pub(crate) fn make(dir: &Path, chain_id: u64, divide: u64) -> Result<Self> {
        let mut spec = ChainSpec::mainnet(1);
        spec.logs_per_block = LOGS_PER_BLOCK;
        let chain = SimChain::new(spec);
        let blocks = BLOCKS / divide;
        let dir = dir.join("data/chains").join(chain_id.to_string());
        std::fs::create_dir_all(&dir)?;
        let runtime = tokio::runtime::Runtime::new()?;
        let logs = runtime.block_on(archive(&chain, blocks, &dir, chain_id))?;
        let (from, span) = (blocks / FROM_PART, (10_000 / divide).max(1));
        let (pairs, commonest) = pairs(&chain, BlockRange::new(from, from + span));
        Ok(Self {
            chain,
            blocks,
            logs,
            pairs,
            commonest,
            from,
            span,
        })
    }

    /// The longest range that is asked about.
    pub(crate) fn asked(&self) -> BlockRange {
        BlockRange::new(self.from, self.from + self.span)
    }

    /// How many logs the answer in the middle has.
    pub(crate) fn median(&self) -> usize {
        let mut logs: Vec<usize> = self.pairs.iter().map(|pair| pair.logs).collect();
        logs.sort_unstable();
        logs.get(logs.len() / 2).copied().unwrap_or_default()
    }

    fn body(&self, (from, blocks): (u64, u64), mut filter: Value) -> String {
        let last = from + blocks.min(self.span) - 1;
        let ends = [("fromBlock", from), ("toBlock", last)];
        for (name, number) in ends {
            let fields = filter.as_object_mut().into_iter();
            let end = json!(format!("0x{number:x}"));
            fields.for_each(|fields| drop(fields.insert(name.to_owned(), end.clone())));
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [filter] })
            .to_string()
    }

    /// One address and one topic, over so many blocks.
    pub(crate) fn narrow(&self, blocks: u64) -> Vec<String> {
        self.narrow_from(self.from, blocks)
    }

    /// The same where the first block that is asked about has another number.
    pub(crate) fn narrow_from(&self, from: u64, blocks: u64) -> Vec<String> {
        let one = |Pair { address, topic, .. }: &Pair| {
            let filter = json!({ "address": address, "topics": [topic] });
            self.body((from, blocks), filter)
        };
        self.pairs.iter().map(one).collect()
    }

    /// All logs of a few blocks at the beginning, and how many there are, where the first block has
    /// another number.
    pub(crate) fn all_from(&self, from: u64) -> (String, usize) {
        let blocks = ALL_OF.min(self.span);
        let range = BlockRange::new(self.from, self.from + blocks);
        let logs = self.chain.blocks(range).map(|block| block.logs.len());
        (self.body((from, blocks), json!({})), logs.sum())
    }

    /// Two hundred addresses and all their topics.
    pub(crate) fn wide(&self) -> Vec<String> {
        let chunks = self.pairs.chunks(200).filter(|chunk| chunk.len() == 200);
        let one = |chunk: &[Pair]| {
            let addresses: Vec<&String> = chunk.iter().map(|pair| &pair.address).collect();
            let mut topics: Vec<&String> = chunk.iter().map(|pair| &pair.topic).collect();
            topics.sort();
            topics.dedup();
            self.body(
                (self.from, u64::MAX),
                json!({ "address": addresses, "topics": [topics] }),
            )
        };
        chunks.map(one).collect()
    }

    /// About ten thousand logs of the commonest topic.
    pub(crate) fn dense(&self) -> Vec<String> {
        // A little under half of all logs have it.
        let blocks = 9_000 * 100 / 46 / u64::from(LOGS_PER_BLOCK);
        let filter = json!({ "topics": [self.commonest] });
        vec![self.body((self.from, blocks), filter)]
    }

    /// Times all over the chain.
    pub(crate) fn times(&self, chain_id: u64) -> Vec<String> {
        let last = self.blocks - 2;
        let clocks = (1..1_000).map(|at| self.chain.clock(at * 7_919 % last).timestamp);
        clocks
            .map(|time| format!("GET /v1/chains/{chain_id}/block/before/{time}"))
            .collect()
    }
}

async fn archive(chain: &SimChain, blocks: u64, dir: &Path, chain_id: u64) -> Result<u64> {
    let (meta, store) = (FileMeta::open_writer(dir)?, FileBlobs::open_writer(dir)?);
    let settings = Settings::evm(ChainId(chain_id));
    let take_over = TakeOver::NoWait;
    let archive =
        Archive::open_writer(Arc::new(meta), Arc::new(store), settings, take_over).await?;
    let provenance = Provenance {
        proof: Proof::of_logs(Verification::Receipts),
        source: "bench".to_owned(),
        now: 0,
    };
    let mut logs = 0;
    for start in (0..blocks).step_by(CHUNK as usize) {
        let range = BlockRange::new(start, (start + CHUNK).min(blocks));
        let chunk: Vec<Block> = chain.blocks(range).collect();
        logs += chunk
            .iter()
            .map(|block| block.logs.len() as u64)
            .sum::<u64>();
        archive.ingest_finalized_blocks(chunk, &provenance).await?;
        while archive.maintain().await? {}
    }
    archive.release().await.context("release the archive")?;
    Ok(logs)
}

fn pairs(chain: &SimChain, range: BlockRange) -> (Vec<Pair>, String) {
    let (mut counts, mut topics) = (HashMap::new(), HashMap::new());
    for block in chain.blocks(range) {
        for log in &block.logs {
            if let Some(topic) = log.topic(0) {
                *topics.entry(encode_prefixed(topic)).or_insert(0_u64) += 1;
                let pair = (encode_prefixed(log.emitter()), encode_prefixed(topic));
                *counts.entry(pair).or_insert(0) += 1;
            }
        }
    }
    let fitting = counts
        .into_iter()
        .filter(|(_, count)| PAIR_LOGS.contains(count));
    let mut pairs: Vec<_> = fitting
        .map(|((address, topic), logs)| Pair {
            address,
            topic,
            logs,
        })
        .collect();
    pairs.sort_by(|a, b| (&a.address, &a.topic).cmp(&(&b.address, &b.topic)));
    pairs.truncate(PAIRS);
    let commonest = topics.into_iter().max_by_key(|(_, count)| *count);
    (pairs, commonest.map(|(topic, _)| topic).unwrap_or_default())
}
