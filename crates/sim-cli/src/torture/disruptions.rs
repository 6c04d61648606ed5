//! Disruptions of the tables while a chain is followed: other writers of the same tables, pauses, leases that
//! run out, and a database that goes away.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rustix::process::{Pid, Signal, kill_process};

use super::process::{End, Program};
use super::rows::{Rows, Server};

/// Something that is done to the processes or the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Disruption {
    /// A node is stopped for a while.
    Pause,
    /// A node is stopped until others may take its leases, and continues as if nothing had happened.
    LongPause,
    /// Leases run out while their holders live.
    LostLeases,
    /// The database ends all connections.
    EndedSessions,
    /// The database is killed and starts again.
    DatabaseKill,
    /// A second node, with an archive of its own, is killed.
    SecondKill,
    WorkerKill,
}

impl Disruption {
    /// All of them, with their names in reports.
    const NAMED: [(Self, &'static str); 7] = [
        (Self::Pause, "node_pause"),
        (Self::LongPause, "node_pause_past_its_leases"),
        (Self::LostLeases, "leases_run_out"),
        (Self::EndedSessions, "database_sessions_ended"),
        (Self::DatabaseKill, "database_kill"),
        (Self::SecondKill, "second_node_kill"),
        (Self::WorkerKill, "worker_kill"),
    ];

    /// Those that must happen. A database of the user is not killed.
    fn expected(may_die: bool) -> impl Iterator<Item = (Self, &'static str)> {
        let all = Self::NAMED.into_iter();
        all.filter(move |(one, _)| may_die || *one != Self::DatabaseKill)
    }
}

/// The names of all that must happen.
pub(super) fn names(may_die: bool) -> impl Iterator<Item = String> {
    Disruption::expected(may_die).map(|(_, name)| name.to_owned())
}

/// How long is waited from disruption to disruption, and how long a pause is, in milliseconds.
const BETWEEN_MS: std::ops::Range<u64> = 100..700;
const PAUSE_MS: std::ops::Range<u64> = 50..400;
/// A second node may need to read before it can write: it lives for a while.
const SECOND_LIVES: Duration = Duration::from_secs(3);
const WORKER_LIVES: Duration = Duration::from_secs(1);

/// What the nodes are called in the database.
pub(super) const NODE: &str = "node";
pub(super) const SECOND: &str = "second";

/// Another process that writes.
struct Other {
    program: Program,
    args: &'static str,
    running: Option<(Child, Instant)>,
    /// All processes it ever was.
    ids: Vec<u32>,
}

impl Other {
    fn start(&mut self) -> Result<()> {
        if self.running.is_none() {
            let child = self.program.start(&[self.args])?;
            self.ids.push(child.id());
            self.running = Some((child, Instant::now()));
        }
        Ok(())
    }

    /// Kills it if it lived long enough to do something; whether it did.
    fn kill_after(&mut self, least: Duration) -> Result<bool> {
        let running = self.running.take_if(|(_, at)| at.elapsed() >= least);
        let Some((mut child, _)) = running else {
            return Ok(false);
        };
        Ok(self.program.kill(&mut child)? == End::Killed)
    }
}

impl Drop for Other {
    /// No process is left over, however the test ends.
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) struct Disruptions<'a> {
    server: &'a Server,
    rows: &'a Rows,
    random: StdRng,
    second: Other,
    worker: Other,
    /// The processes that the node was so far.
    nodes: Vec<u32>,
    happened: BTreeMap<Disruption, u64>,
    /// What came of it, as far as is known: blocks that were dropped, and how often the second node wrote.
    dropped: i64,
    of_second: i64,
}

impl<'a> Disruptions<'a> {
    /// Others are a second node, and a worker beside the first.
    pub(super) fn new(
        (server, rows): (&'a Server, &'a Rows),
        (node, second): (&Program, Program),
        seed: u64,
    ) -> Self {
        let other = |program: Program, args| Other {
            program,
            args,
            running: None,
            ids: Vec::new(),
        };
        let expected = Disruption::expected(server.may_die());
        Self {
            server,
            rows,
            random: StdRng::seed_from_u64(!seed),
            second: other(second, "run"),
            worker: other(Program::worker_of(node), "work"),
            nodes: Vec::new(),
            happened: expected.map(|(one, _)| (one, 0)).collect(),
            dropped: 0,
            of_second: 0,
        }
    }

