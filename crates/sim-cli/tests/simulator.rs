//! `chronolith-sim serve` as its users see it: ports, limits, faults of both servers, and its words.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith-sim"));
    command.arg("serve").args(words);
    command
}

/// A running simulator.
struct Simulator {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    http: String,
    portal: String,
}

impl Simulator {
    fn start(words: &[&str]) -> Self {
        let mut command = command(words);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |name: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(name).unwrap().trim().to_owned()
        };
        let (http, _, portal) = (after("http"), after("websocket"), after("portal"));
        Self {
            child,
            lines,
            http,
            portal,
        }
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.post(&self.http, &body).await;
        assert_eq!(answer.0, 200, "{}", answer.1);
        serde_json::from_str(&answer.1).unwrap()
    }

    async fn post(&self, url: &str, body: &Value) -> (u16, String) {
        let request = reqwest::Client::new().post(url).body(body.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Ends it as Ctrl-C does; what it said since its start.
    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status();
        assert!(killed.unwrap().success());
        let message: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success());
        message.join("\n")
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const STILL: [&str; 4] = ["--blocks", "60", "--block-time-ms", "0"];

#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_portal_show_one_chain() {
    let simulator = Simulator::start(&STILL);
    let block = simulator
        .call("eth_getBlockByNumber", json!(["0x3c", false]))
        .await;
    let head = reqwest::get(format!("{}/head", simulator.portal)).await;
    let head: Value = serde_json::from_str(&head.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(
        head,
        json!({ "number": 60, "hash": block["result"]["hash"] })
    );
    let message = simulator.stop();
    assert!(message.contains("chain     31337, head 60"), "{message}");
    assert!(message.contains("eth_getBlockByNumber"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_kept_and_counted() {
    let limits = ["--max-block-range", "10", "--max-results", "30"];
    let simulator = Simulator::start(&[&STILL[..], &limits[..]].concat());
    for (to, expected) in [("0x14", "max block range 10"), ("0x6", "max results 30")] {
        let range = json!([{ "fromBlock": "0x1", "toBlock": to }]);
        let answer = simulator.call("eth_getLogs", range).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
    let message = simulator.stop();
    let counted = "1 ranges for their blocks, 1 for their logs";
    assert!(message.contains(counted), "{message}");

    let simulator = Simulator::start(&[&STILL[..], &["--requests-per-second", "1"]].concat());
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": [] });
    let (mut refused, mut portal_refused) = (0, 0);
    // A second may end in between: then one more is served.
    for _ in 0..4 {
        refused += u64::from(simulator.post(&simulator.http, &ask).await.0 == 429);
        let head = reqwest::get(format!("{}/head", simulator.portal)).await;
        portal_refused += u64::from(head.unwrap().status().as_u16() == 429);
    }
    assert!(
        refused > 0 && portal_refused > 0,
        "{refused} {portal_refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_has_the_faults_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("faults.json");
    let file = path.to_str().unwrap();
    std::fs::write(
        &path,
        r#"{ "rpc_error": 1, "portal": { "status_529": 1 } }"#,
    )
    .unwrap();
    let simulator = Simulator::start(&[&STILL[..], &["--faults", file]].concat());
    let answer = simulator.call("eth_chainId", json!([])).await;
    assert_eq!(answer["error"]["code"], -32000);
    let head = reqwest::get(format!("{}/head", simulator.portal)).await;
    assert_eq!(head.unwrap().status().as_u16(), 529);
    let message = simulator.stop();
    for expected in ["rpc_error", "status_529"] {
        assert!(message.contains(expected), "{message}");
    }
    for (text, expected) in [
        ("{", "not JSON"),
        (r#"{ "htp_500": 1 }"#, "unknown fault (name=htp_500)"),
        (r#"{ "htp_500": 1 }"#, "http_500"),
        (r#"{ "portal": { "http_500": 1 } }"#, "cut_line"),
        (r#"{ "http_500": 7 }"#, "from 0 to 1"),
    ] {
        std::fs::write(&path, text).unwrap();
        refused(&["--faults", file], expected);
    }
}

/// The rows in the file are the logs that a filter by contract and event finds, first of the chain at
/// the start and then of the chain at the end.
#[tokio::test(flavor = "multi_thread")]
async fn fees_are_served_and_their_rows_written_down() {
    const TOPIC: &str = "0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";
    let contract = "0x00000000000000000000000000000000000000Fe";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows");
    let file = path.to_str().unwrap();
    let words = [
        "--fees",
        "904",
        "--fees-contract",
        contract,
        "--fees-rows",
        file,
    ];
    let rows = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let simulator =
        Simulator::start(&[&["--blocks", "60", "--block-time-ms", "10"], &words[..]].concat());
    let filter =
        json!([{ "fromBlock": "0x0", "toBlock": "0x3c", "address": contract, "topics": [TOPIC] }]);
    let answer = simulator.call("eth_getLogs", filter).await;
    let logs = answer["result"].as_array().unwrap();
    let at_start = rows();
    assert!(logs.len() > 30, "{}", logs.len());
    assert_eq!(logs.len(), at_start.len());
    for (log, row) in logs.iter().zip(&at_start) {
        let index = format!("{:#x}", row["log_index"].as_u64().unwrap());
        assert_eq!(
            (&log["transactionHash"], &log["logIndex"]),
            (&row["tx_hash"], &json!(index))
        );
        assert_eq!(log["blockHash"], row["block_hash"]);
    }
    // A few more blocks with fees.
    let more = json!([{ "fromBlock": "0x46", "toBlock": "0x46" }]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while simulator
        .call("eth_getLogs", more.clone())
        .await
        .get("error")
        .is_some()
    {
        assert!(Instant::now() < deadline, "the chain does not grow");
        tokio::task::yield_now().await;
    }
    simulator.stop();
    let at_end = rows();
    assert_eq!(at_end[..at_start.len()], at_start[..]);
    assert!(at_end.len() > at_start.len());
    refused(
        &["--fees-contract", "0x12"],
        "an address is 0x and 40 digits",
    );
    refused(&["--fees", "1000001"], "1000001 is not in");
    refused(
        &["--fees-rows", "/nowhere/rows"],
        "--fees-rows: cannot write",
    );
}

#[track_caller]
fn refused(words: &[&str], expected: &str) {
    let Output { status, stderr, .. } = command(words).output().unwrap();
    let message = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && message.contains(expected), "{message}");
}

#[test]
fn a_port_is_chosen_and_one_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    refused(&["--listen", &at], &format!("--listen: cannot open {at}"));
    refused(&["--portal-listen", &at], "--portal-listen: cannot open");
    drop(taken);
    let simulator = Simulator::start(&[&STILL[..], &["--listen", &at]].concat());
    assert_eq!(simulator.http, format!("http://{at}/"));
}

#[test]
fn the_help_teaches_with_an_example() {
    let output = command(&["--help"]).output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "Example:",
        "--listen 127.0.0.1:8545",
        "\"portal\": {",
        "chronolith run",
    ] {
        assert!(message.contains(expected), "{message}");
    }
}
