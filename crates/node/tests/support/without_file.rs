//! The program in a directory without a settings file, with variables only.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::{Bench, Running};

/// Every variable that the program looks at; none of them comes from outside.
const VARIABLES: [&str; 27] = [
    "ACTIVE_CHAIN",
    "ADMIN_PORT",
    "API_PORT",
    "APP_ENV",
    "BATCH_SIZE",
    "CONTRACT_ADDRESS",
    "DATA_DIR",
    "DEV_MULTIPLE_WORKERS",
    "HISTORICAL_POLL_INTERVAL_MS",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "INGEST_INTERVAL_SECS",
    "JOB_LEASE_TTL_MS",
    "LOG_LEVEL",
    "METRICS_PORT",
    "MONGO_URI",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "PG_READONLY_URL",
    "PG_URL",
    "PORT",
    "PORTAL_REQUESTS",
    "PORTAL_URL",
    "REALTIME_POLL_INTERVAL_MS",
    "RPC_URL",
    "START_POINT",
    "http_proxy",
    "https_proxy",
];

impl Bench {
    /// A directory without a settings file.
    pub fn without_file() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("chronolith.json");
        Self { dir, config }
    }

    /// A command in that directory that is told of no file, with free ports and these variables.
    pub fn plain(&self, words: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
        command.current_dir(self.dir.path()).args(words);
        for name in VARIABLES {
            command.env_remove(name);
        }
        for name in ["PORT", "METRICS_PORT", "ADMIN_PORT"] {
            command.env(name, "0");
        }
        command.env("RUST_LOG", "info");
        command.envs(variables.iter().copied());
        command
    }

    /// What such a command prints; it must succeed.
    #[track_caller]
    pub fn say_plain(&self, words: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.plain(words, variables).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Such a command fails with exit code 1; what it printed.
    #[track_caller]
    pub fn refused_plain(&self, words: &[&str], variables: &[(&str, &str)]) -> String {
        let Output { status, stderr, .. } = self.plain(words, variables).output().unwrap();
        let message = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(1), "{words:?}: {message}");
        message
    }

    /// Starts such a command. Its log goes to a file, and what it prints to [`Bench::printed`].
    pub fn start_plain(&self, words: &[&str], variables: &[(&str, &str)]) -> Running {
        let append = |path: PathBuf| {
            let mut options = std::fs::File::options();
            options.create(true).append(true).open(path).unwrap()
        };
        let mut command = self.plain(words, variables);
        let printed = append(self.dir.path().join("printed"));
        let log = append(self.dir.path().join("log"));
        let child = command.stdin(Stdio::null()).stdout(printed).stderr(log);
        Running(child.spawn().unwrap())
    }

    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("printed")).unwrap_or_default()
    }
}
