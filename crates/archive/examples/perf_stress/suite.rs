//! The run: sections one after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chronolith_model::{BlockRange, LogFilter};
use chronolith_sim::{QueryClass, SimChain};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::args::{Args, Backend, Child, Section};
use crate::child::{self, ColdRounds};
use crate::ingest::{Feed, Ingested};
use crate::measure::{self, Answer, Times};
use crate::place::Place;
use crate::postgres::{Loaded, Postgres};
use crate::postgres_queries::{self, Asked, Session};
use crate::queries::{self, Measured};
use crate::report::figure;
use crate::scan;

/// Cold queries: so many right after the caches were emptied, so many times.
const COLD_QUERIES: usize = 40;
const COLD_ROUNDS: usize = 5;
/// Time for each half of the section scale.
const SCALE_TIME: Duration = Duration::from_secs(10);

/// Everything that was measured; what is empty was not.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// By number of cores.
    pub(crate) ingests: Vec<(usize, Ingested)>,
    /// Bytes by kind of object.
    pub(crate) sizes: BTreeMap<String, u64>,
    pub(crate) ours: BTreeMap<QueryClass, Measured>,
    pub(crate) scans: BTreeMap<QueryClass, Times>,
    pub(crate) live: Option<Loaded>,
    pub(crate) bulk: Option<Loaded>,
    pub(crate) theirs: BTreeMap<QueryClass, Asked>,
    pub(crate) cold: Option<Times>,
    pub(crate) cold_open: Option<Times>,
    pub(crate) cold_theirs: Option<Times>,
    pub(crate) tx: Option<Value>,
    pub(crate) tx_bytes: u64,
    pub(crate) scale: Option<Scale>,
}

/// A tenth of the chain against all of it.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) small: Ingested,
    /// The same narrow queries, asked of the small archive and of the large one.
    pub(crate) narrow_small: Times,
    pub(crate) narrow_large: Times,
}

/// What the sections share.
struct Suite<'a> {
    args: &'a Args,
    chain: SimChain,
    extent: BlockRange,
    filters: BTreeMap<QueryClass, Vec<LogFilter>>,
    runtime: Rc<Runtime>,
    root: PathBuf,
    results: Results,
}

/// Runs every section that was asked for.
pub(crate) fn run(args: &Args) -> Result<Results> {
    let temporary = match &args.dir {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("chronolith-perf-")
                .tempdir()?,
        ),
    };
    let kept = args.dir.clone();
    let root = kept.or(temporary.as_ref().map(|dir| dir.path().to_path_buf()));
    let root = root.context("a directory for the archive")?;
    let (chain, extent) = (child::chain(args), BlockRange::new(0, args.blocks));
    say(&format!(
        "{} blocks x {} logs, {} blocks a call, {:?} in {}",
        figure(args.blocks as f64),
        args.logs_per_block,
        args.chunk_size,
        args.backend,
        root.display()
    ));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut suite = Suite {
        args,
        filters: queries::filters(args, &chain, extent),
        chain,
        extent,
        runtime: Rc::new(runtime),
        root,
        results: Results::default(),
    };
    suite.run()?;
    Ok(suite.results)
}

