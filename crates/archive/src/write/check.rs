//! What is checked of blocks before anything is made of them.

use std::sync::Arc;

use chronolith_model::{Block, BlockFault, BlockRef, ChainProfile, Dataset, Hash32, Log, Tx};

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
pub(crate) fn check_links(blocks: &[Arc<Block>]) -> Result<()> {
    for pair in blocks.windows(2) {
        let [before, block] = pair else { continue };
        if block.clock.number != before.clock.number + 1 {
            return Err(Error::Gap {
                expected: before.clock.number + 1,
                got: block.clock.number,
            });
        }
        let clock = &block.clock;
        check_parent(clock.number, clock.parent_hash, before.clock.hash)?;
    }
    Ok(())
}

/// Refuses a block that names another parent than the block before it.
pub(crate) fn check_parent(number: u64, names: Hash32, expected: Hash32) -> Result<()> {
    match names == expected {
        true => Ok(()),
        false => Err(Error::BadParent {
            number,
            names,
            expected,
        }),
    }
}

/// Refuses a block with another hash than the archived block with its number.
pub(crate) fn check_same(archived: BlockRef, offered: Hash32) -> Result<()> {
    match archived.hash == offered {
        true => Ok(()),
        false => Err(Error::FinalityViolation { archived, offered }),
    }
}

/// Drops what is not kept of a block and checks what is. A block that others read too is copied where
/// something is dropped.
pub(crate) fn prepare(block: &mut Arc<Block>, kept: &Kept, profile: &ChainProfile) -> Result<()> {
    if may_drop(block, kept) {
        normalise(Arc::make_mut(block), kept);
    }
    check(block, kept, profile)
}

/// Whether [`normalise`] could change a block; it changes none for which this is false.
fn may_drop(block: &Block, kept: &Kept) -> bool {
    let drops = |dataset: Dataset, there: bool| there && !kept.datasets.contains(dataset);
    let payload = &block.payload;
    let admitted = |log: &Log| kept.scope.admits(log.emitter(), log.topic(0));
    drops(Dataset::Logs, !block.logs.is_empty())
        || drops(Dataset::TxHashes, !block.txs.is_empty())
        || drops(Dataset::Headers, payload.header.is_some())
        || drops(Dataset::Transactions, payload.bodies.is_some())
        || drops(Dataset::Payload, payload.raw.is_some())
        || block.txs.last().is_some_and(|tx| tx.is_block(&block.clock))
        || !block.logs.iter().all(admitted)
}

fn check(block: &Block, kept: &Kept, profile: &ChainProfile) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chronolith_model::{BlockMeta, DatasetSet, LogParts, Payload, Scope, ScopeEntry};

    use super::*;

    const EMITTER: [u8; 20] = [7; 20];

    /// A block with everything in it; its log is of the block itself where that is wanted.
    fn full(names_block: bool) -> Block {
        let clock = BlockMeta {
            number: 1,
            hash: Hash32([1; 32]),
            parent_hash: Hash32::ZERO,
            timestamp: 0,
        };
        let tx = |index: u32, hash: Hash32| Tx { index, hash };
        let mut txs = vec![tx(0, Hash32([2; 32])), tx(1, Hash32([3; 32]))];
        if names_block {
            txs.push(tx(2, clock.hash));
        }
        let log = LogParts {
            tx_index: 1,
            emitter: &EMITTER,
            ..LogParts::default()
        };
        Block {
            clock,
            txs,
            logs: vec![Log::new(&log).expect("a small log")],
            payload: Payload {
                header: Some(Bytes::from_static(b"header")),
                bodies: Some(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]),
                raw: Some(Bytes::from_static(b"raw")),
            },
        }
    }

    /// For every set of datasets: a shared block is copied if and only if something is dropped, and the
    /// other holder's block never changes.
    #[test]
    fn a_shared_block_is_copied_only_where_something_is_dropped() {
        let other = ScopeEntry {
            emitter: Some(Bytes::from_static(&[8; 20])),
            topic0: None,
        };
        let mut copied = 0;
        let mut shared = 0;
        for bits in 0..=u8::MAX {
            let Some(datasets) = DatasetSet::from_bits(bits) else {
                continue;
            };
            for scope in [Scope::All, Scope::only(vec![other.clone()])] {
                for names_block in [false, true] {
                    let kept = Kept {
                        datasets,
                        scope: scope.clone(),
                    };
                    let held = Arc::new(full(names_block));
                    let mut expected = full(names_block);
                    normalise(&mut expected, &kept);
                    let mut block = held.clone();
                    let profile = ChainProfile::EVM;
                    // What is missing is another test's matter.
                    prepare(&mut block, &kept, &profile).ok();
                    assert_eq!(*block, expected, "{kept:?}");
                    assert_eq!(*held, full(names_block), "{kept:?}");
                    let is_shared = Arc::ptr_eq(&held, &block);
                    assert_eq!(is_shared, expected == *held, "{kept:?}");
                    copied += u32::from(!is_shared);
                    shared += u32::from(is_shared);
                }
            }
        }
        assert!(copied > 0 && shared > 0, "{copied} {shared}");
    }
}
