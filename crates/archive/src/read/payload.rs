//! Headers, transaction bodies and raw blocks, from packs. Only the frames that hold what is wanted
//! are read and unpacked.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Payload};

use super::cache::{Part, Value, into_bytes};
use super::objects::{NamedPack, Objects, Want, all_of};
use super::snapshot::Snapshot;
use crate::catalog::PackEntry;
use crate::error::{Error, Result};
use crate::format::pack::Pieces;
use crate::format::{Damage, Decoded};

/// A block's payload as far as it is kept. `wanted` must be kept.
pub(crate) async fn payload(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    wanted: Dataset,
) -> Result<Payload> {
    let pack = holding(snapshot, number, wanted)?;
    objects.payload(pack, number).await
}

/// A block's header.
pub(crate) async fn header(objects: &Objects, snapshot: &Snapshot, number: u64) -> Result<Bytes> {
    let pack = holding(snapshot, number, Dataset::Headers)?;
    let named = objects.open_pack(pack).await?;
    let place = kept(&named, named.pack.header(number))?;
    let found = objects.pieces(&named, &place).await?;
    let damage = Damage("payload that is to be kept is missing");
    let found = found.into_iter().next().ok_or(damage);
    found.map_err(|damage| Error::damaged(&named.identity.name, damage))
}

/// Some of a block's transaction bodies, by their ordinals; fewer where the block has fewer.
pub(crate) async fn bodies(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    wanted: Range<u32>,
) -> Result<Vec<Bytes>> {
    let pack = holding(snapshot, number, Dataset::Transactions)?;
    let named = objects.open_pack(pack).await?;
    let wanted = u64::from(wanted.start)..u64::from(wanted.end);
    let place = kept(&named, named.pack.bodies(number, wanted))?;
    objects.pieces(&named, &place).await
}

/// The pack that holds a dataset of a block.
fn holding(snapshot: &Snapshot, number: u64, wanted: Dataset) -> Result<&PackEntry> {
    let datasets = DatasetSet::of(&[wanted]);
    let holding = snapshot
        .packs()
        .find(|pack| pack.range.contains(number) && pack.datasets.covers(datasets));
    if let Some(pack) = holding {
        return Ok(pack);
    }
    let covered = snapshot
        .packs()
        .filter(|pack| pack.datasets.covers(datasets));
    let covered = covered.map(|pack| pack.range).next();
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
