//! A lost state is made again, and the format of an archive is told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, assert_equals, serve};

const REBUILD: [&str; 3] = ["archive", "rebuild-state", "--json"];

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_state_is_rebuilt_from_a_block_that_the_source_has() {
    let node = EvmNode::new(EvmSpec::tiny(71), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    bench.say(&["rewind", "--to", "250", "--reason", "test"]);
    bench.say(&["run", "--until-caught-up"]);
    let root = bench.json(&["verify", "--json"])["contentRoot"].clone();
    bench.refused(&REBUILD, "there is nothing to rebuild");
    let state = bench.chain_dir().join("state");
    let whole = std::fs::read(&state).unwrap();
    // A damaged one is not overwritten: the operator moves it away.
    std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
    bench.refused(&REBUILD, "move ");
    std::fs::remove_file(&state).unwrap();
    bench.refused(
        &["archive", "rebuild-state", "--anchor", "7"],
        "NUMBER:0xHASH",
    );
    let hash = node.block(7).unwrap().to_model().clock.hash;
    let nowhere = format!("8:{hash}");
    bench.refused(
        &["archive", "rebuild-state", "--anchor", &nowhere],
        "no segment ends",
    );
    let report = bench.json(&REBUILD);
    assert_eq!((&report["from"], &report["to"]), (&0.into(), &295.into()));
    assert_eq!(report["anchor"]["number"], 295);
    assert_eq!(bench.json(&["verify", "--json"])["contentRoot"], root);
    if report["halted"] == true {
        bench.say(&["resume", "--reason", "looked"]);
    }
    node.mine(20);
    bench.say(&["run", "--until-caught-up"]);
    assert_equals(&bench, &node, BlockRange::new(0, 316));
    // The same from a block that somebody vouches for, in words for people.
    std::fs::remove_file(&state).unwrap();
    let block = node.block(315).unwrap().to_model().clock;
    let anchor = format!("{}:{}", block.number, block.hash);
    let told = bench.say(&["archive", "rebuild-state", "--anchor", &anchor]);
    assert!(
        told.contains("decided   blocks 0 to 315") && told.contains(&block.hash.to_string()),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_nothing_to_upgrade() {
    let node = EvmNode::new(EvmSpec::tiny(72), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.refused(&["archive", "upgrade"], "there is no archive");
    bench.say(&["run", "--until-caught-up"]);
    assert!(
        bench
            .say(&["archive", "upgrade"])
            .contains("nothing to be done")
    );
    let told = bench.json(&["archive", "upgrade", "--json"]);
    assert_eq!(
        (&told[0]["format"], &told[0]["upgraded"]),
        (&3.into(), &0.into())
    );
    assert!(told[0]["objects"]["3"].as_u64().unwrap() > 2, "{told}");
}
