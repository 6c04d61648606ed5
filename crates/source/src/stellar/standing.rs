//! How a lake or a core has done so far, and what its failures are called.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::jsonrpc::endpoint::EndpointReport;
use crate::meters::{Meters, Outcome};

/// How it does.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) name: Arc<str>,
    meters: Meters,
    counts: Mutex<Counts>,
}

#[derive(Default, Debug)]
struct Counts {
    requests: u64,
    failures: u64,
    lies: u64,
    /// Whether the last that was asked failed.
    failing: bool,
    last_error: Option<String>,
}

impl Standing {
    pub(crate) fn new(name: &str, chain_id: u64) -> Self {
        Self {
            name: name.into(),
            meters: Meters::new(chain_id, name),
            counts: Mutex::default(),
        }
    }

    /// Counts something that was asked for. What is not there yet is an answer.
    pub(crate) fn note<T>(&self, method: &str, took: Duration, result: &Result<T>) {
        let failed = result.as_ref().err();
        let failed = failed.filter(|error| !matches!(error, Error::Missing { .. }));
        let outcome = match failed {
            Some(_) => Outcome::Error,
            None => Outcome::Success,
        };
        self.meters.called(method, outcome, 1);
        self.meters.took(method, took);
        let mut counts = self.counts();
        counts.requests += 1;
        counts.failing = failed.is_some();
        if let Some(error) = failed {
            counts.failures += 1;
            counts.lies += u64::from(matches!(error, Error::Inconsistent { .. }));
            counts.last_error = Some(error.to_string());
        }
    }

    /// Counts bytes that came.
    pub(crate) fn received(&self, bytes: u64) {
        self.meters.received_bytes.increment(bytes);
    }

    /// What it said does not fit what others say.
    pub(crate) fn report_bad(&self, what: &str) {
        tracing::warn!(endpoint = %self.name, what, "endpoint contradicts itself or others");
        let mut counts = self.counts();
        counts.lies += 1;
        counts.last_error = Some(what.to_owned());
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Error {
        Error::Unavailable {
            endpoint: self.name.to_string(),
            reason: reason.into(),
            retry_after: None,
        }
    }

    pub(crate) fn stuck(&self, reason: impl Into<String>) -> Error {
        Error::Stuck {
            endpoint: self.name.to_string(),
            reason: reason.into(),
        }
    }

    pub(crate) fn missing(&self, number: u64) -> Error {
        Error::Missing {
            endpoint: self.name.to_string(),
            number,
        }
    }

    pub(crate) fn lied(&self, number: u64, what: impl Into<String>) -> Error {
        Error::Inconsistent {
            endpoint: self.name.to_string(),
            number,
            what: what.into(),
        }
    }

    pub(crate) fn report(&self) -> EndpointReport {
        let counts = self.counts();
        EndpointReport {
            name: self.name.to_string(),
            requests: counts.requests,
            failures: counts.failures,
            lies: counts.lies,
            cooling: counts.failing,
            last_error: counts.last_error.clone(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}
