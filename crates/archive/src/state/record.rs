//! The state: the one mutable record. Whatever it does not name does not exist.

use std::sync::Arc;

use chronolith_model::{BlockRef, ChainId, DatasetSet, Hash32, Scope};
use rand::{RngCore, rngs::StdRng};
use xxhash_rust::xxh3::xxh3_64;

use super::catalog::{ObjectRef, PackEntry, SegmentEntry};
use crate::format::container::{FORMAT_VERSION, READABLE_FROM};
use crate::format::facts::{decode_scope, encode_scope};
use crate::format::term::TermKey;
use crate::format::wire::{Put, Reader};
use crate::format::{Damage, Decoded, ensure};
use crate::settings::Settings;

const MAGIC: [u8; 8] = *b"CHRSTATE";
/// How many past acts of operators are kept.
const AUDIT_MAX: usize = 100;

/// The interval that ingest appends to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LiveRun {
    pub(crate) start: u64,
    pub(crate) head: BlockRef,
    pub(crate) head_timestamp: u64,
}

/// Why ingest is stalled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Halt {
    /// In words.
    pub reason: String,
    /// The archived block, where there are two.
    pub archived: Option<BlockRef>,
    /// The hash that was offered instead.
    pub offered: Option<Hash32>,
    pub source: String,
    /// When, in seconds since 1970, as the caller reported.
    pub at: u64,
}

/// What an operator did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// When, in seconds since 1970, as the caller reported.
    pub at: u64,
    /// In words.
    pub act: String,
}

/// Where the catalog lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CatalogRef {
    pub(crate) object: ObjectRef,
    pub(crate) hash: Hash32,
}

/// The one mutable record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) archive_id: [u8; 16],
    pub(crate) chain: ChainId,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    /// Differs with every swap: how a writer knows its own.
    pub(crate) nonce: u64,
    /// Who wrote last.
    pub(crate) instance: String,
    pub(crate) halt: Option<Halt>,
    pub(crate) live: Option<LiveRun>,
    pub(crate) datasets: DatasetSet,
    pub(crate) scope: Scope,
    pub(crate) catalog: Option<CatalogRef>,
    /// Segments since the catalog, by their first block.
    pub(crate) batches: Vec<Arc<SegmentEntry>>,
    pub(crate) batch_packs: Vec<Arc<PackEntry>>,
    pub(crate) audit: Vec<AuditEntry>,
    /// What the terms of new segments are hashed with. A state of format version 2 has none; the next
    /// writer makes one.
    pub(crate) term_key: TermKey,
}

impl State {
    /// The state of a new archive.
    pub(crate) fn new(settings: &Settings, random: &mut StdRng) -> Self {
        let mut archive_id = [0; 16];
        random.fill_bytes(&mut archive_id);
        Self {
            archive_id,
            chain: settings.chain,
            epoch: 0,
            sequence: 0,
            nonce: 0,
            instance: String::new(),
            halt: None,
            live: None,
            datasets: settings.datasets,
            scope: settings.scope.clone(),
            catalog: None,
            batches: Vec::new(),
            batch_packs: Vec::new(),
            audit: Vec::new(),
            term_key: TermKey::NONE,
        }
    }

    /// Remembers an operator's act.
    pub(crate) fn record(&mut self, entry: AuditEntry) {
        self.audit.push(entry);
        let surplus = self.audit.len().saturating_sub(AUDIT_MAX);
        self.audit.drain(..surplus);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u16(FORMAT_VERSION);
        out.put_u16(READABLE_FROM);
        out.put(&self.archive_id);
        out.put_varint(self.chain.0);
        out.put_varint(self.epoch);
        out.put_varint(self.sequence);
        out.put_u64(self.nonce);
        out.put_bytes(self.instance.as_bytes());
        out.put_option(self.halt.as_ref(), encode_halt);
        out.put_option(self.live.as_ref(), |live, out| {
            out.put_varint(live.start);
            encode_block_ref(&live.head, out);
            out.put_varint(live.head_timestamp);
        });
        out.put_u8(self.datasets.bits());
        encode_scope(&self.scope, &mut out);
        out.put_option(self.catalog.as_ref(), |catalog, out| {
            catalog.object.encode(out);
            out.put(&catalog.hash.0);
        });
        out.put_list(&self.batches, |batch, out| batch.encode(out));
        out.put_list(&self.batch_packs, |pack, out| pack.encode(out));
        out.put_list(&self.audit, |entry, out| {
            out.put_varint(entry.at);
            out.put_bytes(entry.act.as_bytes());
        });
        if !self.term_key.is_none() {
            out.put(&self.term_key.0);
        }
        let checksum = xxh3_64(&out);
        out.put_u64(checksum);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let (body, checksum) = bytes
            .split_last_chunk::<8>()
            .ok_or(Damage("state too short"))?;
        let mut reader = Reader::new(body);
        let (_written_by, readable_from) = decode_versions(&mut reader)?;
        ensure(
            readable_from <= FORMAT_VERSION,
            "written by a newer version that this one cannot read",
        )?;
        let sum = u64::from_le_bytes(*checksum);
        ensure(xxh3_64(body) == sum, "state checksum mismatch")?;
        let state = Self::decode_body(&mut reader)?;
        reader.finish()?;
        Ok(state)
    }

