//! `chronolith state --ranges` and `--keys`, and `chronolith range retry`.

use anyhow::{Error, Result, bail};
use chronolith_archive::{RangeReport, RangeState};
use chronolith_follower::chain::{open_for_operator, open_reader};
use chronolith_follower::ranges::{Ranges, settle};
use chronolith_follower::run_state::RunState;
use chronolith_serve::ChainId;
use chronolith_serve::admin::operation::{self, signed};
use chronolith_serve::ranges::{
    failed_phase_name, ledger_phase_name, range_json, txhash_phase_name,
};
use chronolith_serve::times::utc;
use serde_json::{Map, Value, json};

use super::output::{print_json, print_result};
use super::state::chosen;
use crate::cli::{RetryRange, Wanted};
use crate::control::queue::{audit, user};
use crate::control::server::send_to_running;
use crate::exit::Exit;
use crate::meta_store_view::keys;
use crate::settings::{ChainSettings, Settings};

/// How ranges are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Table,
    Keys,
}

pub(super) async fn show(settings: &Settings, wanted: &Wanted, shown: Shown) -> Result<Exit> {
    let mut all = Vec::new();
    let chains = chosen(settings, wanted)?;
    for chain in &chains {
        let place = settings.place(chain);
        let archive = open_reader(chain, &place).await?;
        let remembered = RunState::load(chain, place.notes())?;
        let ranges = Ranges::of(&archive, &remembered).await;
        match (shown, wanted.json) {
            (Shown::Table, false) => print(chain, &ranges),
            (Shown::Table, true) => all.push(as_json(chain, &ranges)),
            (Shown::Keys, false) => {
                if chains.len() > 1 {
                    println!("# {} ({})", chain.name, chain.chain_id);
                }
                for key in keys(&ranges, &place) {
                    println!("{key}");
                }
            }
            (Shown::Keys, true) => {
                let pairs = keys(&ranges, &place).into_iter();
                let pairs: Map<String, Value> = pairs.map(|key| (key.name, key.value)).collect();
                let id = ChainId(chain.chain_id);
                all.push(json!({ "chainId": id, "chain": chain.name, "keys": pairs }));
            }
        }
    }
    if wanted.json {
        print_json(&all)?;
    }
    Ok(Exit::Done)
}

fn as_json(chain: &ChainSettings, ranges: &Ranges) -> Value {
    json!({
        "chainId": ChainId(chain.chain_id),
        "chain": chain.name,
        "mode": ranges.mode,
        "backfill": ranges.bounds.map(|(from, to)| json!({ "from": from, "to": to })),
        "size": ranges.geometry.size,
        "ranges": ranges.all.iter().map(with_objects).collect::<Vec<_>>(),
    })
}

/// A range with the names of its objects.
fn with_objects(range: &RangeReport) -> Value {
    let mut answer = range_json(range);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("segments".to_owned(), json!(range.segments));
        answer.insert("packs".to_owned(), json!(range.packs));
        answer.insert("runs".to_owned(), json!(range.runs));
    }
    answer
}

