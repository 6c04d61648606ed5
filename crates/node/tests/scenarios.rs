//! The public surface against its rules: every file in `scenarios/` is replayed against the program,
//! which serves simulated chains. The rules are Ethereum's of `eth_getLogs` by number, those of
//! block-by-timestamp (`K1` to `K6`), and our own by name.
//!
//! Three rules of `eth_getLogs` are about what a chain is fetched from, so no answer shows them: 21
//! (blooms that prove nothing), 22 (logs outside the receipts root) and 23 (nodes that do not agree).
//! Nor does one show how blocks are kept (`K7`), fetched (`K8`) and gone on with (`K9`).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod replay;
mod support;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use replay::chains::World;
use replay::play::Scenario;
use support::PATIENCE;

/// Every rule that an answer can show.
const RULES: &[(&str, &str)] = &[
    (
        "getlogs-1",
        "beyond the head is an error, never clamped and never partial",
    ),
    ("getlogs-2", "from above to is an error"),
    ("getlogs-3", "a block hash excludes a range"),
    ("getlogs-4", "an unknown block hash is an error"),
    ("getlogs-5", "history that is not there is 4444"),
    ("getlogs-6", "tags, and latest for what is not given"),
    ("getlogs-7", "tags are resolved once"),
    (
        "getlogs-8",
        "a filter of N positions wants logs of N topics",
    ),
    ("getlogs-9", "null, [] and a list with null mean any"),
    ("getlogs-10", "a topic counts in its own position"),
    ("getlogs-11", "at most 4 topics and 1,000 alternatives"),
    (
        "getlogs-12",
        "too many results name a smaller range that works",
    ),
    ("getlogs-13", "refusals are in the words that clients read"),
    ("getlogs-14", "a log's index is its place in the block"),
    (
        "getlogs-15",
        "in order, nothing twice or left out at the seam",
    ),
    ("getlogs-16", "removed is false"),
    (
        "getlogs-17",
        "logs have their block's time and no strange fields",
    ),
    ("getlogs-18", "quantities, data, and addresses in any case"),
    (
        "getlogs-19",
        "nothing found is [] for logs and null for one thing",
    ),
    ("getlogs-20", "block 0 is a block like any other"),
    ("getlogs-24", "what is asked for twice is answered once"),
    ("K1", "chains"),
    ("K2", "a block by time"),
    ("K3", "inclusive, exclusive, equal times"),
    ("K4", "the example"),
    ("K5", "errors and the order of checks"),
    ("K6", "status, health, any origin"),
    (
        "times",
        "milliseconds, ISO 8601, the closest block, the head",
    ),
    ("times-batch", "many times at once"),
    ("rpc-batch", "batches"),
    ("rpc-id", "ids and notifications"),
    ("rpc-version", "a call says that it is JSON-RPC 2.0"),
    ("rpc-method", "methods"),
    ("rpc-params", "parameters"),
    ("blocks", "blocks and transactions"),
    ("not-kept", "what is not kept is an error and not null"),
    (
        "not-yet",
        "a hash that newer blocks may have is an error and not null",
    ),
    ("pages", "pages together are the whole"),
    ("anchor", "a fork of the caller is a conflict"),
    ("rest-logs", "logs over REST"),
    ("rest-times", "logs of times"),
    ("rest-chains", "logs of several chains"),
    ("rest-blocks", "blocks and transactions over REST"),
    ("rest-errors", "every refusal has the error body"),
    ("hostile", "clear errors, and it continues"),
];

fn scenarios() -> Vec<(String, Vec<Scenario>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let read = serde_json::from_str(&text);
        (
            name.clone(),
            read.unwrap_or_else(|error| panic!("{name}: {error}")),
        )
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_rule_has_a_scenario() {
    let files = scenarios();
    let all = || files.iter().flat_map(|(_, list)| list);
    let shown: BTreeSet<&str> = all()
        .flat_map(|one| one.rules.iter().map(String::as_str))
        .collect();
    let rules: BTreeSet<&str> = RULES.iter().map(|(name, _)| *name).collect();
    let without: Vec<_> = rules.difference(&shown).collect();
    assert!(without.is_empty(), "rules without a scenario: {without:?}");
    let strange: Vec<_> = shown.difference(&rules).collect();
    assert!(strange.is_empty(), "no such rules: {strange:?}");
    let names: BTreeSet<&str> = all().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), all().count(), "two scenarios have one name");
    assert!(
        all().all(|one| !one.rules.is_empty()),
        "a scenario shows no rule"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_holds() {
    let mut world = World::start().await;
    // The only one that takes its time: beside everything else.
    let address = world.base.trim_start_matches("http://").to_owned();
    let slow = tokio::task::spawn_blocking(move || end_of_a_slow_body(&address));
    world.catch_up().await;
    let mut failures = Vec::new();
    let mut count = 0;
    for (file, list) in scenarios() {
        for scenario in &list {
            count += 1;
            let mut outcome = world.play(scenario).await;
            if outcome.is_ok() && file.starts_with("hostile") {
                outcome = world.is_alive().await;
            }
            let name = &scenario.name;
            match (outcome, &scenario.known) {
                (Ok(()), None) => {}
                (Err(message), None) => failures.push(format!("{file}: {name}\n    {message}")),
                (Err(_), Some(why)) => println!("known to fail: {name}: {why}"),
                (Ok(()), Some(_)) => {
                    failures.push(format!(
                        "{file}: {name}\n    holds now: it is no longer `known`"
                    ));
                }
            }
        }
    }
    if let Err(message) = world.latest_is_one_block().await {
        failures.push(format!("latest while blocks come: {message}"));
    }
    if let Err(message) = slow.await.unwrap() {
        failures.push(format!("a slow body: {message}"));
    }
    if let Err(message) = world.is_alive().await {
        failures.push(message);
    }
    let bad = failures.len();
    assert!(
        failures.is_empty(),
        "{bad} of {count} failed\n{}",
        failures.join("\n")
    );
    assert!(!world.log().contains("panicked"), "{}", world.log());
}

/// How long a body may take, as documented.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Sends a body byte by byte: the connection must be ended, with an answer that says why.
fn end_of_a_slow_body(address: &str) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).unwrap();
    // Also the pause between two bytes.
    stream
        .set_read_timeout(Some(Duration::from_millis(250)))
        .unwrap();
    let head = "POST /31331 HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n";
    let began = Instant::now();
    stream.write_all(head.as_bytes()).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
    while began.elapsed() < BODY_TIME + PATIENCE {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // Bytes that come too late are answered with a reset.
            Err(_) => break,
        }
        // An error here means that the other side has gone, which reading tells too.
        let _ = stream.write_all(b" ");
    }
    let (took, message) = (
        began.elapsed(),
        String::from_utf8_lossy(&answer).into_owned(),
    );
    if took >= BODY_TIME + PATIENCE {
        return Err(format!("open after {took:?}: {message}"));
    }
    let clear =
        message.starts_with("HTTP/1.1 408") && message.contains("the body took longer than 10 s");
    if !clear || took < BODY_TIME {
        return Err(format!("ended after {took:?}: {message}"));
    }
    Ok(())
}
