//! Everything at once: faults, byzantine endpoints, limits, reorgs and SIGKILL, compared block for block and log for
//! log. Five seeds, one for each way of fetching. And with a database: two nodes and a worker that project
//! the same chain, stopped and killed like the database, compared row for row with the chain and with a
//! clean replay. With `CHRONOLITH_TORTURE=1` twenty-one seeds, all of them with a database.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::process::Command;

/// What the program says of seeds that it tortured.
fn torture(arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_chronolith-sim");
    let output = Command::new(program)
        .arg("torture")
        .args(arguments)
        .output()
        .unwrap();
    let (message, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{message}");
    assert!(output.status.success(), "{message}\n{failed}");
    message.into_owned()
}

/// The rows below a heading that has these words, up to an empty line.
fn table<'a>(message: &'a str, words: &[&str]) -> Vec<Vec<&'a str>> {
    let split = |line: &'a str| line.split_whitespace().collect::<Vec<&str>>();
    let mut lines = message.lines().map(split);
    assert!(
        lines.any(|heading| heading.starts_with(words)),
        "no {words:?} in {message}"
    );
    lines.take_while(|row| !row.is_empty()).collect()
}

fn is_long() -> bool {
    std::env::var("CHRONOLITH_TORTURE").is_ok()
}

fn number(row: &[&str], at: usize) -> u64 {
    row[at].parse().unwrap()
}

#[test]
fn nothing_is_missing_made_up_or_twice() {
    let (seeds, more) = match is_long() {
        true => ("21", [].as_slice()),
        false => ("5", ["--no-projections"].as_slice()),
    };
    let message = torture(&[&["--seed", "100", "--seeds", seeds], more].concat());
    let columns = [
        "seed", "way", "blocks", "logs", "reorgs", "met", "deepest", "kills", "faults",
    ];
    let rows = table(&message, &columns);
    assert_eq!(rows.len().to_string(), seeds, "{message}");
    for row in &rows {
        assert!(
            number(row, 2) >= 5_000
                && number(row, 3) > if row[1] == "narrow" { 100 } else { 10_000 },
            "{row:?}"
        );
        assert!(number(row, 4) >= 20 && number(row, 5) >= 1, "{row:?}");
        assert!(number(row, 6) >= 12 && number(row, 7) >= 3, "{row:?}");
        assert!(number(row, 8) > 10, "{row:?}");
        assert_eq!(row[9..12], ["0", "0", "0"], "{row:?}");
    }
    let ways = ["receipts", "logs", "portal", "joint", "narrow"];
    for way in ways {
        assert!(rows.iter().any(|row| row[1] == way), "nothing by {way}");
    }
}

#[test]
fn tables_are_those_of_the_chain_and_of_a_clean_replay() {
    let seeds = if is_long() { "9" } else { "1" };
    let message = torture(&["--seed", "202", "--seeds", seeds, "--blocks", "800"]);
    let rows = table(&message, &["seed", "fees", "feeds", "latest", "upgrades"]);
    assert_eq!(rows.len().to_string(), seeds, "{message}");
    for row in &rows {
        assert!(number(row, 1) > 400, "{row:?}");
        // The writer changed now and then, and rows were dropped.
        assert!(number(row, 5) > 0 && number(row, 6) > 2, "{row:?}");
        assert!(number(row, 8) > 20, "{row:?}");
        assert_eq!(row[9..12], ["0", "0", "0"], "{row:?}");
    }
    // A Portal does not tell of transactions, so that it has no feeds.
    let feeds = rows.iter().filter(|row| number(row, 2) > 300);
    let feeds = feeds.filter(|row| number(row, 3) > 20 && number(row, 4) > 5);
    assert!(feeds.count() >= 1, "{message}");
    for trouble in ["database_kill", "second_node_kill", "node_pause_past"] {
        assert!(message.contains(trouble), "{message}");
    }
}

#[test]
fn a_missing_program_is_reported_with_the_command_that_builds_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_chronolith-sim"))
        .args(["torture", "--program", "/nowhere/chronolith"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("cargo build -p chronolith-node"),
        "{message}"
    );
}
