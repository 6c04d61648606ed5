//! Results as rows, in the order in which the targets were set.

use chronolith_sim::QueryClass;
use serde_json::Value;

use crate::args::{Args, Section};
use crate::ingest::Ingested;
use crate::report::{Better, Row, figure};
use crate::suite::Results;

/// The baseline's name in the table.
const POSTGRES: &str = "PostgreSQL";

/// Every row; what was not measured says so.
pub(crate) fn all(args: &Args, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, ingested) in &results.ingests {
        rows.extend(ingest(results, *threads, ingested));
    }
    rows.extend(size(results));
    if args.has(Section::Queries) {
        for class in QueryClass::ALL {
            rows.extend(queries(results, class));
        }
    }
    if args.has(Section::Cold) {
        rows.push(cold(results));
    }
    if args.has(Section::Tx) {
        rows.extend(transactions(results));
    }
    if args.has(Section::Scale) {
        rows.extend(scale(results));
    }
    for (class, scanned) in &results.scans {
        let ours = results.ours.get(class);
        let ours = ours.and_then(|ours| ours.times.percentile(50));
        let row = Row::new(format!("{} p50", class.name()), "µs", Better::Less, ours);
        let note = format!("{} scans in memory, answers equal", scanned.len());
        rows.push(row.baseline("scan", scanned.percentile(50)).note(note));
    }
    rows
}

fn ingest(results: &Results, threads: usize, ingested: &Ingested) -> Vec<Row> {
    let cores = if threads == 1 {
        "one core"
    } else {
        "two cores"
    };
    let note = format!(
        "{:.1} s, {:.1} CPU s; {} logs, {} txs, {:.0} B raw a log",
        ingested.wall,
        ingested.cpu,
        figure(ingested.logs as f64),
        figure(ingested.txs as f64),
        ingested.raw_bytes as f64 / ingested.logs as f64
    );
    let row = |what: &str, value| {
        Row::new(
            format!("ingest, {cores}, {what}"),
            "logs/s",
            Better::More,
            Some(value),
        )
    };
    let (wall, cpu) = (ingested.wall_rate(), ingested.cpu_rate());
    let live = results.live.map(|live| live.rate());
    let bulk = results.bulk.map(|bulk| bulk.rate());
    let mut rows = vec![match threads {
        1 => row("per CPU second", cpu).target(600_000.0).note(note),
        _ => row("wall", wall).target(1_000_000.0).note(note),
    }];
    if threads > 1 {
        rows.push(row("per CPU second", cpu));
    }
    // PostgreSQL has all cores, and a client beside it.
    let sample = results.live.map(|live| {
        let logs = figure(live.logs as f64);
        format!("{logs} logs, {:.0} B/log", live.bytes_per_log())
    });
    let against = row("wall", wall)
        .baseline("live indexes", live)
        .factor(15.0);
    rows.push(against.note(sample.unwrap_or_default()));
    let against = row("wall", wall).baseline("bulk + index", bulk).factor(9.0);
    rows.push(against.note("without VACUUM ANALYZE"));
    let what = format!("memory while ingesting, {cores}");
    let memory = Row::new(what, "MiB", Better::Less, ingested.peak_mib).target(400.0);
    let half = ingested.peak_half_mib;
    let half = half.map(|half| format!("VmHWM; {half:.0} after half of the blocks"));
    rows.push(memory.note(half.unwrap_or_default()));
    let drift = ingested.last_rate / ingested.first_rate;
    let what = format!("ingest, {cores}, last fifth against first");
    rows.push(Row::new(what, "×", Better::More, Some(drift)));
    rows
}

fn size(results: &Results) -> Option<Row> {
    let (_, ingested) = results.ingests.first()?;
    let per_log = |bytes: u64| bytes as f64 / ingested.logs as f64;
    let total: u64 = results.sizes.values().sum();
    let kinds = results
        .sizes
        .iter()
        .map(|(kind, &bytes)| (kind, per_log(bytes)));
    let kinds = kinds.filter(|(_, bytes)| *bytes >= 0.005);
    let kinds: Vec<String> = kinds
        .map(|(kind, bytes)| format!("{kind} {bytes:.2}"))
        .collect();
    let ours = (total > 0).then(|| per_log(total));
    let theirs = results.bulk.map(|bulk| bulk.bytes_per_log());
    let row = Row::new("bytes on disk", "B/log", Better::Less, ours).target(66.0);
    let row = row.baseline(POSTGRES, theirs).factor(7.0);
    Some(row.note(kinds.join(", ")))
}

/// Targets of a class: p50 and p99 in microseconds, and how many times PostgreSQL's p50.
fn query_targets(class: QueryClass) -> (Option<f64>, Option<f64>, Option<f64>) {
    match class {
        QueryClass::Narrow => (Some(100.0), Some(1_500.0), Some(1.0)),
        QueryClass::Rare => (Some(20.0), None, None),
        QueryClass::Absent => (Some(10.0), None, None),
        QueryClass::Or256Uniform => (Some(2_500.0), Some(5_000.0), Some(5.0)),
        QueryClass::Topic1Topic2 | QueryClass::AddressTopic3 => (None, None, Some(10.0)),
        _ => (None, None, None),
    }
}

