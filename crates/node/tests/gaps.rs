//! A gap in the archive is found by every command over all blocks: none ends at it as if that were all.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::Value;
use support::{Bench, DEPTH_5, assert_equals, put_island, serve};

const KEPT: &str = r#""datasets": ["logs", "tx_hashes"]"#;

/// An archive of blocks 150 to 195.
async fn archived(seed: u64, more: &str) -> (Bench, EvmNode, RpcServer) {
    let node = EvmNode::new(EvmSpec::tiny(seed), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "startBlock": 150, {KEPT} {more}"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    (bench, node, server)
}

/// What a command finds that ends with code 3.
#[track_caller]
fn not_whole(bench: &Bench, words: &[&str]) -> Value {
    let output = bench.output(words);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{words:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_range_all_blocks_are_read_and_a_gap_is_one_finding() {
    let (bench, node, _server) = archived(71, "").await;
    put_island(&bench, &node, BlockRange::new(20, 60)).await;
    for words in [
        &["verify", "--json"][..],
        &["verify", "--json", "--against-source"],
        &["repair", "--json", "--dry-run"],
        &["repair", "--json"],
    ] {
        let found = not_whole(&bench, words);
        let (from, to) = (&found["from"], &found["to"]);
        assert_eq!((from, to), (&20.into(), &195.into()), "{words:?}");
        let findings = found["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{words:?}: {found}");
        assert_eq!(findings[0]["block"], 60);
        let what = findings[0]["what"].as_str().unwrap();
        assert!(what.contains("backfill --from 60 --to 149"), "{what}");
        assert!(found["contentRoot"].is_null());
    }
    let output = bench.output(&["logs", "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("blocks 60 to 149 are not covered"),
        "{stderr}"
    );
    // The command that the finding names fills the gap.
    bench.say(&["backfill", "--from", "60", "--to", "149"]);
    let found = bench.json(&["verify", "--json", "--against-source"]);
    assert!(found["contentRoot"].is_string(), "{found}");
    assert_equals(&bench, &node, BlockRange::new(20, 196));
}

/// A range that is far too long costs no more than what is archived, and says where that ends.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_above_the_head_are_one_finding() {
    let (bench, _node, _server) = archived(72, "").await;
    let words = ["verify", "--json", "--against-source", "--from", "140"];
    let words = [&words[..], &["--to", "1000000000000"]].concat();
    let found = not_whole(&bench, &words);
    let findings = found["findings"].as_array().unwrap();
    let blocks: Vec<&Value> = findings.iter().map(|one| &one["block"]).collect();
    assert_eq!(blocks, [140, 196], "{found}");
    let what = findings[1]["what"].as_str().unwrap();
    assert!(what.contains("chronolith run"), "{what}");
    assert!(found["logs"].as_u64().unwrap() > 0, "nothing was read");
}

/// Blocks that came before a dataset was kept miss it, and are read as far as they go.
#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_older_blocks_miss_is_found() {
    let (bench, node, _server) = archived(73, "").await;
    bench.change(KEPT, r#""datasets": ["headers", "logs", "tx_hashes"]"#);
    node.mine(20);
    bench.say(&["run", "--until-caught-up"]);
    let found = not_whole(&bench, &["verify", "--json"]);
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{found}");
    let what = findings[0]["what"].as_str().unwrap();
    assert!(what.contains("backfill --from 150 --to 195"), "{what}");
    bench.say(&["backfill", "--from", "150", "--to", "195"]);
    bench.say(&["verify", "--against-source"]);
}

/// A chain of which some logs are kept shows what it covers of them, and how far it is proven.
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_scope_is_covered_too() {
    let node = EvmNode::new(EvmSpec::tiny(74), 120);
    let log = (0..120).find_map(|number| node.block(number)?.to_model().logs.pop());
    let address: String = log
        .unwrap()
        .emitter()
        .iter()
        .fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, {KEPT}, "logs": {{ "addresses": ["{address}"] }}"#);
    let bench = Bench::new(&[server.url()], &more);
    bench.say(&["run", "--until-caught-up"]);
    let covered = bench.json(&["state", "--json"])[0]["covered"].clone();
    assert_eq!(
        (&covered[0]["from"], &covered[0]["to"]),
        (&0.into(), &115.into())
    );
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(verified["level"], covered[0]["level"], "{verified}");
    assert!(verified["logs"].as_u64().unwrap() > 0, "{verified}");
    // No block is a gap because some of its logs are not kept.
    bench.change(KEPT, &format!(r#""mode": "streaming", {KEPT}"#));
    node.mine(10);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(125));
}
