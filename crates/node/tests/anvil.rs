//! The program against a real node: Anvil, with reorgs of every depth, compared with receipts taken
//! straight from the node. `scripts/need anvil` installs it; `CHRONOLITH_ANVIL` names another one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::Bench;

/// Emits one log: 42 and the first word of its input as topics, all of the input as data.
const CONTRACT: &str = "0x366000600037600051602a366000a200";
const ADDRESS: &str = "0x00000000000000000000000000000000000000c0";
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

/// Where the program is, if it is there.
fn program() -> Option<PathBuf> {
    if let Ok(named) = std::env::var("CHRONOLITH_ANVIL") {
        return Some(named.into());
    }
    let cache = std::env::var("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|_| std::env::var("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let home = cache.ok()?.join("chronolith/anvil-1.7.1");
    let program = home.join("node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil");
    program.exists().then_some(program)
}

struct Anvil {
    child: Child,
    url: String,
    client: reqwest::Client,
}

impl Anvil {
    async fn start() -> Option<Self> {
        let Some(program) = program() else {
            println!("skipped: there is no Anvil; `scripts/need anvil` installs it");
            return None;
        };
        let mut child = Command::new(program)
            .args([
                "--port",
                "0",
                "--no-mining",
                "--timestamp",
                "1700000000",
                "--order",
                "fifo",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let address = lines.find_map(|line| line.strip_prefix("Listening on ").map(str::to_owned));
        let url = format!("http://{}", address.unwrap());
        // Whoever prints into a closed pipe ends.
        std::thread::spawn(move || lines.for_each(drop));
        let anvil = Self {
            child,
            url,
            client: reqwest::Client::new(),
        };
        anvil
            .call("anvil_setCode", json!([ADDRESS, CONTRACT]))
            .await;
        Some(anvil)
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.client.post(&self.url);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Mines blocks with so many logs each.
    async fn mine(&self, blocks: u64, logs: u64) {
        for block in 0..blocks {
            for log in 0..logs {
                let word = format!("0x{:064x}{:064x}", block * 1_000 + log, log);
                let tx = json!([{ "from": SENDER, "to": ADDRESS, "data": word, "gas": "0x186a0" }]);
                self.call("eth_sendTransaction", tx).await;
            }
            self.call("evm_mine", json!([])).await;
        }
    }

    async fn head(&self) -> u64 {
        let head = self.call("eth_blockNumber", json!([])).await;
        u64::from_str_radix(head.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Every archived log against the node's receipts.
    async fn assert_equals(&self, bench: &Bench, to: u64) {
        let last = to.to_string();
        let words = [
            "logs", "--json", "--limit", "10000", "--from", "0", "--to", &last,
        ];
        let answer = bench.json(&words);
        assert_eq!(answer["hasMore"], false);
        let mut ours = answer["logs"].as_array().unwrap().iter();
        let mut compared = 0;
        for number in 0..=to {
            let receipts = self
                .call("eth_getBlockReceipts", json!([format!("0x{number:x}")]))
                .await;
            for receipt in receipts.as_array().unwrap() {
                for log in receipt["logs"].as_array().unwrap() {
                    let ours = ours.next().expect("a log is missing");
                    assert_eq!(ours["blockNumber"], number);
                    for field in ["address", "data", "blockHash", "transactionHash", "topics"] {
                        assert_eq!(ours[field], log[field], "{field} in block {number}");
                    }
                    compared += 1;
                }
            }
        }
        assert!(ours.next().is_none(), "a log too many");
        assert!(compared > 100, "only {compared} logs compared");
        println!("{compared} logs equal the node's receipts");
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_node_is_followed_through_reorgs_of_every_depth() {
    let Some(anvil) = Anvil::start().await else {
        return;
    };
    anvil.mine(20, 30).await;
    let depth = r#", "finality": { "mode": "depth", "confirmations": 60 }, "verification": "receipts", "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#;
    let bench = Bench::new(std::slice::from_ref(&anvil.url), depth);
    let running = bench.start();
    anvil.mine(60, 1).await;
    let head = anvil.head().await;
    bench.wait("the first head", || bench.head() == Some(head - 60));
    for depth in [1, 2, 3, 5, 8, 13, 21, 34, 55, 60] {
        anvil.call("anvil_reorg", json!([depth, []])).await;
        anvil.mine(1, 3).await;
        let head = anvil.head().await;
        bench.wait("the head after a reorg", || bench.head() == Some(head - 60));
    }
    // The head goes down without a word, and comes back by another way.
    anvil.call("anvil_rollback", json!([5])).await;
    anvil.mine(70, 2).await;
    let head = anvil.head().await;
    bench.wait("the last head", || bench.head() == Some(head - 60));
    anvil.assert_equals(&bench, head - 60).await;
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    assert_eq!(verified["level"], "receipts");

    // A reorg below what is final: the chain halts and says so.
    anvil.call("anvil_reorg", json!([70, []])).await;
    anvil.mine(1, 1).await;
    let halted = || bench.json(&["state", "--json"])[0]["halted"].is_string();
    bench.wait("the halt", halted);
    running.stop();
    bench.json(&["logs", "--json", "--to", "20"]);
    assert!(bench.log().contains("reorg"));
}
