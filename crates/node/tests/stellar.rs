//! A Stellar network from its data lake into an archive, and out again byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::PathBuf;

use chronolith_stellar::Network;
use support::stellar::{archive, bench, ledger_bytes, ledgers_in, plain_lake};

/// Three ledgers of the test network, in a lake with its manifest and partition.
struct FixtureLake {
    root: tempfile::TempDir,
    /// Where the objects are.
    objects: PathBuf,
}

impl FixtureLake {
    /// None where there are no fixtures.
    fn new(has_manifest: bool) -> Option<Self> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/fixtures/stellar/lake"
        );
        let Ok(fixtures) = std::fs::read_dir(path) else {
            println!("skipped: no fixtures (path={path})");
            return None;
        };
        let root = tempfile::tempdir().unwrap();
        let objects = match has_manifest {
            true => root.path().join("FFFFFFFF--0-63999"),
            false => root.path().to_owned(),
        };
        std::fs::create_dir_all(&objects).unwrap();
        for entry in fixtures {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            match (name.as_str(), has_manifest) {
                (".config.json", false) => continue,
                (".config.json", true) => std::fs::copy(entry.path(), root.path().join(name)),
                _ => std::fs::copy(entry.path(), objects.join(name)),
            }
            .unwrap();
        }
        Some(Self { root, objects })
    }

    fn dir(&self) -> String {
        format!(r#""lake": {{ "dir": {:?} }}"#, self.root.path())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_ledgers_come_back_as_they_were() {
    let Some(lake) = FixtureLake::new(true) else {
        return;
    };
    let network = format!(r#"{{ "network": "testnet", {} }}"#, lake.dir());
    let bench = bench(&network, r#", "startBlock": 997"#);
    let told = bench.say(&["config", "check"]);
    assert!(told.contains("Stellar testnet"), "{told}");
    bench.say(&["run", "--until-caught-up"]);
    let state = bench.json(&["state", "--json"]);
    assert_eq!(state[0]["head"]["number"], 999);
    assert_eq!(state[0]["chain"], "testnet");

    let network = Network::new(Network::TESTNET);
    let archived = archive(&bench, &network).await;
    for (number, key) in [(997, "FFFFFC1A"), (998, "FFFFFC19"), (999, "FFFFFC18")] {
        let object = lake.objects.join(format!("{key}--{number}.xdr.zst"));
        let ledgers = ledgers_in(&object);
        assert_eq!(ledger_bytes(&archived, number).await, ledgers[0]);
    }
    let verified = bench.json(&["verify", "--against-source", "--json"]);
    assert_eq!(verified["level"], "receipts");
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    bench.say(&["logs", "--json"]);
    bench.say(&["repair", "--dry-run"]);
}

#[test]
fn another_network_is_refused() {
    for has_manifest in [true, false] {
        let Some(lake) = FixtureLake::new(has_manifest) else {
            return;
        };
        let place = match has_manifest {
            true => lake.dir(),
            false => plain_lake(lake.root.path()),
        };
        let network = format!(r#"{{ "network": "pubnet", {place} }}"#);
        let bench = bench(&network, r#", "startBlock": 997"#);
        let phrase = "Public Global Stellar Network";
        bench.refused(&["run", "--until-caught-up"], phrase);
    }
}
