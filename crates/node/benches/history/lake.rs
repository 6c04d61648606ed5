//! The lake that both sides stand on: simulated ledgers of about 1.3 MB.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;
use chronolith_sim::stellar::{Lake as Made, LakeLayout, StellarChain, StellarSettings};

/// A lake in a directory, and what it holds.
pub(crate) struct Lake {
    pub(crate) directory: PathBuf,
    pub(crate) passphrase: String,
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) raw_bytes: u64,
    /// The same ledgers, each as one zstd frame of level 3.
    pub(crate) packed_bytes: u64,
    /// Of every transaction, in hexadecimal.
    pub(crate) hashes: Vec<String>,
    layout: LakeLayout,
}

impl Lake {
    pub(crate) fn make(directory: &Path, ledgers: u32) -> Result<Self> {
        let settings = StellarSettings::large(7);
        let chain = StellarChain::new(settings.clone());
        let layout = LakeLayout::default();
        let made = Made::new(directory, layout);
        let (first, last) = (settings.first_ledger, settings.first_ledger + ledgers - 1);
        made.write(&chain, first..last + 1)?;
        made.write_manifest(&chain)?;
        let mut lake = Self {
            directory: directory.to_owned(),
            passphrase: settings.passphrase,
            first,
            last,
            raw_bytes: 0,
            packed_bytes: 0,
            hashes: Vec::new(),
            layout,
        };
        for sequence in first..=last {
            let ledger = lake.ledger(sequence)?;
            let walked = chronolith_stellar::Ledger::walk(ledger.clone())?;
            lake.hashes
                .extend(walked.tx_hashes().map(|hash| hash.to_string().split_off(2)));
            lake.raw_bytes += ledger.len() as u64;
            lake.packed_bytes += zstd::bulk::compress(&ledger, 3)?.len() as u64;
        }
        Ok(lake)
    }

    /// The bytes of one ledger, out of its object.
    pub(crate) fn ledger(&self, sequence: u32) -> Result<Bytes> {
        ledger_in(&self.directory.join(self.layout.key(sequence)))
    }

    /// So many hashes, spread over all.
    pub(crate) fn some_hashes(&self, count: usize) -> impl Iterator<Item = String> {
        let step = (self.hashes.len() / count).max(1);
        // A step that has nothing in common with the number of transactions of a ledger.
        let step = step | 1;
        self.hashes.iter().step_by(step).take(count).cloned()
    }

    /// Hashes that no transaction has.
    pub(crate) fn absent_hashes(&self, count: usize) -> impl Iterator<Item = String> {
        self.some_hashes(count)
            .map(|hash| hash.chars().rev().collect())
    }
}

/// The ledger of an object that holds one.
pub(crate) fn ledger_in(object: &Path) -> Result<Bytes> {
    let batch: Bytes = zstd::decode_all(&std::fs::read(object)?[..])?.into();
    let (_, _, ledgers) = chronolith_stellar::walk_batch(&batch)?;
    Ok(ledgers.into_iter().next().unwrap_or_default())
}
