//! The run: sections one after the other, each adding its rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use chronolith_model::{BlockRange, LogFilter};
use chronolith_sim::{QueryClass, SimChain};
use tokio::runtime::Runtime;

use crate::args::{Args, Backend, Child, Section};
use crate::ingest::{Feed, Ingested};
use crate::place::Place;
use crate::queries::{self, Measured};
use crate::report::{Better, Row, figure};
use crate::{child, measure, scan};

/// What the sections share.
struct Suite<'a> {
    args: &'a Args,
    chain: SimChain,
    extent: BlockRange,
    runtime: Runtime,
    root: PathBuf,
    rows: Vec<Row>,
}

/// Runs every section that was asked for.
pub(crate) fn run(args: &Args) -> Result<Vec<Row>> {
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
    let mut suite = Suite {
        args,
        chain: child::chain(args),
        extent: BlockRange::new(0, args.blocks),
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        root: root.context("a directory for the archive")?,
        rows: Vec::new(),
    };
    suite.run()?;
    Ok(suite.rows)
}

impl Suite<'_> {
    fn run(&mut self) -> Result<()> {
        let args = self.args;
        say(&format!(
            "{} blocks x {} logs, {} blocks a call, {:?} in {}",
            figure(args.blocks as f64),
            args.logs_per_block,
            args.chunk_size,
            args.backend,
            self.root.display()
        ));
        say("blocks are made between the timed parts: ingest times do not include the generator");
        let place = self.ingest()?;
        let filters = queries::filters(args, &self.chain, self.extent);
        let mut measured = BTreeMap::new();
        if args.has(Section::Queries) || args.has(Section::Scan) {
            measured = self.queries(&place, &filters)?;
        }
        if args.has(Section::Scan) {
            self.scan(&filters, &measured)?;
        }
        if args.has(Section::Tx) && args.backend == Backend::Files {
            self.transactions()?;
        }
        Ok(())
    }

    /// Fills the archive, once for each number of threads; the first one is asked later.
    fn ingest(&mut self) -> Result<Place> {
        let args = self.args;
        if args.backend == Backend::Memory {
            let place = Place::memory();
            let feed = Feed {
                chain: &self.chain,
                range: self.extent,
                chunk: args.chunk_size,
                threads: 2,
            };
            let ingested = self.runtime.block_on(async {
                let archive = place.writer().await?;
                feed.run(&archive).await
            })?;
            self.ingest_rows(&ingested, 2);
            return Ok(place);
        }
        let mut first = None;
        for &threads in &args.threads {
            let dir = self.root.join(format!("archive-{threads}"));
            say(&format!("ingest, {threads} core(s)"));
            let printed = child::start(args, Child::Ingest, &dir, threads)?;
            let ingested = Ingested::from_json(&printed);
            self.ingest_rows(&ingested, threads);
            if first.is_none() {
                let place = Place::Files(dir.clone());
                self.size_rows(&place, &dir, &ingested)?;
                first = Some(place);
            } else {
                std::fs::remove_dir_all(&dir)?;
            }
        }
        first.context("no number of threads")
    }

    fn ingest_rows(&mut self, ingested: &Ingested, threads: usize) {
        let (wall, cpu) = (ingested.wall_rate(), ingested.cpu_rate());
        let note = format!(
            "{:.1} s wall, {:.1} CPU s; {} logs, {} txs, {:.0} B raw a log",
            ingested.wall,
            ingested.cpu,
            figure(ingested.logs as f64),
            figure(ingested.txs as f64),
            ingested.raw_bytes as f64 / ingested.logs as f64
        );
        let row = |what: String, value| Row::new(what, "logs/s", Better::More, value);
        let by_wall = row(format!("ingest, {threads} core(s), wall"), Some(wall)).note(note);
        let by_cpu = row(format!("ingest, {threads} core(s), per CPU s"), Some(cpu));
        let (by_wall, by_cpu) = match threads {
            1 => (by_wall, by_cpu.target(600_000.0)),
            _ => (by_wall.target(1_000_000.0), by_cpu),
        };
        self.rows.extend([by_wall, by_cpu]);
        let what = format!("memory while ingesting, {threads} core(s)");
        let mut row = Row::new(what, "MiB", Better::Less, ingested.peak_mib).target(400.0);
        if let Some(half) = ingested.peak_half_mib {
            row = row.note(format!("VmHWM; after half of the blocks {half:.0}"));
        }
        self.rows.push(row);
        let drift = ingested.last_rate / ingested.first_rate;
        let what = format!("ingest, {threads} core(s), last fifth / first fifth");
        self.rows
            .push(Row::new(what, "×", Better::More, Some(drift)).target(0.8));
    }

    fn size_rows(&mut self, place: &Place, dir: &std::path::Path, filled: &Ingested) -> Result<()> {
        self.runtime.block_on(place.collect_garbage())?;
        let sizes = measure::sizes(dir)?;
        let total: u64 = sizes.values().sum();
        let per_log = |bytes: u64| bytes as f64 / filled.logs as f64;
        let kinds = sizes.iter().map(|(kind, &bytes)| {
            let share = per_log(bytes);
            format!("{kind} {share:.2}")
        });
        let row = Row::new("bytes on disk", "B/log", Better::Less, Some(per_log(total)));
        let note = kinds.collect::<Vec<_>>().join(", ");
        self.rows.push(row.target(66.0).note(note));
        Ok(())
    }

    fn queries(
        &mut self,
        place: &Place,
        filters: &BTreeMap<QueryClass, Vec<LogFilter>>,
    ) -> Result<BTreeMap<QueryClass, Measured>> {
        say("queries, warm");
        let measured = self.runtime.block_on(async {
            let archive = place.reader().await?;
            queries::run(&archive, self.args, &self.chain, filters).await
        })?;
        for (class, found) in &measured {
            self.query_rows(*class, found);
        }
        Ok(measured)
    }

    fn query_rows(&mut self, class: QueryClass, found: &Measured) {
        let (p50, p99) = match class {
            QueryClass::Narrow => (Some(100.0), Some(1_500.0)),
            QueryClass::Rare => (Some(20.0), None),
            QueryClass::Absent => (Some(10.0), None),
            QueryClass::Or256Uniform => (Some(2_500.0), Some(5_000.0)),
            _ => (None, None),
        };
        for (percent, target) in [(50, p50), (95, None), (99, p99)] {
            let what = format!("{} p{percent}", class.name());
            let mut row = Row::new(what, "µs", Better::Less, found.times.percentile(percent));
            if let Some(target) = target {
                row = row.target(target);
            }
            if percent == 50 {
                row = row.note(format!(
                    "{} queries, median {} results, {:.1} rows looked at each",
                    found.times.len(),
                    found.median_rows(),
                    found.candidates as f64 / found.times.len() as f64
                ));
            }
            self.rows.push(row);
        }
        let rate = match class {
            QueryClass::DenseTopic0 => 4_000_000.0,
            QueryClass::Sparse03Percent => 400_000.0,
            _ => return,
        };
        let what = format!("{} materialized", class.name());
        let row = Row::new(what, "logs/s", Better::More, Some(found.rows_per_second()));
        self.rows.push(row.target(rate));
    }

    fn scan(
        &mut self,
        filters: &BTreeMap<QueryClass, Vec<LogFilter>>,
        ours: &BTreeMap<QueryClass, Measured>,
    ) -> Result<()> {
        say("plain scan");
        let times = scan::run(&self.chain, self.extent, filters, ours)?;
        for (class, scanned) in times {
            let ours = ours.get(&class).and_then(|ours| ours.times.percentile(50));
            let what = format!("{} p50", class.name());
            let row = Row::new(what, "µs", Better::Less, ours);
            self.rows.push(
                row.baseline("scan", scanned.percentile(50))
                    .note(format!("{} scans, answers equal", scanned.len())),
            );
        }
        Ok(())
    }

    fn transactions(&mut self) -> Result<()> {
        say("transactions by hash");
        let dir = self.root.join("archive-tx");
        let printed = child::start(self.args, Child::Tx, &dir, 1)?;
        let sizes = measure::sizes(&dir)?;
        std::fs::remove_dir_all(&dir)?;
        let real = |name: &str| printed.get(name).and_then(serde_json::Value::as_f64);
        let (txs, cpu) = (real("txs").unwrap_or(0.0), real("cpu").unwrap_or(0.0));
        let bytes = sizes.values().sum::<u64>() as f64;
        for (name, target) in [("hit", 5.0), ("miss", 2.0)] {
            let at = |place: usize| {
                let list = printed.get(name).and_then(serde_json::Value::as_array);
                list.and_then(|list| list.get(place)?.as_f64())
            };
            let note = format!(
                "{} hashes; p95 {}, p99 {}; {:.1} B a hash, {} hashes per CPU s",
                figure(txs),
                at(1).map(figure).unwrap_or_default(),
                at(2).map(figure).unwrap_or_default(),
                bytes / txs,
                figure(txs / cpu)
            );
            let what = format!("transaction by hash, {name} p50");
            let row = Row::new(what, "µs", Better::Less, at(0)).target(target);
            self.rows.push(row.note(note));
        }
        Ok(())
    }
}

/// Progress goes to stderr, so that stdout holds nothing but results.
fn say(text: &str) {
    eprintln!("perf_stress: {text}");
}
