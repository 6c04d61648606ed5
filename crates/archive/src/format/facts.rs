//! What a segment is about: its blocks, what is kept of them, and its identity.

use bytes::Bytes;
use chronolith_model::{
    BlockRange, BlockRef, Dataset, DatasetSet, Hash32, Proof, Scope, ScopeEntry,
};

use super::term::TermKey;
use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// The facts of a segment that its catalog entry and its own summary both hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentFacts {
    pub(crate) range: BlockRange,
    /// The parent that the first block names.
    pub(crate) parent_hash: Hash32,
    /// Hash of the last block.
    pub(crate) last_hash: Hash32,
    pub(crate) first_timestamp: u64,
    pub(crate) last_timestamp: u64,
    /// The latest time of any of its blocks. Where times do not fall it is that of the last one, which
    /// is also what segments of format version 2 and before are taken to have.
    pub(crate) latest_timestamp: u64,
    pub(crate) logs: u64,
    pub(crate) txs: u64,
    /// Unpacked bytes of all logs.
    pub(crate) log_bytes: u64,
    pub(crate) datasets: DatasetSet,
    pub(crate) scope: Scope,
    /// Proof level up to each block, rising; the last ends where the range does.
    pub(crate) levels: Vec<(u64, Proof)>,
    /// Hash over the digests of all blocks: equal content, equal root, however it was cut.
    pub(crate) root: Hash32,
    /// What its terms are hashed with.
    pub(crate) term_key: TermKey,
}

/// Set beside the datasets where the key of the terms is stored at the end of the facts.
const KEYED: u8 = 1 << 7;
/// Set beside the datasets where the latest time, which is not the last one, is stored after that.
const FALLING: u8 = 1 << 6;

impl SegmentFacts {
    pub(crate) fn last_block(&self) -> BlockRef {
        BlockRef {
            number: self.range.end - 1,
            hash: self.last_hash,
        }
    }

    /// What counts against a tier's limit.
    pub(crate) fn weight(&self) -> u64 {
        self.logs + self.range.len()
    }

    /// What counts against a tier's other limit: logs and transaction hashes.
    pub(crate) fn bytes(&self) -> u64 {
        self.log_bytes + self.txs * 32
    }

    /// Whether two neighbours may be merged: their terms must be hashed alike, since merging looks at
    /// no log.
    pub(crate) fn joins(&self, next: &Self) -> bool {
        self.follows(next) && self.term_key == next.term_key
    }

    /// Whether the blocks of two neighbours may be in one segment.
    pub(crate) fn follows(&self, next: &Self) -> bool {
        self.range.end == next.range.start
            && self.last_hash == next.parent_hash
            && self.datasets == next.datasets
            && self.scope == next.scope
    }

