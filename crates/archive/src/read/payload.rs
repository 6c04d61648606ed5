//! Headers, transaction bodies and raw blocks, from packs. Only the frames that hold what is wanted
//! are read and unpacked.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chronolith_model::{BlockRange, Dataset, LogFilter, Payload};

use super::cache::{Part, Value, into_bytes};
use super::objects::{NamedPack, Objects, Want, all_of};
use crate::error::{Error, Result};
use crate::format::pack::Pieces;
use crate::format::{Damage, Decoded};
use crate::state::catalog::{PackContent, PackEntry, SegmentEntry};
use crate::state::snapshot::Snapshot;

/// A block's payload as far as it is kept. `wanted` must be kept, and of transactions all bodies.
pub(crate) async fn payload(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    wanted: Dataset,
) -> Result<Payload> {
    let pack = holding(snapshot, number, |content| content.holds(wanted))?;
    objects.payload(pack, number).await
}

/// The payload that goes with one sort of content.
pub(crate) async fn payload_of(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    content: &PackContent,
) -> Result<Payload> {
    let pack = holding(snapshot, number, |held| held == content)?;
    objects.payload(pack, number).await
}

/// The bodies of the transactions that logs of a filter name, and maybe of others, in order.
pub(crate) async fn bodies_of_logs(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    filter: &LogFilter,
) -> Result<Vec<Bytes>> {
    let pack = holding(snapshot, number, |content| content.holds_bodies_of(filter))?;
    let named = objects.open_pack(pack).await?;
    let place = kept(&named, named.pack.bodies(number, 0..u64::MAX))?;
    objects.pieces(&named, &place).await
}

/// A block's header.
pub(crate) async fn header(objects: &Objects, snapshot: &Snapshot, number: u64) -> Result<Bytes> {
    let pack = holding(snapshot, number, |content| content.holds(Dataset::Headers))?;
    let named = objects.open_pack(pack).await?;
    let place = kept(&named, named.pack.header(number))?;
    let found = objects.pieces(&named, &place).await?;
    let damage = Damage("payload that is to be kept is missing");
    let found = found.into_iter().next().ok_or(damage);
    found.map_err(|damage| Error::damaged(&named.identity.name, damage))
}

/// The body of the transaction at a position of a block, from any pack that holds it.
pub(crate) async fn body_at(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    index: u32,
) -> Result<Bytes> {
    let with_bodies = |entry: &&Arc<SegmentEntry>| {
        let kept = entry.facts.datasets;
        kept.contains(Dataset::Transactions)
    };
    for entry in snapshot.holding(number).filter(with_bodies) {
        let segment = objects.open(&entry.object).await?;
        let listed = objects.txs(&segment, number).await?;
        let Some(ordinal) = listed.iter().position(|tx| tx.index == index) else {
            continue;
        };
        // One for each transaction that the segment lists.
        let content = PackContent::new(entry.facts.datasets, &entry.facts.scope);
        let same_list = |held: &PackContent| match content.holds(Dataset::Transactions) {
            true => held.holds(Dataset::Transactions),
            false => *held == content,
        };
        let named = objects
            .open_pack(holding(snapshot, number, same_list)?)
            .await?;
        let ordinal = ordinal as u64;
        let place = kept(&named, named.pack.bodies(number, ordinal..ordinal + 1))?;
        let found = objects.pieces(&named, &place).await?.into_iter().next();
        let lost = || Error::damaged(&named.identity.name, Damage("a body is missing"));
        return found.ok_or_else(lost);
    }
    Err(Error::not_covered(BlockRange::one(number)))
}

/// Some of a block's transaction bodies, by their ordinals; fewer where the block has fewer.
pub(crate) async fn bodies(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    wanted: Range<u32>,
) -> Result<Vec<Bytes>> {
    let pack = holding(snapshot, number, |content| {
        content.holds(Dataset::Transactions)
    })?;
    let named = objects.open_pack(pack).await?;
    let wanted = u64::from(wanted.start)..u64::from(wanted.end);
    let place = kept(&named, named.pack.bodies(number, wanted))?;
    objects.pieces(&named, &place).await
}

/// The pack that holds something of a block.
fn holding(
    snapshot: &Snapshot,
    number: u64,
    holds: impl Fn(&PackContent) -> bool,
) -> Result<&PackEntry> {
    let holding = || snapshot.packs().filter(|pack| holds(&pack.content));
    if let Some(pack) = holding().find(|pack| pack.range.contains(number)) {
        return Ok(pack);
    }
    let covered = holding().map(|pack| pack.range).next();
    let covered = covered.unwrap_or(BlockRange::new(number, number));
    Err(Error::NotCovered {
        missing: BlockRange::one(number),
        covered,
    })
}

/// A pack that claims a dataset has it of every block.
fn kept(named: &NamedPack, place: Decoded<Option<Pieces>>) -> Result<Pieces> {
    let place =
        place.and_then(|place| place.ok_or(Damage("payload that is to be kept is missing")));
    place.map_err(|damage| Error::damaged(&named.identity.name, damage))
}

impl Objects {
    /// A block's payload from the pack that holds it.
    pub(crate) async fn payload(&self, entry: &PackEntry, number: u64) -> Result<Payload> {
        let named = self.open_pack(entry).await?;
        let damaged = |damage| Error::damaged(&named.identity.name, damage);
        let all = named.pack.all(number).map_err(damaged)?;
        let stream = self.stream(&named, all.pieces.range()).await?;
        all.payload(&stream).map_err(damaged)
    }

    async fn pieces(&self, named: &NamedPack, place: &Pieces) -> Result<Vec<Bytes>> {
        let stream = self.stream(named, place.range()).await?;
        let taken = place.take_out(&stream);
        taken.map_err(|damage| Error::damaged(&named.identity.name, damage))
    }

    /// Bytes of a pack's stream. Those of one frame are not copied.
    async fn stream(&self, named: &NamedPack, place: Range<u64>) -> Result<Bytes> {
        let (identity, pack) = (&named.identity, &named.pack);
        if place.is_empty() {
            return Ok(Bytes::new());
        }
        let frames = pack.frames_of(&place);
        let first = frames.start;
        let wants: Vec<Want> = frames
            .filter_map(|at| pack.frames.get(at).map(|frame| (at, frame)))
            .map(|(at, frame)| Want {
                at: at as u64,
                range: pack.frames_offset + frame.start..pack.frames_offset + frame.end,
            })
            .collect();
        let decode = |slot: usize, bytes: Bytes| {
            let unpacked = pack.unpack(first + slot, &bytes)?;
            Ok(Value::Bytes(unpacked.into()))
        };
        let values = self.load(identity, Part::PackFrame, &wants, decode).await?;
        let unpacked = all_of(identity, values, into_bytes)?;
        let stream = match <[Bytes; 1]>::try_from(unpacked) {
            Ok([one]) => one,
            Err(unpacked) => {
                let mut stream = BytesMut::new();
                let frames = unpacked.iter();
                frames.for_each(|bytes| stream.extend_from_slice(bytes));
                stream.freeze()
            }
        };
        let skip = place.start - pack.stream_start(first);
        let (start, end) = (skip as usize, (skip + place.end - place.start) as usize);
        match end <= stream.len() {
            true => Ok(stream.slice(start..end)),
            false => Err(Error::damaged(&identity.name, Damage("part cut off"))),
        }
    }
}
