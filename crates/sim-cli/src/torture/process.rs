//! The program under test, in processes that can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// How long the last run may take to catch up.
const PATIENCE: Duration = Duration::from_secs(300);
const LAST_LINES: usize = 8;
/// What a start logs that could not use its sources: no fault of the program. While nothing is archived, the
/// program cannot know which of two first blocks is the chain's, and must refuse to choose.
const SOURCE_UNUSABLE: [&str; 3] = [
    "no endpoint can be used",
    "the portal cannot be used",
    "endpoints have different first blocks",
];
/// What a worker logs as well, which has nothing to do without a database.
const NO_DATABASE: &str = "the database is unavailable";

/// What `cargo build` calls the program under test.
const NAME: &str = "chronolith";

/// The program under test: the one that is named, else the one beside this program.
pub(super) fn executable(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()
            .context("find this program")?
            .with_file_name(NAME),
    };
    ensure!(
        path.is_file(),
        "there is no program {}: build it with `cargo build -p chronolith-node`, in the profile of this one, \
         or name it with --program",
        path.display()
    );
    Ok(path)
}

/// The settings file, and where the program writes.
#[derive(Clone)]
pub(super) struct Program {
    executable: PathBuf,
    pub(super) config: PathBuf,
    pub(super) data_dir: PathBuf,
    pub(super) log: PathBuf,
    /// Whether a start that finds no database may end.
    needs_database: bool,
}

/// How a life ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Killed,
    /// It had not started, because its sources could not be used.
    NotStarted,
}

impl Program {
    /// With the settings of this name in a directory.
    pub(super) fn named(executable: &Path, dir: &Path, name: &str) -> Self {
        Self {
            executable: executable.to_owned(),
            data_dir: dir.join(name),
            config: dir.join(format!("{name}.json")),
            log: dir.join(format!("{name}.log")),
            needs_database: false,
        }
    }

    /// A worker beside a node.
    pub(super) fn worker_of(node: &Self) -> Self {
        Self {
            log: node.log.with_extension("worker.log"),
            needs_database: true,
            ..node.clone()
        }
    }

    /// The archive of a chain.
    pub(super) fn chain_dir(&self, chain_id: u64) -> PathBuf {
        self.data_dir.join("chains").join(chain_id.to_string())
    }

    pub(super) fn start(&self, args: &[&str]) -> Result<Child> {
        // Only the last run's log is of interest.
        let log = std::fs::File::create(&self.log)?;
        let started = Command::new(&self.executable)
            .args(args)
            .arg("--config")
            .arg(&self.config)
            .env_remove("DATA_DIR")
            .env_remove("PG_URL")
            .env_remove("PG_READONLY_URL")
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        started.with_context(|| format!("start {}", self.executable.display()))
    }

    /// Kills it in the middle of its work. That it had ended by itself is a failure.
    pub(super) fn kill(&self, child: &mut Child) -> Result<End> {
        let Some(status) = child.try_wait()? else {
            child.kill()?;
            child.wait()?;
            return Ok(End::Killed);
        };
        let log = self.last_lines();
        let unusable = SOURCE_UNUSABLE.iter().any(|text| log.contains(text));
        if unusable || (self.needs_database && log.contains(NO_DATABASE)) {
            return Ok(End::NotStarted);
        }
        bail!("the program ended by itself with {status}: {log}")
    }

    /// How many reorgs the last run logged.
    pub(super) fn reorgs_logged(&self) -> u64 {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.matches(r#""message":"reorg""#).count() as u64
    }

    /// Lets it run until it has caught up.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let mut child = self.start(&["run", "--until-caught-up"])?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                let log = self.last_lines();
                ensure!(status.success(), "the last run ended with {status}: {log}");
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                bail!("the last run did not catch up: {}", self.last_lines());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        last.reverse();
        last.join("\n")
    }
}
