//! A settings file in a directory of its own, and the program run with it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "each test file uses its own part, may panic, and waits for a program it cannot see into"
)]

pub mod echo;
pub mod hostile;
pub mod installed;
pub mod projected;
pub mod ranges;
pub mod real_node;
pub mod rpc;
pub mod stellar;
pub mod without_file;

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, BlockRange, ChainId, Dataset, DatasetSet, Scope};
use chronolith_sim::evm::{EvmNode, RpcOptions, RpcServer};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use serde_json::Value;
use tempfile::TempDir;

/// How long the program may take for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The signal of a process that ended at a step of its writes.
const ABORTED: i32 = 6;

/// The fields of every log line of this event in what a program wrote to standard error.
pub fn events(log: &str, event: &str) -> Vec<Value> {
    let lines = log.lines();
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let fields = lines.map(|mut line| line["fields"].take());
    fields.filter(|fields| fields["event"] == event).collect()
}

/// A settings file for one chain, and what the program says with it.
pub struct Bench {
    pub dir: TempDir,
    pub config: PathBuf,
}

impl Bench {
    pub fn new(urls: &[String], more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("chronolith.json");
        let urls = serde_json::to_string(urls).unwrap();
        let data = dir.path().join("data");
        let text = format!(
            r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "feesListen": "127.0.0.1:0", "chains": [ {{ "chainId": 31337, "name": "sim", "rpcHttp": {urls}, "pollMs": 20 {more} }} ] }}"#
        );
        std::fs::write(&config, text).unwrap();
        Self { dir, config }
    }

    /// Where the chain's archive lies.
    pub fn chain_dir(&self) -> PathBuf {
        self.dir.path().join("data").join("chains").join("31337")
    }

    /// The address and the token of the admin listener.
    pub fn admin(&self) -> (String, String) {
        let read = |name: &str| {
            let path = self.dir.path().join("data").join(name);
            std::fs::read_to_string(path).unwrap()
        };
        (read("admin"), read("admin-token"))
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
        command.args(words).arg("--config").arg(&self.config);
        for name in ["DATA_DIR", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
            command.env_remove(name);
        }
        command.env("RUST_LOG", "info");
        command
    }

    pub fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command prints; it must succeed.
    #[track_caller]
    pub fn say(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command fails, and says why.
    #[track_caller]
    pub fn refused(&self, words: &[&str], expected: &str) {
        let output = self.output(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    }

    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.say(words)).unwrap()
    }

    /// An API key and its hash, as the command prints them.
    #[track_caller]
    pub fn new_key(&self, name: &str) -> (String, String) {
        let shown = self.say(&["keys", "new", name]);
        assert!(shown.contains(&format!("name = \"{name}\"")), "{shown}");
        let word = |start: &str| {
            let mut words = shown.split([' ', '"', '\n']);
            words
                .find(|word| word.starts_with(start))
                .unwrap()
                .to_owned()
        };
        (word("chr_"), word("sha256:"))
    }

    pub fn start(&self) -> Running {
        self.start_with(&["run"], &[])
    }

    /// Starts a command with these variables, whose log goes to a file.
    pub fn start_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Running {
        let log = self.dir.path().join("log");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let child = self
            .command(words)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Running(child)
    }

    /// Runs the program until this step of its writes, where it ends as a kill would end it. Calls `feed`
    /// again and again until then, so that there is something to write.
    #[track_caller]
    pub fn crash_at(&self, step: u64, mut feed: impl FnMut()) {
        let can_crash = cfg!(feature = "crash");
        assert!(
            can_crash,
            "built without the feature `crash`: use --all-features"
        );
        let variable = ("CHRONOLITH_CRASH_AFTER_STEPS", &*step.to_string());
        let mut running = self.start_with(&["run"], &[variable]);
        self.wait(&format!("step {step}"), || {
            feed();
            !running.is_alive()
        });
        let status = running.wait();
        let is_crash = status.signal() == Some(ABORTED);
        assert!(
            is_crash,
            "ended before step {step}: {status}\n{}",
            self.log()
        );
    }

    /// Changes the settings file.
    #[track_caller]
    pub fn change(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "no {from} in {text}");
        std::fs::write(&self.config, text.replace(from, to)).unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The fields of every log line of this event, in order.
    pub fn events(&self, event: &str) -> Vec<Value> {
        events(&self.log(), event)
    }

    /// How many log lines of this event there are.
    pub fn count(&self, event: &str) -> usize {
        self.events(event).len()
    }

    pub fn has(&self, event: &str) -> bool {
        self.count(event) > 0
    }

    /// Whether a log line of this event has this text in this field.
    pub fn has_with(&self, event: &str, field: &str, text: &str) -> bool {
        let has = |line: &Value| {
            line[field]
                .as_str()
                .is_some_and(|value| value.contains(text))
        };
        self.events(event).iter().any(has)
    }

    /// Waits until the program listens for health and metrics.
    #[track_caller]
    pub fn wait_for_listener(&self) {
        self.wait("the listener", || self.has("health_listening"));
    }

    /// The newest listener for health and metrics.
    pub fn metrics(&self) -> String {
        self.wait_for_listener();
        let listeners = self.events("health_listening");
        let newest = listeners.last().unwrap();
        let address = newest["listen"].as_str().unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        format!("127.0.0.1:{port}")
    }

    /// Asks the newest listener for health and metrics.
    pub async fn operations(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.metrics());
        let answer = reqwest::get(url).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The public listener of the newest program in the log.
    pub fn public(&self) -> String {
        let message = || {
            let newest = self.events("public_listening").pop()?;
            Some(newest["listen"].as_str()?.to_owned())
        };
        self.wait("the public listener", || message().is_some());
        format!("http://{}", message().unwrap())
    }

    /// Asks for readiness until the answer is as wanted.
    pub async fn until_health(&self, what: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (code, body) = self.operations("/health/ready").await;
            let health: Value = serde_json::from_str(&body).unwrap();
            if wanted(code, &health) {
                return health;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "{what} was not reached: {code} {body}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn head(&self) -> Option<u64> {
        let output = self.output(&["state", "--json"]);
        let state: Value = serde_json::from_slice(&output.stdout).ok()?;
        state[0]["head"]["number"].as_u64()
    }

    /// How many reorgs of exactly so many blocks it told of.
    pub fn reorgs_of(&self, blocks: u64) -> usize {
        let reorgs = self.events("reorg").into_iter();
        reorgs.filter(|reorg| reorg["blocks"] == blocks).count()
    }

    #[track_caller]
    pub fn wait(&self, what: &str, mut reached: impl FnMut() -> bool) {
        let began = Instant::now();
        while !reached() {
            assert!(
                began.elapsed() < PATIENCE,
                "{what} was not reached:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// The program while it runs.
pub struct Running(Child);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    pub fn stop(mut self) {
        self.signal("-TERM");
        let status = self.0.wait().unwrap();
        assert!(status.success(), "stopped with {status}");
    }

    /// Stops it, and fails where that takes longer than any wait of the tests.
    pub fn stop_in_time(self) {
        self.signal("-TERM");
        let status = self.wait();
        assert!(status.success(), "stopped with {status}");
    }

    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it did not end");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The log of a program that a test failed with says more than the test.
impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().rev().take(60).collect();
            for line in lines.iter().rev() {
                eprintln!("log: {line}");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Settings of a chain whose blocks are final when five others stand on them.
pub const DEPTH_5: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

pub async fn serve(node: &EvmNode, options: RpcOptions) -> RpcServer {
    RpcServer::start(node.clone(), options).await.unwrap()
}

/// Every archived log against the chain's.
#[track_caller]
pub fn assert_equals(bench: &Bench, node: &EvmNode, range: BlockRange) {
    // A few blocks at a time: an answer holds 10,000 logs at the most.
    let mut at = range.start;
    let mut logs = 0;
    while at < range.end {
        let part = BlockRange::new(at, (at + 200).min(range.end));
        logs += assert_part(bench, node, part);
        at = part.end;
    }
    assert!(logs > 0, "nothing was compared");
}

#[track_caller]
fn assert_part(bench: &Bench, node: &EvmNode, range: BlockRange) -> usize {
    let (from, to) = (range.start.to_string(), (range.end - 1).to_string());
    let words = [
        "logs", "--json", "--limit", "10000", "--from", &from, "--to", &to,
    ];
    let answer = bench.json(&words);
    assert_eq!(answer["hasMore"], false);
    let ours = answer["logs"].as_array().unwrap();
    let blocks = (range.start..range.end).map(|number| node.block(number).unwrap().to_model());
    let theirs: Vec<(Block, usize)> = blocks
        .flat_map(|block| (0..block.logs.len()).map(move |at| (block.clone(), at)))
        .collect();
    assert_eq!(ours.len(), theirs.len(), "logs missing or twice");
    for (ours, (block, at)) in ours.iter().zip(&theirs) {
        let log = &block.logs[*at];
        assert_eq!(ours["blockNumber"], block.clock.number);
        assert_eq!(ours["blockHash"], block.clock.hash.to_string());
        assert_eq!(ours["logIndex"], log.log_index());
        let hash = block.tx_hash(log.tx_index()).unwrap().to_string();
        assert_eq!(ours["transactionHash"], hash);
        let data: String = log
            .data()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(ours["data"], format!("0x{data}"));
    }
    theirs.len()
}

/// The archive of the chain, for what no command shows.
pub async fn open_archive(bench: &Bench) -> Archive {
    let dir = bench.chain_dir();
    let (meta, blobs) = (FileMeta::open_reader(&dir), FileBlobs::open_reader(&dir));
    let settings = Settings::evm(ChainId(31_337));
    let opened = Archive::open_reader(Arc::new(meta), Arc::new(blobs), settings).await;
    opened.unwrap()
}

/// The same for writing, as long as no program does.
pub async fn open_to_write(bench: &Bench) -> Archive {
    open_to_write_with(bench, Settings::evm(ChainId(31_337)).datasets).await
}

/// The same, for these datasets.
pub async fn open_to_write_with(bench: &Bench, datasets: DatasetSet) -> Archive {
    let dir = bench.chain_dir();
    let (meta, blobs) = (FileMeta::open_writer(&dir), FileBlobs::open_writer(&dir));
    let (meta, blobs) = (Arc::new(meta.unwrap()), Arc::new(blobs.unwrap()));
    let settings = Settings {
        datasets,
        ..Settings::evm(ChainId(31_337))
    };
    let opened = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
    opened.unwrap()
}

/// Puts old blocks there that nothing else is linked to.
pub async fn put_island(bench: &Bench, node: &EvmNode, range: BlockRange) {
    let archive = open_to_write(bench).await;
    let datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    let mut fill = archive.fill_with(range, datasets, Scope::All).unwrap();
    let blocks: Vec<Block> = (range.start..range.end)
        .map(|number| node.block(number).unwrap().to_model())
        .collect();
    fill.push(blocks, &Provenance::default()).await.unwrap();
    fill.finish().await.unwrap();
    archive.release().await.unwrap();
}
