//! `chronolith logs` and `chronolith block-at`.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chronolith_archive::{Archive, LogPage, LogRecord, TimeSide};
use chronolith_model::{BlockRange, Clause, LogFilter};
use serde_json::json;

use super::state::level_name;
use crate::chain::open_reader;
use crate::cli::{BlockAtQuery, LogsQuery};
use crate::exit::Exit;
use crate::hex::{hex, parse_hex};
use crate::settings::Settings;

pub(crate) async fn logs(settings: &Settings, query: &LogsQuery) -> Result<Exit> {
    let chain = settings.chain(query.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let mut filter = LogFilter::over(range_of(&archive, query.from, query.to)?);
    let (address_bytes, topic_bytes) = match &chain.stellar {
        None => (Some(20), Some(32)),
        // A contract's id; topics are values of any length.
        Some(_) => (Some(32), None),
    };
    filter.emitters = clause(&query.address, address_bytes, "--address")?;
    let topics = [
        (&query.topic0, "--topic0"),
        (&query.topic1, "--topic1"),
        (&query.topic2, "--topic2"),
        (&query.topic3, "--topic3"),
    ];
    let given = topics.iter().rposition(|(values, _)| !values.is_empty());
    for (values, flag) in topics.iter().take(given.map_or(0, |last| last + 1)) {
        filter.topics.push(clause(values, topic_bytes, flag)?);
    }
    filter.limit = Some(query.limit);
    let began = Instant::now();
    let page = archive.query_finalized(&filter).await?;
    if query.wanted.json {
        let logs: Vec<_> = page.logs.iter().map(as_json).collect();
        let answer = json!({
            "logs": logs,
            "hasMore": page.has_more,
            "fromBlock": page.range.start,
            "toBlock": page.range.end - 1,
            "level": page.level.map(level_name),
        });
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        show(&page);
        println!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Exit::Done)
}

fn show(page: &LogPage) {
    println!("{:>10}  {:>5}  {:<42}  topic0", "block", "index", "address");
    for record in &page.logs {
        let topic0 = record.log.topic(0).map_or("-".to_owned(), hex);
        let (block, index) = (record.block.number, record.log.log_index());
        let address = hex(record.log.emitter());
        println!("{block:>10}  {index:>5}  {address:<42}  {topic0}");
    }
    let (from, to) = (page.range.start, page.range.end - 1);
    let more = if page.has_more { ", and more" } else { "" };
    print!("{} logs in blocks {from} to {to}{more}, ", page.logs.len());
}

pub(crate) async fn block_at(settings: &Settings, query: &BlockAtQuery) -> Result<Exit> {
    let chain = settings.chain(query.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let side = match query.after {
        true => TimeSide::AtOrAfter,
        false => TimeSide::AtOrBefore,
    };
    let Some(clock) = archive.block_at(query.time, side).await? else {
        bail!("there is no block before the first one");
    };
    let (number, timestamp) = (clock.number, clock.timestamp);
    let hash = clock.hash.to_string();
    if query.wanted.json {
        println!(
            "{}",
            json!({ "number": number, "hash": hash, "timestamp": timestamp })
        );
    } else {
        println!("block {number} at {timestamp} {hash}");
    }
    Ok(Exit::Done)
}

/// The blocks asked for, or all from the first archived one to the head: what is missing in between is
/// for the caller to find, not to be passed over.
pub(super) fn range_of(
    archive: &Archive,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<BlockRange> {
    let health = archive.health();
    let ends = health.covered.zip(health.head);
    let (covered, head) = ends.context("the archive is empty so far")?;
    let start = from.unwrap_or(covered.start);
    let end = to.unwrap_or(head.number).saturating_add(1);
    if start >= end {
        bail!("--from {start} lies behind --to {}", end.saturating_sub(1));
    }
    Ok(BlockRange::new(start, end))
}

fn clause(values: &[String], len: Option<usize>, flag: &str) -> Result<Clause> {
    if values.is_empty() {
        return Ok(Clause::Any);
    }
    let parse = |text: &String| {
        let fits = |bytes: &Bytes| len.is_none_or(|len| bytes.len() == len);
        parse_hex(text).filter(fits).with_context(|| match len {
            Some(len) => format!("{flag}: `{text}` is not 0x and {} digits", len * 2),
            None => format!("{flag}: `{text}` is not 0x and an even number of digits"),
        })
    };
    let values: Vec<Bytes> = values.iter().map(parse).collect::<Result<_>>()?;
    Ok(Clause::OneOf(values))
}

fn as_json(record: &LogRecord) -> serde_json::Value {
    let log = &record.log;
    json!({
        "address": hex(log.emitter()),
        "topics": log.topics().map(hex).collect::<Vec<_>>(),
        "data": hex(log.data()),
        "blockNumber": record.block.number,
        "blockHash": record.block.hash.to_string(),
        "blockTimestamp": record.timestamp,
        "transactionHash": record.tx_hash.to_string(),
        "transactionIndex": log.tx_index(),
        "logIndex": log.log_index(),
    })
}
