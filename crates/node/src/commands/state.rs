//! `chronolith state`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use chronolith_archive::{Health, HealthReport};
use chronolith_follower::chain::open_reader;
use chronolith_follower::preflight::agreement;
use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope, Verification};
use chronolith_serve::ChainId;
use chronolith_serve::times::utc;
use chronolith_source::evm::Strategy;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::output::print_json;
use super::ranges::{self, Shown};
use crate::cli::{StateQuery, Wanted};
use crate::control::server::{RunningNode, audit_json};
use crate::exit::Exit;
use crate::settings::{ChainSettings, Settings};

/// Operator actions that are printed without `--json`, the newest first.
const AUDIT_SHOWN: usize = 5;
/// How long a node that runs may take to say how it does.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

type Covered = Vec<(BlockRange, Proof)>;

pub(crate) async fn state(settings: &Settings, query: &StateQuery) -> Result<Exit> {
    let wanted = &query.wanted;
    if query.ranges {
        return ranges::show(settings, wanted, Shown::Table).await;
    }
    if query.keys {
        return ranges::show(settings, wanted, Shown::Keys).await;
    }
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    let running = running(settings).await;
    for chain in chosen(settings, wanted)? {
        let node = OfNode::new(running.get(&chain.chain_id));
        match OfArchive::read(settings, chain).await {
            Ok(archive) if wanted.json => all.push(with_node(archive.json(chain), chain, &node)),
            Ok(archive) => {
                print(chain, &archive);
                node.print();
                print_trust(chain, archive.held.as_deref());
            }
            Err(error) => {
                // The other chains are shown all the same.
                exit = Exit::Failed;
                eprintln!("error: {error:#}");
                if wanted.json {
                    let shown = json!({
                        "chain": chain.name,
                        "chainId": ChainId(chain.chain_id),
                        "archiveError": format!("{error:#}"),
                    });
                    all.push(with_node(shown, chain, &node));
                } else {
                    println!("{} ({})", chain.name, chain.chain_id);
                    println!("  archive   not read: {error:#}");
                    node.print();
                }
            }
        }
    }
    if wanted.json {
        print_json(&all)?;
    }
    Ok(exit)
}

/// What the archive of a chain has.
struct OfArchive {
    report: HealthReport,
    covered: Covered,
    /// Why nothing is archived while sources disagree.
    held: Option<String>,
}

impl OfArchive {
    async fn read(settings: &Settings, chain: &ChainSettings) -> Result<Self> {
        let place = settings.place(chain);
        let archive = open_reader(chain, &place).await?;
        Ok(Self {
            report: archive.health(),
            covered: archive.kept(chain.datasets, &chain.scope),
            held: agreement::noted(place.notes()),
        })
    }

    fn json(&self, chain: &ChainSettings) -> Value {
        let mut shown = as_json(chain, &self.report, &self.covered);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("held".to_owned(), json!(self.held));
        }
        shown
    }
}

/// What the node that runs reports of a chain. Nothing where none runs.
struct OfNode<'a> {
    error: Option<&'a str>,
    dropped_rules: &'a [Value],
    endpoints: &'a [Value],
}

impl<'a> OfNode<'a> {
    fn new(status: Option<&'a Value>) -> Self {
        let list = |name: &str| {
            let list = status.and_then(|status| status.get(name)?.as_array());
            list.map_or(&[][..], Vec::as_slice)
        };
        Self {
            error: status.and_then(|status| status.get("error")?.as_str()),
            dropped_rules: list("droppedRules"),
            endpoints: list("endpoints"),
        }
    }

    fn print(&self) {
        if let Some(error) = self.error {
            println!("  error     {error}");
        }
        self.endpoints.iter().enumerate().for_each(print_endpoint);
        self.dropped_rules.iter().for_each(print_dropped);
    }
}

/// One chain of `--json`.
fn with_node(mut shown: Value, chain: &ChainSettings, node: &OfNode<'_>) -> Value {
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("error".to_owned(), json!(node.error));
        // Its name before, for one release.
        shown.insert("trouble".to_owned(), json!(node.error));
        shown.insert("droppedRules".to_owned(), json!(node.dropped_rules));
        shown.insert("endpoints".to_owned(), json!(node.endpoints));
        shown.insert("trusts".to_owned(), json!(trusts(chain)));
    }
    shown
}