fn print(chain: &ChainSettings, ranges: &Ranges) {
    let (name, id, size) = (&chain.name, chain.chain_id, ranges.geometry.size);
    println!(
        "{name} ({id}), mode {}, ranges of {size} blocks",
        ranges.mode
    );
    if let Some((from, to)) = ranges.bounds {
        println!("  last backfill: blocks {from} to {to}");
    }
    let head = [
        "id", "blocks", "state", "ledger", "txhash", "archived", "hashes", "begun", "complete",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(ranges.all.iter().map(row));
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    // The first row is the head of the table.
    let failures = ranges.all.iter().map(|range| range.failure.as_ref());
    let failures = std::iter::once(None).chain(failures);
    for (row, failure) in rows.iter().zip(failures) {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        if let (Some(failure), [id, ..]) = (failure, row) {
            let phase = failed_phase_name(failure.phase);
            println!(
                "      failed in {phase}: {} ({})",
                failure.cause, failure.object
            );
            println!(
                "      `chronolith repair --chain {name}` repairs what is damaged; then `chronolith range retry \
                 --chain {name} {id}`"
            );
        }
    }
}

fn row(range: &RangeReport) -> [String; 9] {
    let or = |message: Option<String>| message.unwrap_or_else(|| "–".to_owned());
    let all = range.last + 1 - range.first;
    let percent = range.blocks.saturating_mul(100) / all.max(1);
    [
        range.id.to_string(),
        format!("{}-{}", range.first, range.last),
        range.state.name().to_owned(),
        or(range.ledger.map(ledger_phase_name).map(str::to_owned)),
        or(range.txhash.map(txhash_phase_name).map(str::to_owned)),
        format!("{} ({percent}%)", range.blocks),
        or(range.keys.map(|keys| keys.total().to_string())),
        or(range.created_at.and_then(utc)),
        or(range.completed_at.and_then(utc)),
    ]
}

/// Lets the transition of a range that failed run again.
pub(crate) async fn retry_range(settings: &Settings, args: &RetryRange) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let (id, name) = (args.id, &chain.name);
    let body = operation::RetryRange {
        chain: chain.chain_id.to_string(),
        id,
        reason: args.reason.clone(),
        by: user(),
    };
    let reason = signed(&args.reason, user().as_deref()).map_err(Error::msg)?;
    if let Some(answer) = send_to_running(settings, "range-retry", &body).await? {
        let line = format!("{name}: range {id} is tried again by the node that runs");
        return print_result(&args.wanted, &answer, &line);
    }
    let place = settings.place(chain);
    let (archive, _lock) = open_for_operator(chain, &place).await?;
    let remembered = RunState::load(chain, place.notes())?;
    let tried = async {
        let ranges = Ranges::of(&archive, &remembered).await;
        if let Some(why) = ranges.not_failed(name, id) {
            bail!(why);
        }
        archive
            .retry_range(id, audit("range retry", &reason))
            .await?;
        Ok(settle(&archive).await?)
    };
    let tried = tried.await;
    let ranges = Ranges::of(&archive, &remembered).await;
    archive.release().await?;
    tried?;
    let range = ranges.all.iter().find(|range| range.id == id);
    let state = range.map_or(RangeState::Pending, |range| range.state);
    let answer = json!({ "chainId": ChainId(chain.chain_id), "id": id, "state": state.name() });
    let line = format!("{name}: range {id} is {}", state.name());
    match state {
        RangeState::Failed => {
            let cause = range.and_then(|range| range.failure.as_ref());
            let cause = cause.map_or("", |failure| failure.cause.as_str());
            bail!("{line} again: {cause}")
        }
        _ => print_result(&args.wanted, &answer, &line),
    }
}

#[cfg(test)]
mod tests {
    use chronolith_archive::{Geometry, LedgerPhase, TxHashPhase};

    use super::*;

    #[test]
    fn the_table_has_the_phases_of_a_transition() {
        const GEOMETRY: Geometry = Geometry { first: 2, size: 40 };
        for (ledger, txhash, expected) in [
            (
                LedgerPhase::Merging,
                TxHashPhase::Compacting,
                ["WRITING_LFS", "COMPACTING"],
            ),
            (
                LedgerPhase::Merging,
                TxHashPhase::VerifyingIndex,
                ["WRITING_LFS", "VERIFYING_RECSPLIT"],
            ),
            (
                LedgerPhase::Immutable,
                TxHashPhase::VerifyingIndex,
                ["IMMUTABLE", "VERIFYING_RECSPLIT"],
            ),
        ] {
            let cells = row(&RangeReport {
                state: RangeState::Transitioning,
                ledger: Some(ledger),
                txhash: Some(txhash),
                ..RangeReport::pending(GEOMETRY, 3)
            });
            assert_eq!(cells[1..3], ["122-161", "TRANSITIONING"]);
            assert_eq!(cells[3..5], expected);
        }
    }
}
