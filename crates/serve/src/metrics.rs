//! Metrics of requests.
//!
//! | metric | meaning |
//! |---|---|
//! | `chronolith_served_calls_total` | calls, by chain, method and outcome |
//! | `chronolith_rpc_seconds` | how long they took until the response could be sent |
//! | `chronolith_http_requests_total` | answers over HTTP, by route and class of status |
//! | `chronolith_http_seconds` | how long they took until the answer could be sent |
//! | `chronolith_http_panics_total` | handlers that panicked: each is a bug |
//! | `chronolith_connections_refused_total` | connections from addresses that had too many |
//! | `chronolith_connections_cut_total` | connections of slow readers whose memory others needed |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, counter, histogram};

use parking_lot::RwLock;

use crate::chain::ServedChain;
use crate::console;
use crate::rpc::{METHODS, Method};
use crate::stellar;

/// The label of unknown methods: names that clients send must not become labels.
const UNKNOWN: &str = "unknown";

/// The label of all files of the console, and of paths that lead nowhere.
const CONSOLE: &str = "console";
const NO_ROUTE: &str = "none";

const PANICS: &str = "chronolith_http_panics_total";
const REFUSED: &str = "chronolith_connections_refused_total";
const CUT: &str = "chronolith_connections_cut_total";

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
        counter!(CUT).increment(0);
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
        let known = self.0.get(&(chain, label_of(method)));
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

/// A method as a label; one that is not known is that of no client.
pub(crate) fn label_of(method: &str) -> &'static str {
    let mut methods = METHODS.iter().chain(&stellar::METHODS);
    let known = methods.find(|known| known.name == method);
    known.map_or(UNKNOWN, |known| known.name)
}

/// Counts requests by their route. A handle is made when it is first needed: most routes never fail.
#[derive(Clone, Default)]
pub(crate) struct RequestMeters(Arc<RwLock<HashMap<String, Classes>>>);

/// The handles of a route by class of status.
type Classes = HashMap<&'static str, RouteHandles>;

#[derive(Clone)]
struct RouteHandles {
    requests: Counter,
    seconds: Histogram,
}

impl RequestMeters {
    /// Counts an answer, and the time until it could be sent. Routes are as many as the router has.
    pub(crate) fn answered(&self, route: Option<&str>, status: StatusCode, took: Duration) {
        let (route, class) = (route.unwrap_or(NO_ROUTE), class_of(status));
        let of = |classes: &Classes| classes.get(class).cloned();
        let known = self.0.read().get(route).and_then(of);
        let handles = known.unwrap_or_else(|| {
            let is_file = console::is_file(route);
            let made = RouteHandles::new(if is_file { CONSOLE } else { route }, class);
            let mut all = self.0.write();
            let classes = all.entry(route.to_owned()).or_default();
            classes.insert(class, made.clone());
            made
        });
        handles.requests.increment(1);
        handles.seconds.record(took.as_secs_f64());
    }
}

fn class_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}

impl RouteHandles {
    fn new(route: &str, class: &'static str) -> Self {
        let route = route.to_owned();
        Self {
            requests: counter!("chronolith_http_requests_total", "route" => route.clone(), "status" => class),
            seconds: histogram!("chronolith_http_seconds", "route" => route, "status" => class),
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

/// Counts a connection that was cut because it kept memory that others needed.
pub(crate) fn cut() {
    counter!(CUT).increment(1);
}

/// Counts a handler that panicked.
pub(crate) fn panicked() {
    counter!(PANICS).increment(1);
}
