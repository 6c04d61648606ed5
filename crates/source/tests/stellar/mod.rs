//! What the tests of Stellar sources share: a simulated chain in a lake, and what must come out of it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and may panic"
)]

use std::path::PathBuf;

use chronolith_model::{BlockRange, DatasetSet, Proof, Scope};
use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use chronolith_source::stellar::{LakePlace, LakeSettings, LakeSource, Layout};
use chronolith_source::{Fetched, Source, Want};
use chronolith_stellar::{Network, join};
use tempfile::TempDir;

/// A chain in a lake.
pub struct Pond {
    pub dir: TempDir,
    pub chain: StellarChain,
    pub lake: Lake,
}

/// One ledger in an object, seven objects in a partition.
pub const SMALL: LakeLayout = LakeLayout {
    ledgers_per_file: 1,
    files_per_partition: 7,
    suffix: LakeSuffix::Zst,
};

/// Everything is wanted.
pub fn all() -> Want {
    Want {
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
        proof: Proof::LINKED,
    }
}

pub fn chain(seed: u64) -> StellarChain {
    StellarChain::new(StellarSettings::new(seed))
}

pub fn network(chain: &StellarChain) -> Network {
    Network::new(chain.settings().passphrase.clone())
}

impl Pond {
    /// A lake with the first ledgers of a chain, and its manifest.
    pub fn new(seed: u64, layout: LakeLayout, end: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lake = Lake::new(dir.path().join("lake"), layout);
        let chain = chain(seed);
        lake.write(&chain, 2..end).unwrap();
        lake.write_manifest(&chain).unwrap();
        Self { dir, chain, lake }
    }

    pub fn grow(&self, end: u32) {
        self.lake.write(&self.chain, 2..end).unwrap();
    }

    pub fn settings(&self, place: LakePlace) -> LakeSettings {
        LakeSettings {
            place,
            layout: None,
            network: network(&self.chain),
            first_ledger: 2,
            at_once: 4,
            hold_bytes: 16 << 20,
        }
    }

    pub fn here(&self) -> LakeSettings {
        self.settings(LakePlace::Directory(self.lake.directory().to_owned()))
    }

    pub async fn open(&self) -> LakeSource {
        LakeSource::open(self.here()).await.unwrap()
    }

    /// The same lake as it is without a manifest.
    pub fn forget_manifest(&self) -> Layout {
        std::fs::remove_file(self.lake.directory().join(".config.json")).unwrap();
        let layout = self.lake.layout();
        Layout::new(layout.ledgers_per_file, layout.files_per_partition).unwrap()
    }

    /// The object of a ledger, by its key and where it is.
    pub fn object(&self, ledger: u32) -> (String, PathBuf) {
        (self.lake.layout().key(ledger), self.lake.path(ledger))
    }

    /// Every ledger of a range is the chain's, byte for byte.
    pub fn assert_is(&self, fetched: &[Fetched], range: BlockRange) {
        assert_chain(&self.chain, fetched, range);
    }
}

/// Every ledger of a range is the chain's, byte for byte.
pub fn assert_chain(chain: &StellarChain, fetched: &[Fetched], range: BlockRange) {
    assert_eq!(fetched.len() as u64, range.len());
    for (number, one) in (range.start..range.end).zip(fetched) {
        let made = chain.ledger(number as u32);
        assert_eq!(one.block.clock.number, number);
        assert_eq!(one.block.clock.hash, made.hash);
        assert_eq!(one.block.clock.parent_hash, made.previous_hash);
        assert_eq!(one.block.clock.timestamp, made.close_time);
        assert_eq!(one.proof, Proof::LINKED.with_transactions());
        let payload = &one.block.payload;
        let bodies = payload.bodies.as_ref().unwrap();
        let joined = join(payload.header.as_ref().unwrap(), bodies).unwrap();
        assert_eq!(joined, made.raw, "ledger {number}");
    }
}

/// What a fetch of one ledger says.
pub async fn message(source: &dyn Source, ledger: u64) -> String {
    let want = all();
    match source
        .fetch_some(BlockRange::one(ledger), &want, None)
        .await
    {
        Ok(fetched) => format!("{} ledgers came", fetched.len()),
        Err(error) => format!("{error} [{:?}]", error.kind()),
    }
}

/// An object that says that it holds these ledgers.
pub fn pack_batch((start, end, count): (u32, u32, u32), ledgers: &[&[u8]]) -> Vec<u8> {
    let mut batch: Vec<u8> = [start, end, count]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect();
    ledgers.iter().for_each(|raw| batch.extend_from_slice(raw));
    zstd::encode_all(&*batch, 3).unwrap()
}
