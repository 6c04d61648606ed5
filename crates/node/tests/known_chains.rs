//! `chronolith run` where nothing is set: the block times of all known chains from a Portal, some of whose
//! datasets are missing, and one of which never answers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use chronolith_sim::portal::{PortalDatasets, PortalOptions};
use chronolith_source::CHAINS;
use serde_json::Value;
use support::{Bench, PATIENCE, serve};

/// Chains whose genesis is known: a made-up chain would be refused. The Portal does not have these datasets.
const MISSING: [u64; 5] = [10, 56, 100, 137, 8_453];
/// The one whose dataset never answers.
const HANGS: u64 = 1;
/// One whose dataset begins above block 0.
const LATE: u64 = 42_220;
const LATE_START: u64 = 5;
/// One of the others.
const THERE: &str = "143";

fn node() -> EvmNode {
    let node = EvmNode::new(EvmSpec::tiny(3), 40);
    node.set_finalized_depth(10);
    node
}

/// A Portal with the datasets of all known chains but those that it misses.
async fn portal(node: &EvmNode) -> PortalDatasets {
    let has = |id: &u64| !MISSING.contains(id);
    let chains = CHAINS.iter().filter(|chain| has(&chain.chain_id));
    let dataset = |chain: &chronolith_source::KnownChain| {
        let options = PortalOptions {
            dataset: Some(chain.portal.to_owned()),
            start_block: if chain.chain_id == LATE {
                LATE_START
            } else {
                0
            },
            delay: if chain.chain_id == HANGS {
                Duration::from_secs(3_600)
            } else {
                Duration::ZERO
            },
            ..PortalOptions::default()
        };
        (node.clone(), options)
    };
    PortalDatasets::start(chains.map(dataset).collect())
        .await
        .unwrap()
}

async fn get(url: &str) -> (u16, Value) {
    let answer = reqwest::get(url).await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).expect(&text))
}

/// The newest indexed block of each chain, by id.
async fn indexed(base: &str) -> Vec<(u64, Option<u64>)> {
    let (_, chains) = get(&format!("{base}/v1/indexing-status")).await;
    let chains = chains.as_array().unwrap().iter();
    let indexed = chains.map(|chain| {
        let id = chain["chainId"].as_u64().unwrap();
        (id, chain["lastIndexedBlock"].as_u64())
    });
    indexed.collect()
}

/// A chain's part of the health.
fn health_of(health: &Value, id: u64) -> &Value {
    let chains = health["chains"].as_array().unwrap();
    chains.iter().find(|one| one["chain"] == id).unwrap()
}

/// Every known chain is listed with the name and the genesis time of the requirement, and is followed. What the console
/// shows has the same names.
async fn assert_lists_all(base: &str) {
    let (_, chains) = get(&format!("{base}/v1/chains")).await;
    assert_eq!(chains.as_array().unwrap().len(), CHAINS.len());
    for (chain, known) in chains.as_array().unwrap().iter().zip(CHAINS) {
        assert_eq!(chain["chainId"], known.chain_id);
        assert_eq!(chain["name"], known.title);
        assert_eq!(chain["genesisTimestamp"], known.genesis_timestamp);
        assert_eq!(chain["followed"], true, "{chain}");
        assert_eq!(chain["configuredName"], known.name, "{chain}");
        assert_eq!(chain["datasets"], serde_json::json!(["clock"]), "{chain}");
    }
    let (_, overview) = get(&format!("{base}/v1/overview")).await;
    let shown = overview["chains"].as_array().unwrap();
    assert_eq!(shown.len(), CHAINS.len());
    for (chain, known) in shown.iter().zip(CHAINS) {
        assert_eq!(chain["chainId"], known.chain_id);
        assert_eq!(chain["name"], known.title, "{chain}");
        assert_eq!(chain["configuredName"], known.name, "{chain}");
    }
}

fn is_bad(id: u64) -> bool {
    MISSING.contains(&id) || id == HANGS || id == LATE
}

