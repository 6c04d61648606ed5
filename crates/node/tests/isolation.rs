//! What is important goes before the rest: the system's scheduler knows it by the niceness of threads.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::{Bench, DEPTH_5, serve};

/// Name and niceness of a thread, out of its file in `/proc`; none where the thread has ended.
fn name_and_nice(stat: &Path) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(stat).ok()?;
    let (before, fields) = stat.rsplit_once(')').unwrap();
    let (_, name) = before.split_once('(').unwrap();
    // The state is the third field, niceness the nineteenth.
    let nice = fields.split_whitespace().nth(16).unwrap();
    Some((name.to_owned(), nice.parse().unwrap()))
}

/// The niceness of the threads of a process, by their name.
fn nice_by_name(process: u32) -> BTreeMap<String, BTreeSet<i32>> {
    let mut all = BTreeMap::<_, BTreeSet<i32>>::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        if let Some((name, nice)) = name_and_nice(&thread.unwrap().path().join("stat")) {
            all.entry(name).or_default().insert(nice);
        }
    }
    all
}

/// Without priorities a sync delays probes and answers by seconds on a machine with few cores, and no other test
/// fails: they measure no time under load.
#[tokio::test(flavor = "multi_thread")]
async fn threads_of_ingest_and_queries_give_way() {
    if !cfg!(target_os = "linux") {
        println!("skipped: only on Linux niceness belongs to a thread");
        return;
    }
    let own = name_and_nice(Path::new("/proc/self/stat"));
    if let Some((_, nice)) = own
        && nice != 0
    {
        println!("skipped: the tests have niceness {nice}, and programs inherit it");
        return;
    }
    let node = EvmNode::new(EvmSpec::tiny(98), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.until_health("the head", |code, _| code == 200).await;
    // Metrics are printed on a thread that is started for it, and inherits niceness.
    assert_eq!(bench.operations("/metrics").await.0, 200);
    for (name, nice) in [
        ("answers", 0),
        ("health", 0),
        ("queries", 2),
        ("ingest", 4),
        // The first thread drives what the others do not.
        ("chronolith", 4),
    ] {
        // A thread gets its name and its niceness once it runs.
        bench.wait(&format!("niceness {nice} of all threads {name}"), || {
            nice_by_name(running.id()).get(name) == Some(&BTreeSet::from([nice]))
        });
    }
    running.stop();
}
