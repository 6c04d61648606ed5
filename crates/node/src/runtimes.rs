//! Which threads do what. Parsing, proving and sealing blocks takes all the time that cores have; clients and
//! probes must not wait for it. So connections, long queries, and health each have threads of their own, and
//! those of queries and of ingest give way to them.

use anyhow::{Context as _, Result};
use chronolith_serve::http::HeavyWork;
use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Handle, Runtime};

/// Niceness of threads that give way to connections, and of those that give way to queries too.
const QUERIES_NICE: i32 = 2;
const INGEST_NICE: i32 = 4;

/// The runtimes of the process.
pub(crate) struct Runtimes {
    /// Everything that has no other threads: ingest, above all.
    pub(crate) main: Runtime,
    answers: Runtime,
    queries: Runtime,
    health: Runtime,
}

/// Threads for what is served.
#[derive(Clone)]
pub(crate) struct Threads {
    /// Connections, and short answers.
    pub(crate) answers: Handle,
    /// Health and metrics.
    pub(crate) health: Handle,
    /// Long queries, and compression.
    pub(crate) heavy: HeavyWork,
}

impl Runtimes {
    /// Starts all of them. The calling thread gives way from now on: it does what the main runtime is given.
    pub(crate) fn start() -> Result<Self> {
        // Threads inherit the niceness of the one that starts them, so the most important come first.
        let answers = Builder::new_multi_thread()
            .thread_name("answers")
            .enable_all()
            .build();
        let health = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("health")
            .enable_all()
            .build();
        let queries = giving_way("queries", QUERIES_NICE);
        give_way(INGEST_NICE);
        let main = giving_way("ingest", INGEST_NICE);
        let started = |runtime: std::io::Result<Runtime>| runtime.context("start the runtimes");
        Ok(Self {
            main: started(main)?,
            answers: started(answers)?,
            queries: started(queries)?,
            health: started(health)?,
        })
    }

    pub(crate) fn threads(&self) -> Threads {
        Threads {
            answers: self.answers.handle().clone(),
            health: self.health.handle().clone(),
            heavy: HeavyWork::on(self.queries.handle().clone()),
        }
    }
}

fn giving_way(name: &str, nice: i32) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name(name)
        .on_thread_start(move || give_way(nice))
        .enable_all()
        .build()
}

/// Makes this thread give way to others of the process. On Linux, niceness belongs to a thread.
fn give_way(nice: i32) {
    // A system that refuses only has less even answers.
    let _ = setpriority_process(None, nice);
}
