//! History that the archive lacks is fetched: below its first block, in holes, and after a change of
//! what is kept.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::AuditEntry;
use chronolith_model::{BlockRange, Dataset};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, assert_equals, open_archive, open_to_write, serve};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lacking_is_fetched_and_nothing_else() {
    let node = EvmNode::new(EvmSpec::tiny(51), 400);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 150, "datasets": ["logs"]"#);
    let bench = Bench::new(&[server.url()], &more);
    let all = ["backfill", "--json", "--from", "0", "--to", "395"];
    bench.say(&["run", "--until-caught-up"]);
    bench.refused(
        &["backfill", "--from", "0", "--to", "396"],
        "only final blocks",
    );
    bench.refused(&["backfill", "--from", "9", "--to", "8"], "is after");
    // Below the first block, by the other names of the flags.
    let below = [
        "backfill",
        "--json",
        "--start-ledger",
        "100",
        "--end-ledger",
        "199",
    ];
    assert_eq!(bench.json(&below)["filledBlocks"], 50);
    assert_equals(&bench, &node, BlockRange::new(100, 396));
    assert_eq!(
        bench.json(&below)["filledBlocks"],
        0,
        "the same again fetches nothing"
    );
    assert_eq!(bench.json(&all)["filledBlocks"], 100);
    assert_equals(&bench, &node, BlockRange::new(0, 396));
    // More is kept from now on: it is fetched for what is old, too.
    bench.change(r#"["logs"]"#, r#"["headers", "logs", "tx_hashes"]"#);
    assert_eq!(
        bench.json(&["backfill", "--json", "--from", "50", "--to", "395"])["filledBlocks"],
        346
    );
    let archive = open_archive(&bench).await;
    for number in [50, 99, 200, 395] {
        let payload = archive.payload(number, Dataset::Headers).await.unwrap();
        assert!(payload.header.is_some());
    }
    assert!(archive.payload(49, Dataset::Headers).await.is_err());
    // A hole: whole segments below a block are let go.
    let archive = open_to_write(&bench).await;
    let audit = AuditEntry {
        at: 0,
        act: "test".to_owned(),
    };
    assert!(archive.prune(120, audit).await.unwrap() > 0);
    archive.release().await.unwrap();
    drop(archive);
    let filled = bench.json(&all)["filledBlocks"].as_u64().unwrap();
    assert!((1..=120).contains(&filled), "{filled}");
    assert_equals(&bench, &node, BlockRange::new(0, 396));
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(
        verified["findings"].as_array().unwrap().len(),
        0,
        "{verified}"
    );
    assert_eq!(
        verified["objects"].as_array().unwrap().len(),
        0,
        "{verified}"
    );
    // And it continues above.
    node.mine(30);
    bench.say(&["run", "--until-caught-up"]);
    assert_equals(&bench, &node, BlockRange::new(0, 426));
}

/// No block would name the last one of such a fill as its parent: it would be the source's word alone.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_link_to_nothing_are_not_filled_in() {
    let node = EvmNode::new(EvmSpec::tiny(55), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 150, "datasets": ["logs"]"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    bench.refused(&["backfill", "--from", "0", "--to", "99"], "--to 149");
    // One block is missing between the two.
    bench.refused(&["backfill", "--from", "100", "--to", "148"], "--to 149");
    let covered = bench.json(&["state", "--json"]);
    assert_eq!(covered[0]["covered"][0]["from"], 150, "{covered}");
    let word = ["backfill", "--json", "--from", "100", "--to", "149"];
    assert_eq!(bench.json(&word)["filledBlocks"], 50);
    // More is kept: blocks that are archived vouch for themselves, up to the newest one.
    bench.change(r#"["logs"]"#, r#"["headers", "logs"]"#);
    for (from, to, filled) in [("110", "120", 11), ("190", "195", 6)] {
        let words = ["backfill", "--json", "--from", from, "--to", to];
        assert_eq!(bench.json(&words)["filledBlocks"], filled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_its_way_it_goes_on_where_it_was() {
    let node = EvmNode::new(EvmSpec::tiny(52), 2_000);
    let options = RpcOptions {
        delay: Duration::from_millis(5),
        ..RpcOptions::default()
    };
    let server = serve(&node, options).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 1900"#);
    let bench = Bench::new(&[server.url()], &more);
    // One request at a time, so that a fill holds few blocks.
    let url = format!("\"{}\"", server.url());
    bench.change(&url, &format!(r#"{{ "url": {url}, "inFlight": 1 }}"#));
    bench.say(&["run", "--until-caught-up"]);
    let words = ["backfill", "--json", "--from", "0", "--to", "1899"];
    let running = bench.start_with(&words, &[]);
    bench.wait("the first fill", || bench.has("filled"));
    running.kill();
    let covered = bench.json(&["state", "--json"]);
    assert_eq!(covered[0]["covered"][0]["from"], 0);
    let last = covered[0]["covered"][0]["to"].as_u64().unwrap();
    assert!((0..1_899).contains(&last), "killed too late: {covered}");
    assert_eq!((last + 1) % 1_000, 0, "no checkpoint");
    let filled = bench.json(&words)["filledBlocks"].as_u64().unwrap();
    assert_eq!(filled, 1_899 - last);
    assert_equals(&bench, &node, BlockRange::new(0, 1_996));
    assert!(bench.log().contains("\"done\""), "progress was not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_chain_fills_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(53), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 100"#);
    let bench = Bench::new(&[server.url()], &more);
    let running = bench.start();
    bench.wait("the head", || bench.head() == Some(195));
    let words = ["backfill", "--from", "0", "--to", "99"];
    running.stop();
    let other = EvmNode::new(EvmSpec::tiny(54), 200);
    let elsewhere = serve(&other, RpcOptions::default()).await;
    bench.change(&server.url(), &elsewhere.url());
    assert_eq!(bench.output(&words).status.code(), Some(1));
    bench.change(&elsewhere.url(), &server.url());
    let covered = bench.json(&["state", "--json"]);
    assert_eq!(covered[0]["covered"][0]["from"], 100);
    bench.say(&words);
    assert_equals(&bench, &node, BlockRange::new(0, 196));
}
