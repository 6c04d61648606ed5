//! A settings file in a directory of its own, and the program run with it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "each test file uses its own part, may panic, and waits for a program it cannot see into"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long the program may take for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
            r#"{{ "dataDir": {data:?}, "metricsPort": 0, "chains": [ {{ "chainId": 31337, "name": "sim", "rpcHttp": {urls}, "pollMs": 20 {more} }} ] }}"#
        );
        std::fs::write(&config, text).unwrap();
        Self { dir, config }
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
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.say(words)).unwrap()
    }

    pub fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// Starts it with these variables.
    pub fn start_with(&self, variables: &[(&str, &str)]) -> Running {
        let log = self.dir.path().join("log");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let child = self
            .command(&["run"])
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Running(child)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Asks the listener for operators, whose port is in the log.
    pub async fn operations(&self, path: &str) -> (u16, String) {
        let log = self.log();
        let at = log.rfind("0.0.0.0:").expect("no listener in the log") + "0.0.0.0:".len();
        let port: String = log[at..].chars().take_while(char::is_ascii_digit).collect();
        let url = format!("http://127.0.0.1:{port}{path}");
        let answer = reqwest::get(url).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
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

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
