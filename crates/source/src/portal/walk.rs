//! Blocks from lines: each follows the one before it, none is left out, none comes twice.
//!
//! Nothing here waits or sends. A walk survives the end of a stream and continues with the next one.

use std::sync::Arc;

use alloy_primitives::Bloom;
use chronolith_model::{
    Block, BlockMeta, BlockRange, Dataset, Hash32, Log, LogParts, Payload, Proof, Scope,
    TOPICS_MAX, Tx, Verification,
};

use super::client::Failure;
use super::wire::{Line, LineHeader, LineLog};
use crate::error::Error;
use crate::evm::{Oddity, bloom};
use crate::failure::FailureClass;
use crate::source::{Fetched, Want};

/// Blocks for which there is room from the start.
const ROOM_MAX: u64 = 1 << 16;
/// Logs that are worth holding: a walk that has this many goes no further.
const LOGS_MAX: usize = 50_000;

/// Why a block is refused.
type Refusal = String;

/// A range on its way in.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    range: BlockRange,
    rules: Rules<'a>,
    fetched: Vec<Fetched>,
    logs: usize,
    /// How many blocks there were when the stream under way began.
    before: usize,
}

/// What every block of a walk must keep to.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) want: &'a Want,
    /// What it will be proven to.
    pub(crate) level: Verification,
    pub(crate) oddity: Oddity,
    pub(crate) endpoint: Arc<str>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(range: BlockRange, rules: Rules<'a>) -> Self {
        Self {
            range,
            rules,
            fetched: Vec::with_capacity(range.len().min(ROOM_MAX) as usize),
            logs: 0,
            before: 0,
        }
    }

    /// The blocks that are still to come.
    pub(crate) fn rest(&self) -> BlockRange {
        BlockRange::new(self.range.start + self.fetched.len() as u64, self.range.end)
    }

    /// Hash of the block before those, where it is known.
    pub(crate) fn parent(&self) -> Option<Hash32> {
        self.fetched.last().map(|last| last.block.clock.hash)
    }

    pub(crate) fn begin(&mut self) {
        self.before = self.fetched.len();
    }

    /// Whether the stream under way gave anything.
    pub(crate) fn moved(&self) -> bool {
        self.fetched.len() > self.before
    }

    /// Whether it holds as much as is worth holding.
    pub(crate) fn is_full(&self) -> bool {
        self.logs >= LOGS_MAX
    }

    pub(crate) fn finish(self) -> Vec<Fetched> {
        self.fetched
    }

    pub(crate) fn take(&mut self, text: &[u8]) -> Result<(), Failure> {
        let line: Line = serde_json::from_slice(text).map_err(|error| {
            let reason = format!("a line is not a block: {error}");
            Failure::Again(self.unavailable(reason).classed(FailureClass::Unreadable))
        })?;
        self.check_place(&line)?;
        let number = line.header.number;
        let made = self.made(line);
        let made = made.map_err(|what| self.inconsistent(number, what))?;
        self.logs += made.block.logs.len();
        self.fetched.push(made);
        Ok(())
    }

    fn check_place(&self, line: &Line) -> Result<(), Failure> {
        let (rest, number) = (self.rest(), line.header.number);
        if rest.is_empty() {
            return Err(self.inconsistent(number, "a block after the range"));
        }
        let due = rest.start;
        if number != due {
            return Err(self.inconsistent(due, format!("block {number} where {due} is due")));
        }
        let parent = Hash32(line.header.parent_hash.0);
        if self.parent().is_none_or(|before| before == parent) {
            return Ok(());
        }
        if self.moved() {
            let what = "its parent is not the block before it";
            return Err(self.inconsistent(number, what));
        }
        // Portal need not be wrong: the chain may have changed between two streams.
        let reason = format!("the chain changed: block {number} does not follow what came before");
        Err(Failure::Final(self.unavailable(reason)))
    }

    /// A block of ours from one of theirs.
    fn made(&self, line: Line) -> Result<Fetched, Refusal> {
        let Line {
            header,
            mut logs,
            mut transactions,
        } = line;
        // The order inside a block is promised nowhere.
        logs.sort_unstable_by_key(|log| log.log_index);
        transactions.sort_unstable_by_key(|tx| tx.transaction_index);
        let datasets = self.rules.want.datasets;
        if !datasets.contains(Dataset::Logs) && !logs.is_empty() {
            return Err("logs that were not requested".to_owned());
        }
        self.check_logs(&logs, &header)?;
        let txs = if datasets.contains(Dataset::TxHashes) {
            let found = transactions.iter();
            let found = found.map(|tx| tx_of((tx.transaction_index, tx.hash)));
            let mut txs: Vec<Tx> = found.collect();
            if !txs.iter().zip(0..).all(|(tx, due)| tx.index == due) {
                return Err("a transaction is missing or there twice".to_owned());
            }
            let own = self.rules.oddity.of_block(txs.len(), header.hash);
            let own = own.filter(|own| logs.iter().any(|log| log.place() == *own));
            txs.extend(own.map(tx_of));
            let named = |log: &LineLog| {
                let tx = txs.get(log.transaction_index as usize);
                tx.is_some_and(|tx| tx.hash.0 == log.transaction_hash.0)
            };
            if !logs.iter().all(named) {
                return Err("a log of a transaction that is not there".to_owned());
            }
            txs
        } else {
            named_by(&logs)?
        };
        let logs: Result<Vec<Log>, Refusal> = logs.iter().map(log_of).collect();
        Ok(Fetched {
            block: Block {
                clock: BlockMeta {
                    number: header.number,
                    hash: Hash32(header.hash.0),
                    parent_hash: Hash32(header.parent_hash.0),
                    timestamp: header.timestamp,
                },
                txs,
                logs: logs?,
                payload: Payload::default(),
            },
            proof: Proof::CLAIMED,
            endpoint: self.rules.endpoint.clone(),
        })
    }

    /// Only where all logs were requested does a gap show that one is missing.
    fn check_logs(&self, logs: &[LineLog], header: &LineHeader) -> Result<(), Refusal> {
        let all = self.rules.want.scope == Scope::All;
        let mut due = 0;
        for log in logs {
            if log.log_index < due || (all && log.log_index > due) {
                return Err(format!("log {} where {due} is due", log.log_index));
            }
            due = log.log_index.saturating_add(1);
            let topic0 = log.topics.first().map(|topic| topic.as_slice());
            if !self.rules.want.scope.admits(log.address.as_slice(), topic0) {
                return Err(format!("log {} was not requested", log.log_index));
            }
        }
        if self.rules.level < Verification::Bloom {
            return Ok(());
        }
        let theirs = header.logs_bloom.as_deref();
        let theirs = theirs.ok_or("no bloom although it was requested")?;
        let hidden = self.rules.oddity.hidden(header.number, header.hash);
        let is_in_bloom = |log: &&LineLog| Some(log.transaction_hash) != hidden;
        let mut computed = Bloom::ZERO;
        for log in logs.iter().filter(is_in_bloom) {
            bloom::add(&mut computed, log.address.as_slice());
            let topics = log.topics.iter();
            topics.for_each(|topic| bloom::add(&mut computed, topic.as_slice()));
        }
        if computed == *theirs {
            return Ok(());
        }
        Err("bloom does not fit the logs: one is missing or made up".to_owned())
    }

    fn unavailable(&self, reason: String) -> Error {
        Error::unavailable(&self.rules.endpoint, reason)
    }

    fn inconsistent(&self, number: u64, what: impl Into<String>) -> Failure {
        Failure::Final(Error::inconsistent(&self.rules.endpoint, number, what))
    }
}

