//! What to request from a stream: no more than the wanted datasets need.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::hex;
use bytes::Bytes;
use chronolith_model::{BlockRange, Dataset, Hash32, Proof, Scope, ScopeEntry, Verification};

use crate::error::{Error, Result};
use crate::evm::Checks;
use crate::source::Want;

/// What Portal takes in one request.
const FILTERS_MAX: usize = 100;
const REQUEST_BYTES_MAX: usize = 256 << 10;

const BLOCK_FIELDS: &str = r#""number":true,"hash":true,"parentHash":true,"timestamp":true"#;
const LOG_FIELDS: &str = r#""address":true,"topics":true,"data":true,"logIndex":true,"transactionIndex":true,"transactionHash":true"#;
const TX_FIELDS: &str = r#""hash":true,"transactionIndex":true"#;

/// A request without its range.
#[derive(Debug)]
pub(crate) struct Query {
    /// Fields and filters as JSON, from the comma on.
    what: String,
    /// How far its blocks will be proven.
    pub(crate) level: Verification,
}

impl Query {
    /// Only number, hash, parent and time.
    pub(crate) fn blocks_only() -> Self {
        Self {
            what: format!(r#","fields":{{"block":{{{BLOCK_FIELDS}}}}}"#),
            level: Verification::Linked,
        }
    }

    /// What is wanted.
    ///
    /// # Errors
    /// `Invalid` for datasets that a line does not hold, a scope that does not fit into a request,
    /// and a level that cannot be reached.
    pub(crate) fn new(want: &Want, checks: Checks) -> Result<Self> {
        let unserved = [Dataset::Headers, Dataset::Transactions, Dataset::Payload];
        if let Some(dataset) = unserved
            .into_iter()
            .find(|one| want.datasets.contains(*one))
        {
            let name = dataset.name();
            return Err(Error::Invalid(format!(
                "Portal does not serve the dataset {name}: use rpcHttp for it"
            )));
        }
        let logs = want.datasets.contains(Dataset::Logs);
        // Only all logs together can be held against the bloom.
        let bloom = logs && want.scope == Scope::All && checks.bloom;
        let level = if bloom {
            Verification::Bloom
        } else {
            Verification::Linked
        };
        if !Proof::CLAIMED.covers(want.proof) {
            return Err(Error::Invalid(format!(
                "a Portal's blocks are its own word: add rpcHttp so that headers can be hashed, or set verification to claimed (level=claimed, wanted={})",
                want.proof.logs()
            )));
        }
        let mut fields = format!(r#""block":{{{BLOCK_FIELDS}"#);
        fields.push_str(if bloom { r#","logsBloom":true}"# } else { "}" });
        let mut items = String::new();
        let filters = if logs {
            filters(&want.scope)?
        } else {
            Vec::new()
        };
        if !filters.is_empty() {
            fields.push_str(&format!(r#","log":{{{LOG_FIELDS}}}"#));
            items.push_str(&format!(r#","logs":[{}]"#, filters.join(",")));
        }
        if want.datasets.contains(Dataset::TxHashes) {
            fields.push_str(&format!(r#","transaction":{{{TX_FIELDS}}}"#));
            items.push_str(r#","transactions":[{}]"#);
        }
        let what = format!(r#","fields":{{{fields}}}{items}"#);
        if what.len() + 512 > REQUEST_BYTES_MAX {
            return Err(too_wide());
        }
        Ok(Self { what, level })
    }

    /// The request for a range that is not empty, on top of this parent where it is known.
    pub(crate) fn body(&self, range: BlockRange, parent: Option<Hash32>) -> String {
        let (from, to) = (range.start, range.end.saturating_sub(1));
        let parent = parent.map(|hash| format!(r#","parentBlockHash":"{hash}""#));
        format!(
            r#"{{"type":"evm","fromBlock":{from},"toBlock":{to},"includeAllBlocks":true{}{}}}"#,
            parent.unwrap_or_default(),
            self.what
        )
    }
}

/// The logs of a scope. Emitters that want the same topics share a filter.
fn filters(scope: &Scope) -> Result<Vec<String>> {
    let Scope::Only(entries) = scope else {
        return Ok(vec!["{}".to_owned()]);
    };
    let mut by_emitter: BTreeMap<Option<&Bytes>, Topics<'_>> = BTreeMap::new();
    for entry in entries {
        check(entry)?;
        let topics = by_emitter.entry(entry.emitter.as_ref()).or_default();
        topics.insert(entry.topic0.as_ref());
    }
    let mut by_topics: BTreeMap<Topics<'_>, Vec<Option<&Bytes>>> = BTreeMap::new();
    for (emitter, mut topics) in by_emitter {
        if topics.contains(&None) {
            topics = Topics::from([None]);
        }
        by_topics.entry(topics).or_default().push(emitter);
    }
    let mut filters = Vec::new();
    for (topics, emitters) in by_topics {
        let topics = list("topic0", topics.into_iter());
        // An open emitter in a list would leave the others nothing to say: a filter of its own.
        let (open, named): (Vec<_>, Vec<_>) = emitters.into_iter().partition(Option::is_none);
        for emitters in [open, named] {
            if !emitters.is_empty() {
                let parts = [list("address", emitters.into_iter()), topics.clone()];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                filters.push(format!("{{{}}}", parts.join(",")));
            }
        }
    }
    if filters.len() > FILTERS_MAX {
        return Err(too_wide());
    }
    Ok(filters)
}

type Topics<'a> = BTreeSet<Option<&'a Bytes>>;

fn check(entry: &ScopeEntry) -> Result<()> {
    let fits = |part: &Option<Bytes>, len| part.as_ref().is_none_or(|part| part.len() == len);
    if fits(&entry.emitter, 20) && fits(&entry.topic0, 32) {
        return Ok(());
    }
    Err(Error::Invalid(
        "a scope of an EVM chain has emitters of 20 bytes and topics of 32".to_owned(),
    ))
}

/// A clause of a filter; none where any value will do.
fn list<'a>(name: &str, values: impl Iterator<Item = Option<&'a Bytes>>) -> Option<String> {
    let text = |value: Option<&Bytes>| Some(format!(r#""{}""#, hex::encode_prefixed(value?)));
    let values: Option<Vec<String>> = values.map(text).collect();
    Some(format!(r#""{name}":[{}]"#, values?.join(",")))
}

fn too_wide() -> Error {
    Error::Invalid("the scope does not fit into a request to Portal: use rpcHttp for it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_model::DatasetSet;
    use serde_json::{Value, json};

    fn want(datasets: &[Dataset], scope: Scope) -> Want {
        Want {
            datasets: DatasetSet::of(datasets),
            scope,
            proof: Proof::CLAIMED,
        }
    }

    fn request(want: &Want) -> Value {
        let query = Query::new(want, Checks::NONE).unwrap();
        serde_json::from_str(&query.body(BlockRange::new(5, 9), Some(Hash32::ZERO))).unwrap()
    }

    fn entry(emitter: Option<u8>, topic0: Option<u8>) -> ScopeEntry {
        ScopeEntry {
            emitter: emitter.map(|byte| vec![byte; 20].into()),
            topic0: topic0.map(|byte| vec![byte; 32].into()),
        }
    }

    #[test]
    fn no_more_is_requested_than_is_wanted() {
        let bare = request(&want(&[], Scope::All));
        let block = json!({"number": true, "hash": true, "parentHash": true, "timestamp": true});
        let expected = json!({
            "type": "evm", "fromBlock": 5, "toBlock": 8, "includeAllBlocks": true,
            "parentBlockHash": Hash32::ZERO.to_string(), "fields": {"block": block},
        });
        assert_eq!(bare, expected);
        let body = Query::blocks_only().body(BlockRange::one(7), None);
        let mut one = expected;
        one.as_object_mut().unwrap().remove("parentBlockHash");
        (one["fromBlock"], one["toBlock"]) = (7.into(), 7.into());
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), one);
        let txs = request(&want(&[Dataset::TxHashes], Scope::All));
        assert_eq!(txs["transactions"], json!([{}]));
        assert!(txs.get("logs").is_none() && txs["fields"].get("log").is_none());
        let logs = request(&want(&[Dataset::Logs], Scope::All));
        assert_eq!(logs["logs"], json!([{}]));
        assert!(logs["fields"].get("transaction").is_none());
        let query = Query::new(&want(&[Dataset::Logs], Scope::All), Checks::ALL).unwrap();
        assert!(query.body(BlockRange::one(7), None).contains("logsBloom"));
        assert_eq!(query.level, Verification::Bloom);
    }

    #[test]
    fn a_scope_becomes_few_filters() {
        let text = |byte: u8, len| hex::encode_prefixed(vec![byte; len]);
        let (a, b) = (text(1, 20), text(2, 20));
        let (t, u) = (text(3, 32), text(4, 32));
        for (entries, expected) in [
            (vec![], Value::Null),
            (vec![entry(None, None)], json!([{}])),
            (
                vec![
                    entry(Some(1), None),
                    entry(Some(2), None),
                    entry(Some(2), Some(3)),
                ],
                json!([{"address": [a, b]}]),
            ),
            (
                vec![entry(None, Some(3)), entry(None, Some(4))],
                json!([{"topic0": [t, u]}]),
            ),
            (
                vec![
                    entry(Some(1), Some(3)),
                    entry(Some(1), Some(4)),
                    entry(Some(2), Some(3)),
                ],
                json!([{"address": [b], "topic0": [t]}, {"address": [a], "topic0": [t, u]}]),
            ),
            (
                vec![entry(Some(1), Some(3)), entry(None, Some(3))],
                json!([{"topic0": [t]}, {"address": [a], "topic0": [t]}]),
            ),
        ] {
            let body = request(&want(&[Dataset::Logs], Scope::only(entries.clone())));
            assert_eq!(
                body.get("logs").cloned().unwrap_or_default(),
                expected,
                "{entries:?}"
            );
        }
    }

    #[test]
    fn what_portal_cannot_do_is_refused() {
        let many = |byte: u8| entry(Some(byte), Some(byte));
        let odd = ScopeEntry {
            emitter: Some(Bytes::from_static(b"short")),
            topic0: None,
        };
        let proven = Want {
            proof: Proof::of_logs(Verification::Receipts),
            ..want(&[Dataset::Logs], Scope::All)
        };
        for (want, text) in [
            (want(&[Dataset::Headers], Scope::All), "rpcHttp"),
            (want(&[Dataset::Transactions], Scope::All), "rpcHttp"),
            (want(&[Dataset::Payload], Scope::All), "rpcHttp"),
            (
                want(&[Dataset::Logs], Scope::only((0..=100).map(many).collect())),
                "does not fit",
            ),
            (want(&[Dataset::Logs], Scope::only(vec![odd])), "20 bytes"),
            (proven, "its own word"),
        ] {
            let error = Query::new(&want, Checks::ALL).unwrap_err();
            assert!(
                matches!(&error, Error::Invalid(what) if what.contains(text)),
                "{error}"
            );
        }
        let narrow = Want {
            proof: Proof::of_logs(Verification::Bloom),
            ..want(&[Dataset::Logs], Scope::only(vec![many(1)]))
        };
        assert!(Query::new(&narrow, Checks::ALL).is_err());
    }
}
