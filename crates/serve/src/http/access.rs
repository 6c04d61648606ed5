//! Who may use the public listener, how much, and a line for each request: API keys with their limits, and the access
//! log. Both are off unless they are set, and cost nothing then.
//!
//! It is a layer around the whole router, so that it sees answers as they are sent: compressed, and errors too.

mod body;
mod bucket;
mod keys;
mod log;
mod refusal;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::time::Instant;

use super::caching;
use super::request_body::discard;
use super::request_id::{REQUEST_ID, RequestIds};
use crate::chain::ServedChains;
use crate::console;
use crate::metrics::RequestMeters;
use body::MeteredBody;
use keys::Gate;
use visit::Seen;

pub use bucket::Rate;
pub use keys::{ApiKey, ApiKeys, KeyHash, KeyLimits};
pub use log::{AccessLog, LogLines, MillisClock};
pub(crate) use refusal::{RATE_LIMIT, RATE_LIMIT_POLICY, of_route};
pub(crate) use visit::Visit;

/// Guards a router with API keys, and logs its requests.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    gate: Option<Gate>,
    log: Option<AccessLog>,
    served: ServedChains,
    ids: RequestIds,
    /// Of requests that do not reach the router, which counts the others.
    requests: RequestMeters,
}

impl Access {
    /// The guard of these keys and with this log; none where nothing is set.
    #[must_use]
    pub fn new(
        keys: Option<&ApiKeys>,
        log: Option<AccessLog>,
        served: &ServedChains,
    ) -> Option<Self> {
        if keys.is_none() && log.is_none() {
            return None;
        }
        Some(Self(Arc::new(Inner {
            gate: keys.map(|keys| Gate::new(keys, Instant::now())),
            log,
            served: served.clone(),
            ids: RequestIds::default(),
            requests: RequestMeters::default(),
        })))
    }

    /// The router with this guard in front of it.
    pub fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, guard))
    }
}

/// Whether a route needs no key: health is for probes, and the console is files.
fn is_open(route: &str) -> bool {
    route == "/health" || console::is_file(route)
}

async fn guard(State(Access(access)): State<Access>, mut request: Request, next: Next) -> Response {
    let now = Instant::now();
    let id = access.ids.of(request.headers());
    // Its answer, its error and its line in the log have the same id.
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let mut seen = Seen::of(&request, route, now);
    // Browsers send no credentials with a preflight.
    let is_free = *request.method() == Method::OPTIONS || route.is_some_and(is_open);
    let caller = match access.gate.as_ref().filter(|_| !is_free) {
        Some(gate) => match gate.admit(request.headers(), now) {
            Ok(caller) => Some(caller),
            Err(refused) => {
                seen.caller = refused.caller;
                seen.was_refused = true;
                // A client that asks first does not send its body after a refusal.
                if !request.headers().contains_key(header::EXPECT) {
                    discard(request.into_body()).await;
                }
                let response = refusal::render(route, &refused.error, &id);
                let took = now.elapsed();
                access.requests.answered(route, response.status(), took);
                return finish(&access, response, seen);
            }
        },
        None => None,
    };
    seen.caller = caller.clone();
    let visit = Visit::new(caller);
    request.extensions_mut().insert(visit.clone());
    let mut response = next.run(request).await;
    seen.visit = Some(visit);
    let gate = access.gate.as_ref().filter(|_| !is_free);
    if gate.is_some_and(Gate::is_required) {
        caching::keep_from_shared(response.headers_mut());
    }
    finish(&access, response, seen)
}

/// The answer with what its caller has left, counted while it is sent, and logged at its end. An answer that shared
/// caches keep goes to other callers too: what one of them has left does not concern the others.
fn finish(access: &Inner, mut response: Response, mut seen: Seen) -> Response {
    let is_public = caching::is_public(response.headers());
    if let Some(caller) = seen.caller.as_ref().filter(|_| !is_public) {
        caller.show(response.headers_mut(), Instant::now());
    }
    seen.answered(&response, &access.served);
    let log = access.log.clone();
    response.map(|body| Body::new(MeteredBody::new(body, seen, log)))
}

#[cfg(test)]
mod tests;
