//! A request for a stream, parsed as strictly as Portal does it: an unknown field is refused.

use alloy_primitives::{Address, B256};
use chronolith_model::Log;
use serde::Deserialize;

/// Longest request.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Most filters of all kinds together.
const FILTERS_MAX: usize = 100;

/// What is asked of a stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Query {
    #[serde(rename = "type")]
    kind: String,
    pub(super) from_block: u64,
    #[serde(default)]
    pub(super) to_block: Option<u64>,
    #[serde(default)]
    pub(super) parent_block_hash: Option<B256>,
    #[serde(default)]
    pub(super) include_all_blocks: bool,
    #[serde(default)]
    pub(super) fields: Fields,
    #[serde(default)]
    pub(super) logs: Vec<LogFilter>,
    #[serde(default)]
    pub(super) transactions: Vec<TxFilter>,
}

/// Which fields the lines have.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fields {
    pub(super) block: BlockFields,
    pub(super) log: LogFields,
    pub(super) transaction: TxFields,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct BlockFields {
    pub(super) number: bool,
    pub(super) hash: bool,
    pub(super) parent_hash: bool,
    pub(super) timestamp: bool,
    pub(super) logs_bloom: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct LogFields {
    pub(super) address: bool,
    pub(super) topics: bool,
    pub(super) data: bool,
    pub(super) log_index: bool,
    pub(super) transaction_index: bool,
    pub(super) transaction_hash: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct TxFields {
    pub(super) hash: bool,
    pub(super) transaction_index: bool,
}

/// Which logs: lists are alternatives, fields must all hold, what is left out is anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogFilter {
    address: Option<Vec<Address>>,
    topic0: Option<Vec<B256>>,
    topic1: Option<Vec<B256>>,
    topic2: Option<Vec<B256>>,
    topic3: Option<Vec<B256>>,
}

/// All transactions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TxFilter {}

impl Query {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        if body.len() > REQUEST_BYTES_MAX {
            return Err(format!("query is larger than {REQUEST_BYTES_MAX} bytes"));
        }
        let query: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if query.kind != "evm" {
            return Err(format!("unknown query type (type={})", query.kind));
        }
        if query.to_block.is_some_and(|to| to < query.from_block) {
            return Err("toBlock is below fromBlock".to_owned());
        }
        if query.logs.len() + query.transactions.len() > FILTERS_MAX {
            return Err(format!("more than {FILTERS_MAX} item filters"));
        }
        Ok(query)
    }

    /// Whether only headers are requested, and none of what their content decides.
    pub(super) fn is_clock(&self) -> bool {
        self.logs.is_empty() && self.transactions.is_empty() && !self.fields.block.logs_bloom
    }

    /// Whether a log is wanted.
    pub(super) fn matches(&self, log: &Log) -> bool {
        self.logs.iter().any(|filter| filter.matches(log))
    }
}

impl LogFilter {
    fn matches(&self, log: &Log) -> bool {
        let emitter = |values: &Vec<Address>| {
            let equal = |value: &Address| value.as_slice() == log.emitter();
            values.iter().any(equal)
        };
        let topics = [&self.topic0, &self.topic1, &self.topic2, &self.topic3];
        let topic = |(at, values): (usize, &Option<Vec<B256>>)| {
            let equal = |value: &B256| Some(value.as_slice()) == log.topic(at);
            values
                .as_ref()
                .is_none_or(|values| values.iter().any(equal))
        };
        self.address.as_ref().is_none_or(emitter) && topics.into_iter().enumerate().all(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_portal_refuses_is_refused() {
        let check = |text: &str, fits: bool| {
            assert_eq!(Query::parse(text.as_bytes()).is_ok(), fits, "{text}");
        };
        check(r#"{"type":"evm","fromBlock":1}"#, true);
        check(
            r#"{"type":"evm","fromBlock":1,"logs":[{}],"transactions":[{}]}"#,
            true,
        );
        check(r#"{"type":"solana","fromBlock":1}"#, false);
        check(r#"{"type":"evm"}"#, false);
        check(r#"{"type":"evm","fromBlock":2,"toBlock":1}"#, false);
        check(r#"{"type":"evm","fromBlock":1,"extra":1}"#, false);
        check(
            r#"{"type":"evm","fromBlock":1,"fields":{"blocks":{}}}"#,
            false,
        );
        check(
            r#"{"type":"evm","fromBlock":1,"fields":{"block":{"hashes":true}}}"#,
            false,
        );
        check(
            r#"{"type":"evm","fromBlock":1,"logs":[{"topic4":[]}]}"#,
            false,
        );
        check(
            r#"{"type":"evm","fromBlock":1,"transactions":[{"type":[]}]}"#,
            false,
        );
        let many = vec!["{}"; 101].join(",");
        check(
            &format!(r#"{{"type":"evm","fromBlock":1,"logs":[{many}]}}"#),
            false,
        );
        let long = " ".repeat(REQUEST_BYTES_MAX);
        check(&format!(r#"{{"type":"evm","fromBlock":1{long}}}"#), false);
    }
}
