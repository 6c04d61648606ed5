//! One request, from its head to the end of its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::keys::Caller;
use crate::chain::ServedChains;
use crate::error::ApiError;
use crate::http::connection::Peer;
use crate::http::request_id::REQUEST_ID;

/// Methods of a batch that the log names.
const METHODS_MAX: usize = 16;
/// Bytes of texts of a request that the log has.
const TEXT_BYTES_MAX: usize = 256;
/// The part of the bytes at once that a long answer leaves to the caller's other requests.
const LEFT_TO_OTHERS: f64 = 0.5;
/// For how long it does.
const TURN_MAX: Duration = Duration::from_secs(10);

/// What a handler tells of its request.
#[derive(Clone)]
pub(crate) struct Visit(Arc<Inner>);

struct Inner {
    caller: Option<Arc<Caller>>,
    calls: Mutex<Calls>,
}

/// Calls of a request.
#[derive(Clone, Default)]
pub(super) struct Calls {
    pub(super) count: u64,
    /// Each method once, as many as the log names.
    pub(super) methods: Vec<&'static str>,
}

impl Visit {
    pub(super) fn new(caller: Option<Arc<Caller>>) -> Self {
        let calls = Mutex::default();
        Self(Arc::new(Inner { caller, calls }))
    }

    /// Counts the calls of a batch, the items of a lookup, or the chains of a query: each is as much work as a request of
    /// its own. The request itself was counted as one.
    ///
    /// # Errors
    /// The caller may not make so many.
    pub(crate) fn count_calls(&self, calls: usize) -> Result<(), ApiError> {
        match &self.0.caller {
            Some(caller) if calls > 1 => caller.count_batch(calls as u64, Instant::now()),
            _ => Ok(()),
        }
    }

    /// Bytes that the caller may be sent at once; none without such a limit.
    pub(crate) fn byte_burst(&self) -> Option<usize> {
        let burst = self.0.caller.as_ref()?.byte_burst()?;
        Some(burst as usize)
    }

    /// Waits until the next part of a long answer may be sent. It is sent at the rate of its caller, and leaves a part of
    /// the bytes at once to the caller's other requests. Where these take all that comes back, it waits for
    /// [`TURN_MAX`], and then until nothing is owed.
    pub(crate) async fn until_turn(&self) {
        let Some(caller) = &self.0.caller else {
            return;
        };
        let patience = Instant::now() + TURN_MAX;
        loop {
            let now = Instant::now();
            let left = patience.saturating_duration_since(now);
            let wait = match left.is_zero() {
                false => caller.bytes_back(LEFT_TO_OTHERS, now),
                true => caller.bytes_back(0.0, now),
            };
            let Some(wait) = wait else {
                return;
            };
            let wait = if left.is_zero() { wait } else { wait.min(left) };
            tokio::time::sleep(wait).await;
        }
    }

    /// Notes a call.
    pub(crate) fn called(&self, method: &'static str) {
        let mut calls = self.0.calls.lock();
        calls.count += 1;
        if calls.methods.len() < METHODS_MAX && !calls.methods.contains(&method) {
            calls.methods.push(method);
        }
    }
}

/// What is known of a request and its answer.
pub(super) struct Seen {
    pub(super) started: Instant,
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) visit: Option<Visit>,
    pub(super) id: String,
    pub(super) peer: Option<String>,
    pub(super) forwarded_for: Option<String>,
    pub(super) method: Method,
    pub(super) route: Option<String>,
    /// Without the query: clients of other APIs have their key there.
    pub(super) path: Option<String>,
    pub(super) chain: Option<u64>,
    pub(super) status: StatusCode,
    /// Whether it was refused: its bytes are not counted, or each refusal would bring the next.
    pub(super) was_refused: bool,
}

impl Seen {
    pub(super) fn of(request: &Request, route: Option<&str>, started: Instant) -> Self {
        let peer = request.extensions().get::<Peer>();
        Self {
            started,
            caller: None,
            visit: None,
            id: text_of(request.headers(), REQUEST_ID.as_str()).unwrap_or_default(),
            peer: peer.map(|Peer(address)| address.to_string()),
            forwarded_for: text_of(request.headers(), "x-forwarded-for"),
            method: request.method().clone(),
            route: route.map(str::to_owned),
            path: route.map(|_| cut(request.uri().path())),
            chain: None,
            status: StatusCode::OK,
            was_refused: false,
        }
    }

    /// Notes what the answer has.
    pub(super) fn answered(&mut self, response: &Response, served: &ServedChains) {
        self.status = response.status();
        let (route, path) = (self.route.as_deref(), self.path.as_deref());
        self.chain = route.zip(path).and_then(|(route, path)| {
            let place = route
                .split('/')
                .position(|part| matches!(part, "{chainId}" | "{network}"))?;
            let chain = served.find_network(path.split('/').nth(place)?)?;
            Some(chain.id)
        });
        // A path that leads nowhere may be that of another API, with a key in it.
        let is_of_chain =
            route.is_some_and(|route| route.contains("{chainId}") || route.contains("{network}"));
        if self.status == StatusCode::NOT_FOUND || (is_of_chain && self.chain.is_none()) {
            self.path = None;
        }
    }

    pub(super) fn calls(&self) -> Calls {
        let visit = self.visit.as_ref();
        visit.map_or_else(Calls::default, |visit| visit.0.calls.lock().clone())
    }
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(cut)
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX.min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}