fn print_trust(chain: &ChainSettings, held: Option<&str>) {
    if let Some(held) = held {
        println!("  HELD      {held}");
    }
    if let Some(trusts) = trusts(chain) {
        println!("  trusts    {trusts}");
    }
}

/// What the node that runs on this data directory reports of its chains, by their ids. Nothing where none runs
/// or answers in time: the archive's own state is printed in any case.
async fn running(settings: &Settings) -> BTreeMap<u64, Value> {
    let state = async {
        let node = RunningNode::find(settings).await.ok()??;
        node.get("state").await.ok()
    };
    let state = tokio::time::timeout(ANSWER_WITHIN, state).await;
    let Ok(Some(Value::Object(mut state))) = state else {
        return BTreeMap::new();
    };
    let Some(Value::Array(chains)) = state.remove("chains") else {
        return BTreeMap::new();
    };
    let by_id = |chain: Value| {
        let ChainId(id) = ChainId::deserialize(chain.get("chain")?).ok()?;
        Some((id, chain))
    };
    chains.into_iter().filter_map(by_id).collect()
}

/// An endpoint, under the number that the public API has for it.
fn print_endpoint((at, endpoint): (usize, &Value)) {
    let text = |field: &str| endpoint.get(field).and_then(Value::as_str);
    let count = |field: &str| endpoint.get(field).and_then(Value::as_u64).unwrap_or(0);
    let name = text("name").unwrap_or("?");
    let (requests, failures) = (count("requests"), count("failures"));
    let last = text("lastError").map_or(String::new(), |error| format!(", last: {error}"));
    println!(
        "  endpoint  {} is {name}: {failures} of {requests} requests failed{last}",
        at + 1
    );
}

/// A rule that the node holds no block to any more.
fn print_dropped(dropped: &Value) {
    let text = |field: &str| dropped.get(field).and_then(Value::as_str).unwrap_or("?");
    let block = dropped.get("block").and_then(Value::as_u64);
    let block = block.map_or("?".to_owned(), |block| block.to_string());
    println!(
        "  DROPPED   rule {}: block {block} fails it on every endpoint ({}); blocks that fail it get a lower level until the next start",
        text("rule"),
        text("what")
    );
}

/// The chain that was requested, or all of them.
pub(super) fn chosen<'a>(
    settings: &'a Settings,
    wanted: &Wanted,
) -> Result<Vec<&'a ChainSettings>> {
    Ok(match &wanted.chain {
        Some(name) => vec![settings.chain(Some(name))?],
        None => settings.chains.iter().collect(),
    })
}

fn as_json(chain: &ChainSettings, report: &HealthReport, covered: &Covered) -> Value {
    let halt = match &report.health {
        Health::Halted(halt) => Some(halt.reason.clone()),
        _ => None,
    };
    let covered = covered.iter().map(|(range, proof)| {
        let (from, to) = (range.start, range.end - 1);
        let level = proof.of_all(chain.datasets).as_str();
        let levels = levels_json(chain, *proof);
        json!({ "from": from, "to": to, "level": level, "levels": levels })
    });
    let head = report.head.map(|head| {
        let hash = head.hash.to_string();
        json!({ "number": head.number, "hash": hash })
    });
    json!({
        "chain": chain.name,
        "chainId": ChainId(chain.chain_id),
        "head": head,
        "headTimestamp": report.head_timestamp,
        "halted": halt,
        "logs": report.logs,
        "storedBytes": report.stored_bytes,
        "segments": report.segments.0,
        "covered": covered.collect::<Vec<_>>(),
        "audit": audit_json(&report.audit),
        "datasets": names(chain.datasets),
        "allowed": levels_json(chain, allowed(chain)),
    })
}

