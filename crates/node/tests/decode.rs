//! `chronolith decode`, as people call it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// One feed, one row: the example of the help and of the document.
const UPDATE: &str = "0x0100000199ed1ee3bd000000010002200301071234326764357301000000000300000000000000000000000000000000000000000000000000000000";
const PROXY: &str = "0xADF5aaa34D0A2FbAeE73353ab1622E47d0600249";

/// Without a settings file, with this on standard input.
fn decode(words: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    command.args(["decode", "adfs", "--config", "/nowhere"]);
    command.args(words).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read it closes it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn printed(words: &[&str], stdin: &str) -> Value {
    let output = decode(words, stdin);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(words: &[&str], code: i32, parts: &[&str]) {
    let output = decode(words, "");
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

/// Calldata with a block number.
fn with<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["--has-block-number", "true"], words].concat()
}

/// The update as the argument `data` of `execTransaction`.
fn inside_a_safe() -> String {
    let bytes = (UPDATE.len() - 2) / 2;
    let words = [0, 320, 0, 0, 0, 0, 0, 0, 320 + 32 + 64, bytes];
    let mut input = format!("0x6a761202{:0>64}", &PROXY[2..]);
    words
        .iter()
        .for_each(|word| input += &format!("{word:064x}"));
    input + &format!("{:0<128}", &UPDATE[2..]) + &format!("{:064x}", 0)
}

#[test]
fn an_update_is_printed_as_json() {
    let update = printed(&with(&[UPDATE]), "");
    assert_eq!(update["blockNumber"], "1760619848637");
    assert_eq!(update["hasBlockNumber"], true);
    let feed = &update["feeds"][0];
    assert_eq!(feed["feedId"], "1");
    assert_eq!(feed["index"], 3);
    assert_eq!(feed["data"], "0x12343267643573");
    let row = &update["ringBufferTable"][0];
    assert_eq!(row["tableIndex"], "0x00000000000000000000000000000000");
    // The same from standard input, with the end of a line.
    assert_eq!(printed(&with(&["-"]), &format!("{UPDATE}\n")), update);

    let accumulators = format!("0x01{}{}00000000", "11".repeat(32), "22".repeat(32));
    let second = printed(&["--has-block-number", "false", &accumulators], "");
    let source = format!("0x{}", "11".repeat(32));
    assert_eq!(second["sourceAccumulator"], source);
}

#[test]
fn a_transaction_is_unwrapped_first() {
    let wanted = ["--has-block-number", "true", "--proxy", PROXY];
    let alone = printed(&["--has-block-number", "true", UPDATE], "");
    let calls = printed(&[&wanted[..], &[&inside_a_safe()]].concat(), "");
    assert_eq!(calls.as_array().unwrap().len(), 1);
    assert_eq!(calls[0]["wrapper"], "execTransaction");
    assert_eq!(calls[0]["offset"], 4 + 11 * 32);
    assert_eq!(calls[0]["decoded"], alone);
    let calls = printed(&[&wanted[..], &["--to", PROXY, UPDATE]].concat(), "");
    assert_eq!(calls[0]["wrapper"], "direct");
    assert_eq!(calls[0]["decoded"], alone);
    // Nobody said that it went to the proxy.
    let message = [
        "say so with --to",
        "no call of the proxy",
        "to=unknown, bytes=60",
    ];
    refused(&[&wanted[..], &[UPDATE]].concat(), 1, &message);
    let elsewhere = "0x0000000000000000000000000000000000000001";
    let message = ["call trace", "a call of another contract", "bytes=60"];
    refused(
        &[&wanted[..], &["--to", elsewhere, UPDATE]].concat(),
        1,
        &message,
    );
    // The byte of a call that is wrong, and where in the input the call is.
    let broken = inside_a_safe().replacen("000000010002200301", "000000012002200301", 1);
    let message =
        ["stride is above 31 (stride=32) at byte 13 of the call at byte 356 of the input"];
    refused(&[&wanted[..], &[&broken]].concat(), 1, &message);
}

#[test]
fn a_refusal_says_where_and_what_to_do() {
    let short = &UPDATE[..UPDATE.len() - 2];
    let message = [
        "the lanes of a row (need=32, left=31) at byte 28",
        "reason=malformed",
        "--proxy",
    ];
    refused(&with(&[short]), 1, &message);
    let message = [
        "more feeds than the limit (feeds=1, limit=0) at byte 9",
        "reason=feedsLength",
        "--max-feeds",
    ];
    refused(&with(&["--max-feeds", "0", UPDATE]), 1, &message);
    let message = [
        "larger than the limit (bytes=60, limit=59) at byte 59",
        "reason=calldataSize",
        "--max-bytes",
    ];
    refused(&with(&["--max-bytes", "59", UPDATE]), 1, &message);

    let high = format!("0x01{:016x}{:08x}0100ffff{}", 1, 0, "00".repeat(30));
    let message = [
        "lane is above 8191",
        "at byte 15",
        "reason=rbIndex",
        "--lane-policy mask",
    ];
    refused(&with(&[&high]), 1, &message);
    let cut = printed(&with(&["--lane-policy", "mask", &high]), "");
    assert_eq!(cut["ringBufferTable"][0]["lanes"][0], 8_191);
    assert_eq!(cut["highLanes"][0]["value"], 65_535);

    for wrong in ["0x012", "0x01zz", "01", ""] {
        let message = ["not 0x and an even number"];
        refused(&with(&[wrong]), 1, &message);
    }
    refused(&[UPDATE], 2, &["--has-block-number"]);
    refused(&with(&["--to", PROXY, UPDATE]), 2, &["--proxy"]);
    refused(&with(&["--proxy", "0x12", UPDATE]), 2, &["--proxy"]);
}