    /// Disrupts for a while; `archived` says whether there is anything to work on yet.
    pub(super) async fn live(&mut self, node: &Child, life: Duration, archived: u64) -> Result<()> {
        let end = Instant::now() + life;
        self.nodes.push(node.id());
        loop {
            let between = Duration::from_millis(self.random.random_range(BETWEEN_MS));
            if Instant::now() + between >= end {
                tokio::time::sleep(end.saturating_duration_since(Instant::now())).await;
                return Ok(());
            }
            tokio::time::sleep(between).await;
            if archived > 0 {
                self.second.start()?;
                self.worker.start()?;
            }
            let disruption = self.next();
            if self.happens(disruption, node).await? {
                *self.happened.entry(disruption).or_default() += 1;
            }
        }
    }

    /// One of those that happened least often, or any.
    fn next(&mut self) -> Disruption {
        let least = self.happened.values().min().copied().unwrap_or(0);
        let any = self.random.random_range(0..3) == 0;
        let all = self.happened.iter();
        let of = all.filter(|(_, count)| any || **count == least);
        let of: Vec<Disruption> = of.map(|(disruption, _)| *disruption).collect();
        let next = of.choose(&mut self.random);
        next.copied().unwrap_or(Disruption::Pause)
    }

    /// Makes it happen; false where there is no process for it.
    async fn happens(&mut self, disruption: Disruption, node: &Child) -> Result<bool> {
        match disruption {
            Disruption::Pause | Disruption::LongPause => {
                let pause = Duration::from_millis(self.random.random_range(PAUSE_MS));
                // Either of the nodes may be the one that writes.
                let second = self.second.running.as_ref().map(|(child, _)| child.id());
                let second = second.filter(|_| self.random.random_range(0..2) == 0);
                let node = second.unwrap_or(node.id());
                let Some(node) = i32::try_from(node).ok().and_then(Pid::from_raw) else {
                    return Ok(false);
                };
                if kill_process(node, Signal::STOP).is_err() {
                    return Ok(false);
                }
                let run_out = match disruption {
                    Disruption::LongPause => self.rows.let_leases_run_out().await,
                    _ => Ok(()),
                };
                tokio::time::sleep(pause).await;
                let _ = kill_process(node, Signal::CONT);
                Ok(run_out.is_ok())
            }
            Disruption::LostLeases => Ok(self.rows.let_leases_run_out().await.is_ok()),
            Disruption::EndedSessions => Ok(self.rows.end_sessions().await.is_ok()),
            Disruption::DatabaseKill => {
                self.server.crash().await?;
                Ok(true)
            }
            Disruption::SecondKill => self.second.kill_after(SECOND_LIVES),
            Disruption::WorkerKill => self.worker.kill_after(WORKER_LIVES),
        }
    }

    /// The node was killed: mostly enough time passes that others need not wait for its leases.
    pub(super) async fn node_is_dead(&mut self) {
        self.dropped = self.rows.dropped().await.unwrap_or(self.dropped);
        self.of_second = self.epochs_of_second().await.unwrap_or(self.of_second);
        if self.random.random_range(0..3) > 0 {
            // The database may be down; then they have to wait.
            let _ = self.rows.let_leases_run_out().await;
        }
    }

    /// Ends all others, and lets their leases run out. Returns how many writes there were, each by the holder of
    /// the lease.
    pub(super) async fn end(&mut self) -> Result<i64> {
        self.second.kill_after(Duration::ZERO)?;
        self.worker.kill_after(Duration::ZERO)?;
        let who: [(&str, &[u32]); 2] = [(NODE, &self.nodes), (SECOND, &self.second.ids)];
        let writes = self.rows.check_writes(&who).await?;
        self.rows.let_leases_run_out().await?;
        Ok(writes)
    }

    /// How often the second node became the writer.
    pub(super) async fn epochs_of_second(&self) -> Result<i64> {
        let mut all = 0;
        for id in &self.second.ids {
            all += self.rows.epochs_of(&format!(":{id}")).await?;
        }
        Ok(all)
    }

    /// What happened, by name.
    pub(super) fn happened(&self) -> impl Iterator<Item = (String, u64)> {
        let named = Disruption::NAMED.iter();
        named.filter_map(|(one, name)| Some(((*name).to_owned(), *self.happened.get(one)?)))
    }

    /// What never happened, or came to nothing.
    pub(super) fn never_injected(&self) -> Vec<String> {
        let never = self.happened().filter(|(_, count)| *count == 0);
        let mut never_injected: Vec<String> = never.map(|(name, _)| name).collect();
        if self.dropped == 0 {
            never_injected.push("a block that was dropped".to_owned());
        }
        if self.of_second == 0 {
            never_injected.push("a second node that wrote".to_owned());
        }
        never_injected
    }
}
