//! One JSON-RPC endpoint: its requests, its health, and what it can do.
//!
//! An endpoint is called by the end of its host in logs and errors: a URL may carry a key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::error::{Error, Result};
use crate::evm::class_of;
use crate::failure::FailureClass;
use crate::health::{EndpointReport, Health, cut};
use crate::jsonrpc::availability::Availability;
use crate::jsonrpc::batch::Batches;
use crate::jsonrpc::call::{Call, methods_of};
use crate::jsonrpc::reply::{Answer, RpcFault, parse};
use crate::jsonrpc::secrets::{Secrets, name_of};
use crate::jsonrpc::settings::EndpointSettings;
use crate::jsonrpc::throttle::Throttle;
use crate::meters::Outcome;
use crate::spans::rpc_span;

mod exchange;

/// Between two pieces of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an endpoint that contradicted itself is suspended.
const BAD_SUSPENSION: Duration = Duration::from_secs(300);
/// A method that an endpoint does not have is tried again after this time: one of many nodes at an address
/// may have refused it, or one that was updated since.
const LACKS_FOR: Duration = Duration::from_secs(600);

/// How the reason begins where the answer is not a JSON-RPC answer to the calls.
pub(crate) const NO_ANSWER: &str = "no JSON-RPC answer";

/// The name under which [`Endpoint::lacks`] notes that an endpoint takes one call in a request.
const BATCH: &str = "batch";

pub(crate) struct Endpoint {
    pub(crate) name: Arc<str>,
    pub(crate) chain_id: u64,
    pub(crate) settings: EndpointSettings,
    url: Url,
    client: Client,
    throttle: Throttle,
    pub(crate) health: Health,
    availability: Mutex<Availability>,
    /// What it does not have, and when it last refused it.
    missing: Mutex<BTreeMap<&'static str, Instant>>,
    /// How many calls it takes at once.
    batches: Mutex<Batches>,
}

impl std::fmt::Debug for Endpoint {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({}, {:?})", self.name, self.health)
    }
}

impl Endpoint {
    /// Under the name of its host, or another one if that is taken.
    pub(crate) fn named_apart(
        settings: EndpointSettings,
        chain_id: u64,
        taken: &[Arc<Self>],
    ) -> Result<Self> {
        let url = Url::parse(&settings.url)
            .map_err(|error| Error::Invalid(format!("endpoint is not a valid URL: {error}")))?;
        let host = name_of(&url);
        let is_taken = |name: &str| taken.iter().any(|other| *other.name == *name);
        let mut name = host.clone();
        let mut number = 2;
        while is_taken(&name) {
            name = format!("{host}#{number}");
            number += 1;
        }
        let health = Health::new(&name, chain_id).hiding(Secrets::of(&url));
        let client = crate::http::client(READ_TIMEOUT)
            .build()
            .map_err(|error| Error::Invalid(format!("HTTP client: {error}")))?;
        Ok(Self {
            name: health.name.clone(),
            health,
            chain_id,
            throttle: Throttle::new(settings.in_flight, settings.per_second),
            availability: Mutex::new(Availability::new()),
            missing: Mutex::default(),
            batches: Mutex::default(),
            settings,
            url,
            client,
        })
    }

    /// Sends calls in one request; answers in the order of the calls. All of them are of one type:
    /// they are parsed in one pass, straight from the body.
    pub(crate) async fn send<T: DeserializeOwned>(&self, calls: &[Call]) -> Result<Vec<Answer<T>>> {
        let span = self.span(calls);
        let (received, elapsed) = {
            let _turn = self.throttle.turn().await;
            self.health.requested();
            let began = Instant::now();
            let received = self.exchange(calls).instrument(span.clone()).await;
            (received, began.elapsed())
        };
        // No longer in flight: the next request need not wait until this answer is understood.
        let sent = received.and_then(|(status, bytes)| self.parsed(status, &bytes, calls.len()));
        span.record("outcome", Outcome::of(&sent).name());
        self.measure(calls, &sent, elapsed);
        match &sent {
            Ok(_) => self.succeeded(),
            Err(error) => self.failed(error),
        }
        sent
    }

    pub(crate) async fn send_one<T: DeserializeOwned>(&self, call: Call) -> Result<Answer<T>> {
        let mut answers = self.send(&[call]).await?;
        let answer = answers.pop();
        Ok(answer.expect("every call has an answer, or sending failed"))
    }

