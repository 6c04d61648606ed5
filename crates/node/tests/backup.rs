//! A backup is taken beside a node that writes, and what is restored from it continues.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::path::Path;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, assert_equals, serve};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_beside_a_running_node_is_restored_and_followed_on() {
    let node = EvmNode::new(EvmSpec::tiny(61), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let kept = bench.dir.path().join("kept");
    bench.refused(&["backup", text(&kept)], "there is no archive of sim yet");
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(295));
    let mut backups = Vec::new();
    for _ in 0..10 {
        node.mine(8);
        let reported = bench.json(&["backup", "--json", text(&kept)]);
        backups.push(reported[0]["head"].as_u64().unwrap());
    }
    assert!(backups.is_sorted() && backups[0] >= 295, "{backups:?}");
    let head = node.head().number - 5;
    bench.wait("the last head", || bench.head() == Some(head));
    let last = bench.json(&["backup", "--json", text(&kept)]);
    assert_eq!(last[0]["head"], head);
    let again = bench.json(&["backup", "--json", text(&kept)]);
    assert_eq!(again[0]["copiedObjects"], 0, "{again}");
    running.stop();
    // Not over what is there.
    bench.refused(&["restore", text(&kept)], "already: move it away");
    std::fs::rename(bench.dir.path().join("data"), bench.dir.path().join("lost")).unwrap();
    let restored = bench.json(&["restore", "--json", text(&kept)]);
    assert_eq!(restored[0]["head"], head);
    assert_equals(&bench, &node, BlockRange::new(0, head + 1));
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert!(verified["contentRoot"].is_string(), "{verified}");
    node.mine(40);
    bench.say(&["run", "--until-caught-up"]);
    assert_equals(&bench, &node, BlockRange::new(0, head + 41));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_neither_backed_up_nor_restored() {
    let node = EvmNode::new(EvmSpec::tiny(62), 120);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let (kept, data) = (bench.dir.path().join("kept"), bench.dir.path().join("data"));
    bench.refused(&["restore", text(&kept)], "no whole backup");
    bench.refused(&["backup", text(&data)], "the data directory itself");
    bench.say(&["backup", text(&kept)]);
    let packs = |dir: &Path| {
        let files = std::fs::read_dir(dir.join("chains/31337/blobs/pack")).unwrap();
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let flip = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(path, bytes).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let in_backup = packs(&kept);
    // In the archive: the backup stays as it was.
    node.mine(10);
    bench.say(&["run", "--until-caught-up"]);
    let name = flip(packs(&data).last().unwrap());
    bench.refused(&["backup", text(&kept)], &name);
    std::fs::rename(&data, bench.dir.path().join("lost")).unwrap();
    bench.say(&["restore", text(&kept)]);
    assert_equals(&bench, &node, BlockRange::new(0, 116));
    // In the backup: nothing is restored, and nothing looks as if it were.
    std::fs::remove_dir_all(&data).unwrap();
    let name = flip(&in_backup[0]);
    bench.refused(&["restore", text(&kept)], &name);
    assert!(!data.join("chains/31337").exists());
}

/// The chain that an archive is of is remembered with its copy, and an old archive is not copied over a
/// newer one.
#[tokio::test(flavor = "multi_thread")]
async fn the_genesis_goes_along_and_a_newer_backup_stays() {
    let node = EvmNode::new(EvmSpec::tiny(63), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let [old, kept, data] = ["old", "kept", "data"].map(|name| bench.dir.path().join(name));
    bench.say(&["backup", text(&old)]);
    node.mine(20);
    bench.say(&["run", "--until-caught-up"]);
    bench.say(&["backup", text(&kept)]);
    let genesis = |dir: &Path| std::fs::read_to_string(dir.join("chains/31337/genesis"));
    assert_eq!(genesis(&kept).unwrap(), genesis(&data).unwrap());
    std::fs::rename(&data, bench.dir.path().join("lost")).unwrap();
    bench.say(&["restore", text(&old)]);
    assert_eq!(genesis(&data).unwrap(), genesis(&kept).unwrap());
    bench.refused(&["backup", text(&kept)], "a newer copy");
    // A source of another chain is refused before anything is archived.
    let other = EvmNode::new(EvmSpec::tiny(64), 100);
    let elsewhere = serve(&other, RpcOptions::default()).await;
    bench.change(&server.url(), &elsewhere.url());
    bench.refused(&["run", "--until-caught-up"], "of another chain");
    std::fs::remove_dir_all(&data).unwrap();
    bench.say(&["restore", text(&kept)]);
    assert_eq!(bench.head(), Some(75));
}
