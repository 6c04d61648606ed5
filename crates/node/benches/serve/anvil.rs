//! The other contestant: Anvil, a node, with the logs of the same blocks. Each log is emitted once more
//! there, in a block of its own number, so that the same questions have as many answers.
//!
//! Hashes and times are Anvil's. So that both have the same behind them, the program follows that chain
//! from Anvil into an archive of its own, and every answer is compared.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_model::Log;
use const_hex::encode_prefixed;
use reqwest::Client;
use serde_json::{Value, json};

use crate::data::Data;
use crate::{Running, installed, said, start_ours};

/// What Anvil calls its chain.
const CHAIN: u64 = 31_337;
const SENDER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const DISPATCHER: &str = "0x00000000000000000000000000000000000000d1";
const GAS: &str = "0x1000000";
/// Empty blocks at the end: all before them count as final.
const CONFIRMATIONS: u64 = 5;
/// A fork that keeps no hashes of blocks in its state. Anvil hashes all of its state for every block,
/// and would become slower with each. Nor does it have to keep old states, which no log is in.
const FORK: [&str; 3] = ["--hardfork", "shanghai", "--prune-history"];

/// Emits one log of its own address. Its input is the number of topics as a word, the topics, the data.
/// The first part copies the data to memory and leaves its length; where the data begins in the input is
/// where the part for so many topics begins in the code, for each part is as long as a word.
const EMITTER: [&str; 6] = [
    "600035 6001 01 6005 1b 80 36 03 80 82 6000 37 90 56",
    "5b 80 6000 a0 00",
    "5b 602035 81 6000 a1 00",
    "5b 604035 602035 82 6000 a2 00",
    "5b 606035 604035 602035 83 6000 a3 00",
    "5b 608035 606035 604035 602035 84 6000 a4 00",
];
/// Calls one emitter after the other. Its input, for each: the address in the upper bytes of a word and
/// the length of what follows in the lower ones, then that.
const DISPATCH: [&str; 4] = [
    // The next word, and its length; what follows goes to memory.
    "6000 5b 8035 80 63ffffffff 16 80 83 6020 01 6000 37",
    // The call.
    "6000 6000 82 6000 6000 86 6060 1c 5a f1 50",
    // Where the next word is, until the input ends.
    "90 50 01 6020 01 80 36 11 6002 57",
    "00",
];

/// Anvil with its chain, and our program with the same.
pub(crate) struct Anvil {
    pub(crate) theirs: String,
    pub(crate) ours: String,
    _running: [Running; 2],
}

impl Anvil {
    /// Makes the chain and follows it; nothing where there is no Anvil.
    pub(crate) fn start(dir: &Path, data: &Data) -> Result<Option<Self>> {
        let Some(program) = installed::anvil() else {
            return Ok(None);
        };
        let log = dir.join("anvil.log");
        let mut command = crate::pinned("0", &program);
        command.args(["--port", "0", "--color", "never"]);
        command.args(["--no-mining", "--order", "fifo"]);
        command.args(["--timestamp", "1700000000", "--disable-block-gas-limit"]);
        command.args(FORK).stdout(std::fs::File::create(&log)?);
        let running = Running(command.spawn().context("start Anvil")?);
        let address = said(&log, |line| {
            let (_, address) = line.split_once("Listening on ")?;
            Some(address.trim().to_owned())
        })?;
        let node = Node::new(&format!("http://{address}"));
        let runtime = tokio::runtime::Runtime::new()?;
        let began = Instant::now();
        let logs = runtime.block_on(node.fill(data))?;
        let filled = began.elapsed();
        let (ours, followed) = follow(dir, &node.url)?;
        println!(
            "chain of Anvil: {} blocks, {logs} logs, made in {:.0} s, followed in {:.1}",
            data.asked().len(),
            filled.as_secs_f64(),
            followed.as_secs_f64()
        );
        let (serving, address) = ours;
        let anvil = Self {
            theirs: format!("{}/", node.url.trim_start_matches("http://")),
            ours: format!("{address}/{CHAIN}"),
            _running: [running, serving],
        };
        Ok(Some(anvil))
    }

    /// Both must answer the same, to the letter but for the order of fields; returns how many logs.
    pub(crate) fn compare(&self, requests: &[String]) -> Result<usize> {
        let runtime = tokio::runtime::Runtime::new()?;
        let client = Client::new();
        let ask = async |target: &str, request: &String| -> Result<Vec<Value>> {
            let url = format!("http://{target}");
            let mut answer = post(&client, &url, request).await?;
            let logs = answer.get_mut("result").map(Value::take);
            let logs = logs.with_context(|| format!("no result: {answer}"))?;
            Ok(serde_json::from_value(logs)?)
        };
        runtime.block_on(async {
            let mut logs = 0;
            for request in requests {
                let ours = ask(&self.ours, request).await?;
                let theirs = ask(&self.theirs, request).await?;
                ensure!(ours == theirs, "{request}: {ours:?} and {theirs:?}");
                logs += ours.len();
            }
            Ok(logs)
        })
    }
}

