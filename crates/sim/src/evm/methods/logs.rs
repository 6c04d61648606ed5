//! `eth_getLogs`: all logs that match, or an error; never some of them.

use serde_json::Value;

use super::{Answer, log_faults, resolve};
use crate::evm::block::EvmBlock;
use crate::evm::byzantine::altered;
use crate::evm::faults::RpcFault;
use crate::evm::filter::{Blocks, LogQuery};
use crate::evm::json::{LogFaults, LogPlace};
use crate::evm::node::State;
use crate::evm::refusals::{self, Refused, RpcError};
use crate::evm::server::Context;

/// The limit that an injected refusal names.
const NAMED_LIMIT: u64 = 10_000;

/// A block, and which of its logs are wanted.
struct Found {
    block: EvmBlock,
    logs: Vec<usize>,
}

pub(super) fn get_logs(context: &Context, state: &State, params: &[Value]) -> Answer {
    let query = LogQuery::parse(params)?;
    if context.options.no_block_hashes && matches!(query.blocks, Blocks::Hash(_)) {
        return Err(RpcError::params("invalid params: unknown field blockHash"));
    }
    let (from, to) = blocks(context, state, &query)?;
    check_range(context, from, to)?;
    let found = find(context, state, &query, (from, to))?;
    if !found.is_empty() && context.faults().hits(RpcFault::LogsBehind) {
        return match query.blocks {
            Blocks::Range(..) => Ok(b"[]".to_vec()),
            Blocks::Hash(_) => Err(unknown_block()),
        };
    }
    Ok(put(context, &found))
}

/// First and last block.
fn blocks(context: &Context, state: &State, query: &LogQuery) -> Result<(u64, u64), RpcError> {
    let head = state.head().number;
    // A tag is the same block at both ends, even if the head moves meanwhile.
    let end = |tag: &Value| match tag.as_str() {
        Some("latest") => Ok(head),
        Some("pending") => Err(RpcError::params("pending logs are not supported")),
        _ => resolve(state, context.faults(), tag),
    };
    match &query.blocks {
        Blocks::Hash(hash) => {
            let number = state.number_of(*hash).ok_or_else(unknown_block)?;
            Ok((number, number))
        }
        Blocks::Range(from, to) => {
            let (from, to) = (end(from)?, end(to)?);
            if to > head || from > head {
                return Err(RpcError::params(
                    "block range extends beyond current head block",
                ));
            }
            if from > to {
                return Err(RpcError::params("invalid block range params"));
            }
            Ok((from, to))
        }
    }
}

fn unknown_block() -> RpcError {
    RpcError::new(-32000, "unknown block")
}

fn check_range(context: &Context, from: u64, to: u64) -> Result<(), RpcError> {
    if let Some(limit) = context.options.max_block_range
        && to - from >= limit.max(1)
    {
        context.count(|stats| stats.refused_for_blocks += 1);
        return Err(refusals::too_many_blocks(&Refused {
            from,
            to,
            works_to: from + limit.max(1) - 1,
            limit,
        }));
    }
    // A single block is never refused: no client could get its logs.
    let faults = context.faults();
    if from < to && faults.hits(RpcFault::RangeError) {
        // One spelling after the other, so that all of them turn up.
        let which = faults.count(RpcFault::RangeError);
        let refused = Refused {
            from,
            to,
            works_to: from + (to - from) / 2,
            limit: NAMED_LIMIT,
        };
        return Err(refusals::spelling(which, &refused));
    }
    Ok(())
}

fn find(
    context: &Context,
    state: &State,
    query: &LogQuery,
    (from, to): (u64, u64),
) -> Result<Vec<Found>, RpcError> {
    let mut found = Vec::new();
    let mut count = 0_u64;
    for number in from..=to {
        let bloom = state.seal_at(number).and_then(|seal| seal.bloom.as_deref());
        if !bloom.is_some_and(|bloom| query.may_be_in(bloom)) {
            continue;
        }
        let Some(block) = state.block(number) else {
            continue;
        };
        let wanted = block.logs.iter().enumerate();
        let wanted = wanted.filter(|(_, log)| query.filter.matches(log));
        let logs: Vec<usize> = wanted.map(|(at, _)| at).collect();
        count += logs.len() as u64;
        if let Some(limit) = context.options.max_results
            && count > limit
            && from < to
        {
            context.count(|stats| stats.refused_for_results += 1);
            return Err(refusals::too_many_logs(&Refused {
                from,
                to,
                // The block that was too much is left out, unless it is the first.
                works_to: number.saturating_sub(1).max(from),
                limit,
            }));
        }
        if !logs.is_empty() {
            let block = altered(context.faults(), block);
            found.push(Found { block, logs });
        }
    }
    Ok(found)
}

fn put(context: &Context, found: &[Found]) -> Vec<u8> {
    let faults = context.faults();
    if found.is_empty() || faults.hits(RpcFault::EmptyLogs) {
        return b"[]".to_vec();
    }
    let total: usize = found.iter().map(|found| found.logs.len()).sum();
    // The faults are in one block only, which is harder to notice.
    let victim = total % found.len();
    let mut out = Vec::with_capacity(1_000 * total);
    out.push(b'[');
    for (at, Found { block, logs }) in found.iter().enumerate() {
        let logs = || logs.iter().filter_map(|&at| block.logs.get(at));
        let log_faults = match at == victim {
            true => log_faults(faults, logs()),
            false => LogFaults::default(),
        };
        let place = LogPlace::new(block, log_faults);
        let own = block.own_receipt();
        for log in logs().filter(|log| place.shows(log)) {
            let tx = block.txs.get(log.tx_index() as usize);
            if let Some(tx) = tx.or(own.as_ref()) {
                if out.len() > 1 {
                    out.push(b',');
                }
                place.put_log(&mut out, tx, log);
            }
        }
    }
    out.push(b']');
    out
}