    fn decode_body(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            archive_id: reader.array()?,
            chain: ChainId(reader.varint()?),
            epoch: reader.varint()?,
            sequence: reader.varint()?,
            nonce: reader.u64()?,
            instance: reader.text()?,
            halt: reader.option(decode_halt)?,
            live: reader.option(|reader| {
                Ok(LiveRun {
                    start: reader.varint()?,
                    head: decode_block_ref(reader)?,
                    head_timestamp: reader.varint()?,
                })
            })?,
            datasets: DatasetSet::from_bits(reader.u8()?).ok_or(Damage("unknown dataset"))?,
            scope: decode_scope(reader)?,
            catalog: reader.option(|reader| {
                Ok(CatalogRef {
                    object: ObjectRef::decode(reader)?,
                    hash: reader.hash()?,
                })
            })?,
            batches: reader.list(2, |reader| SegmentEntry::decode(reader).map(Arc::new))?,
            batch_packs: reader.list(2, |reader| PackEntry::decode(reader).map(Arc::new))?,
            audit: reader.list(2, |reader| {
                Ok(AuditEntry {
                    at: reader.varint()?,
                    act: reader.text()?,
                })
            })?,
            term_key: match reader.is_empty() {
                true => TermKey::NONE,
                false => TermKey(reader.array()?),
            },
        })
    }

    /// Which version wrote a state, and the oldest that can read it; the rest is not looked at.
    pub(crate) fn versions(bytes: &[u8]) -> Decoded<(u16, u16)> {
        decode_versions(&mut Reader::new(bytes))
    }

    /// Who wrote a state last, without a full check: enough to decide whether to wait for them.
    pub(crate) fn instance_of(bytes: &[u8]) -> Option<String> {
        Self::decode(bytes).ok().map(|state| state.instance)
    }
}

fn decode_versions(reader: &mut Reader<'_>) -> Decoded<(u16, u16)> {
    ensure(reader.array()? == MAGIC, "not a state of ours")?;
    Ok((reader.u16()?, reader.u16()?))
}

fn encode_block_ref(block: &BlockRef, out: &mut Vec<u8>) {
    out.put_varint(block.number);
    out.put(&block.hash.0);
}

fn decode_block_ref(reader: &mut Reader<'_>) -> Decoded<BlockRef> {
    Ok(BlockRef {
        number: reader.varint()?,
        hash: reader.hash()?,
    })
}

fn encode_halt(halt: &Halt, out: &mut Vec<u8>) {
    out.put_bytes(halt.reason.as_bytes());
    out.put_option(halt.archived.as_ref(), encode_block_ref);
    out.put_option(halt.offered.as_ref(), |hash, out| out.put(&hash.0));
    out.put_bytes(halt.source.as_bytes());
    out.put_varint(halt.at);
}

fn decode_halt(reader: &mut Reader<'_>) -> Decoded<Halt> {
    Ok(Halt {
        reason: reader.text()?,
        archived: reader.option(decode_block_ref)?,
        offered: reader.option(Reader::hash)?,
        source: reader.text()?,
        at: reader.varint()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::facts::tests::sample;
    use crate::state::catalog::PackContent;
    use chronolith_model::{BlockRange, Dataset};
    use proptest::prelude::*;

    fn state() -> State {
        let head = BlockRef {
            number: 6,
            hash: Hash32([4; 32]),
        };
        let object = ObjectRef {
            name: "seg/x".into(),
            len: 9,
            tables_start: 4,
        };
        let range = BlockRange::new(3, 7);
        State {
            archive_id: [9; 16],
            chain: ChainId(1),
            epoch: 3,
            sequence: 77,
            nonce: 5,
            instance: "one".into(),
            halt: Some(Halt {
                reason: "replaced".into(),
                archived: Some(head),
                offered: Some(Hash32([8; 32])),
                source: "somebody".into(),
                at: 12,
            }),
            live: Some(LiveRun {
                start: 3,
                head,
                head_timestamp: 99,
            }),
            datasets: DatasetSet::CLOCK,
            scope: Scope::All,
            catalog: Some(CatalogRef {
                object: ObjectRef {
                    name: "cat/1".into(),
                    len: 7,
                    tables_start: 3,
                },
                hash: Hash32([6; 32]),
            }),
            batches: vec![Arc::new(SegmentEntry {
                object: object.clone(),
                tier: 0,
                facts: sample(range),
                keys: None,
            })],
            batch_packs: vec![Arc::new(PackEntry {
                object,
                range,
                last_hash: head.hash,
                content: PackContent::new(
                    DatasetSet::of(&[Dataset::Logs, Dataset::Transactions]),
                    &sample(range).scope,
                ),
            })],
            audit: vec![AuditEntry {
                at: 1,
                act: "resume".into(),
            }],
            term_key: TermKey([3; 16]),
        }
    }

    #[test]
    fn states_round_trip_and_every_flipped_byte_is_damage() {
        let bytes = state().encode();
        assert_eq!(State::decode(&bytes), Ok(state()));
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 2;
            assert!(State::decode(&broken).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_audit_is_bounded() {
        let mut state = state();
        (0..300).for_each(|at| {
            state.record(AuditEntry {
                at,
                act: String::new(),
            })
        });
        assert_eq!((state.audit.len(), state.audit[0].at), (AUDIT_MAX, 200));
    }

    proptest! {
        #[test]
        fn hostile_states_are_damage(bytes: Vec<u8>) {
            prop_assert!(State::decode(&bytes).is_err());
        }
    }
}
