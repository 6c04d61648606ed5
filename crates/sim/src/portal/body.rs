//! The body of a stream, made while it is sent, and what goes wrong with it.
//!
//! A body never mixes two chains: where the chain changes under it, it ends.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use chronolith_model::{BlockRange, Hash32, Log, LogParts};
use futures::{StreamExt as _, stream};

use super::encoder::Encoder;
use super::faults::{PortalFault, PortalFaults};
use super::lines::{write_block, write_clock};
use super::query::Query;
use crate::evm::{EvmBlock, EvmNode, bloom_of};

/// Blocks that are made at once: those with content are larger.
const CLOCKS: u64 = 512;
const BLOCKS: u64 = 32;
/// Length of a line that is too long.
const LONG_LINE_BYTES: usize = 2_000_000;

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tail {
    Clean,
    CutLine,
    Broken,
    Stall,
    OpenEnd,
}

/// What a body is made from.
pub(super) struct BodyPlan {
    pub(super) node: EvmNode,
    pub(super) query: Query,
    /// Blocks that it covers; not empty.
    pub(super) range: BlockRange,
    pub(super) faults: PortalFaults,
}

/// Starts a body.
pub(super) fn body(mut plan: BodyPlan, encoder: Encoder) -> Body {
    let tail = spoil(&mut plan);
    let plan = Arc::new(plan);
    let maker = Maker {
        next: plan.range.start,
        touched: plan.faults.touches_lines(),
        plan,
        tail,
        last: None,
        encoder: Some(encoder),
    };
    let pieces = stream::iter(maker);
    match tail {
        Tail::Broken => {
            // The pause lets what came before leave before the connection breaks.
            let broken = async {
                tokio::task::yield_now().await;
                Err(io::Error::other("injected fault: body cut short"))
            };
            Body::from_stream(pieces.chain(stream::once(broken)))
        }
        Tail::Stall => Body::from_stream(pieces.chain(stream::pending())),
        Tail::Clean | Tail::CutLine | Tail::OpenEnd => Body::from_stream(pieces),
    }
}

/// Decides how the body ends, and shortens it accordingly. A body that ends inside a line has the
/// half of the last line of its range.
fn spoil(plan: &mut BodyPlan) -> Tail {
    let BlockRange { start, .. } = plan.range;
    let len = plan.range.len();
    if len > 1
        && let Some(number) = plan.faults.draw(PortalFault::ShortBody)
    {
        plan.range = BlockRange::new(start, start + 1 + number % (len - 1));
    }
    for (fault, tail) in [
        (PortalFault::CutLine, Tail::CutLine),
        (PortalFault::BrokenBody, Tail::Broken),
        (PortalFault::Stall, Tail::Stall),
    ] {
        if let Some(number) = plan.faults.draw(fault) {
            plan.range = BlockRange::new(start, start + 1 + number % plan.range.len());
            return tail;
        }
    }
    match plan.faults.hits(PortalFault::OpenEnd) {
        true => Tail::OpenEnd,
        false => Tail::Clean,
    }
}

/// Makes the pieces of a body.
struct Maker {
    plan: Arc<BodyPlan>,
    tail: Tail,
    next: u64,
    /// Whether single lines go wrong.
    touched: bool,
    /// Hash of the last block that was written.
    last: Option<Hash32>,
    /// None once the body has ended.
    encoder: Option<Encoder>,
}

impl Iterator for Maker {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut encoder = self.encoder.take()?;
        let mut piece = Vec::new();
        if self.write(&mut piece).is_some() {
            let encoded = encoder.encode(&piece);
            self.encoder = Some(encoder);
            return Some(encoded);
        }
        match self.tail {
            Tail::Broken | Tail::Stall => None,
            Tail::Clean | Tail::CutLine | Tail::OpenEnd => Some(encoder.finish()),
        }
    }
}