    /// What was answered, without what of the URL is repeated in it.
    fn parsed<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        bytes: &[u8],
        calls: usize,
    ) -> Result<Vec<Answer<T>>> {
        let mut answers = parse(bytes, calls).map_err(|error| {
            // Hidden first: the rest of a secret that is cut would be printed.
            let error = cut(self.health.hide(&error));
            let class = match status.is_success() {
                true => FailureClass::Unreadable,
                false => FailureClass::of_status(status),
            };
            let status = status.as_u16();
            let error = self.unavailable(format!("{NO_ANSWER} (HTTP {status}): {error}"));
            error.classed(class)
        })?;
        for fault in answers.iter_mut().filter_map(|one| one.as_mut().err()) {
            fault.message = self.health.hide(&fault.message);
        }
        Ok(answers)
    }

    /// Methods and endpoint, never parameters or the URL.
    fn span(&self, calls: &[Call]) -> Span {
        let span = rpc_span(self.chain_id, &self.name);
        if !span.is_disabled() {
            let methods: Vec<&str> = methods_of(calls).into_iter().collect();
            span.record("methods", methods.join(","));
            span.record("calls", calls.len());
        }
        span
    }

    /// Counts calls by what became of them, and the time of the request under each method.
    fn measure<T>(&self, calls: &[Call], sent: &Result<Vec<Answer<T>>>, elapsed: Duration) {
        for method in methods_of(calls) {
            let is_of = |call: &&Call| call.method == method;
            let all = calls.iter().filter(is_of).count() as u64;
            let answers = sent.as_ref().map_or(&[][..], Vec::as_slice);
            let of_method = calls.iter().zip(answers).filter(|(call, _)| is_of(call));
            let good = of_method.filter(|(_, answer)| answer.is_ok()).count() as u64;
            let meters = &self.health.meters;
            meters.called(method, Outcome::Success, good);
            meters.called(method, Outcome::Error, all - good);
            meters.took(method, elapsed);
        }
        // Some refuse single calls of a batch this way.
        let refused = |answer: &Answer<T>| matches!(answer, Err(fault) if fault.code == 429);
        if sent.iter().flatten().any(refused) {
            self.health.meters.rate_limited.increment(1);
        }
    }

    /// How many calls one request may make.
    pub(crate) fn batch(&self) -> usize {
        if self.has(BATCH) {
            self.batches.lock().size(self.settings.batch)
        } else {
            1
        }
    }

    /// Notes that a request of this many calls was too much.
    pub(crate) fn refused_batch(&self, calls: usize) {
        self.batches.lock().refused(self.settings.batch, calls);
    }

    /// Notes that it takes no more than one call in a request.
    pub(crate) fn refuses_batches(&self) {
        if self.is_missing(BATCH) {
            tracing::info!(endpoint = %self.name, "batches are refused, sending single calls");
        }
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Error {
        self.health.unavailable(reason)
    }

    /// The endpoint answered with an error, which says what no other method helps against.
    pub(crate) fn refused(&self, reason: impl Into<String>, fault: &RpcFault) -> Error {
        self.unavailable(reason).classed(class_of(fault))
    }

    fn succeeded(&self) {
        self.availability.lock().succeeded();
        self.batches.lock().succeeded();
    }

    /// Counts a failure, after which the endpoint backs off, longer each time.
    pub(crate) fn failed(&self, error: &Error) {
        self.health.failed(error);
        self.batches.lock().failed();
        self.availability.lock().failed(error.retry_after());
    }

    /// Counts an answer that cannot be, after which the endpoint is suspended.
    pub(crate) fn report_bad(&self, what: &str) {
        self.health.report_bad(what);
        self.availability.lock().suspend(BAD_SUSPENSION);
    }

    /// Ends a suspension that the endpoint did not deserve.
    pub(crate) fn end_suspension(&self) {
        self.availability.lock().end_suspension();
    }

    /// When the endpoint may be used again; none for at once.
    pub(crate) fn usable_at(&self) -> Option<Instant> {
        self.availability.lock().usable_at()
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.usable_at().is_none()
    }

    /// Notes what it cannot do, for a while; returns whether that is news.
    pub(crate) fn is_missing(&self, method: &'static str) -> bool {
        let mut missing = self.missing.lock();
        missing.insert(method, Instant::now()).is_none()
    }

    /// Whether it did not refuse this lately.
    pub(crate) fn has(&self, method: &str) -> bool {
        let missing = self.missing.lock();
        let noted = missing.get(method);
        noted.is_none_or(|noted| noted.elapsed() >= LACKS_FOR)
    }

    pub(crate) fn report(&self) -> EndpointReport {
        self.health.report(!self.is_healthy())
    }
}

#[cfg(test)]
mod tests;
