//! A stand-in for stellar-core: a simulated chain as the stream of frames that core writes.
//!
//! This module holds its settings, its state and what it writes; the program around it opens the
//! stream and waits. Frames are those of RFC 1832: four bytes with the top bit set and the length below
//! it, then a `LedgerCloseMeta`.

mod conf;
mod state;

use std::io::{self, Write};
use std::ops::RangeInclusive;

use super::chain::StellarChain;
use crate::rng::Rng;

pub use conf::{CoreCommand, CoreConf, CoreConfError, CoreFault, CoreFaultKind};
pub use state::CoreState;

/// The ledger of a new database.
pub const GENESIS_LEDGER: u32 = 1;
/// Core takes state from history every this many ledgers, and replays from there.
const CHECKPOINT_LEDGERS: u32 = 64;
/// Set in the length of every frame: nothing of it is in another one.
const LAST_FRAGMENT: u32 = 1 << 31;

/// The newest checkpoint at or below a ledger: 63, 127, and so on; none before the first.
#[must_use]
pub fn checkpoint(ledger: u32) -> Option<u32> {
    let after = ledger.saturating_add(1) / CHECKPOINT_LEDGERS * CHECKPOINT_LEDGERS;
    after.checked_sub(1)
}

/// What comes after a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreStep {
    Next,
    /// Nothing, but the process lives on.
    Stall,
    /// The process ends, as if it had crashed.
    Die,
}

/// Which ledgers `catchup TO/COUNT` writes. With `from_checkpoint`, it begins at the checkpoint before
/// them, as the real one does, and writes more than it was asked for.
#[must_use]
pub fn catchup_ledgers(
    chain: &StellarChain,
    (to, count): (u32, u32),
    from_checkpoint: bool,
) -> RangeInclusive<u32> {
    let wanted = to.saturating_add(1).saturating_sub(count);
    let start = if from_checkpoint {
        wanted - wanted % CHECKPOINT_LEDGERS
    } else {
        wanted
    };
    start.max(chain.settings().first_ledger)..=to
}

/// Writes ledgers of a chain as frames, and injects faults.
#[derive(Debug)]
pub struct CoreFrames<W> {
    chain: StellarChain,
    out: Option<W>,
    written: u32,
    faults: Vec<(usize, CoreFault)>,
}

impl<W: Write> CoreFrames<W> {
    /// Frames of this chain into a stream, or nowhere. Faults are those that still strike, with their
    /// places in the settings.
    pub fn new(chain: StellarChain, out: Option<W>, faults: Vec<(usize, CoreFault)>) -> Self {
        Self {
            chain,
            out,
            written: 0,
            faults,
        }
    }

    /// The fault that strikes at the next frame, and its place in the settings.
    #[must_use]
    pub fn due(&self) -> Option<(usize, CoreFault)> {
        let mut faults = self.faults.iter().copied();
        faults.find(|(_, fault)| fault.after_frames == self.written)
    }

    /// Writes the frame of this ledger, or what a fault makes of it.
    ///
    /// # Errors
    /// When the reader has closed the stream.
    pub fn write(&mut self, sequence: u32) -> io::Result<CoreStep> {
        let fault = self.due().map(|(_, fault)| fault.kind);
        self.written += 1;
        let raw = self.chain.ledger(sequence).raw.clone();
        let len = u32::try_from(raw.len()).map_err(io::Error::other)?;
        let Some(out) = &mut self.out else {
            return Ok(CoreStep::Next);
        };
        let marked = LAST_FRAGMENT | len;
        let (mark, body, step) = match fault {
            Some(CoreFaultKind::Die) => return Ok(CoreStep::Die),
            Some(CoreFaultKind::Stall) => return Ok(CoreStep::Stall),
            Some(CoreFaultKind::Skip) => return Ok(CoreStep::Next),
            None => (marked, raw, CoreStep::Next),
            Some(CoreFaultKind::HalfFrame) => (marked, raw.slice(..raw.len() / 2), CoreStep::Die),
            Some(CoreFaultKind::Garbage) => {
                let garbage = Rng::of(&[sequence.into()]).vec(len.into());
                (marked, garbage.into(), CoreStep::Next)
            }
            Some(CoreFaultKind::BadMark) => (len, raw, CoreStep::Next),
        };
        out.write_all(&mark.to_be_bytes())?;
        out.write_all(&body)?;
        out.flush()?;
        Ok(step)
    }
}

#[cfg(test)]
mod tests;
