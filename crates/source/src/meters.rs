//! Every metric of a source, by name. Handles are made with the source: install the recorder before
//! that.
//!
//! | name | what |
//! |---|---|
//! | `chronolith_rpc_requests_total` | calls by method and outcome; those of a batch one by one |
//! | `chronolith_rpc_errors_total` | those of them that failed |
//! | `chronolith_rpc_latency_seconds` | time of one request, under each method in it |
//! | `chronolith_rate_limited_total` | requests refused because there were too many |
//! | `chronolith_received_bytes_total` | bytes of answers, unpacked |
//! | `chronolith_head_subscription_reconnects_total` | subscriptions that ended or never began |
//! | `chronolith_verification_rules_dropped` | 1 for a rule that was dropped because it fails on every endpoint |
//! | `chronolith_downgraded_blocks_total` | blocks fetched without receipts although the chain allows to check them |
//! | `chronolith_unproven_blocks_total` | blocks taken as empty on one endpoint's word, because the settings say so |

use std::time::Duration;

use metrics::{Counter, Gauge, SharedString, counter, gauge, histogram};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Success,
    Error,
}

impl Outcome {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Error,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// The metrics of one endpoint.
#[derive(Debug)]
pub(crate) struct Meters {
    chain: SharedString,
    endpoint: SharedString,
    errors: Counter,
    pub(crate) rate_limited: Counter,
    pub(crate) received_bytes: Counter,
}

impl Meters {
    pub(crate) fn new(chain_id: u64, endpoint: &str) -> Self {
        let chain: SharedString = chain_id.to_string().into();
        let endpoint: SharedString = endpoint.to_owned().into();
        let counted = |name: &'static str| {
            let (chain, endpoint) = (chain.clone(), endpoint.clone());
            counter!(name, "chain" => chain, "endpoint" => endpoint)
        };
        Self {
            errors: counted("chronolith_rpc_errors_total"),
            rate_limited: counted("chronolith_rate_limited_total"),
            received_bytes: counted("chronolith_received_bytes_total"),
            chain,
            endpoint,
        }
    }

    /// Counts calls of one method that ended the same way.
    pub(crate) fn called(&self, method: &str, outcome: Outcome, calls: u64) {
        if calls == 0 {
            return;
        }
        counter!(
            "chronolith_rpc_requests_total",
            "chain" => self.chain.clone(),
            "endpoint" => self.endpoint.clone(),
            "method" => method.to_owned(),
            "outcome" => outcome.name()
        )
        .increment(calls);
        if outcome == Outcome::Error {
            self.errors.increment(calls);
        }
    }

    /// Notes how long a request with this method took.
    pub(crate) fn took(&self, method: &str, elapsed: Duration) {
        histogram!(
            "chronolith_rpc_latency_seconds",
            "chain" => self.chain.clone(),
            "endpoint" => self.endpoint.clone(),
            "method" => method.to_owned()
        )
        .record(elapsed.as_secs_f64());
    }
}

/// Counts subscriptions that ended, or that never began.
pub(crate) fn reconnects(chain_id: u64) -> Counter {
    counter!("chronolith_head_subscription_reconnects_total", "chain" => chain_id.to_string())
}

/// Counts blocks that are proven less far than the chain allows.
pub(crate) fn downgraded(chain_id: u64) -> Counter {
    counter!("chronolith_downgraded_blocks_total", "chain" => chain_id.to_string())
}

/// Whether a rule of verification was dropped: 1 once it was.
pub(crate) fn rule_dropped(chain_id: u64, rule: &'static str) -> Gauge {
    gauge!("chronolith_verification_rules_dropped", "chain" => chain_id.to_string(), "rule" => rule)
}

/// Counts blocks that are taken as empty on one endpoint's word.
pub(crate) fn unproven(chain_id: u64) -> Counter {
    counter!("chronolith_unproven_blocks_total", "chain" => chain_id.to_string())
}
