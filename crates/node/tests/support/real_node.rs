//! A real EVM node: started, told to mine, and asked for the receipts that an archive is compared
//! with.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::Bench;

/// Emits one log: 42 and the first word of its input as topics, all of the input as data.
const CONTRACT: &str = "0x366000600037600051602a366000a200";
const ADDRESS: &str = "0x00000000000000000000000000000000000000c0";
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

/// A node while it runs.
pub struct RealNode {
    child: Child,
    pub url: String,
    client: reqwest::Client,
    /// Makes the content of every block another one.
    mined: std::cell::Cell<u64>,
}

impl RealNode {
    /// An Anvil that mines when it is told to; none where there is none, and that is said.
    pub async fn anvil() -> Option<Self> {
        let Some(program) = super::installed::anvil() else {
            println!("skipped: there is no Anvil; `scripts/need anvil` installs it");
            return None;
        };
        let mut command = Command::new(program);
        command.args(["--port", "0", "--no-mining", "--order", "fifo"]);
        command.args(["--timestamp", "1700000000"]);
        let anvil = Self::start(&mut command, "Listening on ");
        anvil.deploy("anvil_setCode").await;
        Some(anvil)
    }

    /// Replaces so many blocks of an Anvil. The first of the new ones has a transaction of its own:
    /// empty blocks in place of empty blocks would be the same ones again.
    pub async fn replace(&self, depth: u64) {
        let made = json!([depth, [[self.transaction(999), 0]]]);
        self.call("anvil_reorg", made).await;
    }

    /// Starts a node that says where it listens behind these words.
    pub fn start(command: &mut Command, before_address: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let address = lines.find_map(|line| {
            let (_, address) = line.split_once(before_address)?;
            // Under CI some programs colour what they print, terminal or not.
            let end = address.find(|sign: char| !sign.is_ascii_graphic());
            let address = &address[..end.unwrap_or(address.len())];
            Some(address.trim_end_matches('/').to_owned())
        });
        let url = format!("http://{}", address.unwrap());
        // Whoever prints into a closed pipe ends.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            url,
            client: reqwest::Client::new(),
            mined: std::cell::Cell::new(0),
        }
    }

    /// Where new heads are told.
    pub fn socket(&self) -> String {
        self.url.replace("http://", "ws://")
    }

    /// What a call answers, errors included.
    pub async fn answer(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.client.post(&self.url);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// The result of a call that must succeed.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Puts the contract there that emits the logs.
    pub async fn deploy(&self, set_code: &str) {
        self.call(set_code, json!([ADDRESS, CONTRACT])).await;
    }

    /// Mines blocks with so many logs each.
    pub async fn mine(&self, blocks: u64, logs: u64) {
        for _ in 0..blocks {
            self.mined.set(self.mined.get() + 1);
            for log in 0..logs {
                let tx = json!([self.transaction(log)]);
                self.call("eth_sendTransaction", tx).await;
            }
            self.call("evm_mine", json!([])).await;
        }
    }

    /// A transaction with one log, unlike all others of other blocks.
    pub fn transaction(&self, log: u64) -> Value {
        let word = format!("0x{:064x}{:064x}", self.mined.get() * 1_000 + log, log);
        json!({ "from": SENDER, "to": ADDRESS, "data": word, "gas": "0x186a0" })
    }

    pub async fn head(&self) -> u64 {
        let head = self.call("eth_blockNumber", json!([])).await;
        u64::from_str_radix(head.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Every archived log against the node's receipts, transaction by transaction; returns how many.
    pub async fn assert_equals(&self, bench: &Bench, to: u64) -> usize {
        let last = to.to_string();
        let words = [
            "logs", "--json", "--limit", "10000", "--from", "0", "--to", &last,
        ];
        let answer = bench.json(&words);
        assert_eq!(answer["hasMore"], false);
        let mut ours = answer["logs"].as_array().unwrap().iter();
        let mut compared = 0;
        for number in 0..=to {
            let tag = json!([format!("0x{number:x}"), false]);
            let block = self.call("eth_getBlockByNumber", tag).await;
            for hash in block["transactions"].as_array().unwrap() {
                let receipt = self.call("eth_getTransactionReceipt", json!([hash])).await;
                assert_eq!(receipt["blockHash"], block["hash"]);
                for log in receipt["logs"].as_array().unwrap() {
                    let ours = ours.next().expect("a log is missing");
                    assert_eq!(ours["blockNumber"], number);
                    let index = format!("0x{:x}", ours["logIndex"].as_u64().unwrap());
                    assert_eq!(log["logIndex"], index, "index in block {number}");
                    for field in ["address", "data", "blockHash", "transactionHash", "topics"] {
                        assert_eq!(ours[field], log[field], "{field} in block {number}");
                    }
                    compared += 1;
                }
            }
        }
        assert!(ours.next().is_none(), "a log too many");
        assert!(compared > 100, "only {compared} logs compared");
        compared
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
