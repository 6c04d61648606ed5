//! Archives in an object store that several machines share: one writes, others read, and a second
//! writer takes over when the first is gone. Each machine is a data directory of its own.
//!
//! `make test-s3` starts a store and runs this. Without `CHRONOLITH_S3_BUCKET` there is nothing to test
//! against, and the test says so.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::json;
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, assert_equals, serve};

/// A machine whose archives are in the store.
fn machine(url: &str, store: &str) -> Bench {
    let bench = Bench::new(&[url.to_owned()], DEPTH_5);
    let both = format!(r#""archiveUrl": "{store}", "chains""#);
    bench.change(r#""chains""#, &both);
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_share_one_archive() {
    let Ok(bucket) = std::env::var("CHRONOLITH_S3_BUCKET") else {
        println!("skipped: CHRONOLITH_S3_BUCKET is not set; `make test-s3` starts a store");
        return;
    };
    let store = format!("s3://{bucket}/node-{}", std::process::id());
    let node = EvmNode::new(EvmSpec::tiny(33), 100);
    let server = serve(&node, RpcOptions::default()).await;
    let [one, two, other] = [(); 3].map(|()| machine(&server.url(), &store));
    two.refused(&["serve"], "there is no archive");
    let reported = one.say(&["config", "check"]);
    assert!(
        reported.contains(&format!("Archives go to {store}.")),
        "{reported}"
    );

    let writer = one.start();
    one.wait("the archive", || two.head() == Some(95));
    assert!(
        !one.chain_dir().join("state").exists(),
        "it is in the store alone"
    );
    let written = Rpc::new(one.public());
    let reader = two.start_with(&["serve"], &[]);
    two.wait("the reader", || two.has("archives_served"));
    let read = Rpc::new(two.public());
    assert_eq!(read.head().await, Some(95), "no tail");
    for _ in 0..3 {
        node.reorg(3);
        let final_head = node.head().number - 5;
        one.wait("the archive", || other.head() == Some(final_head));
        read.until_head(final_head).await;
        let range = json!([{ "fromBlock": "earliest", "toBlock": "latest" }]);
        let archived = json!([{ "fromBlock": "earliest", "toBlock": "finalized" }]);
        let archived = written.call("eth_getLogs", archived).await;
        assert_eq!(read.call("eth_getLogs", range).await, archived);
    }

    // A second writer waits for the first, also from the same machine, and continues where it ended.
    one.refused(&["run"], "another process of this machine");
    let second = other.start();
    other.wait("its turn", || other.has("lease_held_elsewhere"));
    assert!(!other.has("following"), "{}", other.log());
    writer.stop();
    other.wait("the second writer", || other.has("following"));
    node.mine(20);
    let final_head = node.head().number - 5;
    other.wait("the archive", || two.head() == Some(final_head));
    read.until_head(final_head).await;

    // One that is killed leaves its lease behind: it is over when nothing moves any more.
    second.kill();
    let writer = one.start();
    node.mine(20);
    let final_head = node.head().number - 5;
    one.wait("the archive", || two.head() == Some(final_head));
    assert!(one.has("lease_held_elsewhere"), "{}", one.log());
    writer.stop();
    reader.stop();
    assert_equals(&two, &node, BlockRange::new(0, final_head + 1));
    two.say(&["verify"]);

    copies_go_out_and_in(&two, &node, &store);
}

/// Out of the store, and into another place of it.
fn copies_go_out_and_in(two: &Bench, node: &EvmNode, store: &str) {
    let all = BlockRange::new(0, two.head().unwrap() + 1);
    let backup = two.dir.path().join("backup");
    two.say(&["backup", backup.to_str().unwrap()]);
    two.change(store, &format!("{store}-restored"));
    two.refused(&["verify"], "there is no archive");
    two.say(&["restore", backup.to_str().unwrap()]);
    assert_equals(two, node, all);
    two.say(&["gc"]);
    two.say(&["rewind", "--to", "60", "--reason", "a test"]);
    assert_eq!(two.head(), Some(60));
}

#[test]
fn keys_in_the_url_are_refused_and_not_shown() {
    let bench = machine("http://127.0.0.1:1", "s3://key:hidden@bucket/place");
    let output = bench.output(&["config", "check"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        message.contains("archiveUrl") && message.contains("AWS_ACCESS_KEY_ID"),
        "{message}"
    );
    assert!(!message.contains("hidden"), "{message}");
}