impl Suite<'_> {
    fn run(&mut self) -> Result<()> {
        let args = self.args;
        let on_files = args.backend == Backend::Files;
        let place = self.ingest()?;
        if args.has(Section::Scale) && on_files {
            self.scale(&place)?;
        }
        if args.has(Section::Queries) {
            say("queries, warm");
            let asking = async {
                let archive = place.reader().await?;
                queries::run(&archive, args, &self.chain, &self.filters).await
            };
            self.results.ours = self.runtime.block_on(asking)?;
        }
        if args.has(Section::Scan) {
            say("plain scan");
            let ours = &self.results.ours;
            self.results.scans = scan::run(&self.chain, self.extent, &self.filters, ours)?;
        }
        let mut cold = ColdRounds::default();
        if let (true, Place::Files(dir)) = (args.has(Section::Cold), &place) {
            cold = self.cold(dir)?;
        }
        if args.has(Section::Tx) && on_files {
            self.transactions()?;
        }
        if args.postgres {
            self.postgres(&cold.answers)?;
        }
        Ok(())
    }

    /// Fills the archive, once for each number of cores; the first one is asked later.
    fn ingest(&mut self) -> Result<Place> {
        let args = self.args;
        if args.backend == Backend::Memory {
            let place = Place::memory();
            say("ingest in memory, all cores");
            let feed = Feed {
                chain: &self.chain,
                range: self.extent,
                chunk: args.chunk_size,
                threads: 2,
            };
            let filling = async { feed.run(&place.writer().await?).await };
            let ingested = self.runtime.block_on(filling)?;
            self.results.ingests.push((2, ingested));
            return Ok(place);
        }
        let mut first = None;
        for &threads in &args.threads {
            let dir = self.root.join(format!("archive-{threads}"));
            ensure!(!dir.exists(), "{} is in the way: remove it", dir.display());
            say(&format!(
                "ingest with {threads} core(s); blocks are made between the timed parts"
            ));
            let ingested = fill(args, &dir, threads)?;
            self.results.ingests.push((threads, ingested));
            if first.is_none() {
                let place = Place::Files(dir.clone());
                self.runtime.block_on(place.collect_garbage())?;
                self.results.sizes = measure::sizes(&dir)?;
                first = Some(place);
            } else {
                std::fs::remove_dir_all(&dir)?;
            }
        }
        first.context("no number of threads")
    }

    /// The same narrow queries on the first tenth of the chain alone, and on all of it.
    fn scale(&mut self, large: &Place) -> Result<()> {
        say("a tenth of the chain");
        let mut tenth = self.args.clone();
        tenth.blocks = (tenth.blocks / 10).max(1);
        let dir = self.root.join("archive-tenth");
        let threads = self.args.threads.first().copied().unwrap_or(1);
        let small = fill(&tenth, &dir, threads)?;
        let extent = BlockRange::new(0, tenth.blocks);
        let mut filters = queries::filters(&tenth, &self.chain, extent);
        let narrow = filters.remove(&QueryClass::Narrow).unwrap_or_default();
        let ask = |place: Place| {
            let narrow = &narrow;
            async move {
                let archive = place.reader().await?;
                // The first round warms up.
                queries::ask(&archive, narrow, SCALE_TIME).await?;
                queries::ask(&archive, narrow, SCALE_TIME).await
            }
        };
        let on_small = self.runtime.block_on(ask(Place::Files(dir.clone())))?;
        let on_large = self.runtime.block_on(ask(large.clone()))?;
        let both = on_small.answers.iter().zip(&on_large.answers);
        ensure!(
            both.clone().all(|(small, large)| small == large),
            "the answers of a tenth and of the whole differ"
        );
        self.results.scale = Some(Scale {
            small,
            narrow_small: on_small.times,
            narrow_large: on_large.times,
        });
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }

    fn cold(&mut self, dir: &Path) -> Result<ColdRounds> {
        say("narrow queries, cold");
        if let Err(why) = measure::drop_caches() {
            say(&format!(
                "NOT MEASURED: the page cache cannot be emptied here ({why})"
            ));
            return Ok(ColdRounds::default());
        }
        let rounds = child::cold_rounds(self.args, dir, COLD_ROUNDS, COLD_QUERIES)?;
        if let Some(warm) = self.results.ours.get(&QueryClass::Narrow) {
            let both = rounds.answers.iter().zip(&warm.answers);
            ensure!(
                both.clone().all(|(cold, warm)| cold == warm),
                "cold answers differ from warm ones"
            );
        }
        self.results.cold = Some(Times::new(rounds.micros.clone()));
        self.results.cold_open = Some(Times::new(rounds.open.clone()));
        Ok(rounds)
    }

    fn transactions(&mut self) -> Result<()> {
        say("transactions by hash");
        let dir = self.root.join("archive-tx");
        self.results.tx = Some(child::start(self.args, Child::Tx, &dir, 1)?);
        let place = Place::Files(dir.clone());
        self.runtime.block_on(place.collect_garbage())?;
        self.results.tx_bytes = measure::sizes(&dir)?.values().sum();
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }

    /// Everything beside PostgreSQL, on the same blocks and the same filters.
    fn postgres(&mut self, cold: &[Answer]) -> Result<()> {
        let args = self.args;
        let server = Postgres::start()?;
        let runtime = self.runtime.clone();
        runtime.block_on(async {
            if args.has(Section::Ingest) {
                say("PostgreSQL: loading with live indexes");
                let (chunk, most) = (args.chunk_size, args.live_logs);
                let loaded = server
                    .load_live(&self.chain, self.extent, chunk, most)
                    .await?;
                self.results.live = Some(loaded);
            }
            say("PostgreSQL: loading everything, then indexing");
            self.results.bulk = Some(server.load_bulk(&self.chain, self.extent).await?);
            if !self.results.ours.is_empty() {
                say("PostgreSQL: queries, warm; plans:");
                let mut session = Session::new(server.connect().await?);
                let ours = &self.results.ours;
                self.results.theirs = session.run(&self.filters, ours).await?;
                let path = std::env::temp_dir().join("chronolith-perf-plans.txt");
                std::fs::write(&path, &session.plans)?;
                say(&format!("all plans in full: {}", path.display()));
            }
            if !cold.is_empty() {
                say("PostgreSQL: narrow queries, cold");
                let times = cold_postgres(&server, self.narrow(), cold).await?;
                self.results.cold_theirs = Some(times);
            }
            Ok(())
        })
    }

    fn narrow(&self) -> &[LogFilter] {
        let narrow = self.filters.get(&QueryClass::Narrow);
        narrow.map(Vec::as_slice).unwrap_or_default()
    }
}

/// Fills an archive in a process of its own.
fn fill(args: &Args, dir: &Path, threads: usize) -> Result<Ingested> {
    let printed = child::start(args, Child::Ingest, dir, threads)?;
    Ok(Ingested::from_json(&printed))
}

async fn cold_postgres(server: &Postgres, narrow: &[LogFilter], ours: &[Answer]) -> Result<Times> {
    let mut micros = Vec::new();
    let rounds = narrow.chunks(COLD_QUERIES).zip(ours.chunks(COLD_QUERIES));
    for (filters, ours) in rounds.take(COLD_ROUNDS) {
        server.restart().await?;
        measure::drop_caches()?;
        let mut session = Session::new(server.connect().await?);
        for (filter, ours) in filters.iter().zip(ours) {
            let began = std::time::Instant::now();
            let rows = session.ask(filter).await?;
            let answer = postgres_queries::read(&rows)?;
            micros.push(measure::micros(began.elapsed()));
            ensure!(answer == *ours, "cold answers differ for {filter:?}");
        }
    }
    Ok(Times::new(micros))
}

/// Progress goes to stderr, so that stdout holds nothing but results.
fn say(text: &str) {
    eprintln!("perf_stress: {text}");
}