fn queries(results: &Results, class: QueryClass) -> Vec<Row> {
    let ours = results.ours.get(&class);
    let theirs = results.theirs.get(&class);
    let (p50, p99, factor) = query_targets(class);
    let mut rows = Vec::new();
    for (percent, target, factor) in [(50, p50, factor), (95, None, None), (99, p99, None)] {
        let value = ours.and_then(|ours| ours.times.percentile(percent));
        let what = format!("{} p{percent}", class.name());
        let mut row = Row::new(what, "µs", Better::Less, value);
        if let Some(target) = target {
            row = row.target(target);
        }
        if let Some(factor) = factor {
            row = row.factor(factor).baseline(POSTGRES, None);
        }
        if let Some(theirs) = theirs {
            row = row.baseline(POSTGRES, theirs.times.percentile(percent));
        }
        if let (50, Some(ours)) = (percent, ours) {
            let asked = ours.times.len();
            let cpu = |percent| ours.cpu.percentile(percent).map(figure).unwrap_or_default();
            let mut note = format!(
                "CPU p50 {}, p99 {}; {asked} queries; results p50 {}, p99 {}; {:.1} candidates each",
                cpu(50),
                cpu(99),
                ours.rows_at(50),
                ours.rows_at(99),
                ours.candidates as f64 / asked as f64
            );
            if let Some(theirs) = theirs {
                note += &format!("; {} compared, {}", theirs.times.len(), theirs.plan);
            }
            row = row.note(note);
        }
        rows.push(row);
    }
    let target = match class {
        QueryClass::DenseTopic0 => 4_000_000.0,
        QueryClass::Sparse03Percent => 400_000.0,
        _ => return rows,
    };
    let what = format!("{} materialized", class.name());
    let rate = ours.map(|ours| ours.rows_per_second());
    rows.push(Row::new(what, "logs/s", Better::More, rate).target(target));
    rows
}

fn cold(results: &Results) -> Row {
    let p50 = results.cold.as_ref().and_then(|cold| cold.percentile(50));
    let theirs = results.cold_theirs.as_ref();
    let theirs = theirs.and_then(|cold| cold.percentile(50));
    let row = Row::new("narrow, cold, p50", "µs", Better::Less, p50).target(500.0);
    let row = row.baseline(POSTGRES, theirs).factor(5.0);
    let Some(cold) = &results.cold else {
        return row;
    };
    let at = |percent| cold.percentile(percent).map(figure).unwrap_or_default();
    let open = results
        .cold_open
        .as_ref()
        .and_then(|open| open.percentile(50));
    row.note(format!(
        "{} queries in new processes; p99 {}; opening took {} µs",
        cold.len(),
        at(99),
        open.map(figure).unwrap_or_default()
    ))
}

fn transactions(results: &Results) -> Vec<Row> {
    let printed = results.tx.as_ref();
    let real = |name: &str| printed.and_then(|value| value.get(name)?.as_f64());
    let (txs, cpu) = (real("txs").unwrap_or(1.0), real("cpu").unwrap_or(1.0));
    let row = |(name, target)| {
        let list = printed
            .and_then(|value| value.get(name))
            .and_then(Value::as_array);
        let at = |place: usize| list.and_then(|list| list.get(place)?.as_f64());
        let what = format!("transaction by hash, {name} p50");
        Row::new(what, "µs", Better::Less, at(0))
            .target(target)
            .note(format!(
                "{} hashes; p95 {}, p99 {}; {:.1} B a hash, {} hashes per CPU s",
                figure(txs),
                at(1).map(figure).unwrap_or_default(),
                at(2).map(figure).unwrap_or_default(),
                results.tx_bytes as f64 / txs,
                figure(txs / cpu)
            ))
    };
    [("hit", 5.0), ("miss", 2.0)].into_iter().map(row).collect()
}

fn scale(results: &Results) -> Vec<Row> {
    let scale = results.scale.as_ref();
    let narrow = scale.and_then(|scale| {
        Some(scale.narrow_large.percentile(50)? / scale.narrow_small.percentile(50)?)
    });
    let large = results.ingests.first().map(|(_, ingested)| ingested);
    let rate = scale
        .zip(large)
        .map(|(scale, large)| large.cpu_rate() / scale.small.cpu_rate());
    let memory = scale.zip(large).and_then(|(scale, large)| {
        let (small, large) = (scale.small.peak_mib?, large.peak_mib?);
        Some(format!("memory {small:.0} → {large:.0} MiB"))
    });
    let times = scale.map(|scale| {
        let p50 = |times: &crate::measure::Times| times.percentile(50).map(figure);
        let (small, large) = (p50(&scale.narrow_small), p50(&scale.narrow_large));
        format!(
            "{} → {} µs, the same queries",
            small.unwrap_or_default(),
            large.unwrap_or_default()
        )
    });
    vec![
        Row::new(
            "narrow p50, whole against a tenth",
            "×",
            Better::Less,
            narrow,
        )
        .target(1.5)
        .note(times.unwrap_or_default()),
        Row::new(
            "ingest per CPU s, whole against a tenth",
            "×",
            Better::More,
            rate,
        )
        .target(0.8)
        .note(memory.unwrap_or_default()),
    ]
}
