//! Headers, transaction bodies and raw blocks, from packs.

use bytes::{Bytes, BytesMut};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Payload};

use super::cache::{Part, Value, into_bytes};
use super::objects::{Objects, Want};
use super::snapshot::Snapshot;
use crate::catalog::PackEntry;
use crate::error::{Error, Result};

/// A block's payload as far as it is kept. `wanted` must be kept.
pub(crate) async fn payload(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    wanted: Dataset,
) -> Result<Payload> {
    let datasets = DatasetSet::of(&[wanted]);
    let holding = snapshot
        .packs()
        .find(|pack| pack.range.contains(number) && pack.datasets.covers(datasets));
    match holding {
        Some(pack) => objects.payload(pack, number).await,
        None => {
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
    }
}

impl Objects {
    /// A block's payload from the pack that holds it.
    pub(crate) async fn payload(&self, entry: &PackEntry, number: u64) -> Result<Payload> {
        let named = self.open_pack(entry).await?;
        let (identity, pack) = (&named.identity, &named.pack);
        let damaged = |damage| Error::damaged(&identity.name, damage);
        let frames = pack.frames_of(number).map_err(damaged)?;
        let first = frames.start;
        let wants: Vec<Want> = frames
            .clone()
            .filter_map(|at| pack.frames.get(at).map(|frame| (at, frame)))
            .map(|(at, frame)| Want {
                at: at as u64,
                range: pack.frames_offset + frame.start..pack.frames_offset + frame.end,
            })
            .collect();
        let decode = |slot: usize, bytes: Bytes| {
            let at = first + slot;
            let frame = pack
                .frames
                .get(at)
                .ok_or(crate::format::Damage("no such frame"))?;
            Ok(Value::Bytes(frame.unpack(&bytes, at)?.into()))
        };
        let values = self.load(identity, Part::PackFrame, &wants, decode).await?;
        let mut unpacked = values.into_iter().filter_map(into_bytes);
        let stream = if wants.len() == 1 {
            unpacked.next().unwrap_or_default()
        } else {
            let mut stream = BytesMut::new();
            unpacked.for_each(|bytes| stream.extend_from_slice(&bytes));
            stream.freeze()
        };
        pack.payload(number, first, &stream).map_err(damaged)
    }
}
