//! Metrics of requests.
//!
//! | metric | meaning |
//! |---|---|
//! | `chronolith_served_calls_total` | calls, by chain, method and outcome |
//! | `chronolith_rpc_seconds` | how long they took until the response could be sent |
//! | `chronolith_http_panics_total` | handlers that panicked: each is a bug |
//! | `chronolith_connections_refused_total` | connections from addresses that had too many |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

use crate::chain::ServedChain;
use crate::rpc::{METHODS, Method};
use crate::stellar;

/// The label of unknown methods: names that clients send must not become labels.
const UNKNOWN: &str = "unknown";

const PANICS: &str = "chronolith_http_panics_total";
const REFUSED: &str = "chronolith_connections_refused_total";

/// Counts calls. The handles are made once: looking them up by their labels costs more than the rest.
#[derive(Clone)]
pub(crate) struct Meters(Arc<HashMap<(u64, &'static str), Handles>>);

struct Handles {
    seconds: Histogram,
    success: Counter,
    error: Counter,
}

impl Meters {
    pub(crate) fn new<'a>(chains: impl Iterator<Item = &'a ServedChain>) -> Self {
        // Exported from the start: an alert on them must not depend on the first event.
        counter!(PANICS).increment(0);
        counter!(REFUSED).increment(0);
        let both = chains.flat_map(|chain| {
            let methods: &[Method] = match chain.stellar() {
                None => &METHODS,
                Some(_) => &stellar::METHODS,
            };
            let methods = methods.iter().map(|method| method.name).chain([UNKNOWN]);
            methods.map(move |method| (chain.id, method))
        });
        Self(Arc::new(both.map(|key| (key, Handles::new(key))).collect()))
    }

    pub(crate) fn call(&self, chain: u64, method: &str, succeeded: bool, took: Duration) {
        let mut methods = METHODS.iter().chain(&stellar::METHODS);
        let label = methods
            .find(|known| known.name == method)
            .map(|known| known.name);
        let known = label.and_then(|label| self.0.get(&(chain, label)));
        let handles = known.or_else(|| self.0.get(&(chain, UNKNOWN)));
        let handles = handles.expect("every served chain has a handle for unknown methods");
        handles.seconds.record(took.as_secs_f64());
        if succeeded {
            handles.success.increment(1);
        } else {
            handles.error.increment(1);
        }
    }
}

impl Handles {
    fn new((chain, method): (u64, &'static str)) -> Self {
        let chain = chain.to_string();
        let counted = |outcome: &'static str| counter!("chronolith_served_calls_total", "chain" => chain.clone(), "method" => method, "outcome" => outcome);
        Self {
            seconds: histogram!("chronolith_rpc_seconds", "chain" => chain.clone(), "method" => method),
            success: counted("success"),
            error: counted("error"),
        }
    }
}

/// Counts a connection that was refused.
pub(crate) fn refused() {
    counter!(REFUSED).increment(1);
}

/// Counts a handler that panicked.
pub(crate) fn panicked() {
    counter!(PANICS).increment(1);
}
