//! Reading stored objects through one cache, bounded in bytes.
//!
//! What is cached is decoded and verified. Several readers that miss the same thing wait for one
//! read. All reads of a step go to the store at once, neighbours joined into one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronolith_store::BlobStore;
use quick_cache::sync::GuardResult;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::cache::{Cache, Key, Part, Value, into_bytes};
use super::run_set::PageSlots;
use crate::error::{Error, Result};
use crate::format::Decoded;
use crate::format::compress::Unpacker;
use crate::format::container::{Container, ObjectKind, Section};
use crate::format::frame::Frame;
use crate::format::pack::OpenPack;
use crate::format::segment::{BlockedSection, HASH_BLOCK_BYTES, SegmentTables};
use crate::format::table::TableDirectory;
use crate::meters::Meters;
use crate::state::catalog::{ObjectRef, PackEntry};

/// Reads closer to each other than this become one.
const JOIN_GAP_BYTES: u64 = 4 << 10;
/// How long one reader waits for another to load what both want. Readers wait for each other only
/// in one order within a load, but a plan that is not driven while its query reads elsewhere may
/// hold a place for longer: then it is read twice rather than waited for.
const GUARD_WAIT: Duration = Duration::from_millis(20);
/// A joined read is at most this long.
const JOINED_BYTES_MAX: u64 = 1 << 20;

/// What the cache knows an object by.
#[derive(Debug)]
pub(crate) struct Identity {
    id: u64,
    pub(crate) name: String,
}

impl Identity {
    fn key(&self, part: Part, at: u64) -> Key {
        let object = self.id;
        Key { object, part, at }
    }
}

/// A run with its directory in memory.
#[derive(Debug)]
pub(crate) struct OpenRun {
    pub(crate) identity: Identity,
    pub(crate) hashes: TableDirectory,
    pub(crate) offset: u64,
    /// Where its pages are in memory.
    pub(crate) slots: PageSlots,
}

/// A pack with its index in memory.
#[derive(Debug)]
pub(crate) struct NamedPack {
    pub(crate) identity: Identity,
    pub(crate) pack: OpenPack,
}

/// A segment with its tables in memory.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) identity: Identity,
    pub(crate) tables: SegmentTables,
    /// For frames without a dictionary, then one for each dictionary.
    pub(crate) unpackers: Vec<Unpacker>,
}

/// One thing to load: which part, and where its bytes lie in the object.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) at: u64,
    pub(crate) range: Range<u64>,
}

/// The store behind the cache.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) meters: Meters,
    blobs: Arc<dyn BlobStore>,
    cache: Cache,
    /// Distinguishes this archive's objects from those of others that share the cache.
    seed: u64,
}

impl Objects {
    pub(crate) fn new(blobs: Arc<dyn BlobStore>, cache: Cache, meters: Meters) -> Self {
        Self {
            meters,
            blobs,
            seed: cache.seed(),
            cache,
        }
    }

    fn id(&self, object: &ObjectRef) -> u64 {
        xxh3_64_with_seed(object.name.as_bytes(), self.seed)
    }

    /// Where the tables of an object lie in the cache.
    fn tables(&self, object: &ObjectRef) -> Key {
        Key {
            object: self.id(object),
            part: Part::Tables,
            at: 0,
        }
    }

    pub(crate) fn blobs(&self) -> &Arc<dyn BlobStore> {
        &self.blobs
    }

    /// Opens a segment, or finds it open.
    pub(crate) async fn open(&self, object: &ObjectRef) -> Result<Arc<OpenSegment>> {
        let opened = self.opened(object, |identity, tail| {
            let tables = SegmentTables::decode(tail, object.tables_start)?;
            let dictionaries = tables.dictionaries.iter().map(|bytes| Unpacker::new(bytes));
            let unpackers = std::iter::once(Unpacker::new(&[]))
                .chain(dictionaries)
                .collect();
            Ok(Value::Segment(Arc::new(OpenSegment {
                identity,
                tables,
                unpackers,
            })))
        });
        match opened.await? {
            // Names are random enough never to share an id; if two did, this would detect it.
            Value::Segment(segment) if segment.identity.name == object.name => Ok(segment),
            _ => Err(taken(object)),
        }
    }

