//! Blocks with byzantine faults: whole, well-formed, and not what the chain has.
//!
//! The header stays: with another header it would be another block. Each fault is in every answer about
//! the block while its rate says so, so that answers agree with each other.

use chronolith_model::{Hash32, Log, LogParts};

use super::block::EvmBlock;
use super::faults::{Faults, RpcFault};

/// A contract that never logged anything.
const STRANGER: [u8; 20] = [0x66; 20];

/// The block with the faults of its content.
pub(super) fn altered(faults: &Faults, mut block: EvmBlock) -> EvmBlock {
    if !block.txs.is_empty() && faults.hits(RpcFault::ForeignTxHashes) {
        let txs = block.txs.iter_mut();
        txs.for_each(|tx| tx.hash = foreign(tx.hash));
    }
    if !block.txs.is_empty() && faults.hits(RpcFault::ChangedBodies) {
        for tx in &mut block.txs {
            tx.from = STRANGER.into();
            tx.input.push(0x66);
        }
    }
    if !block.logs.is_empty() && faults.hits(RpcFault::ChangedData) {
        let last = block.logs.pop();
        let changed = last.and_then(|log| made_up(&log, log.emitter()));
        block.logs.extend(changed);
    }
    if !block.logs.is_empty() && faults.hits(RpcFault::MovedLog) {
        let last = block.logs.pop();
        let moved = last.and_then(|log| made_up(&log, &STRANGER));
        block.logs.extend(moved);
    }
    block
}

/// Another hash, the same one each time.
pub(super) fn foreign(hash: Hash32) -> Hash32 {
    Hash32(hash.0.map(|byte| !byte))
}

/// A log in the place of another one, with data that was never logged.
fn made_up(log: &Log, emitter: &[u8]) -> Option<Log> {
    let topics: Vec<&[u8]> = log.topics().collect();
    Log::new(&LogParts {
        tx_index: log.tx_index(),
        log_index: log.log_index(),
        emitter,
        topics: &topics,
        data: b"made up",
        ..LogParts::default()
    })
    .ok()
}
