//! Frames: up to 32 logs, compressed together, read and checked on their own.
//!
//! ```text
//! rows u8 | per row: transaction step varint, log index step signed | per row: body
//! ```
//! Numbers are steps from the row before: nearly always 0 or 1, so they compress to nothing. The
//! first transaction of a frame is a step from the ordinal that the frame table holds.

use chronolith_model::Log;

use super::row::{self, RowNumbers};
use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// Rows in every frame but the last of a run.
pub(crate) const FRAME_ROWS: usize = 32;
/// A frame unpacks to at most this many bytes.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 30;

/// Appends an unpacked frame. `bodies` is the concatenation of the rows' bodies.
pub(crate) fn encode(first_tx: u32, rows: &[RowNumbers], bodies: &[u8], out: &mut Vec<u8>) {
    out.put_u8(rows.len() as u8);
    let (mut tx, mut index) = (first_tx, -1_i64);
    for row in rows {
        out.put_varint(u64::from(row.tx_ordinal.wrapping_sub(tx)));
        out.put_signed(i64::from(row.log_index) - index - 1);
        (tx, index) = (row.tx_ordinal, i64::from(row.log_index));
    }
    out.put(bodies);
}

/// A row of a frame: its numbers, where its body lies and how long its parts are unpacked.
#[derive(Clone, Copy, Debug)]
struct PlacedRow {
    numbers: RowNumbers,
    start: u32,
    len: u32,
}

/// A frame, decompressed, with its rows found: what the cache holds. Rows are unpacked one by one,
/// because most queries want one or two of the 32.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    rows: Vec<PlacedRow>,
}

impl Frame {
    /// Decodes a decompressed frame.
    pub(crate) fn decode(bytes: Vec<u8>, first_tx: u32) -> Decoded<Self> {
        let mut reader = Reader::new(&bytes);
        let count = usize::from(reader.u8()?);
        let possible = (1..=FRAME_ROWS).contains(&count);
        ensure(possible, "wrong number of rows in a frame")?;
        let mut rows = Vec::with_capacity(count);
        let (mut tx, mut index) = (first_tx, -1_i64);
        for _ in 0..count {
            let step = reader.varint_u32()?;
            tx = tx
                .checked_add(step)
                .ok_or(Damage("transaction ordinal too large"))?;
            index = index
                .checked_add(reader.signed()?)
                .and_then(|sum| sum.checked_add(1))
                .ok_or(Damage("log index too large"))?;
            let log_index = u32::try_from(index).map_err(|_| Damage("log index out of bounds"))?;
            let numbers = RowNumbers {
                tx_ordinal: tx,
                log_index,
            };
            rows.push(PlacedRow {
                numbers,
                start: 0,
                len: 0,
            });
        }
        for row in &mut rows {
            row.start = (bytes.len() - reader.rest().len()) as u32;
            row.len = row::skip(&mut reader)? as u32;
        }
        reader.finish()?;
        Ok(Self { bytes, rows })
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.capacity() + self.rows.len() * size_of::<PlacedRow>() + 96
    }

    /// The numbers of a row.
    pub(crate) fn numbers(&self, row: usize) -> Option<RowNumbers> {
        self.rows.get(row).map(|row| row.numbers)
    }

    /// A row as a log. `tx_index` is the transaction's position in its block.
    pub(crate) fn log(&self, row: usize, tx_index: u32) -> Decoded<Log> {
        let row = self
            .rows
            .get(row)
            .ok_or(Damage("no such row in the frame"))?;
        let body = self.bytes.get(row.start as usize..);
        let body = body.ok_or(Damage("row outside its frame"))?;
        let numbers = (tx_index, row.numbers.log_index);
        row::decode(&mut Reader::new(body), row.len as usize, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_model::LogParts;
    use proptest::prelude::*;

    fn sample(count: usize) -> (Vec<RowNumbers>, Vec<Log>, Vec<u8>) {
        let (mut numbers, mut logs, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..count as u32 {
            let topic = [at as u8; 32];
            let parts = LogParts {
                tx_index: at / 3,
                log_index: if at < 5 { at + 900 } else { at - 5 },
                emitter: &[1; 20],
                topics: &[&topic],
                data: &topic[..at as usize % 32],
                ..Default::default()
            };
            let log = Log::new(&parts).unwrap();
            row::encode(&log, &mut bodies);
            numbers.push(RowNumbers {
                tx_ordinal: 100 + at / 3,
                log_index: log.log_index(),
            });
            logs.push(log);
        }
        (numbers, logs, bodies)
    }

    #[test]
    fn frames_round_trip() {
        for count in [1, 2, 31, 32] {
            let (numbers, logs, bodies) = sample(count);
            let mut packed = Vec::new();
            encode(98, &numbers, &bodies, &mut packed);
            let frame = Frame::decode(packed.clone(), 98).unwrap();
            assert_eq!(frame.rows.len(), count);
            for (at, log) in logs.iter().enumerate() {
                assert_eq!(frame.numbers(at), Some(numbers[at]));
                assert_eq!(&frame.log(at, log.tx_index()).unwrap(), log);
            }
            assert!(frame.log(count, 0).is_err());
        }
    }

    proptest! {
        #[test]
        fn hostile_frames_are_damage(bytes: Vec<u8>, first_tx: u32) {
            let _ = Frame::decode(bytes, first_tx);
        }

        #[test]
        fn a_flipped_bit_never_panics(at in 0usize..2000, bit in 0u8..8) {
            let (numbers, _, bodies) = sample(32);
            let mut packed = Vec::new();
            encode(98, &numbers, &bodies, &mut packed);
            let at = at % packed.len();
            packed[at] ^= 1 << bit;
            let _ = Frame::decode(packed.clone(), 98);
        }
    }
}