fn print(chain: &ChainSettings, archive: &OfArchive) {
    let OfArchive {
        report, covered, ..
    } = archive;
    println!("{} ({})", chain.name, chain.chain_id);
    match report.head {
        Some(head) => println!("  head      {} {}", head.number, head.hash),
        None => println!("  head      none yet"),
    }
    let health = match &report.health {
        Health::Good => "good".to_owned(),
        Health::Empty => "empty".to_owned(),
        Health::Throttled(why) => format!("throttled: {why}"),
        Health::Halted(halt) => {
            let reason = &halt.reason;
            format!("HALTED: {reason}; end it with `chronolith resume` or `chronolith rewind`")
        }
    };
    println!("  health    {health}");
    println!("  keeps     {}", names(chain.datasets).join(", "));
    for (range, proof) in covered {
        let (from, to) = (range.start, range.end - 1);
        let less = match downgraded(chain, *proof) {
            less if less.is_empty() => String::new(),
            less => format!(", downgraded: the chain allows {}", less.join(", ")),
        };
        let levels = levels(chain, *proof);
        println!("  covered   {from} to {to}, {levels}{less}");
    }
    let (logs, segments) = (report.logs, report.segments.0);
    let mib = report.stored_bytes as f64 / f64::from(1 << 20);
    println!("  stored    {logs} logs in {segments} segments, {mib:.1} MiB");
    for entry in report.audit.iter().rev().take(AUDIT_SHOWN) {
        let at = utc(entry.at).unwrap_or_else(|| entry.at.to_string());
        println!("  acts      {at} {}", entry.act);
    }
    if let Some(more) = report.audit.len().checked_sub(AUDIT_SHOWN + 1) {
        println!("  acts      … and {} more; --json shows all", more + 1);
    }
}

fn names(datasets: DatasetSet) -> Vec<&'static str> {
    datasets.iter().map(|dataset| dataset.name()).collect()
}

/// Whose word the chain is, where it is one alone: nothing can be compared.
fn trusts(chain: &ChainSettings) -> Option<&'static str> {
    match (chain.endpoints.len(), &chain.portal) {
        _ if chain.stellar.is_some() => None,
        (0, Some(_)) => Some("one Portal's word"),
        (1, _) => Some("one endpoint's word"),
        _ => None,
    }
}

/// Datasets that are proven less far than the chain and the settings allow, with what they allow.
fn downgraded(chain: &ChainSettings, proof: Proof) -> Vec<String> {
    let allowed = allowed(chain);
    let less = chain
        .datasets
        .iter()
        .filter(|one| proof.of(*one) < allowed.of(*one));
    less.map(|one| format!("{} {}", one.name(), allowed.of(one)))
        .collect()
}

/// How far the chain and the settings allow to prove blocks. Logs of a narrow scope are requested one by one.
fn allowed(chain: &ChainSettings) -> Proof {
    let checks = chain.checks;
    let whole = chain.datasets.contains(Dataset::Logs) && chain.scope == Scope::All;
    let portal_alone = chain.endpoints.is_empty();
    if chain.stellar.is_some() || portal_alone || !checks.header_hash {
        return Proof::CLAIMED;
    }
    let logs = match (whole && checks.bloom, checks.receipts_root) {
        (false, _) => Verification::Linked,
        (true, true) if chain.strategy == Strategy::Receipts => Verification::Receipts,
        (true, _) => Verification::Bloom,
    };
    let kept = |dataset| chain.datasets.contains(dataset);
    let hashes = kept(Dataset::TxHashes) || kept(Dataset::Transactions);
    if hashes && checks.transactions_root {
        Proof::of_logs(logs).with_transactions()
    } else {
        Proof::of_logs(logs)
    }
}

/// The level of each dataset by its name.
pub(super) fn levels_json(chain: &ChainSettings, proof: Proof) -> Value {
    let levels = chain.datasets.iter();
    let levels = levels.map(|one| (one.name().to_owned(), proof.of(one).as_str().into()));
    Value::Object(levels.collect())
}

/// The level of each dataset, or the one that all have. Headers are listed only where nothing else is
/// kept: their level is never above `linked`.
pub(super) fn levels(chain: &ChainSettings, proof: Proof) -> String {
    let header = |one: &Dataset| matches!(one, Dataset::Clock | Dataset::Headers);
    let kept: Vec<Dataset> = chain.datasets.iter().filter(|one| !header(one)).collect();
    let Some(first) = kept.first() else {
        return format!("level {}", proof.of(Dataset::Clock));
    };
    if kept.iter().all(|one| proof.of(*one) == proof.of(*first)) {
        return format!("level {}", proof.of(*first));
    }
    let each = |one: &Dataset| format!("{} {}", one.name(), proof.of(*one));
    kept.iter().map(each).collect::<Vec<_>>().join(", ")
}
