//! `chronolith gc` removes what is old and nameless, in one go, and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, assert_equals, serve};

/// All objects, named or not.
fn objects(bench: &Bench) -> Vec<PathBuf> {
    let blobs = bench.chain_dir().join("blobs");
    let folders = std::fs::read_dir(blobs).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

fn written_ago(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(then)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_that_is_old_goes_at_once_and_the_rest_stays() {
    let node = EvmNode::new(EvmSpec::tiny(81), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    bench.say(&["rewind", "--to", "150", "--reason", "test"]);
    bench.say(&["run", "--until-caught-up"]);
    // All of it was written just now.
    let young = bench.json(&["gc", "--json"]);
    let orphans = young["orphans"].as_array().unwrap();
    assert_eq!(young["removed"], 0, "{young}");
    assert!(orphans.len() > 1, "too little garbage: {young}");
    // One stays young; what is named is as old as the garbage that goes.
    let spared = orphans[0]["object"].as_str().unwrap();
    let spared = bench.chain_dir().join("blobs").join(spared);
    let before = objects(&bench);
    for path in before.iter().filter(|path| **path != spared) {
        written_ago(path, 400);
    }
    written_ago(&spared, 100);
    let dry = bench.json(&["gc", "--json", "--dry-run"]);
    assert_eq!(
        (&dry["removed"], objects(&bench).len()),
        (&0.into(), before.len())
    );
    let swept = bench.json(&["gc", "--json"]);
    let removed = swept["removed"].as_u64().unwrap();
    assert!(removed >= orphans.len() as u64 - 1, "{swept}");
    assert!(spared.exists(), "too young: {swept}");
    bench.say(&["verify", "--against-source"]);
    assert_equals(&bench, &node, BlockRange::new(0, 196));
}