/// Follows Anvil's chain to its end, then serves it.
fn follow(dir: &Path, url: &str) -> Result<((Running, String), Duration)> {
    let dir = dir.join("followed");
    std::fs::create_dir(&dir)?;
    let chain = json!({
        "chainId": CHAIN, "name": "anvil", "rpcHttp": [url], "datasets": ["logs", "tx_hashes"],
        "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
    });
    let config = crate::write_config(&dir, &chain)?;
    let began = Instant::now();
    let mut command = std::process::Command::new(crate::CHRONOLITH);
    command.args(["run", "--until-caught-up", "--config"]);
    let output = command.arg(&config).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not follow: {words}");
    let took = began.elapsed();
    Ok((start_ours(&dir, &chain)?, took))
}

async fn post(client: &Client, url: &str, body: &str) -> Result<Value> {
    let request = client.post(url).header("content-type", "application/json");
    let answer = request.body(body.to_owned()).send().await?.text().await?;
    serde_json::from_str(&answer).with_context(|| answer.clone())
}

/// Anvil, while it is told what to do.
struct Node {
    url: String,
    client: Client,
}

impl Node {
    fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            client: Client::new(),
        }
    }

    async fn call(&self, calls: Vec<(&str, Value)>) -> Result<()> {
        let calls = calls.into_iter().enumerate().map(|(id, (method, params))| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        });
        let body = Value::from(calls.collect::<Vec<_>>()).to_string();
        let answer = post(&self.client, &self.url, &body).await?;
        let answers = answer.as_array().context("no list of answers")?;
        match answers.iter().find(|answer| answer.get("error").is_some()) {
            Some(refused) => bail!("Anvil: {refused}"),
            None => Ok(()),
        }
    }

    /// Emits the logs of all blocks that are asked about; returns how many.
    async fn fill(&self, data: &Data) -> Result<usize> {
        self.call(vec![
            ("anvil_setLoggingEnabled", json!([false])),
            ("anvil_setBlockTimestampInterval", json!([12])),
            ("anvil_setCode", json!([DISPATCHER, bytes(&DISPATCH, 0)])),
        ])
        .await?;
        let asked: HashSet<&String> = data.pairs.iter().map(|pair| &pair.address).collect();
        let emitter = bytes(&EMITTER, 64);
        let (mut known, mut nonce, mut emitted) = (HashSet::new(), 0, 0);
        for block in data.chain.blocks(data.asked()) {
            let mut transactions = Vec::new();
            for logs in block.logs.chunk_by(|a, b| a.tx_index() == b.tx_index()) {
                let calls: Vec<_> = logs.iter().map(|log| Call::new(log, &asked)).collect();
                let new = calls.iter().map(|call| &call.address);
                let new = new.filter(|address| known.insert((*address).clone()));
                transactions.extend(new.map(|new| ("anvil_setCode", json!([new, emitter]))));
                let input: String = calls.iter().map(Call::told).collect();
                let sent = json!([{ "from": SENDER, "to": DISPATCHER, "data": format!("0x{input}"), "gas": GAS, "nonce": format!("0x{nonce:x}") }]);
                transactions.push(("eth_sendTransaction", sent));
                nonce += 1;
                emitted += logs.len();
            }
            self.call(transactions).await?;
            self.call(vec![("evm_mine", json!([]))]).await?;
        }
        let more = json!([format!("0x{CONFIRMATIONS:x}")]);
        self.call(vec![("anvil_mine", more)]).await?;
        Ok(emitted)
    }
}

/// A log that an emitter is told to emit.
struct Call {
    address: String,
    input: String,
}

impl Call {
    /// Anvil hashes every account for every block. Addresses that nobody asks about share a few.
    fn new(log: &Log, asked: &HashSet<&String>) -> Self {
        let address = encode_prefixed(log.emitter());
        let shared = log.emitter().first().copied().unwrap_or_default();
        let address = match asked.contains(&address) {
            true => address,
            false => format!("0x{:040x}", 0xe000 + u64::from(shared)),
        };
        let parts = log.topics().chain([log.data()]);
        let parts = parts.map(|part| digits(&encode_prefixed(part)).to_owned());
        let input = format!("{:064x}{}", log.topic_count(), parts.collect::<String>());
        Self { address, input }
    }

    /// What the dispatcher is told.
    fn told(&self) -> String {
        let (address, length) = (digits(&self.address), self.input.len() / 2);
        format!("{address}{length:024x}{}", self.input)
    }
}

fn digits(hex: &str) -> &str {
    hex.trim_start_matches("0x")
}

/// Code in parts, each with so many digits at least.
fn bytes(parts: &[&str], least: usize) -> String {
    let parts = parts.iter().map(|part| part.replace(' ', ""));
    let parts = parts.map(|part| format!("{part:0<least$}"));
    format!("0x{}", parts.collect::<String>())
}
