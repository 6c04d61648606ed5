//! A Stellar chain in a settings file, and its archive.

use std::fs::Permissions;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Archive, Settings};
use chronolith_model::{BlockRange, ChainId, Dataset, Hash32};
use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use chronolith_stellar::{Network, join};
use chronolith_store::{FileBlobs, FileMeta};
use tempfile::TempDir;

use super::Bench;

/// A settings file with one Stellar chain; `more` are further fields of it.
pub fn bench(network: &str, more: &str) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("chronolith.json");
    let data = dir.path().join("data");
    let text = format!(
        r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "feesListen": "127.0.0.1:0", "chains": [ {{ "pollMs": 20, "stellar": {network} {more} }} ] }}"#
    );
    std::fs::write(&config, text).unwrap();
    Bench { dir, config }
}

/// A lake in a directory, without a manifest: one ledger in an object.
pub fn plain_lake(dir: &Path) -> String {
    format!(r#""lake": {{ "dir": {dir:?}, "ledgersPerBatch": 1, "batchesPerPartition": 1 }}"#)
}

/// The archive of the bench's only chain, for what no command shows.
pub async fn archive(bench: &Bench, network: &Network) -> Archive {
    let chain = network.chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}"));
    let (meta, blobs) = (FileMeta::open_reader(&dir), FileBlobs::open_reader(&dir));
    let settings = Settings::stellar(ChainId(chain));
    let opened = Archive::open_reader(Arc::new(meta), Arc::new(blobs), settings).await;
    opened.unwrap()
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

/// The ledgers of an object, as they are in it.
pub fn ledgers_in(object: &Path) -> Vec<Bytes> {
    let packed = std::fs::read(object).unwrap();
    let batch = Bytes::from(zstd::decode_all(&*packed).unwrap());
    let (_, _, ledgers) = chronolith_stellar::walk_batch(&batch).unwrap();
    ledgers
}

/// What core's settings file must have.
pub fn core_lines(passphrase: &str) -> String {
    format!(
        "NETWORK_PASSPHRASE = {passphrase:?}\nDATABASE = \"sqlite3://stellar.db\"\n\
         EMIT_CLASSIC_EVENTS = true\nENABLE_SOROBAN_DIAGNOSTIC_EVENTS = true\n\
         EMIT_SOROBAN_TRANSACTION_META_EXT_V1 = true\n"
    )
}

/// `chronolith-sim`, which cargo builds beside the program under test. Cargo tells a test the paths of the
/// programs of its own package alone, and builds no others for the tests of a single package.
fn simulator() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_chronolith"));
    let simulator = program.with_file_name("chronolith-sim");
    assert!(
        simulator.is_file(),
        "there is no {}: build it with `cargo build -p chronolith-sim-cli`, in the profile of this test",
        simulator.display()
    );
    simulator
}

/// A simulated network: its lake, and its core.
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
        let chain = StellarChain::new(StellarSettings::new(seed));
        lake.write_manifest(&chain).unwrap();
        lake.write(&chain, 2..end).unwrap();
        Self { dir, chain, lake }
    }

    pub fn grow(&self, end: u32) {
        self.lake.write(&self.chain, 2..end).unwrap();
    }

    pub fn network(&self) -> Network {
        Network::new(self.chain.settings().passphrase.clone())
    }

    /// The network's fields in the settings, with these beside them.
    pub fn fields(&self, more: &str) -> String {
        let phrase = &self.chain.settings().passphrase;
        format!(r#"{{ "network": "sim", "passphrase": {phrase:?}, {more} }}"#)
    }

    pub fn lake_field(&self) -> String {
        format!(r#""lake": {{ "dir": {:?} }}"#, self.lake.directory())
    }

    /// A core of the same chain, as a program; `more` are lines of its settings.
    pub fn core(&self, more: &str) -> (PathBuf, PathBuf) {
        let (binary, config) = (
            self.dir.path().join("stellar-core"),
            self.dir.path().join("core.toml"),
        );
        let simulator = simulator();
        let simulator = simulator.display();
        let script = format!("#!/bin/sh\nexec {simulator} stellar-core \"$@\"\n");
        std::fs::write(&binary, script).unwrap();
        std::fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        self.set_core(more);
        (binary, config)
    }

    /// Changes the settings of its core.
    pub fn set_core(&self, more: &str) {
        let seed = self.chain.settings().seed;
        let config = self.dir.path().join("core.toml");
        let core = core_lines(&self.chain.settings().passphrase);
        std::fs::write(config, format!("{core}seed = {seed}\n{more}\n")).unwrap();
    }

    pub fn core_field(&self, more: &str) -> String {
        let (binary, config) = self.core(more);
        format!(
            r#""core": {{ "binary": {binary:?}, "config": {config:?}, "patienceSeconds": 20 }}"#
        )
    }

    /// Every ledger of a range is archived as it was made.
    pub async fn assert_archived(&self, bench: &Bench, ledgers: Range<u32>) {
        let archived = archive(bench, &self.network()).await;
        for number in ledgers {
            let made = self.chain.ledger(number);
            let clock = archived.block_by_number(number.into()).await.unwrap();
            assert_eq!(clock.hash, made.hash, "ledger {number}");
            let bytes = ledger_bytes(&archived, number.into()).await;
            assert_eq!(bytes, made.raw, "ledger {number}");
        }
    }
}

/// What all ledgers of an archive come down to.
pub async fn content_root(bench: &Bench, network: &Network, range: BlockRange) -> Hash32 {
    let archived = archive(bench, network).await;
    archived.content_root(range).await.unwrap()
}
