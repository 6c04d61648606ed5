//! One object of a lake, opened: unpacked within bounds, taken apart, and every ledger proven.
//!
//! Nothing here waits or sends.

use std::io::Read as _;

use bytes::Bytes;
use chronolith_model::{Block, Proof};
use chronolith_stellar::{Fault, Ledger, Network, prove, walk_batch};

use super::keys::Batch;

/// The most that an object may unpack to: 64 of the largest ledgers that are known take half of it.
pub(crate) const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// What an object may unpack to where it does not say: a multiple of its own length.
const RATIO: u64 = 12;

/// Why an object is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Network(String),
    /// Its bytes are not what they should be.
    Content {
        /// The ledger in it that is wrong, or its first.
        ledger: u32,
        what: String,
    },
}

impl Wrong {
    /// The same, of the ledger that was due.
    fn of(self, ledger: u32) -> Self {
        match self {
            Self::Network(what) => Self::Network(what),
            Self::Content { what, .. } => Self::Content { ledger, what },
        }
    }
}

/// A ledger whose hashes all fit.
#[derive(Debug)]
pub(crate) struct ProvenBlock {
    pub(crate) block: Block,
    pub(crate) proof: Proof,
    /// Contract calls whose events were rewritten after they were hashed.
    pub(crate) rewritten: usize,
}

/// The ledgers of an object, in order, each naming the one before it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) blocks: Vec<Block>,
    /// What is proven of each of them.
    pub(crate) proof: Proof,
    /// Contract calls whose events were rewritten after they were hashed.
    pub(crate) rewritten: usize,
    pub(crate) bytes: u64,
}

/// Opens an object that holds these ledgers.
pub(crate) fn open(packed: &[u8], batch: Batch, network: &Network) -> Result<Opened, Wrong> {
    let first = *batch.ledgers().start();
    let wrong = |ledger: u32, what: String| Wrong::Content { ledger, what };
    let unpacked = unpack(packed, UNPACKED_BYTES_MAX).map_err(|what| wrong(first, what))?;
    let bytes = unpacked.len() as u64;
    let walked = walk_batch(&Bytes::from(unpacked));
    let (start, end, ledgers) = walked.map_err(|fault| wrong(first, fault.to_string()))?;
    check_bounds(start, end, ledgers.len(), batch).map_err(|what| wrong(first, what))?;
    let mut blocks: Vec<Block> = Vec::with_capacity(ledgers.len());
    let (mut proof, mut rewritten) = (Proof::ROOTS, 0);
    for (sequence, raw) in batch.ledgers().zip(ledgers) {
        let proven = prove_ledger(raw, network).map_err(|wrong| wrong.of(sequence))?;
        proof = proof.lower(proven.proof);
        rewritten += proven.rewritten;
        let block = proven.block;
        let found = block.clock.number;
        if found != u64::from(sequence) {
            let what = format!("ledger {found} is in its place");
            return Err(wrong(sequence, what));
        }
        let before = blocks.last().map(|block| block.clock.hash);
        if before.is_some_and(|before| before != block.clock.parent_hash) {
            let what = "it does not name the ledger before it".to_owned();
            return Err(wrong(sequence, what));
        }
        blocks.push(block);
    }
    Ok(Opened {
        blocks,
        proof,
        rewritten,
        bytes,
    })
}

/// A ledger as a block, once everything in it fits.
pub(crate) fn prove_ledger(raw: Bytes, network: &Network) -> Result<ProvenBlock, Wrong> {
    let proven = Ledger::walk(raw).and_then(|ledger| prove(ledger, network));
    let proven = proven.and_then(|proven| {
        Ok(ProvenBlock {
            block: proven.block()?,
            proof: proven.proof(),
            rewritten: proven.rewritten_calls(),
        })
    });
    proven.map_err(|fault| match fault {
        // Header and sets fit by now: nothing but the passphrase is left to be wrong.
        Fault::Unpaired { .. } => Wrong::Network(fault.to_string()),
        fault => Wrong::Content {
            ledger: 0,
            what: fault.to_string(),
        },
    })
}

/// Which ledgers it says it holds, and how many there are.
fn check_bounds(start: u32, end: u32, count: usize, batch: Batch) -> Result<(), String> {
    let due = batch.ledgers();
    if (start, end) != (*due.start(), *due.end()) {
        let (first, last) = (due.start(), due.end());
        return Err(format!(
            "it says that it holds ledgers {start} to {end}, not {first} to {last}"
        ));
    }
    if count as u64 != u64::from(end - start) + 1 {
        return Err(format!("it holds {count} ledgers for {start} to {end}"));
    }
    Ok(())
}

/// Unpacks no more than `most` bytes, whatever length the object states.
fn unpack(packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let too_long = || format!("it unpacks to more than {most} bytes");
    let stated = zstd::zstd_safe::get_frame_content_size(packed);
    let stated = stated.map_err(|_| "it is not packed with zstd".to_owned())?;
    if stated.is_some_and(|stated| stated > most) {
        return Err(too_long());
    }
    let damaged = |error: std::io::Error| format!("it cannot be unpacked: {error}");
    let guess = (packed.len() as u64).saturating_mul(RATIO).min(most);
    let mut unpacked = Vec::with_capacity(stated.unwrap_or(guess) as usize);
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
    let read = decoder.take(most + 1).read_to_end(&mut unpacked);
    read.map_err(damaged)?;
    if unpacked.len() as u64 <= most {
        Ok(unpacked)
    } else {
        Err(too_long())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_unpacked_than_may_be() {
        let zeros = vec![0_u8; 1 << 20];
        let packed = zstd::encode_all(&*zeros, 3).unwrap();
        assert_eq!(unpack(&packed, 1 << 20).unwrap(), zeros);
        let error = unpack(&packed, (1 << 20) - 1).unwrap_err();
        assert!(error.contains("more than 1048575"), "{error}");
        // Stated up front, it is not even begun.
        let stated = zstd::bulk::compress(&zeros, 3).unwrap();
        assert_eq!(unpack(&stated, 1 << 20).unwrap(), zeros);
        assert!(unpack(&stated, 1 << 19).is_err());
        // A first word that promises much costs nothing.
        for len in 0..packed.len() {
            assert!(unpack(&packed[..len], 1 << 20).is_err(), "{len}");
        }
        assert!(unpack(b"plain text", 1 << 20).is_err());
        assert!(unpack(b"", 1 << 20).is_err());
    }

    #[test]
    fn bounds_are_those_of_the_name() {
        let batch = Batch { start: 0, end: 63 };
        for ((start, end, count), expected) in [
            ((2, 63, 62), None),
            ((0, 63, 64), Some("0 to 63, not 2 to 63")),
            ((2, 64, 63), Some("2 to 64, not 2 to 63")),
            ((2, 63, 61), Some("it holds 61 ledgers")),
        ] {
            let found = check_bounds(start, end, count, batch).err();
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(part)) => assert!(found.contains(part), "{found}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }
}
