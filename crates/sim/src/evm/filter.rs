//! The parameter of `eth_getLogs`, parsed as strictly as nodes do it.

use alloy_primitives::{Bloom, BloomInput, hex};
use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, Hash32, LogFilter, TOPICS_MAX};
use serde_json::Value;

use super::refusals::RpcError;

/// At most this many addresses, and values at one topic position.
const VALUES_MAX: usize = 1_000;

/// Which logs are wanted.
#[derive(Debug)]
pub(super) struct LogQuery {
    pub(super) blocks: Blocks,
    pub(super) filter: LogFilter,
    /// For each clause that wants something: the bits of its values.
    blooms: Vec<Vec<Bloom>>,
}

/// Of which blocks; numbers and tags as they came.
#[derive(Debug)]
pub(super) enum Blocks {
    Range(Value, Value),
    Hash(Hash32),
}

impl LogQuery {
    pub(super) fn parse(params: &[Value]) -> Result<Self, RpcError> {
        let missing = || RpcError::params("missing value for required argument 0");
        let object = params.first().and_then(Value::as_object);
        let object = object.ok_or_else(missing)?;
        let get = |key: &str| object.get(key).filter(|value| !value.is_null());
        let tag = |key: &str| get(key).cloned().unwrap_or_else(|| "latest".into());
        let blocks = match get("blockHash") {
            Some(_) if get("fromBlock").or(get("toBlock")).is_some() => {
                return Err(RpcError::params(
                    "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, \
                     choose one or the other",
                ));
            }
            Some(hash) => Blocks::Hash(parse_hash(hash)?),
            None => Blocks::Range(tag("fromBlock"), tag("toBlock")),
        };
        let mut filter = LogFilter::over(BlockRange::new(0, 0));
        filter.emitters = match get("address") {
            Some(value) => parse_clause(value, 20)?,
            None => Clause::Any,
        };
        filter.topics = match get("topics") {
            Some(Value::Array(topics)) => parse_topics(topics)?,
            Some(_) => return Err(RpcError::params("invalid argument 0: topics are no list")),
            None => Vec::new(),
        };
        let clauses = filter.topics.iter().chain([&filter.emitters]);
        let blooms = clauses.filter_map(blooms_of).collect();
        Ok(Self {
            blocks,
            filter,
            blooms,
        })
    }

    /// Whether a block with this bloom can have wanted logs.
    pub(super) fn may_be_in(&self, bloom: &Bloom) -> bool {
        let has_one = |values: &Vec<Bloom>| values.iter().any(|value| bloom.contains(value));
        self.blooms.iter().all(has_one)
    }
}

/// A hash: exactly 32 bytes.
pub(super) fn parse_hash(value: &Value) -> Result<Hash32, RpcError> {
    let bytes = parse_bytes(value, 32)?;
    Hash32::from_slice(&bytes).ok_or_else(|| RpcError::params("invalid hash"))
}

/// A number: `0x` and digits.
pub(super) fn parse_quantity(text: &str) -> Result<u64, RpcError> {
    let no_prefix = || RpcError::params("invalid argument 0: hex string without 0x prefix");
    let digits = text.strip_prefix("0x").ok_or_else(no_prefix)?;
    u64::from_str_radix(digits, 16)
        .map_err(|_| RpcError::params(format!("invalid argument 0: no hex number ({text})")))
}

fn parse_topics(topics: &[Value]) -> Result<Vec<Clause>, RpcError> {
    if topics.len() > TOPICS_MAX {
        return Err(RpcError::params("exceed max topics"));
    }
    topics.iter().map(|topic| parse_clause(topic, 32)).collect()
}

/// One value, or several; null, an empty list and a list with null in it want anything.
fn parse_clause(value: &Value, len: usize) -> Result<Clause, RpcError> {
    let values = match value {
        Value::Null => return Ok(Clause::Any),
        Value::Array(values) if values.len() > VALUES_MAX => {
            return Err(RpcError::params("exceed max addresses or topics"));
        }
        Value::Array(values) if values.is_empty() || values.contains(&Value::Null) => {
            return Ok(Clause::Any);
        }
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    let parsed = values.iter().map(|value| parse_bytes(value, len));
    Ok(Clause::OneOf(parsed.collect::<Result<_, _>>()?))
}

fn parse_bytes(value: &Value, len: usize) -> Result<Bytes, RpcError> {
    let text = value.as_str().unwrap_or_default();
    let digits = text.strip_prefix("0x");
    let bytes = digits.and_then(|digits| hex::decode(digits).ok());
    let bytes = bytes.filter(|bytes| bytes.len() == len);
    bytes.map(Bytes::from).ok_or_else(|| {
        RpcError::params(format!(
            "invalid argument 0: no {len} bytes of hex ({value})"
        ))
    })
}

fn blooms_of(clause: &Clause) -> Option<Vec<Bloom>> {
    let Clause::OneOf(values) = clause else {
        return None;
    };
    let bloom = |value: &Bytes| Bloom::from(BloomInput::Raw(value));
    Some(values.iter().map(bloom).collect())
}
