//! The command line: what to measure, on how much data.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures an archive on a simulated chain, beside PostgreSQL and a plain scan on the same data.

  cargo run --release -p chronolith-archive --example perf_stress -- [options]

  --blocks N           blocks of the chain                                  [40000]
  --logs-per-block M   logs in a block, on average                          [250]
  --queries Q          queries of each class                                [2000]
  --max-results R      most results of one query                            [10000]
  --chunk-size S       blocks in one ingest call                            [100]
  --backend B          files | memory                                       [files]
  --dir DIR            where the archive goes: an empty or absent directory on
                       a disk; it is kept                [a temporary directory]
  --threads T          1 | 2 | both: cores that ingest may use              [both]
  --section LIST       of ingest,queries,scan,cold,tx,scale                 [all]
  --postgres P         yes | no: the baseline, a throwaway server           [yes]
  --live-logs N        logs loaded into PostgreSQL with live indexes        [1000000]
  --tx-hashes N        transactions of the section tx  [twice the logs, most 20000000]
  --seed N             which chain                                          [1]
  --json               rows as JSON lines on stdout, everything else on stderr

A short run while developing:
  ... --blocks 2000 --queries 200 --postgres no --section ingest,queries,scan

Targets are those for 10 million logs (40,000 blocks x 250) on an otherwise idle machine. Missed
targets do not fail the run; answers that differ do.";

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    /// Filling the archive, its size, the memory it took.
    Ingest,
    /// Every class of queries, warm.
    Queries,
    /// The same queries by looking at every log.
    Scan,
    /// Narrow queries in a new process with empty caches.
    Cold,
    /// Transactions by hash, on a chain of many transactions.
    Tx,
    /// A tenth of the chain against all of it.
    Scale,
}

impl Section {
    const ALL: [(&str, Self); 6] = [
        ("ingest", Self::Ingest),
        ("queries", Self::Queries),
        ("scan", Self::Scan),
        ("cold", Self::Cold),
        ("tx", Self::Tx),
        ("scale", Self::Scale),
    ];
}

/// Where the archive lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backend {
    /// Files in a directory.
    Files,
    Memory,
}

/// What a child process of the run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    Ingest,
    /// Asks narrow queries right after opening.
    Cold,
    /// Fills an archive with transactions and looks them up.
    Tx,
}

impl Child {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Cold => "cold",
            Self::Tx => "tx",
        }
    }
}

/// Everything that can be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) blocks: u64,
    pub(crate) logs_per_block: u32,
    pub(crate) queries: usize,
    pub(crate) max_results: usize,
    pub(crate) chunk_size: u64,
    pub(crate) backend: Backend,
    pub(crate) dir: Option<PathBuf>,
    /// One run of ingest for each.
    pub(crate) threads: Vec<usize>,
    pub(crate) sections: Vec<Section>,
    pub(crate) postgres: bool,
    pub(crate) live_logs: u64,
    pub(crate) tx_hashes: u64,
    pub(crate) seed: u64,
    pub(crate) json: bool,
    /// Set when this process is a child of the run.
    pub(crate) child: Option<Child>,
    /// Queries that a cold child leaves out first.
    pub(crate) skip: usize,
}

impl Args {
    /// Reads the command line. `None` asks for help.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut args = Self {
            blocks: 40_000,
            logs_per_block: 250,
            queries: 2_000,
            max_results: 10_000,
            chunk_size: 100,
            backend: Backend::Files,
            dir: None,
            threads: vec![1, 2],
            sections: Section::ALL.map(|(_, section)| section).to_vec(),
            postgres: true,
            live_logs: 1_000_000,
            tx_hashes: 0,
            seed: 1,
            json: false,
            child: None,
            skip: 0,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--json" => args.json = true,
                // Cargo adds it when all targets run as benches.
                "--bench" => {}
                name => {
                    let Some(name) = name.strip_prefix("--") else {
                        bail!("unexpected `{name}`; --help lists the options");
                    };
                    let (name, value) = match name.split_once('=') {
                        Some((name, value)) => (name, value.to_owned()),
                        None => (name, words.next().unwrap_or_default()),
                    };
                    args.set(name, &value)
                        .with_context(|| format!("--{name} {value}"))?;
                }
            }
        }
        args.finish().map(Some)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "blocks" => self.blocks = number(value)?,
            "logs-per-block" => self.logs_per_block = u32::try_from(number(value)?)?,
            "queries" => self.queries = usize::try_from(number(value)?)?,
            "max-results" => self.max_results = usize::try_from(number(value)?)?,
            "chunk-size" => self.chunk_size = number(value)?,
            "live-logs" => self.live_logs = number(value)?,
            "tx-hashes" => self.tx_hashes = number(value)?,
            "seed" => self.seed = number(value)?,
            "skip" => self.skip = usize::try_from(number(value)?)?,
            "dir" => self.dir = Some(value.into()),
            "backend" => self.backend = one_of(value, &BACKENDS)?,
            "postgres" => self.postgres = one_of(value, &[("yes", true), ("no", false)])?,
            "threads" => {
                let choices = [("1", vec![1]), ("2", vec![2]), ("both", vec![1, 2])];
                self.threads = one_of(value, &choices)?;
            }
            "section" => {
                let sections = value.split(',').map(|name| one_of(name, &Section::ALL));
                self.sections = sections.collect::<Result<_>>()?;
            }
            "child" => {
                let children = [Child::Ingest, Child::Cold, Child::Tx];
                self.child = Some(one_of(value, &children.map(|c| (c.name(), c)))?);
            }
            _ => bail!("no such option; --help lists them"),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Self> {
        let positive = [
            self.blocks,
            self.logs_per_block.into(),
            self.chunk_size,
            self.queries as u64,
            self.max_results as u64,
        ];
        if positive.contains(&0) {
            bail!("blocks, logs, queries, results and chunk size are at least 1");
        }
        if self.tx_hashes == 0 {
            self.tx_hashes = (2 * self.logs()).min(20_000_000);
        }
        if self.backend == Backend::Memory {
            // A child's memory is gone when it ends: one run, in this process.
            self.threads.truncate(1);
        }
        Ok(self)
    }

    /// How many logs the chain has, about.
    pub(crate) fn logs(&self) -> u64 {
        self.blocks * u64::from(self.logs_per_block)
    }

    /// Whether a section was asked for.
    pub(crate) fn has(&self, section: Section) -> bool {
        self.sections.contains(&section)
    }
}

const BACKENDS: [(&str, Backend); 2] = [("files", Backend::Files), ("memory", Backend::Memory)];

fn number(value: &str) -> Result<u64> {
    let digits: String = value.chars().filter(|c| *c != '_' && *c != ',').collect();
    digits.parse().context("a number is expected")
}

fn one_of<T: Clone>(value: &str, choices: &[(&str, T)]) -> Result<T> {
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map(|(_, choice)| choice.clone()).with_context(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("one of {} is expected", names.join(", "))
    })
}
