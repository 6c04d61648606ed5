//! A proven ledger as a block of the archive.

use bytes::Bytes;
use chronolith_model::{Block, BlockMeta, Log, LogParts, Payload, Tx};

use crate::events::{EventParts, EventPlace, Stage, split_topics};
use crate::fault::Fault;
use crate::parts::{inner_hash, is_successful};
use crate::prove::Proven;
use crate::reader::Span;
use crate::skeleton;

impl Proven {
    /// The ledger as a block: every transaction by its hash, and by its inner hash where it has one; every
    /// event as a log; and the bytes of each transaction beside those of the rest.
    ///
    /// # Errors
    /// `Malformed` or `Parts` where the events of a transaction cannot be read.
    pub fn block(&self) -> Result<Block, Fault> {
        let ledger = &self.ledger;
        let clock = BlockMeta {
            number: ledger.sequence().into(),
            hash: ledger.hash(),
            parent_hash: ledger.previous_hash(),
            timestamp: ledger.close_time(),
        };
        let (txs, logs) = (self.txs(), self.logs()?);
        let (header, bodies) = skeleton::split(self);
        Ok(Block {
            clock,
            txs,
            logs,
            payload: Payload {
                header: Some(header),
                bodies: Some(bodies),
                raw: None,
            },
        })
    }

    fn txs(&self) -> Vec<Tx> {
        let ledger = &self.ledger;
        let own = ledger.tx_hashes().zip(0..);
        let own = own.map(|(hash, index)| Tx { index, hash });
        let aliases = ledger.txs.iter().zip(0..).filter_map(|(tx, index)| {
            let hash = inner_hash(tx.pair.of(&ledger.raw))?;
            let index = index | Tx::ALIAS;
            Some(Tx { index, hash })
        });
        own.chain(aliases).collect()
    }

    fn logs(&self) -> Result<Vec<Log>, Fault> {
        let raw = &self.ledger.raw;
        let mut logs = Logs::default();
        let txs = self.ledger.txs.iter().zip(&self.calls);
        for ((tx, call), tx_index) in txs.zip(0..) {
            let meta = tx.meta.of(raw);
            let found = &call.events;
            logs.tx_index = tx_index;
            logs.successful = is_successful(tx.pair.of(raw));
            logs.covered = call.covered;
            // A transaction's own events begin with their stage.
            let event = |span: &Span| {
                let event = span.of(meta).get(4..);
                event.expect("the stage was read from these four bytes")
            };
            let at = |stage: u32| {
                let own = found.transaction.iter().filter(move |own| own.0 == stage);
                own.map(|(_, span)| event(span))
            };
            if found.transaction.iter().any(|own| own.0 > 2) {
                return Err(Fault::Parts("an event at an unknown stage"));
            }
            for event in at(0) {
                logs.push(event, Stage::BeforeAll)?;
            }
            for (events, operation) in found.operations.iter().zip(0..) {
                for span in events {
                    logs.push(span.of(meta), Stage::Operation(operation))?;
                }
            }
            for event in at(1) {
                logs.push(event, Stage::AfterTx)?;
            }
            for event in at(2) {
                logs.push(event, Stage::AfterAll)?;
            }
        }
        logs.finish()
    }
}

/// Logs of a ledger, in one buffer.
#[derive(Default)]
struct Logs {
    buffer: Vec<u8>,
    made: Vec<Made>,
    tx_index: u32,
    successful: bool,
    /// The operation whose events a hash covers.
    covered: Option<u32>,
    before_all: u32,
    after_all: u32,
    /// Where the events are that were seen last, and how many there were.
    last: Option<(u32, Stage, u32)>,
}

/// A log in the making: its numbers, and the lengths of its parts.
struct Made {
    tx_index: u32,
    kind: u8,
    emitter_len: usize,
    topic_lens: Vec<usize>,
    data_len: usize,
    len: usize,
}

impl Logs {
    /// The event's number where it happened.
    fn number(&mut self, stage: Stage) -> u32 {
        let next = |count: &mut u32| std::mem::replace(count, *count + 1);
        match stage {
            Stage::BeforeAll => next(&mut self.before_all),
            Stage::AfterAll => next(&mut self.after_all),
            Stage::Operation(_) | Stage::AfterTx => {
                let here = (self.tx_index, stage);
                let before = self.last.filter(|last| (last.0, last.1) == here);
                let number = before.map_or(0, |last| last.2 + 1);
                self.last = Some((here.0, here.1, number));
                number
            }
        }
    }

    fn push(&mut self, event: &[u8], stage: Stage) -> Result<(), Fault> {
        let parts = EventParts::read(event)?;
        let (topics, more_topics) = split_topics(&parts.topics);
        let place = EventPlace {
            stage,
            index: self.number(stage),
            successful: self.successful,
            proven: matches!(stage, Stage::Operation(at) if self.covered == Some(at)),
            tx_index: self.tx_index,
            more_topics,
        };
        let start = self.buffer.len();
        self.buffer.extend_from_slice(parts.contract);
        for topic in topics {
            self.buffer.extend_from_slice(topic);
        }
        self.buffer.extend_from_slice(parts.data);
        place.put(&mut self.buffer);
        self.made.push(Made {
            tx_index: self.tx_index,
            kind: parts.kind,
            emitter_len: parts.contract.len(),
            topic_lens: topics.iter().map(|topic| topic.len()).collect(),
            data_len: parts.data.len(),
            len: self.buffer.len() - start,
        });
        Ok(())
    }

    fn finish(self) -> Result<Vec<Log>, Fault> {
        let mut rest = Bytes::from(self.buffer);
        let log = |(made, log_index): (Made, u32)| {
            let bytes = rest.split_to(made.len);
            let emitter = [0; 32];
            let parts = LogParts {
                tx_index: made.tx_index,
                log_index,
                kind: made.kind,
                emitter: emitter
                    .get(..made.emitter_len)
                    .ok_or(Fault::Parts("an event of a contract with a longer name"))?,
                ..LogParts::default()
            };
            let lens = made.topic_lens.into_iter();
            let log = Log::from_buffer(bytes, &parts, lens, made.data_len);
            log.map_err(|_| Fault::Parts("an event too large for a log"))
        };
        self.made.into_iter().zip(0..).map(log).collect()
    }
}
