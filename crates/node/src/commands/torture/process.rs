//! The program under torture: this one, in processes of its own that can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// How long the last run may take to catch up.
const PATIENCE: Duration = Duration::from_secs(300);
const LAST_LINES: usize = 8;
/// What a start says that found nobody to ask: no fault of the program.
const NOBODY_ANSWERS: [&str; 2] = ["no endpoint can be used", "the portal cannot be used"];
/// What a worker says as well, which has nothing to do without a database.
const NO_DATABASE: &str = "the database is unavailable";

/// The settings file, and where the program writes.
pub(super) struct Program {
    pub(super) config: PathBuf,
    pub(super) log: PathBuf,
    /// Whether a start that finds no database may end.
    needs_database: bool,
}

/// How a life ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Killed,
    /// It had not started, because nobody answered.
    NotStarted,
}

impl Program {
    /// With the settings of this name in a directory.
    pub(super) fn named(dir: &Path, name: &str) -> Self {
        Self {
            config: dir.join(format!("{name}.json")),
            log: dir.join(format!("{name}.log")),
            needs_database: false,
        }
    }

    /// A worker beside a node.
    pub(super) fn worker_of(node: &Self) -> Self {
        Self {
            config: node.config.clone(),
            log: node.log.with_extension("worker.log"),
            needs_database: true,
        }
    }

    pub(super) fn start(&self, words: &[&str]) -> Result<Child> {
        // Only the last run's words are of interest.
        let log = std::fs::File::create(&self.log)?;
        let program = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(program);
        command.args(words).arg("--config").arg(&self.config);
        command
            .env_remove("DATA_DIR")
            .env_remove("PG_URL")
            .env_remove("PG_READONLY_URL")
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(log);
        command.spawn().context("start this program once more")
    }

    /// Kills it in the middle of whatever it does. That it had ended by itself is a failure.
    pub(super) fn kill(&self, child: &mut Child) -> Result<End> {
        let ended = child.try_wait()?;
        let Some(status) = ended else {
            child.kill()?;
            child.wait()?;
            return Ok(End::Killed);
        };
        let said = self.last_words();
        let nobody = NOBODY_ANSWERS.iter().any(|words| said.contains(words));
        if nobody || (self.needs_database && said.contains(NO_DATABASE)) {
            return Ok(End::NotStarted);
        }
        bail!("the program ended by itself with {status}: {said}")
    }

    /// How many reorgs the last run told of.
    pub(super) fn reorgs_told(&self) -> u64 {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.matches(r#""message":"reorg""#).count() as u64
    }

    /// Lets it run until it has caught up.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let mut child = self.start(&["run", "--until-caught-up"])?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                let said = self.last_words();
                ensure!(status.success(), "the last run ended with {status}: {said}");
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                bail!("the last run did not catch up: {}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        last.reverse();
        last.join("\n")
    }
}