impl Maker {
    /// Writes some lines; none where there are no more.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let plan = Arc::clone(&self.plan);
        let (query, end) = (&plan.query, plan.range.end);
        if self.next >= end {
            return None;
        }
        if query.is_clock() && query.include_all_blocks && !self.touched {
            let range = BlockRange::new(self.next, end.min(self.next + CLOCKS));
            let clocks = plan.node.clocks(range);
            let first = clocks.first()?;
            self.follows(first.parent_hash)?;
            for clock in &clocks {
                let begun = out.len();
                write_clock(out, clock, &query.fields);
                self.close(out, clock.number, begun);
            }
            self.last = clocks.last().map(|clock| clock.hash);
            self.next += clocks.len() as u64;
            return Some(());
        }
        let range = BlockRange::new(self.next, end.min(self.next + BLOCKS));
        let blocks = plan.node.blocks(range);
        let first = blocks.first()?;
        self.follows(first.header.parent_hash.0.into())?;
        self.last = blocks.last().map(|block| block.hash);
        self.next += blocks.len() as u64;
        blocks.into_iter().for_each(|block| self.line(out, block));
        Some(())
    }

    fn follows(&self, parent: Hash32) -> Option<()> {
        self.last.is_none_or(|last| last == parent).then_some(())
    }

    fn line(&mut self, out: &mut Vec<u8>, mut block: EvmBlock) {
        let plan = Arc::clone(&self.plan);
        let (range, number) = (plan.range, block.header.number);
        let inner = number > range.start;
        let hits = |fault| self.touched && inner && plan.faults.hits(fault);
        // What is left out after the last line would not be seen.
        if number + 1 < range.end && hits(PortalFault::SkippedBlock) {
            return;
        }
        // Among others it may not be missed: their terms can be the same.
        if block.logs.len() == 1 && hits(PortalFault::MissingLog) {
            block.logs.pop();
        }
        for (fault, _) in PortalFault::BYZANTINE {
            let has_log = fault == PortalFault::AddedLog || !block.logs.is_empty();
            if !block.txs.is_empty() && has_log && hits(fault) {
                alter(fault, &mut block);
            }
        }
        if hits(PortalFault::WrongParent) {
            block.header.parent_hash = [0xee; 32].into();
        }
        let begun = out.len();
        let found = write_block(out, &block, &plan.query);
        let border = number == range.start || number + 1 == range.end;
        if !found && !border && !plan.query.include_all_blocks {
            out.truncate(begun);
            return;
        }
        if hits(PortalFault::Garbage) {
            out.truncate(begun);
            out.extend_from_slice(b"upstream connect error");
        }
        if hits(PortalFault::LongLine) {
            let begin = out.len() - begun;
            out.resize(begun + LONG_LINE_BYTES.max(begin), b' ');
        }
        let whole = out.get(begun..).map(<[u8]>::to_vec);
        self.close(out, number, begun);
        if hits(PortalFault::RepeatedBlock) {
            out.extend(whole.into_iter().flatten());
            out.push(b'\n');
        }
    }

    /// Ends a line, the last one as was decided.
    fn close(&self, out: &mut Vec<u8>, number: u64, begun: usize) {
        let last = number + 1 == self.plan.range.end;
        match self.tail {
            Tail::CutLine | Tail::Broken | Tail::Stall if last => {
                out.truncate(begun + (out.len() - begun) / 2);
            }
            Tail::OpenEnd if last => {}
            _ => out.push(b'\n'),
        }
    }
}

/// A contract that never logged anything.
const STRANGER: [u8; 20] = [0x66; 20];

/// Changes the logs of a block, and its bloom with them: nothing in the line gives it away.
fn alter(fault: PortalFault, block: &mut EvmBlock) {
    let place = match fault {
        PortalFault::EmptiedBlock => {
            block.logs.clear();
            None
        }
        PortalFault::MovedLog => {
            let last = block.logs.pop();
            last.map(|log| (log.tx_index(), log.log_index()))
        }
        _ => {
            let last = block.txs.last().map_or(0, |tx| tx.index);
            Some((last, block.logs.len() as u32))
        }
    };
    if let Some((tx_index, log_index)) = place {
        let made_up = Log::new(&LogParts {
            tx_index,
            log_index,
            emitter: &STRANGER,
            topics: &[],
            data: b"made up",
            ..LogParts::default()
        });
        block.logs.extend(made_up);
    }
    block.header.logs_bloom = bloom_of(&block.logs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::EvmSpec;
    use axum::http::{HeaderMap, header::ACCEPT_ENCODING};
    use serde_json::Value;

    async fn lines(node: &EvmNode, query: &str) -> Vec<Value> {
        let query = Query::parse(query.as_bytes()).unwrap();
        let end = query.to_block.unwrap() + 1;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, "gzip, zstd".parse().unwrap());
        let plan = BodyPlan {
            node: node.clone(),
            range: BlockRange::new(query.from_block, end),
            query,
            faults: PortalFaults::default(),
        };
        let body = body(plan, Encoder::negotiated(&headers).unwrap());
        let bytes = axum::body::to_bytes(body, usize::MAX).await;
        let text = zstd::decode_all(bytes.unwrap().as_ref()).unwrap();
        let lines = text.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn blocks_without_a_match_are_left_out_but_for_the_borders() {
        let node = EvmNode::new(EvmSpec::sparse(1, 100), 200);
        let numbers = |lines: &[Value]| -> Vec<u64> {
            let number = |line: &Value| line["header"]["number"].as_u64().unwrap();
            lines.iter().map(number).collect()
        };
        let fields = r#""fields":{"block":{"number":true},"log":{"logIndex":true}}"#;
        let query =
            format!(r#"{{"type":"evm","fromBlock":10,"toBlock":150,{fields},"logs":[{{}}]}}"#);
        let found = lines(&node, &query).await;
        let has_logs = |number: &u64| !node.block(*number).unwrap().logs.is_empty();
        let expected: Vec<u64> = (10..=150)
            .filter(|number| has_logs(number) || [10, 150].contains(number))
            .collect();
        assert!(expected.len() > 5 && expected.len() < 100, "{expected:?}");
        assert_eq!(numbers(&found), expected);
        for line in &found {
            let keys = line.as_object().unwrap().len();
            assert_eq!(
                keys > 1,
                has_logs(&line["header"]["number"].as_u64().unwrap())
            );
            assert_eq!(line["header"].as_object().unwrap().len(), 1);
        }
        let all = query.replacen("fields", r#"includeAllBlocks":true,"fields"#, 1);
        assert_eq!(
            numbers(&lines(&node, &all).await),
            (10..=150).collect::<Vec<_>>()
        );
    }
}