    /// Opens a run, or finds it open.
    pub(crate) async fn open_run(&self, object: &ObjectRef) -> Result<Arc<OpenRun>> {
        let opened = self.opened(object, |identity, tail| {
            let container = Container::parse(tail, object.tables_start, ObjectKind::Run)?;
            let (offset, len) = container.data(Section::Hashes)?;
            let hashes = TableDirectory::decode(&container.table(Section::HashDirectory)?, len)?;
            Ok(Value::Run(Arc::new(OpenRun {
                identity,
                slots: PageSlots::new(hashes.page_count()),
                hashes,
                offset,
            })))
        });
        match opened.await? {
            Value::Run(run) if run.identity.name == object.name => Ok(run),
            _ => Err(taken(object)),
        }
    }

    /// Opens a pack, or finds it open.
    pub(crate) async fn open_pack(&self, entry: &PackEntry) -> Result<Arc<NamedPack>> {
        let object = &entry.object;
        let opened = self.opened(object, |identity, tail| {
            let pack = OpenPack::decode(tail, object.tables_start, entry.range)?;
            Ok(Value::Pack(Arc::new(NamedPack { identity, pack })))
        });
        match opened.await? {
            Value::Pack(named) if named.identity.name == object.name => Ok(named),
            _ => Err(taken(object)),
        }
    }

    /// A segment that is open already.
    pub(crate) fn opened_segment(&self, object: &ObjectRef) -> Option<Arc<OpenSegment>> {
        match self.cache.of(Part::Tables).get(&self.tables(object))? {
            Value::Segment(segment) if segment.identity.name == object.name => Some(segment),
            _ => None,
        }
    }

    /// A run that is open already.
    pub(crate) fn opened_run(&self, object: &ObjectRef) -> Option<Arc<OpenRun>> {
        match self.cache.of(Part::Tables).get(&self.tables(object))? {
            Value::Run(run) if run.identity.name == object.name => Some(run),
            _ => None,
        }
    }

    /// A page of a run that is in memory already.
    pub(crate) fn cached_hash_page(&self, object: &Identity, index: u32) -> Option<Arc<[u8]>> {
        let key = object.key(Part::HashPage, u64::from(index));
        match self.cache.of(key.part).get(&key)? {
            Value::Page(page) => Some(page),
            _ => None,
        }
    }

    /// A page that is in memory already.
    pub(crate) fn cached_page(&self, object: &Identity, part: Part, index: u32) -> Option<Bytes> {
        let key = object.key(part, u64::from(index));
        self.cache.of(part).get(&key).and_then(into_bytes)
    }

    async fn opened(
        &self,
        object: &ObjectRef,
        decode: impl FnOnce(Identity, Bytes) -> Decoded<Value>,
    ) -> Result<Value> {
        let key = self.tables(object);
        let identity = Identity {
            id: key.object,
            name: object.name.clone(),
        };
        let open = async {
            let tail = self.tail(object).await?;
            decode(identity, tail).map_err(|damage| Error::damaged(&object.name, damage))
        };
        self.cache
            .of(Part::Tables)
            .get_or_insert_async(&key, open)
            .await
    }

    /// The end of an object, from where its tables begin, past the cache.
    pub(crate) async fn tail(&self, object: &ObjectRef) -> Result<Bytes> {
        let range = object.tables_start..object.len;
        let tail = self.blobs.range(&object.name, range).await;
        tail.map_err(|error| Error::reading(&object.name, error))
    }