fn tx_of((index, hash): (u32, alloy_primitives::B256)) -> Tx {
    Tx {
        index,
        hash: Hash32(hash.0),
    }
}

/// The transactions that logs name, in order.
fn named_by(logs: &[LineLog]) -> Result<Vec<Tx>, Refusal> {
    let mut txs: Vec<Tx> = logs.iter().map(|log| tx_of(log.place())).collect();
    txs.dedup();
    if txs.is_sorted_by(|before, after| before.index < after.index) {
        return Ok(txs);
    }
    Err("logs are not in the order of their transactions".to_owned())
}

fn log_of(wire: &LineLog) -> Result<Log, Refusal> {
    let mut topics: [&[u8]; TOPICS_MAX] = [&[]; TOPICS_MAX];
    let count = wire.topics.len();
    let slots = topics.iter_mut().zip(&wire.topics);
    slots.for_each(|(slot, topic)| *slot = topic.as_slice());
    let topics = topics.get(..count).ok_or("a log with too many topics")?;
    let parts = LogParts {
        tx_index: wire.transaction_index,
        log_index: wire.log_index,
        emitter: wire.address.as_slice(),
        topics,
        data: &wire.data,
        ..LogParts::default()
    };
    Log::new(&parts).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, hex};
    use chronolith_model::DatasetSet;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn want(datasets: &[Dataset]) -> Want {
        Want {
            datasets: DatasetSet::of(datasets),
            scope: Scope::All,
            proof: Proof::LINKED,
        }
    }

    fn text(byte: u8, len: usize) -> String {
        hex::encode_prefixed(vec![byte; len])
    }

    fn header(number: u8) -> Value {
        json!({
            "number": number, "hash": text(number, 32), "parentHash": text(number - 1, 32),
            "timestamp": 1_000 + u64::from(number),
        })
    }

    fn log(index: u32, tx: u8) -> Value {
        json!({
            "logIndex": index, "transactionIndex": tx, "transactionHash": text(tx, 32),
            "address": text(7, 20), "data": "0x", "topics": [text(8, 32)], "unknown": [1, {}],
        })
    }

    fn tx(index: u8) -> Value {
        json!({"transactionIndex": index, "hash": text(index, 32)})
    }

    /// Walks lines from block 5 to 8; the blocks, or why not.
    fn walk(want: &Want, lines: &[Value]) -> Result<Vec<Fetched>, Failure> {
        let rules = Rules {
            want,
            level: Verification::Linked,
            oddity: Oddity::None,
            endpoint: "portal".into(),
        };
        let mut walk = Walk::new(BlockRange::new(5, 8), rules);
        for line in lines {
            walk.take(line.to_string().as_bytes())?;
        }
        Ok(walk.finish())
    }

    #[test]
    fn items_are_put_in_order() {
        let line = json!({
            "header": header(5), "logs": [log(1, 2), log(0, 0)],
            "transactions": [tx(2), tx(0), tx(1)],
        });
        let all = want(&[Dataset::Logs, Dataset::TxHashes]);
        let fetched = walk(&all, std::slice::from_ref(&line)).unwrap();
        let [one] = fetched.as_slice() else {
            panic!("{} blocks", fetched.len());
        };
        let (block, txs) = (&one.block, [0, 1, 2]);
        assert!(block.txs.iter().map(|tx| tx.index).eq(txs));
        assert!(block.logs.iter().map(Log::log_index).eq([0, 1]));
        assert_eq!(block.clock.timestamp, 1_005);
        assert_eq!(block.clock.hash.0, B256::repeat_byte(5).0);
        let fetched = walk(&want(&[Dataset::Logs]), &[line]).unwrap();
        let named = fetched.iter().flat_map(|one| &one.block.txs);
        assert!(named.map(|tx| tx.index).eq([0, 2]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let plain = |number| json!({"header": header(number)});
        let with = |items: Value| {
            let mut line = plain(5);
            let items = items.as_object().cloned().unwrap();
            line.as_object_mut().unwrap().extend(items);
            line
        };
        let mut orphan = plain(6);
        orphan["header"]["parentHash"] = text(9, 32).into();
        let many: Vec<String> = (0..5).map(|byte| text(byte, 32)).collect();
        let mut crowded = log(0, 0);
        crowded["topics"] = many.into();
        let (logs, txs) = (&[Dataset::Logs][..], &[Dataset::TxHashes][..]);
        let both = &[Dataset::Logs, Dataset::TxHashes][..];
        for (datasets, lines, expected) in [
            (&[][..], vec![plain(6)], "block 6 where 5 is due"),
            (&[], vec![plain(5), plain(5)], "block 5 where 6 is due"),
            (&[], vec![plain(5), plain(7)], "block 7 where 6 is due"),
            (&[], vec![plain(5), orphan], "parent"),
            (&[], (5..9).map(plain).collect(), "after the range"),
            (
                &[],
                vec![with(json!({"logs": [log(0, 0)]}))],
                "not requested",
            ),
            (
                logs,
                vec![with(json!({"logs": [log(1, 0)]}))],
                "log 1 where 0",
            ),
            (
                logs,
                vec![with(json!({"logs": [log(0, 0), log(0, 0)]}))],
                "log 0 where 1",
            ),
            (
                logs,
                vec![with(json!({"logs": [log(0, 1), log(1, 0)]}))],
                "order",
            ),
            (
                logs,
                vec![with(json!({"logs": [crowded]}))],
                "too many topics",
            ),
            (
                txs,
                vec![with(json!({"transactions": [tx(1)]}))],
                "missing or there twice",
            ),
            (
                txs,
                vec![with(json!({"transactions": [tx(0), tx(0)]}))],
                "missing or there twice",
            ),
            (both, vec![with(json!({"logs": [log(0, 0)]}))], "not there"),
        ] {
            let failure = walk(&want(datasets), &lines).unwrap_err();
            let lied = matches!(
                &failure,
                Failure::Final(error @ Error::Inconsistent { .. }) if error.to_string().contains(expected)
            );
            assert!(lied, "{expected}: {failure:?}");
        }
    }

    /// Walks one line whose bloom is requested, with the rules of a chain.
    fn walk_odd(chain: u64, number: u64, line: &Value) -> Result<Vec<Fetched>, Failure> {
        let rules = Rules {
            want: &want(&[Dataset::Logs, Dataset::TxHashes]),
            level: Verification::Bloom,
            oddity: crate::evm::chains::checks_of(chain).oddity,
            endpoint: "portal".into(),
        };
        let mut walk = Walk::new(BlockRange::new(number, number + 1), rules);
        walk.take(line.to_string().as_bytes())?;
        Ok(walk.finish())
    }

    /// Logs of state syncs are in no bloom: an honest Portal was called a liar, and alone it was never
    /// got past.
    #[test]
    fn logs_that_are_in_no_bloom_are_taken_where_they_can_be() {
        for (chain, number, taken) in [(137, 16, true), (137, 17, false), (1, 16, false)] {
            let mut header = header(number);
            header["logsBloom"] = text(0, 256).into();
            let hash = B256::repeat_byte(number);
            let bor = Oddity::StateSync { rooted_from: 32 };
            let hidden = bor.hidden(16, hash).unwrap().to_string();
            let mut log = log(0, 0);
            log["transactionHash"] = hidden.clone().into();
            let tx = json!({"transactionIndex": 0, "hash": hidden});
            let line = json!({"header": header, "logs": [log], "transactions": [tx]});
            let fetched = walk_odd(chain, number.into(), &line);
            assert_eq!(fetched.is_ok(), taken, "{chain} {number}: {fetched:?}");
        }
    }

    /// Logs of Celo's system calls name the block itself, after its transactions.
    #[test]
    fn logs_of_the_block_itself_are_taken_where_they_can_be() {
        for (chain, taken) in [(42_220, true), (1, false)] {
            let mut bloom_of_log = Bloom::ZERO;
            let mut log = log(0, 1);
            let line_log: LineLog = serde_json::from_value(log.clone()).unwrap();
            bloom::add(&mut bloom_of_log, line_log.address.as_slice());
            let topics = line_log.topics.iter();
            topics.for_each(|topic| bloom::add(&mut bloom_of_log, topic.as_slice()));
            let mut header = header(5);
            header["logsBloom"] = bloom_of_log.to_string().into();
            log["transactionHash"] = header["hash"].clone();
            let line = json!({"header": header, "logs": [log], "transactions": [tx(0)]});
            match walk_odd(chain, 5, &line) {
                Ok(fetched) => {
                    let own = fetched[0].block.txs.last().unwrap();
                    assert!(taken && own.index == 1);
                    assert_eq!(own.hash, fetched[0].block.clock.hash);
                }
                Err(failure) => assert!(!taken, "{failure:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_are_no_blocks(at in 0..400_usize, byte in any::<u8>(), cut in any::<bool>()) {
            let line = json!({"header": header(5), "logs": [log(0, 0)]}).to_string();
            let mut bytes = line.into_bytes();
            let at = at % bytes.len();
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let want = want(&[Dataset::Logs]);
            let oddity = Oddity::None;
            let rules = Rules { want: &want, level: Verification::Linked, oddity, endpoint: "p".into() };
            let mut walk = Walk::new(BlockRange::new(5, 8), rules);
            let taken = walk.take(&bytes);
            prop_assert!(!cut || matches!(taken, Err(Failure::Again(_))));
            prop_assert_eq!(walk.moved(), taken.is_ok());
        }
    }
}
