//! A Stellar network from its data lake into an archive, by commands and through kills. In-process:
//! `crates/follower/tests/lake.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::PathBuf;

use chronolith_model::BlockRange;
use chronolith_stellar::Network;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use support::Bench;
use support::stellar::{Pond, archive, bench, content_root, ledger_bytes, ledgers_in, plain_lake};

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
            let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
            assert!(!required, "no fixtures (path={path})");
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
    let checked = bench.say(&["config", "check"]);
    assert!(checked.contains("Stellar testnet"), "{checked}");
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
    assert_eq!(verified["level"], "linked");
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

/// A clean run over the same ledgers, and what they come down to.
async fn clean_root(pond: &Pond, end: u32) -> chronolith_model::Hash32 {
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(u64::from(end) - 1));
    pond.assert_archived(&bench, 2..end).await;
    let range = BlockRange::new(2, end.into());
    content_root(&bench, &pond.network(), range).await
}

fn await_head(bench: &Bench, head: u32) {
    let what = format!("ledger {head}");
    bench.wait(&what, || bench.head() >= Some(head.into()));
}

const KILLS: u64 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_is_followed_through_kills_and_nothing_is_lost() {
    let pond = Pond::new(31, 60);
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    let mut rng = StdRng::seed_from_u64(31);
    let (mut end, mut progressed) = (60, 0);
    for _ in 0..KILLS {
        let before = bench.head();
        let step = rng.random_range(1..40);
        // The lake grows until the kill.
        bench.crash_at(step, || {
            pond.lake.write(&pond.chain, end..end + 1).unwrap();
            end += 1;
        });
        progressed += u64::from(bench.head() > before);
    }
    assert!(
        progressed >= 3,
        "too few lives archived a ledger: this proved nothing"
    );
    let running = bench.start();
    await_head(&bench, end - 1);
    // One by one, as they close.
    for _ in 0..5 {
        end += 1;
        pond.grow(end);
        await_head(&bench, end - 1);
    }
    running.stop();
    pond.assert_archived(&bench, 2..end).await;
    bench.say(&["verify", "--against-source"]);
    let range = BlockRange::new(2, end.into());
    let root = content_root(&bench, &pond.network(), range).await;
    assert_eq!(root, clean_root(&pond, end).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_archived_is_served_while_an_object_of_the_lake_is_wrong() {
    let pond = Pond::new(32, 60);
    let key = pond.lake.layout().key(40);
    let whole = std::fs::read(pond.lake.path(40)).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 16;
    std::fs::write(pond.lake.path(40), &damaged).unwrap();
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    let running = bench.start();
    bench.wait("the object's name", || {
        bench.has_with("ingest_failing", "error", &key)
    });
    // Nothing vouches for the last ledger before it.
    await_head(&bench, 38);
    let health = bench
        .until_health("the error", |_, health| {
            health["chains"][0]["error"] == "the source failed: wrong answer"
        })
        .await;
    // What the lake has is for operators.
    assert!(!health.to_string().contains(&key), "{health}");
    let state = bench.json(&["state", "--json"])[0]["error"].to_string();
    assert!(state.contains(&key) && state.contains("lake"), "{state}");
    // What is archived is still served.
    let (chain, closed) = (pond.network().chain_id(), pond.chain.ledger(30).close_time);
    let url = format!("{}/v1/chains/{chain}/block/before/{closed}", bench.public());
    let answer = reqwest::get(url).await.unwrap().text().await.unwrap();
    assert!(answer.contains(r#""number":29"#), "{answer}");
    // The id is too large for clients whose numbers are floating point, so it is text.
    for (path, field) in [
        ("v1/chains", "chainId"),
        ("v1/indexing-status", "chainId"),
        ("v1/overview", "chainId"),
        ("health", "chain"),
    ] {
        let url = format!("{}/{path}", bench.public());
        let answer = reqwest::get(url).await.unwrap().text().await.unwrap();
        let id = format!(r#""{field}":"{chain}""#);
        assert!(answer.contains(&id), "{path}: {answer}");
    }
    assert_eq!(bench.head(), Some(38));
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"getLatestLedger"}"#;
    let post = reqwest::Client::new().post(format!("{}/stellar/sim", bench.public()));
    let post = post
        .header("content-type", "application/json")
        .body(request);
    let answer = post.send().await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["sequence"], 38, "{answer}");

    std::fs::write(pond.lake.path(40), &whole).unwrap();
    await_head(&bench, 59);
    let is_ready = |code: u16, _: &Value| code == 200;
    bench.until_health("readiness", is_ready).await;
    running.stop();
    pond.assert_archived(&bench, 2..60).await;
}

/// Commands and the admin API printed the ids of networks as numbers, which JavaScript rounds to the id of no chain.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_text_for_operators_too() {
    let pond = Pond::new(36, 60);
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    let id = Value::from(pond.network().chain_id().to_string());
    let running = bench.start();
    await_head(&bench, 59);
    // The node answers the first two, and the command reads its answers.
    for words in [
        &["backfill", "--from", "10", "--to", "20"][..],
        &["gc", "--dry-run"],
        &["verify"],
        &["state"],
        &["state", "--ranges"],
        &["state", "--keys"],
    ] {
        let shown = bench.json(&[words, &["--json"]].concat());
        let one = shown.get(0).unwrap_or(&shown);
        assert_eq!(one["chainId"], id, "{words:?}: {shown}");
    }
    let (address, token) = bench.admin();
    for (path, field) in [
        ("state", "/chains/0/chain"),
        ("state", "/audit/0/chain"),
        ("jobs", "/jobs/0/chainId"),
    ] {
        let request = reqwest::Client::new().get(format!("http://{address}/admin/v1/{path}"));
        let answer = request.bearer_auth(&token).send().await.unwrap();
        let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(answer.pointer(field), Some(&id), "{path}: {answer}");
    }
    running.stop();
}

#[test]
fn events_are_logs() {
    let pond = Pond::new(34, 60);
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    bench.say(&["run", "--until-caught-up"]);
    let all = bench.json(&["logs", "--json", "--limit", "10000"]);
    let logs = all["logs"].as_array().unwrap();
    let made: usize = (2..60).map(|at| pond.chain.ledger(at).events().len()).sum();
    assert_eq!(logs.len(), made);
    assert!(made > 50, "{made} events");
    // Logs say for themselves what is proven of them.
    assert_eq!(all["level"], "linked");
    let proven = logs.iter().filter(|log| log["level"] == "roots").count();
    assert!(proven > 0 && proven < made, "{proven} of {made}");
    let table = bench.say(&["logs", "--limit", "10000"]);
    assert_eq!(table.matches("  roots ").count(), proven, "{table}");
    let has_id = |log: &&Value| log["address"] != "0x";
    let contract = logs.iter().find(has_id).unwrap()["address"]
        .as_str()
        .unwrap();
    let words = ["logs", "--json", "--limit", "10000", "--address", contract];
    let some = bench.json(&words);
    let some = some["logs"].as_array().unwrap();
    let of_it = logs.iter().filter(|log| log["address"] == contract).count();
    assert_eq!(some.len(), of_it);
    // The same contract, by the bytes of its id.
    let id = stellar_strkey::Contract::from_string(contract).unwrap().0;
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let by_bytes = format!("0x{id}");
    let words = ["logs", "--json", "--limit", "10000", "--address", &by_bytes];
    assert_eq!(bench.json(&words)["logs"].as_array().unwrap(), some);
    bench.refused(&["logs", "--address", "0x1234"], "0x and 64 digits");
    let mistyped = contract.replacen('C', "D", 1);
    bench.refused(&["logs", "--address", &mistyped], "is no contract's id");
}
