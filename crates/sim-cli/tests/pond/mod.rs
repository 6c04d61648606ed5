//! A simulated Stellar network: its lake in a directory, and its core as a program.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use chronolith_source::stellar::{CoreSettings, LakePlace, LakeSettings};
use chronolith_stellar::Network;
use tempfile::TempDir;

/// The first ledger of every network.
const FIRST: u32 = 2;

/// A simulated network: its lake, and its core.
pub(crate) struct Pond {
    pub(crate) dir: TempDir,
    pub(crate) chain: StellarChain,
    pub(crate) lake: Lake,
}

impl Pond {
    /// With the ledgers below `end` in its lake, one in an object.
    pub(crate) fn new(seed: u64, end: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let layout = LakeLayout {
            ledgers_per_file: 1,
            files_per_partition: 16,
            suffix: LakeSuffix::Zst,
        };
        let lake = Lake::new(dir.path().join("lake"), layout);
        let chain = StellarChain::new(StellarSettings::new(seed));
        lake.write_manifest(&chain).unwrap();
        lake.write(&chain, FIRST..end).unwrap();
        Self { dir, chain, lake }
    }

    pub(crate) fn grow(&self, end: u32) {
        self.lake.write(&self.chain, FIRST..end).unwrap();
    }

    pub(crate) fn network(&self) -> Network {
        Network::new(self.chain.settings().passphrase.clone())
    }

    pub(crate) fn lake_settings(&self) -> LakeSettings {
        LakeSettings {
            place: LakePlace::Directory(self.lake.directory().to_owned()),
            layout: None,
            network: self.network(),
            first_ledger: FIRST,
            at_once: 4,
            hold_bytes: 16 << 20,
        }
    }

    /// A core of the same chain, as a program that notes how it was called; `more` are lines of its settings.
    fn core(&self, more: &str) -> (PathBuf, PathBuf) {
        let (binary, config) = (
            self.dir.path().join("stellar-core"),
            self.dir.path().join("core.toml"),
        );
        let (simulator, calls) = (env!("CARGO_BIN_EXE_chronolith-sim"), self.calls());
        let calls = calls.display();
        let script =
            format!("#!/bin/sh\necho \"$@\" >> {calls}\nexec {simulator} stellar-core \"$@\"\n");
        std::fs::write(&binary, script).unwrap();
        std::fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        let settings = self.chain.settings();
        let (phrase, seed) = (&settings.passphrase, settings.seed);
        let lines = format!(
            "NETWORK_PASSPHRASE = {phrase:?}\nDATABASE = \"sqlite3://stellar.db\"\n\
             EMIT_CLASSIC_EVENTS = true\nENABLE_SOROBAN_DIAGNOSTIC_EVENTS = true\n\
             EMIT_SOROBAN_TRANSACTION_META_EXT_V1 = true\nseed = {seed}\n{more}\n"
        );
        std::fs::write(&config, lines).unwrap();
        (binary, config)
    }

    /// How core is used, in a directory of this name; it is abandoned after so long without a ledger.
    pub(crate) fn core_settings(&self, dir: &str, more: &str, patience: Duration) -> CoreSettings {
        let (binary, config) = self.core(more);
        CoreSettings {
            binary,
            config,
            work_dir: self.dir.path().join(dir),
            network: self.network(),
            last_ledger: None,
            patience,
        }
    }

    fn calls(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    /// The arguments of every start of core, in order.
    pub(crate) fn core_calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.calls()).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}