    /// Loads parts of a segment: those that are cached at once, the others together. `wants` must
    /// rise, so that two readers never wait for each other.
    pub(crate) async fn load(
        &self,
        object: &Identity,
        part: Part,
        wants: &[Want],
        decode: impl Fn(usize, Bytes) -> Decoded<Value>,
    ) -> Result<Vec<Value>> {
        let mut values: Vec<Option<Value>> = Vec::with_capacity(wants.len());
        let mut missing = Vec::new();
        for (slot, want) in wants.iter().enumerate() {
            let key = object.key(part, want.at);
            let cache = self.cache.of(part);
            // Nearly always no other task loads it, and then no timer is needed.
            let (value, guard) = match cache.get_value_or_guard(&key, Some(Duration::ZERO)) {
                GuardResult::Value(value) => (Some(value), None),
                GuardResult::Guard(guard) => (None, Some(guard)),
                GuardResult::Timeout => {
                    let guarded = cache.get_value_or_guard_async(&key);
                    match tokio::time::timeout(GUARD_WAIT, guarded).await {
                        Ok(Ok(value)) => (Some(value), None),
                        Ok(Err(guard)) => (None, Some(guard)),
                        Err(_) => (None, None),
                    }
                }
            };
            if value.is_none() {
                missing.push((slot, guard));
            }
            values.push(value);
        }
        self.meters
            .cache_hits
            .increment((wants.len() - missing.len()) as u64);
        if !missing.is_empty() {
            self.meters.cache_misses.increment(missing.len() as u64);
            let range = |slot: usize| {
                let want = wants.get(slot).expect("a slot is that of a want");
                want.range.clone()
            };
            let ranges: Vec<Range<u64>> = missing.iter().map(|(slot, _)| range(*slot)).collect();
            let read = self.read(&object.name, &ranges).await?;
            for ((slot, guard), bytes) in missing.into_iter().zip(read) {
                let value =
                    decode(slot, bytes).map_err(|damage| Error::damaged(&object.name, damage))?;
                // A full cache may refuse the value; the reader has it all the same.
                guard.map(|guard| guard.insert(value.clone()));
                let place = values.get_mut(slot);
                *place.expect("a slot is that of a want") = Some(value);
            }
        }
        // Callers go through what they wanted and what they got side by side: one that is missing
        // would make an answer shorter.
        let all: Option<Vec<Value>> = values.into_iter().collect();
        all.ok_or_else(|| {
            let what = "a part was neither in memory nor read";
            Error::Internal(format!("{what} (object={})", object.name))
        })
    }

    /// What is cached of these, without waiting.
    pub(crate) fn cached(
        &self,
        object: &Identity,
        part: Part,
        wants: &[Want],
    ) -> Vec<Option<Value>> {
        let cache = self.cache.of(part);
        let wants = wants.iter();
        wants
            .map(|want| cache.get(&object.key(part, want.at)))
            .collect()
    }

    /// Whether a part is in memory, without touching it.
    pub(crate) fn has(&self, object: &Identity, part: Part, at: u64) -> bool {
        let key = object.key(part, at);
        self.cache.of(part).peek(&key).is_some()
    }

    /// Keeps a value that was made from loaded parts.
    pub(crate) fn keep(&self, object: &Identity, part: Part, at: u64, value: Value) {
        self.cache.of(part).insert(object.key(part, at), value);
    }

    /// Reads ranges of an object, neighbours joined. Ranges must rise.
    pub(crate) async fn read(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let joined = join_ranges(ranges);
        let read = self.blobs.ranges(name, &joined).await;
        let read = read.map_err(|error| Error::reading(name, error))?;
        let mut parts = Vec::with_capacity(ranges.len());
        let mut at = 0;
        for range in ranges {
            while joined.get(at).is_some_and(|whole| whole.end < range.end) {
                at += 1;
            }
            let part = joined.get(at).zip(read.get(at)).and_then(|(whole, bytes)| {
                let start = usize::try_from(range.start.checked_sub(whole.start)?).ok()?;
                let end = start + usize::try_from(range.end - range.start).ok()?;
                (end <= bytes.len()).then(|| bytes.slice(start..end))
            });
            let short = || Error::damaged(name, "the store answered short");
            parts.push(part.ok_or_else(short)?);
        }
        Ok(parts)
    }

