//! Format version 1: the block table held the hashes of blocks, and all of it was decoded at once.
//! It is brought into the form of today when a segment is opened; merging then stores it so.

use bytes::Bytes;

use super::blocks::{BlockRecord, encode_stretch};
use super::segment::PlacedStretch;
use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// A hash, a step of time and two counts.
const BLOCK_BYTES_MIN: u64 = 35;

/// The pages of the table, and the hashes of all blocks, end to end.
pub(crate) fn decode_blocks(bytes: &[u8], stretches: &[PlacedStretch]) -> Decoded<(Bytes, Bytes)> {
    let count = stretches
        .iter()
        .map(|placed| u64::from(placed.stretch.blocks));
    let fits = count.sum::<u64>() <= bytes.len() as u64 / BLOCK_BYTES_MIN;
    ensure(fits, "block table does not fit the stretches")?;
    let mut reader = Reader::new(bytes);
    let (mut pages, mut hashes, mut time) = (Vec::new(), Vec::new(), 0_u64);
    for placed in stretches {
        let mut blocks = Vec::with_capacity(placed.stretch.blocks as usize);
        for _ in 0..placed.stretch.blocks {
            hashes.put(&reader.array::<32>()?);
            time = time.wrapping_add(reader.signed()? as u64);
            let packed = reader.varint()?;
            blocks.push(BlockRecord {
                timestamp: time,
                logs: u32::try_from(packed >> 1).map_err(|_| Damage("too many logs"))?,
                txs: reader.varint_u32()?,
                txs_in_sequence: packed & 1 == 0,
            });
        }
        encode_stretch(blocks.into_iter(), &mut pages);
    }
    reader.finish()?;
    Ok((pages.into(), hashes.into()))
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Stretch, place_stretches};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_tables_are_damage(bytes: Vec<u8>, blocks in 3_u32..1_000) {
            let stretch = Stretch { blocks, rows: 0, txs: 0, frames: 0, dictionary: 0 };
            let placed = place_stretches(&[stretch]).unwrap();
            prop_assert!(decode_blocks(&bytes, &placed).is_err());
        }
    }
}
