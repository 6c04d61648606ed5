//! The console in a real browser: `console/check.mjs` compares what its pages show with what the interface answers,
//! and tries search, keys, thirty chains and accessibility; `console/projections.mjs` does the same with the page of
//! projections while one stands still and the database goes away, `console/stellar.mjs` with a Stellar network;
//! `console/docs.mjs` sends every example of the API reference; `console/cors.mjs` sends requests from a page of
//! another origin. `scripts/need chromium` installs the browser, its driver and axe-core. With
//! `CHRONOLITH_SCREENSHOTS=1` they make the images of the documents.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Path as At;
use axum::routing::post;
use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer};
use chronolith_sim::stellar::{Lake, LakeLayout, StellarChain, StellarSettings};
use serde_json::{Value, json};
use support::installed::installed;
use support::projected::Setup;
use support::rpc::Rpc;
use support::stellar::Pond;
use support::{Bench, DEPTH_5, serve};
use tokio::task::JoinHandle;

const DRIVER: &str = "playwright-1.65.0/node_modules/playwright-core";
/// Finds what keeps people from using a page.
const AXE: &str = "axe-core-4.14.1/node_modules/axe-core/axe.min.js";

fn browser() -> Option<PathBuf> {
    let places = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    places
        .iter()
        .map(PathBuf::from)
        .find(|place| place.exists())
}

fn has_browser() -> bool {
    let has = browser().is_some() && installed(DRIVER).is_some() && installed(AXE).is_some();
    if !has {
        println!("skipped: there is no browser; `scripts/need chromium` installs it");
    }
    has
}

/// Runs a script with where the pages are, what it needs besides, such as where the chain is changed, and which chain
/// it is.
async fn check(script: &'static str, [base, besides, chain]: [String; 3]) {
    let checked = tokio::task::spawn_blocking(move || {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console");
        let artifacts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
        println!("note: screenshots are in {}", artifacts.display());
        Command::new("node")
            .arg(scripts.join(script))
            .args([base, besides])
            .arg(&artifacts)
            .arg(chain)
            .env("PLAYWRIGHT_CORE", installed(DRIVER).unwrap())
            .env("CHROMIUM", browser().unwrap())
            .env("AXE", installed(AXE).unwrap())
            .output()
            .unwrap()
    });
    let output = checked.await.unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
}

/// Logs of each block that are events which the console knows, in a thousand blocks.
const FEES: u32 = 1_500;
/// Between two blocks of the chains that go on.
const BLOCK_TIME: Duration = Duration::from_millis(700);
/// A reorg instead of every so many blocks of them.
const REORG_EVERY: u64 = 25;

/// A chain of the simulator, and its node.
struct Simulated {
    node: EvmNode,
    server: RpcServer,
}

impl Simulated {
    async fn new(seed: u64, chain_id: u64, blocks: u64) -> Self {
        let spec = EvmSpec {
            chain_id,
            ..EvmSpec::tiny(seed).with_fees(FeesSpec::per_thousand_blocks(FEES))
        };
        let node = EvmNode::new(spec, blocks);
        let server = serve(&node, RpcOptions::default()).await;
        Self { node, server }
    }

    /// Its entry in the settings, after that of another chain.
    fn entry(&self, name: &str, more: &str) -> String {
        let (id, url) = (self.node.chain_id(), self.server.url());
        format!(
            r#" }}, {{ "chainId": {id}, "name": "{name}", "rpcHttp": ["{url}"], "pollMs": 100 {more}"#
        )
    }

    /// Goes on by itself, with a reorg now and then.
    fn goes_on(&self) -> JoinHandle<()> {
        let node = self.node.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(BLOCK_TIME);
            for block in 1.. {
                ticks.tick().await;
                if block % REORG_EVERY == 0 {
                    node.reorg(1 + block / REORG_EVERY % 3);
                } else {
                    node.mine(1);
                }
            }
        })
    }
}

