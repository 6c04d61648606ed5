//! A side that is a program of its own, from its start until PostgreSQL has its last row.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use chronolith_sim::evm::RpcServer;

use crate::database::{Database, Table};
use crate::process;
use crate::table::Measured;
use crate::workload::Chain;

/// What a side is asked for while it fetches history, and not while it waits for new blocks.
const FETCHES: [&str; 2] = ["eth_getLogs", "eth_getBlockReceipts"];

/// What a side is given.
pub(crate) struct Race<'a> {
    pub(crate) chain: &'a Chain,
    /// The node it reads from, where it needs one.
    pub(crate) node: Option<&'a RpcServer>,
    pub(crate) database: &'a Database,
    /// Where it puts its rows.
    pub(crate) table: Table,
    /// Where its words go.
    pub(crate) log: PathBuf,
}

impl Race<'_> {
    /// Runs it, ends it, and compares its rows.
    pub(crate) async fn run(&self, mut command: Command) -> Result<Measured> {
        let log = File::create(&self.log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?);
        let before = self.database.cpu_seconds().await?;
        let began = Instant::now();
        let mut program = Program(command.stderr(log).spawn().context("start it")?);
        let id = program.0.id();
        let alive = || {
            self.check(&mut program)?;
            Ok(self.count(|method| FETCHES.contains(&method)))
        };
        let rows = &self.chain.rows;
        self.database.wait_for(&self.table, rows, alive).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (cpu_seconds, peak_mib) = (process::cpu_of(id)?, process::peak_mib(id)?);
        let database_cpu_seconds = self.database.cpu_seconds().await? - before;
        drop(program);
        Ok(Measured {
            seconds,
            cpu_seconds,
            database_cpu_seconds,
            peak_mib: Some(peak_mib),
            calls: self.count(|_| true),
            faults: self.database.compare(&self.table, rows).await?,
        })
    }

    /// Fails with what it said, if it has ended.
    fn check(&self, program: &mut Program) -> Result<()> {
        if let Some(status) = program.0.try_wait()? {
            let said = std::fs::read_to_string(&self.log)?;
            bail!("it ended by itself with {status}:\n{said}");
        }
        Ok(())
    }

    /// How often the node was called by these methods, so far.
    fn count(&self, is_counted: impl Fn(&str) -> bool) -> u64 {
        let calls = self.node.map(|node| node.stats().calls).unwrap_or_default();
        let counted = calls.iter().filter(|(method, _)| is_counted(method));
        counted.map(|(_, calls)| calls).sum()
    }
}

/// Ends when it is dropped.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