/// Waits until all chains with a good dataset are indexed through the head; the others have nothing.
async fn until_indexed(base: &str, head: u64) {
    let began = Instant::now();
    loop {
        let all = indexed(base).await;
        assert_eq!(all.len(), CHAINS.len());
        let mut good = all.iter().filter(|(id, _)| !is_bad(*id));
        if good.all(|(_, indexed)| *indexed == Some(head)) {
            let mut bad = all.iter().filter(|(id, _)| is_bad(*id));
            assert!(bad.all(|(_, indexed)| indexed.is_none()), "{all:?}");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{all:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Health names each chain with a bad dataset, and operators learn what to do about it.
async fn assert_the_bad_are_named(bench: &Bench) {
    let error = |health: &Value, id: u64| health_of(health, id)["error"].to_string();
    let health = bench
        .until_health("the bad datasets", |_, health| {
            let refused = |id: &u64| error(health, *id).contains("settings do not fit");
            MISSING.iter().chain(&[LATE]).all(refused)
                && error(health, HANGS).contains("has not answered")
        })
        .await;
    assert!(health_of(&health, 143)["error"].is_null(), "{health}");
    // Other commands work beside it, on the same chains.
    let states = bench.say_plain(&["state", "--json"], &[]);
    let states: Value = serde_json::from_str(&states).unwrap();
    let states = states.as_array().unwrap();
    assert_eq!(states.len(), CHAINS.len());
    let unknown = MISSING.map(|id| (id, "does not know the dataset"));
    let late = (LATE, "begins with block 5: set startBlock to 5");
    for (id, words) in unknown.into_iter().chain([late]) {
        let state = states.iter().find(|one| one["chainId"] == id).unwrap();
        assert!(state["error"].to_string().contains(words), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_settings_the_times_of_all_known_chains_are_followed() {
    let node = node();
    let portal = portal(&node).await;
    let url = portal.url();
    let variables = [
        ("PORTAL_URL", url.as_str()),
        ("PORTAL_REQUESTS", "0"),
        ("INGEST_INTERVAL_SECS", "1"),
    ];
    let bench = Bench::without_file();
    let running = bench.start_plain(&["run"], &variables);
    let base = bench.public();
    // One source that hangs did not delay the start: it was not waited for.
    assert!(!bench.log().contains("of the start"), "{}", bench.log());
    let printed = bench.printed();
    for words in [
        "30 known chains",
        "./data",
        "chronolith init",
        "config example",
    ] {
        assert!(printed.contains(words), "no `{words}` in {printed}");
    }
    assert!(!printed.contains(&url), "a URL may hold a key: {printed}");
    assert_lists_all(&base).await;
    assert!(node.finalized().number > 10, "too little is archived");
    until_indexed(&base, node.head().number).await;
    let block = node.block(7).unwrap().to_model().clock;
    let time = block.timestamp + 1;
    let (status, found) = get(&format!("{base}/v1/chains/{THERE}/block/before/{time}")).await;
    assert_eq!((status, &found["number"]), (200, &7.into()), "{found}");
    assert_eq!(found["timestamp"], block.timestamp);
    assert_the_bad_are_named(&bench).await;
    let words = ["block-at", "--chain", "monad", "--json", &time.to_string()];
    let found: Value = serde_json::from_str(&bench.say_plain(&words, &[])).unwrap();
    assert_eq!(found["number"], 7, "{found}");
    bench.say_plain(&["verify", "--chain", "monad"], &[]);
    running.stop();
    assert!(bench.dir.path().join("data/chains/143").is_dir());
    assert_other_commands_work(&bench, &url, time).await;
}

/// The other commands work on what such a run has made, and on nothing else.
async fn assert_other_commands_work(bench: &Bench, url: &str, time: u64) {
    let note = bench.dir.path().join("data/default-run");
    assert!(note.exists());
    let rewind = [
        "rewind", "--chain", "monad", "--to", "20", "--reason", "why",
    ];
    bench.say_plain(&rewind, &[]);
    let gc = ["gc", "--chain", "monad"];
    bench.say_plain(&gc, &[]);
    let there = bench.dir.path().join("there");
    let there = there.to_str().unwrap();
    bench.say_plain(&["backup", there, "--chain", "monad"], &[]);
    let other = Bench::without_file();
    other.say_plain(&["restore", there, "--chain", "monad"], &[]);
    let words = ["block-at", "--chain", "monad", "--json", &time.to_string()];
    let found: Value = serde_json::from_str(&other.say_plain(&words, &[])).unwrap();
    assert_eq!(found["number"], 7, "{found}");
    // An earlier version left no note: what the archives have tells as much.
    std::fs::remove_file(&note).unwrap();
    bench.say_plain(&gc, &[]);
    let variables = [("PORTAL_URL", url), ("PORTAL_REQUESTS", "0")];
    let running = bench.start_plain(&["run"], &variables);
    bench.wait("the note", || note.exists());
    bench.wait("the public listener", || {
        bench.count("public_listening") == 2
    });
    running.stop();
    let jobs = bench.refused_plain(
        &["jobs", "list"],
        &[("PG_URL", "postgres://a@127.0.0.1:1/a")],
    );
    assert!(jobs.contains("projects nothing"), "{jobs}");
}

/// Where a settings file is lost, new blocks of its chains must not be archived without their logs, and no command
/// may take its archives for those of block times.
#[tokio::test(flavor = "multi_thread")]
async fn archives_of_a_settings_file_are_not_used_without_it() {
    let clocks = r#", "datasets": ["clock"], "verification": "linked", "startBlock": 5"#;
    // A chain that the program knows by its id, with logs and with block times alone, and one that it does not know.
    for (id, more) in [("31337", ""), ("143", ""), ("143", clocks)] {
        let spec = EvmSpec {
            chain_id: id.parse().unwrap(),
            ..EvmSpec::tiny(4)
        };
        let node = EvmNode::new(spec, 30);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], &format!("{}{more}", support::DEPTH_5));
        bench.change("\"chainId\": 31337", &format!("\"chainId\": {id}"));
        bench.say(&["run", "--until-caught-up"]);
        let plain = Bench::without_file();
        let data = bench.dir.path().join("data");
        let portal = ("PORTAL_URL", "http://127.0.0.1:1/datasets");
        let variables = [("DATA_DIR", data.to_str().unwrap()), portal];
        let backup = plain.dir.path().join("backup");
        for words in [
            "run",
            "serve",
            "state",
            "verify --chain monad",
            "rewind --chain monad --to 7 --reason why",
            "gc --chain monad",
            "backfill --chain monad --from 0 --to 3",
            &format!("backup {}", backup.display()),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let message = plain.refused_plain(&words, &variables);
            let expected = format!("(chains {id}): name their settings file with --config");
            assert!(message.contains(&expected), "{words:?}: {message}");
        }
        // Nothing was made before it was refused.
        let chains = data.join("chains").read_dir().unwrap();
        assert_eq!(chains.count(), 1);
        assert!(!data.join("default-run").exists() && !backup.exists());
        assert_eq!(bench.json(&["state", "--json"])[0]["head"]["number"], 25);
    }
}

/// A file that is named and missing is a mistake, whatever else could be done.
#[test]
fn a_file_that_is_named_must_be_there() {
    let bench = Bench::without_file();
    let words = ["config", "check", "--config", "chronolith.json"];
    for variables in [&[][..], &[("ACTIVE_CHAIN", "1")]] {
        let message = bench.refused_plain(&words, variables);
        assert!(
            message.contains("cannot read the settings file"),
            "{message}"
        );
    }
    let shown = bench.say_plain(&["config", "check"], &[]);
    assert!(
        shown.starts_with("the default (no settings file) is fine."),
        "{shown}"
    );
    assert_eq!(shown.matches("from a Portal").count(), CHAINS.len());
}
