//! What is checked of blocks before anything is made of them.

use chronolith_model::{Block, BlockFault, ChainProfile, Dataset, Log, Tx};

use super::seal::Kept;
use crate::error::{Error, Result};
use crate::state::snapshot::Snapshot;

/// Whether the unsealed batches lie side by side and end with the head.
pub(crate) fn contiguous(snapshot: &Snapshot) -> bool {
    let batches = &snapshot.state.batches;
    let side_by_side = batches.windows(2).all(|pair| match pair {
        [before, next] => before.facts.follows(&next.facts),
        _ => true,
    });
    let last = batches.last().map(|last| last.facts.last_hash);
    let ends_with_head =
        last.is_none_or(|last| snapshot.head().is_some_and(|head| head.hash == last));
    side_by_side && ends_with_head
}

/// Blocks follow each other and name each other as parents.
pub(crate) fn check_links(blocks: &[Block]) -> Result<()> {
    for pair in blocks.windows(2) {
        let [before, block] = pair else { continue };
        if block.clock.number != before.clock.number + 1 {
            return Err(Error::Gap {
                expected: before.clock.number + 1,
                got: block.clock.number,
            });
        }
        if block.clock.parent_hash != before.clock.hash {
            return Err(Error::BadParent {
                number: block.clock.number,
                names: block.clock.parent_hash,
                expected: before.clock.hash,
            });
        }
    }
    Ok(())
}

/// Drops what is not kept of a block and checks what is.
pub(crate) fn prepare(block: &mut Block, kept: &Kept, profile: &ChainProfile) -> Result<()> {
    normalise(block, kept);
    let complete = kept.scope == chronolith_model::Scope::All;
    let fault = |fault| Error::BadBlock {
        number: block.clock.number,
        fault,
    };
    profile.check(block, complete).map_err(fault)?;
    let kept_and_missing =
        |dataset: Dataset, there: bool| kept.datasets.contains(dataset) && !there;
    if kept_and_missing(Dataset::Headers, block.payload.header.is_some())
        || kept_and_missing(Dataset::Transactions, block.payload.bodies.is_some())
        || kept_and_missing(Dataset::Payload, block.payload.raw.is_some())
    {
        return Err(fault(BlockFault::MissingPayload));
    }
    Ok(())
}

/// Drops whatever is not kept, so that what remains is what the digest is about.
pub(crate) fn normalise(block: &mut Block, kept: &Kept) {
    if !kept.datasets.contains(Dataset::Logs) {
        block.logs.clear();
    }
    block
        .logs
        .retain(|log| kept.scope.admits(log.emitter(), log.topic(0)));
    // The block itself is listed for its own logs alone.
    let named = block.logs.last().map(Log::tx_index);
    let unnamed = |tx: &mut Tx| tx.is_block(&block.clock) && named != Some(tx.index);
    block.txs.pop_if(unnamed);
    if !kept.datasets.contains(Dataset::TxHashes) {
        keep_named(block);
    }
    if !kept.datasets.contains(Dataset::Headers) {
        block.payload.header = None;
    }
    if !kept.datasets.contains(Dataset::Transactions) {
        block.payload.bodies = None;
    }
    if !kept.datasets.contains(Dataset::Payload) {
        block.payload.raw = None;
    }
}

/// Drops the transactions that no log names, with their bodies.
fn keep_named(block: &mut Block) {
    let mut logs = block.logs.iter().peekable();
    let mut is_named = |tx: &Tx| {
        while logs.peek().is_some_and(|log| log.tx_index() < tx.index) {
            logs.next();
        }
        logs.peek().is_some_and(|log| log.tx_index() == tx.index)
    };
    let named: Vec<bool> = block.txs.iter().map(&mut is_named).collect();
    let has_body = |tx: &&Tx| !tx.is_alias() && !tx.is_block(&block.clock);
    let own = block.txs.iter().filter(has_body).count();
    // Bodies that are not one for each transaction are refused, not sorted out.
    if let Some(bodies) = block.payload.bodies.as_mut().filter(|all| all.len() == own) {
        let mut named = named.iter();
        bodies.retain(|_| named.next() == Some(&true));
    }
    let mut named = named.iter();
    block.txs.retain(|_| named.next() == Some(&true));
}
