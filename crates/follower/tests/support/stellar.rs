//! A simulated Stellar network: its lake in a directory, and its archive.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use chronolith_archive::Archive;
use chronolith_follower::settings::{Finality, FollowSettings, StellarSettings};
use chronolith_model::{Dataset, DatasetSet, Verification};
use chronolith_sim::stellar::{
    Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings as SimSettings,
};
use chronolith_source::stellar::{LakePlace, LakeSettings};
use chronolith_stellar::{Network, join};
use tempfile::TempDir;

use super::Ground;

/// The first ledger of every network.
pub const FIRST: u32 = 2;

/// A simulated network and its lake.
pub struct Pond {
    pub dir: TempDir,
    pub chain: StellarChain,
    pub lake: Lake,
}

impl Pond {
    /// With the ledgers below `end` in its lake, one in an object.
    pub fn new(seed: u64, end: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let layout = LakeLayout {
            ledgers_per_file: 1,
            files_per_partition: 16,
            suffix: LakeSuffix::Zst,
        };
        let lake = Lake::new(dir.path().join("lake"), layout);
        let chain = StellarChain::new(SimSettings::new(seed));
        lake.write_manifest(&chain).unwrap();
        lake.write(&chain, FIRST..end).unwrap();
        Self { dir, chain, lake }
    }

    pub fn grow(&self, end: u32) {
        self.lake.write(&self.chain, FIRST..end).unwrap();
    }

    pub fn network(&self) -> Network {
        Network::new(self.chain.settings().passphrase.clone())
    }

    /// A directory for the archive of the network, whose ledgers come from its lake.
    pub fn ground(&self) -> Ground {
        let mut ground = Ground::new(Finality::Finalized);
        ground.settings = self.settings();
        ground
    }

    /// As the program reads them from a file with nothing but the network and its lake.
    fn settings(&self) -> FollowSettings {
        let chain_id = self.network().chain_id();
        let mut settings = FollowSettings::of_endpoints(chain_id, "sim", Vec::new());
        settings.start_block = FIRST.into();
        settings.ranges.first = FIRST.into();
        settings.datasets = DatasetSet::of(&[
            Dataset::Headers,
            Dataset::Logs,
            Dataset::TxHashes,
            Dataset::Transactions,
        ]);
        settings.level = Verification::Linked;
        settings.poll = Duration::from_millis(200);
        settings.stellar = Some(StellarSettings {
            network: self.network(),
            network_name: "sim".to_owned(),
            lake: Some(self.lake_settings()),
            core: None,
        });
        settings
    }

    fn lake_settings(&self) -> LakeSettings {
        LakeSettings {
            place: LakePlace::Directory(self.lake.directory().to_owned()),
            layout: None,
            network: self.network(),
            first_ledger: FIRST,
            at_once: 4,
            hold_bytes: 16 << 20,
        }
    }

    /// Every ledger of a range is archived as it was made.
    pub async fn assert_archived(&self, archive: &Archive, ledgers: Range<u32>) {
        for number in ledgers {
            let made = self.chain.ledger(number);
            let clock = archive.block_by_number(number.into()).await.unwrap();
            assert_eq!(clock.hash, made.hash, "ledger {number}");
            let bytes = ledger_bytes(archive, number.into()).await;
            assert_eq!(bytes, made.raw, "ledger {number}");
        }
    }
}

/// The bytes of an archived ledger, as they came.
pub async fn ledger_bytes(archive: &Archive, number: u64) -> Bytes {
    let header = archive.payload(number, Dataset::Headers).await.unwrap();
    let bodies = archive
        .payload(number, Dataset::Transactions)
        .await
        .unwrap();
    join(&header.header.unwrap(), &bodies.bodies.unwrap()).unwrap()
}
