//! Digests: what is kept of a block, as one hash. Roots of ranges are made of them.

use chronolith_model::{Block, BlockMeta, Hash32, Payload};

use super::row;
use super::wire::Put;

/// The digest of everything that is kept of a block: the same block gives the same digest however
/// it is batched, and a block with the same hash and other content gives another.
pub(crate) fn digest(block: &Block, bodies: &[u8]) -> Hash32 {
    let mut numbers = Vec::with_capacity(96 + block.txs.len() * 36 + block.logs.len() * 8);
    numbers.put_u64(block.clock.number);
    numbers.put(&block.clock.hash.0);
    numbers.put(&block.clock.parent_hash.0);
    numbers.put_u64(block.clock.timestamp);
    numbers.put_varint(block.txs.len() as u64);
    for tx in &block.txs {
        numbers.put_u32(tx.index);
        numbers.put(&tx.hash.0);
    }
    numbers.put_varint(block.logs.len() as u64);
    for log in &block.logs {
        numbers.put_u32(log.tx_index());
        numbers.put_u32(log.log_index());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&numbers);
    hasher.update(bodies);
    let mut part = |bytes: Option<&[u8]>| {
        let len = bytes.map_or(0, |bytes| bytes.len() as u64 + 1);
        hasher.update(&len.to_le_bytes());
        // Default: a part that is not kept adds its length alone, which is 0; an empty one has length 1.
        hasher.update(bytes.unwrap_or_default());
    };
    part(block.payload.header.as_deref());
    part(block.payload.raw.as_deref());
    let bodies = block.payload.bodies.as_deref();
    part(bodies.map(|_| &b"bodies"[..]));
    bodies
        .into_iter()
        .flatten()
        .for_each(|body| part(Some(body)));
    Hash32(*hasher.finalize().as_bytes())
}

/// The digest of a block that is not among any rows.
pub(crate) fn digest_of(block: &Block) -> Hash32 {
    let mut bodies = Vec::new();
    block
        .logs
        .iter()
        .for_each(|log| row::encode(log, &mut bodies));
    digest(block, &bodies)
}

/// The digest of a block of which nothing but the clock is kept.
pub(crate) fn clock_digest(clock: BlockMeta) -> Hash32 {
    digest_of(&Block {
        clock,
        txs: Vec::new(),
        logs: Vec::new(),
        payload: Payload::default(),
    })
}

/// The digests of consecutive blocks of which nothing but the clock is kept, made as their hashes
/// go by.
#[derive(Debug)]
pub(crate) struct ClockDigests<Times> {
    number: u64,
    parent_hash: Hash32,
    times: Times,
}

impl<Times: Iterator<Item = u64>> ClockDigests<Times> {
    pub(crate) fn new(number: u64, parent_hash: Hash32, times: Times) -> Self {
        Self {
            number,
            parent_hash,
            times,
        }
    }

    /// Takes the next hashes, end to end, and adds the digests of their blocks to a root.
    pub(crate) fn add_to(&mut self, root: &mut blake3::Hasher, hashes: &[u8]) {
        let (hashes, _) = hashes.as_chunks::<32>();
        for hash in hashes {
            let hash = Hash32(*hash);
            let timestamp = self.times.next();
            let timestamp = timestamp.expect("a segment has a time and a hash for each block");
            let digest = clock_digest(BlockMeta {
                number: self.number,
                hash,
                parent_hash: self.parent_hash,
                timestamp,
            });
            root.update(&digest.0);
            (self.number, self.parent_hash) = (self.number + 1, hash);
        }
    }
}
