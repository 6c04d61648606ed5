//! How one endpoint does, whatever it is: a JSON-RPC node, a Portal, a lake or a core.
//!
//! When an endpoint is passed over is not decided here: it is healthy, backing off after a failure, or
//! suspended for longer, by rules of its own kind.

use std::sync::Arc;
use std::time::Duration;

use chronolith_model::BlockMeta;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::failure::FailureClass;
use crate::jsonrpc::secrets::Secrets;
use crate::meters::{Meters, Outcome};
use crate::source::EndpointBlock;

/// Longest text of an endpoint that is kept, reported and logged.
const TEXT_BYTES_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub struct EndpointReport {
    /// Its host, without what may be a key: for operators.
    pub name: String,
    pub requests: u64,
    pub failures: u64,
    /// How often it contradicted itself or the others.
    pub inconsistencies: u64,
    /// Whether it is passed over for now: it is backing off or suspended.
    pub backing_off: bool,
    /// The last failure, for operators: it may have words of the provider.
    pub last_error: Option<String>,
    /// What everybody may read of it.
    pub last_failure: Option<FailureClass>,
}

/// The health of one endpoint, and its metrics.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) name: Arc<str>,
    pub(crate) meters: Meters,
    hidden: Secrets,
    counts: Mutex<Counts>,
}

#[derive(Default, Debug)]
struct Counts {
    requests: u64,
    failures: u64,
    inconsistencies: u64,
    has_failed_last: bool,
    last_error: Option<String>,
    last_failure: Option<FailureClass>,
}

impl Health {
    pub(crate) fn new(name: &str, chain_id: u64) -> Self {
        Self {
            name: name.into(),
            meters: Meters::new(chain_id, name),
            hidden: Secrets::default(),
            counts: Mutex::default(),
        }
    }

    /// No text that is kept, reported or logged has these.
    pub(crate) fn hiding(self, secrets: Secrets) -> Self {
        Self {
            hidden: secrets,
            ..self
        }
    }

    /// A text without what may be a key.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.hidden.hide(text)
    }

    pub(crate) fn requested(&self) {
        self.counts.lock().requests += 1;
    }

    /// Counts the bytes of an answer.
    pub(crate) fn received(&self, bytes: usize) {
        self.meters.received_bytes.increment(bytes as u64);
    }

    pub(crate) fn failed(&self, error: &Error) {
        let mut counts = self.counts.lock();
        counts.failures += 1;
        counts.last_error = Some(cut(self.hide(&error.to_string())));
        counts.last_failure = Some(error.class());
    }

    /// Counts a contradiction with itself or with others, and warns of it.
    pub(crate) fn report_bad(&self, what: &str) {
        let what = cut(self.hide(what));
        tracing::warn!(event = "endpoint_inconsistent", endpoint = %self.name, %what, "endpoint contradicts itself or others");
        let mut counts = self.counts.lock();
        counts.inconsistencies += 1;
        counts.last_error = Some(what);
        counts.last_failure = Some(FailureClass::WrongAnswer);
    }

    /// Counts a request to a lake or a core. What is not there yet is an answer.
    pub(crate) fn note<T>(&self, method: &str, took: Duration, result: &Result<T>) {
        let error = result.as_ref().err();
        let error = error.filter(|error| !matches!(error, Error::Missing { .. }));
        self.meters
            .called(method, Outcome::of(&error.map_or(Ok(()), Err)), 1);
        self.meters.took(method, took);
        self.requested();
        if let Some(error) = error {
            self.failed(error);
        }
        let mut counts = self.counts.lock();
        counts.has_failed_last = error.is_some();
        counts.inconsistencies += u64::from(matches!(error, Some(Error::Inconsistent { .. })));
    }

    /// Whether the last request that was noted failed.
    pub(crate) fn has_failed_last(&self) -> bool {
        self.counts.lock().has_failed_last
    }

    pub(crate) fn report(&self, backing_off: bool) -> EndpointReport {
        let counts = self.counts.lock();
        EndpointReport {
            name: self.name.to_string(),
            requests: counts.requests,
            failures: counts.failures,
            inconsistencies: counts.inconsistencies,
            backing_off,
            last_error: counts.last_error.clone(),
            last_failure: counts.last_failure,
        }
    }

    /// The block of the only endpoint of a source; empty where it does not answer or has none.
    pub(crate) fn block_at(&self, meta: Result<Option<BlockMeta>>) -> Vec<EndpointBlock> {
        let block = |meta: BlockMeta| EndpointBlock {
            endpoint: self.name.clone(),
            block: meta.block_ref(),
        };
        meta.ok().flatten().map(block).into_iter().collect()
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Error {
        Error::unavailable(&self.name, self.hide(&reason.into()))
    }

    pub(crate) fn stuck(&self, reason: impl Into<String>) -> Error {
        Error::Stuck {
            endpoint: self.name.to_string(),
            reason: self.hide(&reason.into()),
        }
    }

    pub(crate) fn missing(&self, number: u64) -> Error {
        Error::Missing {
            endpoint: self.name.to_string(),
            number,
        }
    }

    pub(crate) fn too_large(&self, reason: impl Into<String>) -> Error {
        Error::TooLarge {
            endpoint: self.name.to_string(),
            reason: self.hide(&reason.into()),
            hint: None,
        }
    }

    pub(crate) fn inconsistent(&self, number: u64, what: impl Into<String>) -> Error {
        Error::inconsistent(&self.name, number, self.hide(&what.into()))
    }
}

/// Text of an endpoint, without the end of what is too long.
pub(crate) fn cut(mut text: String) -> String {
    const MORE: &str = " …";
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - MORE.len()));
        text.push_str(MORE);
    }
    text
}
