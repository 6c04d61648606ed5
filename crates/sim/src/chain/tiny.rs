//! Small blocks full of odd cases: few terms, so that filters hit, and every length and count
//! that the chain family allows.

use super::writer::LogWriter;
use super::{ChainSpec, Shape};
use crate::rng::Rng;

/// Blocks without logs, and blocks with very many, in percent.
const EMPTY_PERCENT: u32 = 20;
const CROWDED_PERCENT: u32 = 3;
const CROWDED_LOGS: u64 = 300;
/// How many different emitters and topics there are.
const EMITTERS: u64 = 4;
const TOPICS: u64 = 5;
/// Lengths of data: around word borders, and odd ones.
const DATA_LENS: [u64; 8] = [0, 1, 31, 32, 33, 64, 100, 257];
/// Lengths of terms and suffixes where the family leaves them open; prefixes of each other.
const VARIED_LENS: [u64; 6] = [0, 1, 8, 31, 32, 40];

/// The generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiny {
    logs_max: u64,
    varied: bool,
}

impl Tiny {
    pub(super) fn new(spec: &ChainSpec) -> Self {
        Self {
            logs_max: spec.logs_per_block.max(1).into(),
            varied: spec.shape == Shape::TinyVaried,
        }
    }

    /// Writes a block's logs and returns how many transactions it has.
    pub(super) fn write(&self, rng: &mut Rng, writer: &mut LogWriter) -> u32 {
        let logs = match rng.below(100) as u32 {
            dice if dice < EMPTY_PERCENT => 0,
            dice if dice < EMPTY_PERCENT + CROWDED_PERCENT => CROWDED_LOGS,
            _ => 1 + rng.below(self.logs_max),
        };
        let mut tx_index = rng.below(3) as u32;
        for _ in 0..logs {
            self.write_log(rng, writer, tx_index);
            tx_index += rng.below(3) as u32;
        }
        // The last log's transaction must be listed; an empty block may have none at all.
        tx_index + u32::from(logs > 0)
    }

    fn write_log(&self, rng: &mut Rng, writer: &mut LogWriter, tx_index: u32) {
        let kind = if self.varied { rng.below(3) as u8 } else { 0 };
        let emitter = rng.below(EMITTERS);
        let emitter_len = if self.varied { 8 * (1 + emitter) } else { 20 };
        writer.begin(tx_index, kind, &term(emitter, emitter_len));
        for _ in 0..rng.below(5) {
            let topic = rng.below(TOPICS);
            let len = if self.varied { varied_len(rng) } else { 32 };
            writer.topic(&term(topic, len));
        }
        let data_len = rng.pick(&DATA_LENS).copied().unwrap_or_default();
        writer.data(&rng.vec(data_len));
        if self.varied {
            let suffix_len = varied_len(rng);
            writer.suffix(&rng.vec(suffix_len));
        }
    }
}

fn varied_len(rng: &mut Rng) -> u64 {
    rng.pick(&VARIED_LENS).copied().unwrap_or_default()
}

/// A term: the first is all zero, the last all ones, and each is the same in every position and
/// as an emitter, so that an index that mixes up positions is caught.
fn term(which: u64, len: u64) -> Vec<u8> {
    let fill = match which {
        0 => 0x00,
        1 => 0xff,
        _ => 0x10 + which as u8,
    };
    vec![fill; len as usize]
}