    /// The lowest level among the blocks that both ranges hold.
    pub(crate) fn level_within(&self, range: &BlockRange) -> Option<Proof> {
        let mut start = self.range.start;
        let mut lowest = None;
        for &(end, level) in &self.levels {
            if BlockRange::new(start, end).intersect(range).is_some() {
                lowest = Some(lowest.map_or(level, |so_far: Proof| so_far.lower(level)));
            }
            start = end;
        }
        lowest
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_range(&self.range);
        out.put(&self.parent_hash.0);
        out.put(&self.last_hash.0);
        out.put_varint(self.first_timestamp);
        out.put_varint(self.last_timestamp);
        out.put_varint(self.logs);
        out.put_varint(self.txs);
        out.put_varint(self.log_bytes);
        let keyed = if self.term_key.is_none() { 0 } else { KEYED };
        let is_falling = self.latest_timestamp > self.last_timestamp;
        let falling = if is_falling { FALLING } else { 0 };
        out.put_u8(self.datasets.bits() | keyed | falling);
        encode_scope(&self.scope, out);
        out.put_varint(self.levels.len() as u64);
        for &(end, level) in &self.levels {
            out.put_varint(end - self.range.start);
            out.put_u8(level.to_byte());
        }
        out.put(&self.root.0);
        if !self.term_key.is_none() {
            out.put(&self.term_key.0);
        }
        if is_falling {
            out.put_varint(self.latest_timestamp);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let range = reader.range()?;
        let kept;
        let mut facts = Self {
            range,
            parent_hash: reader.hash()?,
            last_hash: reader.hash()?,
            first_timestamp: reader.varint()?,
            last_timestamp: reader.varint()?,
            latest_timestamp: 0,
            logs: reader.varint()?,
            txs: reader.varint()?,
            log_bytes: reader.varint()?,
            datasets: {
                kept = reader.u8()?;
                DatasetSet::from_bits(kept & !(KEYED | FALLING)).ok_or(Damage("unknown dataset"))?
            },
            scope: decode_scope(reader)?,
            levels: decode_levels(reader, range)?,
            root: reader.hash()?,
            term_key: match kept & KEYED {
                0 => TermKey::NONE,
                _ => TermKey(reader.array()?),
            },
        };
        facts.latest_timestamp = match kept & FALLING {
            0 => facts.last_timestamp,
            _ => reader.varint()?,
        };
        ensure(
            facts.latest_timestamp >= facts.last_timestamp,
            "the latest time is before the last",
        )?;
        ensure(
            facts.logs == 0 || facts.datasets.contains(Dataset::Logs),
            "logs in a segment without logs",
        )?;
        Ok(facts)
    }
}

fn decode_levels(reader: &mut Reader<'_>, range: BlockRange) -> Decoded<Vec<(u64, Proof)>> {
    let count = reader.count(2)?;
    let mut levels = Vec::with_capacity(count);
    let mut before = range.start;
    for _ in 0..count {
        let end = range.start.saturating_add(reader.varint()?);
        let level = Proof::from_byte(reader.u8()?).ok_or(Damage("unknown level"))?;
        ensure(before < end && end <= range.end, "levels out of order")?;
        levels.push((end, level));
        before = end;
    }
    ensure(before == range.end, "levels do not fill the range")?;
    Ok(levels)
}

pub(crate) fn encode_scope(scope: &Scope, out: &mut Vec<u8>) {
    let entries = match scope {
        Scope::All => None,
        Scope::Only(entries) => Some(entries),
    };
    out.put_option(entries, |entries, out| {
        out.put_list(entries, |entry, out| {
            for part in [&entry.emitter, &entry.topic0] {
                out.put_option(part.as_ref(), |bytes, out| out.put_bytes(bytes));
            }
        });
    });
}

pub(crate) fn decode_scope(reader: &mut Reader<'_>) -> Decoded<Scope> {
    let part = |reader: &mut Reader<'_>| {
        reader.option(|reader| reader.bytes().map(Bytes::copy_from_slice))
    };
    let entries = reader.option(|reader| {
        reader.list(2, |reader| {
            Ok(ScopeEntry {
                emitter: part(reader)?,
                topic0: part(reader)?,
            })
        })
    })?;
    Ok(entries.map_or(Scope::All, Scope::only))
}

/// The root over block digests. Digests name their blocks, so their order and number are fixed.
pub(crate) fn content_root<'a>(digests: impl Iterator<Item = &'a Hash32>) -> Hash32 {
    let mut hasher = blake3::Hasher::new();
    digests.for_each(|digest| {
        hasher.update(&digest.0);
    });
    Hash32(*hasher.finalize().as_bytes())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use chronolith_model::Verification;
    use proptest::prelude::*;

    pub(crate) fn sample(range: BlockRange) -> SegmentFacts {
        SegmentFacts {
            range,
            parent_hash: Hash32([1; 32]),
            last_hash: Hash32([2; 32]),
            first_timestamp: 5,
            last_timestamp: 9,
            latest_timestamp: 9,
            logs: 3,
            txs: 2,
            log_bytes: 700,
            datasets: DatasetSet::of(&[Dataset::Logs]),
            scope: Scope::only(vec![ScopeEntry {
                emitter: Some(Bytes::from_static(b"emitter")),
                topic0: None,
            }]),
            levels: vec![(range.end, Proof::LINKED)],
            root: Hash32([3; 32]),
            term_key: TermKey::NONE,
        }
    }

    #[test]
    fn facts_round_trip() {
        let mut facts = sample(BlockRange::new(10, 20));
        facts.levels = vec![
            (15, Proof::of_logs(Verification::Receipts)),
            (20, Proof::LINKED),
        ];
        for (term_key, latest_timestamp) in [
            (TermKey::NONE, 9),
            (TermKey([8; 16]), 9),
            (TermKey::NONE, 12),
            (TermKey([8; 16]), 12),
        ] {
            (facts.term_key, facts.latest_timestamp) = (term_key, latest_timestamp);
            let mut out = Vec::new();
            facts.encode(&mut out);
            let mut reader = Reader::new(&out);
            assert_eq!(SegmentFacts::decode(&mut reader), Ok(facts.clone()));
            assert!(reader.is_empty());
        }
        let level = |start, end| facts.level_within(&BlockRange::new(start, end));
        assert_eq!(level(10, 15), Some(Proof::of_logs(Verification::Receipts)));
        assert_eq!(level(14, 16), Some(Proof::LINKED));
        assert_eq!(level(20, 30), None);
    }

    proptest! {
        #[test]
        fn hostile_facts_are_damage(bytes: Vec<u8>) {
            let _ = SegmentFacts::decode(&mut Reader::new(&bytes));
        }
    }
}
