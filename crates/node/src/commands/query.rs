//! `chronolith logs` and `chronolith block-at`.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chronolith_archive::{Archive, LogPage, LogRecord, TimeSide};
use chronolith_follower::chain::open_reader;
use chronolith_model::{BlockRange, Clause, LogFilter, Verification};
use chronolith_serve::times::Timestamp;
use chronolith_stellar::EventPlace;
use const_hex::encode_prefixed;
use serde_json::json;
use stellar_strkey::Contract;

use super::output::print_json;
use crate::cli::{BlockAtQuery, LogsQuery};
use crate::exit::Exit;
use crate::hex::parse_hex;
use crate::settings::{ChainSettings, Settings};

/// Bytes of a contract's id on Stellar.
const CONTRACT_BYTES: usize = 32;

pub(crate) async fn logs(settings: &Settings, query: &LogsQuery) -> Result<Exit> {
    let chain = settings.chain(query.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let mut filter = LogFilter::over(range_of(&archive, query.from, query.to)?);
    // Topics of Stellar are values of any length.
    let topic_bytes = chain.stellar.is_none().then_some(32);
    filter.emitters = match &chain.stellar {
        None => clause(&query.address, "--address", |text| bytes_of(text, Some(20)))?,
        Some(_) => clause(&query.address, "--address", contract)?,
    };
    let address: Address = match &chain.stellar {
        None => |id: &[u8]| encode_prefixed(id),
        Some(_) => contract_text,
    };
    let topics = [
        (&query.topic0, "--topic0"),
        (&query.topic1, "--topic1"),
        (&query.topic2, "--topic2"),
        (&query.topic3, "--topic3"),
    ];
    let given = topics.iter().rposition(|(values, _)| !values.is_empty());
    for (values, flag) in topics.iter().take(given.map_or(0, |last| last + 1)) {
        let topic = |text: &str| bytes_of(text, topic_bytes);
        filter.topics.push(clause(values, flag, topic)?);
    }
    filter.limit = Some(query.limit);
    let began = Instant::now();
    let page = archive.query_finalized(&filter).await?;
    if query.wanted.json {
        let logs = page.logs.iter();
        let logs: Vec<_> = logs
            .map(|one| as_json(one, address, own_level(chain, one)))
            .collect();
        let answer = json!({
            "logs": logs,
            "hasMore": page.has_more,
            "fromBlock": page.range.start,
            "toBlock": page.range.end - 1,
            "level": page.level.map(|proof| proof.logs().as_str()),
        });
        print_json(&answer)?;
    } else {
        show(chain, &page, address);
        println!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Exit::Done)
}

/// How the emitter of a log is written.
type Address = fn(&[u8]) -> String;

/// How far a log is proven, where that is further than its block is: an event of Stellar that a hash covers.
fn own_level(chain: &ChainSettings, record: &LogRecord) -> Option<Verification> {
    let is_proven = chain.stellar.is_some() && EventPlace::is_proven(&record.log);
    is_proven.then_some(Verification::Roots)
}

fn show(chain: &ChainSettings, page: &LogPage, address: Address) {
    let level = page.level.map(|proof| proof.logs());
    println!(
        "{:>10}  {:>5}  {:<42}  {:<8}  topic0",
        "block", "index", "address", "level"
    );
    for record in &page.logs {
        let topic0 = record.log.topic(0).map_or("-".to_owned(), encode_prefixed);
        let (block, index) = (record.block.number, record.log.log_index());
        let address = address(record.log.emitter());
        let level = own_level(chain, record).or(level);
        let level = level.map_or("-", Verification::as_str);
        println!("{block:>10}  {index:>5}  {address:<42}  {level:<8}  {topic0}");
    }
    let (from, to) = (page.range.start, page.range.end - 1);
    let more = if page.has_more { ", and more" } else { "" };
    print!("{} logs in blocks {from} to {to}{more}, ", page.logs.len());
}

pub(crate) async fn block_at(settings: &Settings, query: &BlockAtQuery) -> Result<Exit> {
    let chain = settings.chain(query.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let Timestamp { seconds, nanos } = query.time;
    // Blocks have whole seconds: none is between two of them.
    let (side, time) = if query.after {
        (
            TimeSide::AtOrAfter,
            seconds.saturating_add(u64::from(nanos > 0)),
        )
    } else {
        (TimeSide::AtOrBefore, seconds)
    };
    let Some(clock) = archive.block_at(time, side).await? else {
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

/// The blocks requested, or all from the first archived one to the head: what is missing in between is
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
        bail!("--from {start} is after --to {}", end.saturating_sub(1));
    }
    Ok(BlockRange::new(start, end))
}

fn clause(values: &[String], flag: &str, parse: impl Fn(&str) -> Result<Bytes>) -> Result<Clause> {
    if values.is_empty() {
        return Ok(Clause::Any);
    }
    let parse = |text: &String| parse(text).with_context(|| flag.to_owned());
    let values: Vec<Bytes> = values.iter().map(parse).collect::<Result<_>>()?;
    Ok(Clause::OneOf(values))
}

fn bytes_of(text: &str, len: Option<usize>) -> Result<Bytes> {
    let fits = |bytes: &Bytes| len.is_none_or(|len| bytes.len() == len);
    parse_hex(text).filter(fits).with_context(|| match len {
        Some(len) => format!("`{text}` is not 0x and {} digits", len * 2),
        None => format!("`{text}` is not 0x and an even number of digits"),
    })
}

/// A contract of Stellar by its id.
fn contract(text: &str) -> Result<Bytes> {
    match Contract::from_string(text) {
        Ok(Contract(id)) => Ok(Bytes::copy_from_slice(&id)),
        Err(_) => bytes_of(text, Some(CONTRACT_BYTES))
            .with_context(|| format!("`{text}` is no contract's id (C…)")),
    }
}

/// Events of the network itself have no contract.
fn contract_text(id: &[u8]) -> String {
    match <[u8; CONTRACT_BYTES]>::try_from(id) {
        Ok(id) => format!("{}", Contract(id)),
        Err(_) => encode_prefixed(id),
    }
}

fn as_json(record: &LogRecord, address: Address, level: Option<Verification>) -> serde_json::Value {
    let log = &record.log;
    let mut shown = json!({
        "address": address(log.emitter()),
        "topics": log.topics().map(encode_prefixed).collect::<Vec<_>>(),
        "data": encode_prefixed(log.data()),
        "blockNumber": record.block.number,
        "blockHash": record.block.hash.to_string(),
        "blockTimestamp": record.timestamp,
        "transactionHash": record.tx_hash.to_string(),
        "transactionIndex": log.tx_index(),
        "logIndex": log.log_index(),
    });
    if let (Some(level), Some(fields)) = (level, shown.as_object_mut()) {
        fields.insert("level".to_owned(), level.as_str().into());
    }
    shown
}