/// Chains that stand still and keep less than everything, and their entries in the settings. `console/sparse.mjs`
/// has their ids.
async fn sparse() -> ([Simulated; 2], String) {
    // Number, hash, parent and time of each block alone, as on every chain of the default run.
    let sundial = Simulated::new(45, 41_004, 300).await;
    // The logs of its fee contract, and the transactions that they name.
    let inlet = Simulated::new(46, 41_005, 300).await;
    let contract = const_hex::encode_prefixed(FeesSpec::CONTRACT);
    let scope = format!(r#""logs": {{ "addresses": ["{contract}"] }}"#);
    let entries = [
        sundial.entry("sundial", &format!(r#"{DEPTH_5}, "datasets": ["clock"]"#)),
        inlet.entry(
            "inlet",
            &format!(r#"{DEPTH_5}, "datasets": ["logs", "transactions"], {scope}"#),
        ),
    ];
    ([sundial, inlet], entries.concat())
}

/// The chain that is compared stands still but for reorgs that the script makes; others go on beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_what_the_interface_answers() {
    if !has_browser() {
        return;
    }
    let kept = r#", "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#;
    let still = Simulated::new(41, 31_337, 200).await;
    let harbor = Simulated::new(42, 41_001, 900).await;
    let juniper = Simulated::new(43, 41_002, 2_400).await;
    // It begins later: below, nothing is known. And it keeps no headers.
    let meridian = Simulated::new(44, 41_003, 400).await;
    let (_sparse, sparse) = sparse().await;
    let others = [
        harbor.entry("harbor", &format!("{DEPTH_5}{kept}")),
        juniper.entry("juniper", DEPTH_5),
        meridian.entry(
            "meridian",
            &format!(r#"{DEPTH_5}, "startBlock": 250, "datasets": ["logs", "tx_hashes"]"#),
        ),
        sparse,
    ];
    let bench = Bench::new(
        &[still.server.url()],
        &format!("{DEPTH_5}{kept}{}", others.concat()),
    );
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(200).await;
    let traffic = [&harbor, &juniper, &meridian].map(Simulated::goes_on);
    // The browser's script makes the chain change through this.
    let control = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control_url = format!("http://{}/", control.local_addr().unwrap());
    let changed = still.node.clone();
    let reorg = move || {
        changed.reorg(2);
        async { "{}" }
    };
    let router = Router::new().route("/reorg", post(reorg));
    let controlling = tokio::spawn(async move { axum::serve(control, router).await });
    check(
        "check.mjs",
        [rpc.base.clone(), control_url, "31337".to_owned()],
    )
    .await;
    controlling.abort();
    for going in traffic {
        going.abort();
    }
    running.stop();
}

/// Runs a script that needs no page, with the folder of the console's own scripts.
fn check_alone(script: &str) {
    if !has_browser() {
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node")
        .arg(package.join("tests/console").join(script))
        .arg(package.join("../serve/src/console"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
}

/// Only logs that fit a declaration exactly are decoded.
#[test]
fn the_console_decodes_only_what_fits() {
    check_alone("abi.mjs");
}

#[test]
fn functions_of_the_console_are_right_by_themselves() {
    check_alone("functions.mjs");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_projections_shows_what_they_wait_for() {
    if !has_browser() {
        return;
    }
    let setup = Arc::new(Setup::new(91, 70).await);
    let running = setup.start();
    setup.until_paused().await;
    // Jobs of a projection that stands still wait, and one was abandoned.
    let replay = ["projection", "replay", "--projection", "adfs", "--json"];
    setup.json(&[&replay[..], &["--from", "0", "--to", "30"]].concat());
    let given_up = "INSERT INTO jobs (chain_id, projection, from_block, to_block, next_block, status, \
        attempts, error) VALUES (31337, 'fees', 7, 9, 8, 'dead', 10, 'secret') RETURNING id::text";
    setup.column(given_up).await;
    let feed = "INSERT INTO feed_latest (chain_id, feed_id, stride, block_number, block_timestamp, \
        block_hash, tx_hash, log_index, rb_index, data, version, position) \
        VALUES (31337, hex_to_bytea16('2a'), 1, 30, '2024-01-01', sha256('a'), sha256('b'), 3, 7, \
        sha256('c'), 1, 0) RETURNING 'one'";
    setup.column(feed).await;
    let control = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control_url = format!("http://{}", control.local_addr().unwrap());
    let changed = setup.clone();
    let change = move |At(what): At<String>| {
        let setup = changed.clone();
        async move {
            match what.as_str() {
                "stop-database" => setup.database.kill().unwrap(),
                "start-database" => setup.database.restart().unwrap(),
                "retry" => drop(setup.json(&["jobs", "retry", "--json"])),
                "name" => {
                    let stranger = setup.stranger();
                    let add = ["versions", "add", "--implementation", stranger.as_str()];
                    setup.json(&[&add[..], &["--version", "2", "--json"]].concat());
                    // Not so many that the third implementation is there.
                    setup.node.mine(3);
                }
                other => panic!("what is {other}?"),
            }
            "{}"
        }
    };
    let router = Router::new().route("/{what}", post(change));
    let controlling = tokio::spawn(async move { axum::serve(control, router).await });
    let base = setup.bench.public();
    check("projections.mjs", [base, control_url, "31337".to_owned()]).await;
    controlling.abort();
    running.stop();
}

/// Beside another chain, so that the page must not mistake one for the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_stellar_network_has_its_page_and_is_found_by_name_and_time() {
    if !has_browser() {
        return;
    }
    let name = "lumens";
    let pond = Pond::new(46, 60);
    let other = Simulated::new(45, 31_337, 60).await;
    let network = pond.fields(&pond.lake_field());
    let entry = format!(
        r#"{DEPTH_5} }}, {{ "name": "{name}", "pollMs": 100, "ranges": {{ "size": 40 }}, "stellar": {network}"#
    );
    let bench = Bench::new(&[other.server.url()], &entry);
    let running = bench.start();
    Rpc::new(bench.public()).until_head(60).await;
    let is_archived = |_, health: &Value| {
        let mut chains = health["chains"].as_array().unwrap().iter();
        chains.any(|chain| chain["name"] == name && chain["lastBackfillBlock"] == 59)
    };
    bench.until_health("the lake's end", is_archived).await;
    let id = pond.network().chain_id().to_string();
    let base = bench.public();
    check("stellar.mjs", [base, name.to_owned(), id]).await;
    running.stop();
}

/// A call with a body of JSON, and a GET with an API key: no answer reaches the page unless the preflight is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_read_the_answers_to_calls_and_to_keys() {
    if !has_browser() {
        return;
    }
    let chain = Simulated::new(47, 31_337, 60).await;
    let bench = Bench::new(&[chain.server.url()], DEPTH_5);
    let (key, hash) = bench.new_key("page");
    // With a limit, answers say what is left of it.
    let limits =
        json!({ "name": "page", "hash": hash, "requestsPerSecond": 100, "requestBurst": 1_000 });
    let keys = json!({ "required": true, "keys": [limits] });
    bench.change(r#""chains""#, &format!(r#""apiKeys": {keys}, "chains""#));
    let running = bench.start();
    let is_archived = |_, health: &Value| health["chains"][0]["lastBackfillBlock"] == 55;
    bench.until_health("the archive", is_archived).await;
    check("cors.mjs", [bench.public(), key, "31337".to_owned()]).await;
    running.stop();
}

/// The chains of the examples in the description, as `chronolith-sim serve --block-time-ms 0` and
/// `chronolith-sim stellar-lake --ledgers 2..60` make them.
#[tokio::test(flavor = "multi_thread")]
async fn the_reference_shows_every_request_with_the_answer_that_it_gets() {
    if !has_browser() {
        return;
    }
    let mut spec = EvmSpec::mainnet(1);
    spec.content.logs_per_block = 20;
    let node = EvmNode::new(spec, 1_000);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[], "");
    let ledgers = StellarChain::new(StellarSettings::new(1));
    let lake = bench.dir.path().join("lake");
    let written = Lake::new(&lake, LakeLayout::default());
    written.write_manifest(&ledgers).unwrap();
    written.write(&ledgers, 2..60).unwrap();
    let passphrase = &ledgers.settings().passphrase;
    let settings = json!({
        "dataDir": bench.dir.path().join("data"), "listen": "127.0.0.1:0", "metricsPort": 0,
        "adminListen": "127.0.0.1:0", "feesListen": "127.0.0.1:0",
        "chains": [
            {
                "chainId": 31_337, "name": "still", "rpcHttp": [server.url()], "pollMs": 200, "startBlock": 0,
                "finality": { "mode": "depth", "confirmations": 10 },
                "datasets": ["headers", "logs", "tx_hashes", "transactions"],
            },
            {
                "name": "stellar",
                "stellar": { "network": "sim", "passphrase": passphrase, "lake": { "dir": lake } },
            },
        ],
    });
    std::fs::write(&bench.config, settings.to_string()).unwrap();
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(1_000).await;
    let is_caught_up = |_, health: &Value| {
        let chains = health["chains"].as_array().unwrap();
        let archived = chains
            .iter()
            .map(|chain| chain["lastBackfillBlock"].as_u64());
        archived.eq([Some(990), Some(59)])
    };
    bench.until_health("both archives", is_caught_up).await;
    let nothing = String::new();
    check("docs.mjs", [rpc.base.clone(), nothing.clone(), nothing]).await;
    running.stop();
}
