//! Blocks named by number and fork, so that a test case is a row.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and a test may panic"
)]

use chronolith_model::{Block, BlockMeta, BlockRef, Hash32, Payload};

/// The hash of a block: its number and its fork.
pub fn hash(number: u64, fork: u64) -> Hash32 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[24..].copy_from_slice(&(fork + 1).to_be_bytes());
    Hash32(bytes)
}

/// A block's number and hash.
pub fn at(number: u64, fork: u64) -> BlockRef {
    BlockRef {
        number,
        hash: hash(number, fork),
    }
}

/// A block on a fork, above a block of a fork that may be another one.
pub fn clock(number: u64, fork: u64, parent_fork: u64) -> BlockMeta {
    BlockMeta {
        number,
        hash: hash(number, fork),
        parent_hash: number
            .checked_sub(1)
            .map_or(Hash32::ZERO, |before| hash(before, parent_fork)),
        timestamp: number,
    }
}

/// A block with nothing in it.
pub fn block(clock: BlockMeta) -> Block {
    Block {
        clock,
        txs: Vec::new(),
        logs: Vec::new(),
        payload: Payload::default(),
    }
}
