//! `chronolith_*` methods: coverage, and blocks by time. And `eth_syncing` and `eth_capabilities`, by
//! which routers choose a node.

use std::collections::BTreeMap;

use chronolith_archive::Pinned;
use chronolith_model::{Dataset, DatasetSet, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reply::Answer;
use super::wire::{Object, Params};
use crate::error::{ApiError, ErrorCode};
use crate::names::{BlockJson, Interval, dataset_names, scope_text};
use crate::rest::times::FoundBlock;
use crate::times::{Direction, TimeLookupError, parse_time};
use crate::view::View;

/// `false`, or the progress of a node that has not caught up.
pub(super) fn syncing(view: &View<'_>) -> Answer {
    let head = view.head().map_or(0, |head| head.number);
    match view.chain.live.source_head() {
        Some(source) if source > head.saturating_add(1) => Answer::json(&json!({
            "startingBlock": format!("0x{:x}", view.first().unwrap_or(0)),
            "currentBlock": format!("0x{head:x}"),
            "highestBlock": format!("0x{source:x}"),
        })),
        _ => Answer::Json(b"false".to_vec()),
    }
}

pub(super) fn capabilities(view: &View<'_>) -> Result<Answer, ApiError> {
    let head = view.known_head()?;
    let capability = |datasets: &[Dataset]| {
        let datasets = DatasetSet::of(datasets);
        if !view.chain.datasets.covers(datasets) {
            return json!({ "disabled": true });
        }
        match oldest(view, datasets) {
            Some(oldest) => json!({ "disabled": false, "oldestBlock": format!("0x{oldest:x}") }),
            None => json!({ "disabled": true }),
        }
    };
    let disabled = json!({ "disabled": true });
    Ok(Answer::json(&json!({
        "head": { "number": format!("0x{:x}", head.number), "hash": head.hash.to_string() },
        "state": disabled,
        "stateproofs": disabled,
        "receipts": disabled,
        "tx": capability(&[Dataset::TxHashes, Dataset::Transactions]),
        "logs": capability(&[Dataset::Logs]),
        "blocks": capability(&[Dataset::Headers, Dataset::TxHashes]),
    })))
}

/// The block from which on everything through the head is indexed; none where the newest is not.
fn oldest(view: &View<'_>, datasets: DatasetSet) -> Option<u64> {
    if datasets.contains(Dataset::Logs) && view.chain.scope != Scope::All {
        return None;
    }
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive: &Pinned| archive.coverage(datasets, None));
    let (start, mut oldest, mut reached) = (view.tail_start(), None, 0);
    for (range, _) in covered {
        if oldest.is_none() || range.start > reached {
            oldest = Some(range.start);
        }
        reached = range.end.max(reached);
    }
    let tail = Some(start).filter(|_| !view.tail_range().is_empty());
    oldest.filter(|_| reached >= start).or(tail)
}

/// The covered intervals of each dataset, with their verification levels: of logs those of the chain's scope, and
/// where no hashes of all transactions are kept, of transactions those that these logs name.
pub(super) fn coverage(view: &View<'_>) -> Result<Answer, ApiError> {
    let (datasets, scope) = (view.chain.datasets, &view.chain.scope);
    let of = |dataset: Dataset| -> Vec<Interval> {
        let wanted = DatasetSet::of(&[dataset]);
        let by_scope = match dataset {
            Dataset::Logs => true,
            Dataset::Transactions => datasets.bodies_by_logs(),
            _ => false,
        };
        let archive = view.archive.iter();
        let coverage = archive.flat_map(|archive: &Pinned| match by_scope {
            true => archive.kept(wanted, scope),
            false => archive.coverage(wanted, None),
        });
        coverage
            .map(|(range, proof)| Interval::new(range, proof.of(dataset)))
            .collect()
    };
    let by_dataset: BTreeMap<&str, Vec<Interval>> = view
        .chain
        .datasets
        .iter()
        .map(|dataset| (dataset.name(), of(dataset)))
        .collect();
    let tail = view.tail_range();
    let tail = view.tail.proof_of(tail).map(|proof| (tail, proof));
    Ok(Answer::json(&json!({
        "datasets": dataset_names(view.chain.datasets),
        "scope": scope_text(&view.chain.scope),
        "finalized": by_dataset,
        "tail": tail.map(|(range, proof)| Interval::new(range, proof.logs())),
        "head": view.head().map(BlockJson::from),
        "finalizedHead": view.finalized_head().map(BlockJson::from),
        "sourceHead": view.chain.live.source_head(),
    })))
}

/// How far the chain is indexed, for errors.
fn indexed(view: &View<'_>) -> Value {
    json!({
        "indexedUpTo": view.head().map(|head| head.number),
        "sourceHead": view.chain.live.source_head(),
    })
}

/// The parameters of `chronolith_blockByTime`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockByTimeParams {
    time: Value,
    direction: String,
    #[serde(default)]
    inclusive: bool,
}

pub(super) async fn block_by_time(
    view: &View<'_>,
    params: &Params<'_>,
) -> Result<Answer, ApiError> {
    let Object(request) = params.get::<Object<BlockByTimeParams>>(0)?;
    let direction = Direction::parse(&request.direction)
        .ok_or_else(|| ApiError::params("direction must be before, after or closest"))?;
    let time = match &request.time {
        Value::String(text) => parse_time(text),
        Value::Number(number) => parse_time(&number.to_string()),
        _ => None,
    };
    let time = time.ok_or_else(|| {
        ApiError::params("time must be seconds, milliseconds or an ISO 8601 date")
    })?;
    match view.at(time, direction, request.inclusive).await {
        Ok(found) => Ok(Answer::json(&json!(FoundBlock::new(view, &found)))),
        Err(TimeLookupError::NotFound) => Ok(Answer::null()),
        Err(TimeLookupError::NotIndexedYet) => {
            let message = "blocks of that time are not indexed yet: retry";
            Err(ApiError::new(ErrorCode::NotIndexedYet, message).with(indexed(view)))
        }
        Err(TimeLookupError::NotCovered(reason)) => {
            Err(ApiError::new(ErrorCode::NotCovered, reason).with(indexed(view)))
        }
        Err(TimeLookupError::Fault(fault)) => Err(fault.into()),
    }
}