    /// Frames by their numbers, which must rise.
    pub(crate) async fn frames(
        &self,
        segment: &OpenSegment,
        numbers: &[u32],
    ) -> Result<Vec<Arc<Frame>>> {
        let tables = &segment.tables;
        let missing = || Error::damaged(&segment.identity.name, "no such frame");
        let mut wants = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let place = tables.frames.get(number as usize).ok_or_else(missing)?;
            let start = tables.frames_offset + place.start;
            wants.push(Want {
                at: u64::from(number),
                range: start..start + u64::from(place.len),
            });
        }
        let decode = |slot: usize, bytes: Bytes| {
            let number = *numbers.get(slot).expect("a slot is that of a number");
            decode_frame(segment, number, &bytes).map(|frame| Value::Frame(Arc::new(frame)))
        };
        let values = self
            .load(&segment.identity, Part::Frame, &wants, decode)
            .await?;
        all_of(&segment.identity, values, |value| match value {
            Value::Frame(frame) => Some(frame),
            _ => None,
        })
    }

    /// Blocks of a section that is read in blocks; their numbers must rise.
    pub(crate) async fn blocks(
        &self,
        segment: &OpenSegment,
        part: Part,
        numbers: &[u64],
    ) -> Result<Vec<Bytes>> {
        if let (Part::BlockHashes, Some(hashes)) = (part, &segment.tables.listed_hashes) {
            return Ok(numbers.iter().map(|&at| listed(hashes, at)).collect());
        }
        let section = section_of(segment, part);
        let wants: Vec<Want> = numbers
            .iter()
            .map(|&number| {
                let (start, end) = section.block(number);
                Want {
                    at: number,
                    range: section.offset + start..section.offset + end.max(start),
                }
            })
            .collect();
        let decode = |slot: usize, bytes: Bytes| {
            let number = *numbers.get(slot).expect("a slot is that of a number");
            section.verify(number, &bytes)?;
            Ok(Value::own(&bytes))
        };
        let values = self.load(&segment.identity, part, &wants, decode).await?;
        all_of(&segment.identity, values, into_bytes)
    }
}

/// What parts hold. One of another kind is an error: the list is never shorter than what was wanted.
pub(crate) fn all_of<T>(
    object: &Identity,
    values: Vec<Value>,
    take: impl Fn(Value) -> Option<T>,
) -> Result<Vec<T>> {
    let all: Option<Vec<T>> = values.into_iter().map(take).collect();
    all.ok_or_else(|| {
        let what = "a part in memory is of another kind";
        Error::Internal(format!("{what} (object={})", object.name))
    })
}

fn taken(object: &ObjectRef) -> Error {
    Error::damaged(&object.name, "its id is taken by another object")
}

/// A block of hashes that are in memory.
fn listed(hashes: &Bytes, number: u64) -> Bytes {
    let start = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_mul(HASH_BLOCK_BYTES))
        .map_or(hashes.len(), |start| start.min(hashes.len()));
    hashes.slice(start..(start + HASH_BLOCK_BYTES).min(hashes.len()))
}

pub(crate) fn section_of(segment: &OpenSegment, part: Part) -> &BlockedSection {
    match part {
        Part::TxHashes => &segment.tables.tx_hashes,
        Part::Digests => &segment.tables.digests,
        Part::BlockHashes => &segment.tables.block_hashes,
        _ => &segment.tables.postings,
    }
}

pub(crate) fn decode_frame(segment: &OpenSegment, number: u32, bytes: &[u8]) -> Decoded<Frame> {
    let tables = &segment.tables;
    let missing = crate::format::Damage("no such frame");
    let place = tables.frames.get(number as usize).ok_or(missing)?;
    place.verify(bytes, number)?;
    let behind = tables
        .stretches
        .partition_point(|placed| placed.first_frame <= number);
    let placed = behind
        .checked_sub(1)
        .and_then(|at| tables.stretches.get(at))
        .ok_or(missing)?;
    let unpacker = segment
        .unpackers
        .get(placed.stretch.dictionary as usize)
        .ok_or(missing)?;
    Frame::decode(unpacker.unpack(bytes)?, place.first_tx)
}

fn join_ranges(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last)
                if range.start <= last.end + JOIN_GAP_BYTES
                    && range.end - last.start <= JOINED_BYTES_MAX =>
            {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together() {
        let far = 10 << 20;
        let ranges = [0..10, 10..20, 5000..5010, far..far + 1, far + 1..far + 1];
        assert_eq!(
            join_ranges(&ranges),
            [0..20, 5000..5010, far..far + 1].map(|range| {
                // 20 to 5000 is just beyond the gap.
                range
            })
        );
        assert_eq!(join_ranges(&[0..10, 4000..4001]), vec![0..4001; 1]);
        let whole = JOINED_BYTES_MAX;
        assert_eq!(join_ranges(&[0..whole, whole..whole + 1]).len(), 2);
    }
}
