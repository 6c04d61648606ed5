//! Everything at once: faults, lies, limits, reorgs and SIGKILL, compared block for block. Two seeds,
//! one for each way of fetching; twenty with `CHRONOLITH_TORTURE=1`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn nothing_is_missing_made_up_or_twice() {
    let long = std::env::var("CHRONOLITH_TORTURE").is_ok();
    let seeds = if long { "20" } else { "2" };
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
    let whole = said.matches("0 missing, 0 made up, 0 twice").count();
    assert_eq!(whole.to_string(), seeds, "{said}");
}
