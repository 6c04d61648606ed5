//! Our program in a directory of its own: its settings, its tables, and how it is started.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use chronolith_sim::evm::FeesSpec;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::database::Database;

/// Our program, as cargo has just built it.
const CHRONOLITH: &str = env!("CARGO_BIN_EXE_chronolith");

/// Where our program keeps what it keeps.
pub(crate) struct Home {
    dir: TempDir,
    /// Where it tells how it does.
    pub(crate) health: String,
}

impl Home {
    /// A directory with the settings of one chain and nothing else.
    pub(crate) fn new(chain: &Value) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let home = Self {
            dir,
            health: format!("http://127.0.0.1:{port}/health"),
        };
        let settings = json!({
            "dataDir": home.path().join("data"), "listen": "127.0.0.1:0", "metricsPort": port,
            "adminListen": "127.0.0.1:0", "chains": [chain],
        });
        std::fs::write(home.config(), settings.to_string())?;
        Ok(home)
    }

    /// Changes the entry of the chain.
    pub(crate) fn change(&self, field: &str, to: Value) -> Result<()> {
        let mut settings: Value = serde_json::from_slice(&std::fs::read(self.config())?)?;
        let chain = settings.pointer_mut("/chains/0").context("a chain")?;
        let chain = chain.as_object_mut().context("a chain")?;
        chain.insert(field.to_owned(), to);
        Ok(std::fs::write(self.config(), settings.to_string())?)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn config(&self) -> PathBuf {
        self.path().join("chronolith.json")
    }

    /// The program with these words, and a database where it needs one.
    pub(crate) fn command(&self, words: &[&str], database: Option<&Database>) -> Command {
        let mut command = Command::new(CHRONOLITH);
        command.args(words).arg("--config").arg(self.config());
        for name in ["DATA_DIR", "OTEL_EXPORTER_OTLP_ENDPOINT", "PG_URL"] {
            command.env_remove(name);
        }
        command.envs(database.map(|database| ("PG_URL", &database.url)));
        command.env("RUST_LOG", "warn");
        command
    }

    /// Makes our tables in an empty database.
    pub(crate) fn init(&self, database: &Database) -> Result<()> {
        let mut command = self.command(&["db", "init"], Some(database));
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "db init: {said}");
        Ok(())
    }
}

/// What is projected: the one contract.
pub(crate) fn fees() -> Value {
    json!({ "contracts": [const_hex::encode_prefixed(FeesSpec::CONTRACT)] })
}
