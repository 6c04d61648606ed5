//! Everything at once: faults, lies, limits, reorgs and SIGKILL, compared block for block and log for
//! log. Three seeds, one for each way of fetching; twenty-one with
//! `CHRONOLITH_TORTURE=1`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::process::Command;

#[test]
fn nothing_is_missing_made_up_or_twice() {
    let long = std::env::var("CHRONOLITH_TORTURE").is_ok();
    let seeds = if long { "21" } else { "3" };
    let program = env!("CARGO_BIN_EXE_chronolith");
    let output = Command::new(program)
        .args(["sim", "torture", "--seed", "100", "--seeds", seeds])
        .output()
        .unwrap();
    let (said, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{said}");
    assert!(output.status.success(), "{said}\n{failed}");
    let mut lines = said.lines();
    let columns = [
        "seed", "way", "blocks", "logs", "reorgs", "met", "deepest", "kills", "faults",
    ];
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(heading[..9], columns);
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.split_whitespace().collect())
        .take_while(|row: &Vec<&str>| !row.is_empty())
        .collect();
    assert_eq!(rows.len().to_string(), seeds, "{said}");
    for row in &rows {
        let number = |at: usize| row[at].parse::<u64>().unwrap();
        assert!(number(2) >= 5_000 && number(3) > 10_000, "{row:?}");
        assert!(number(4) >= 20 && number(5) >= 1, "{row:?}");
        assert!(number(6) >= 12 && number(7) >= 3, "{row:?}");
        assert!(number(8) > 10, "{row:?}");
        assert_eq!(row[9..12], ["0", "0", "0"], "{row:?}");
    }
    for way in ["receipts", "logs", "portal"] {
        assert!(rows.iter().any(|row| row[1] == way), "nothing by {way}");
    }
}
