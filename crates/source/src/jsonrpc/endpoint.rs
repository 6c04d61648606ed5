//! One JSON-RPC endpoint: how it is asked, and how it has done so far.
//!
//! An endpoint is called by the end of its host in logs and errors: a URL may carry a key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::error::{Error, Result};
use crate::health::{EndpointReport, Health, cut};
use crate::jsonrpc::availability::Availability;
use crate::jsonrpc::batch::Batches;
use crate::jsonrpc::reply::{Answer, parse};
use crate::jsonrpc::secrets::{Secrets, name_of};
use crate::jsonrpc::throttle::Throttle;
use crate::meters::Outcome;

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two pieces of an answer. Large answers take long; they only have to keep a pace.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// All of an answer that is known to be small.
const SMALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of a request whose answer is known to be small: the newest block and its tags.
const SMALL_CALLS_MAX: usize = 3;
/// When an answer has come for so long, it must have come this fast.
const PACE_AFTER: Duration = Duration::from_secs(60);
const PACE_BYTES_A_SECOND: f64 = 10_000.0;
/// How long an endpoint that contradicted itself is suspended.
const BAD_SUSPENSION: Duration = Duration::from_secs(300);
/// What an endpoint lacks is asked for again after so long: one node of many behind an address may have
/// said so, or one that was updated since.
const LACKS_FOR: Duration = Duration::from_secs(600);

/// Room made for an answer before it comes.
const READ_AHEAD_MAX: u64 = 16 << 20;

/// How the reason begins where something was answered, but nothing that answers the calls.
pub(crate) const NO_ANSWER: &str = "no JSON-RPC answer";

/// What an endpoint that takes no more than one call in a request is noted to lack.
const BATCH: &str = "batch";

/// How an endpoint may be used.
#[derive(Clone)]
pub struct EndpointSettings {
    /// Where it is.
    pub url: String,
    /// Requests that may be in flight.
    pub in_flight: usize,
    /// Requests a second; 0 for no limit.
    pub per_second: f64,
    /// Calls in one request.
    pub batch: usize,
    /// An answer longer than this is refused.
    pub answer_bytes_max: u64,
}

impl std::fmt::Debug for EndpointSettings {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limits = (self.in_flight, self.per_second, self.batch);
        write!(f, "EndpointSettings({limits:?})")
    }
}

impl EndpointSettings {
    /// The defaults for a URL.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            in_flight: 8,
            per_second: 0.0,
            batch: 100,
            answer_bytes_max: 256 << 20,
        }
    }
}

/// A call: a method and its parameters as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) params: String,
}

impl Call {
    /// Whether its answer is small, whatever the chain is like.
    fn is_small(&self) -> bool {
        match self.method {
            "eth_chainId" | "eth_syncing" => true,
            "eth_getBlockByNumber" => self.params.ends_with("false]"),
            _ => false,
        }
    }
}

/// An endpoint.
pub(crate) struct Endpoint {
    pub(crate) name: Arc<str>,
    pub(crate) chain_id: u64,
    pub(crate) settings: EndpointSettings,
    url: Url,
    secrets: Secrets,
    client: Client,
    throttle: Throttle,
    pub(crate) health: Health,
    availability: Mutex<Availability>,
    /// What it was seen to lack, and when last.
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
            .map_err(|error| Error::Invalid(format!("endpoint is no URL: {error}")))?;
        let host = name_of(&url);
        let is_taken = |name: &str| taken.iter().any(|other| *other.name == *name);
        let mut name = host.clone();
        let mut number = 2;
        while is_taken(&name) {
            name = format!("{host}#{number}");
            number += 1;
        }
        let health = Health::new(&name, chain_id);
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // It would hand the key in the path to another host.
            .redirect(Policy::none())
            .referer(false)
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
            secrets: Secrets::of(&url),
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

    /// What was answered, without what of the URL is repeated in it.
    fn parsed<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        bytes: &[u8],
        calls: usize,
    ) -> Result<Vec<Answer<T>>> {
        let mut answers = parse(bytes, calls).map_err(|error| {
            // Hidden first: the rest of a secret that is cut would be shown.
            let error = cut(self.secrets.hide(&error));
            let status = status.as_u16();
            self.unavailable(format!("{NO_ANSWER} (HTTP {status}): {error}"))
        })?;
        for fault in answers
            .iter_mut()
            .filter_map(|answer| answer.as_mut().err())
        {
            fault.message = self.secrets.hide(&fault.message);
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
            let of_method = calls.iter().zip(0..);
            let of_method = of_method.filter(|(call, _)| call.method == method);
            let good = |at: usize| {
                sent.as_ref()
                    .is_ok_and(|all| all.get(at).is_some_and(|one| one.is_ok()))
            };
            let (good, bad): (Vec<usize>, Vec<usize>) =
                of_method.map(|(_, at)| at).partition(|at| good(*at));
            self.health
                .meters
                .called(method, Outcome::Success, good.len() as u64);
            self.health
                .meters
                .called(method, Outcome::Error, bad.len() as u64);
            self.health.meters.took(method, elapsed);
        }
        // Some refuse single calls of a batch this way.
        let refused = |answer: &Answer<T>| matches!(answer, Err(fault) if fault.code == 429);
        if sent.iter().flatten().any(refused) {
            self.health.meters.rate_limited.increment(1);
        }
    }

    async fn exchange(&self, calls: &[Call]) -> Result<(StatusCode, Vec<u8>)> {
        if calls.len() > SMALL_CALLS_MAX || !calls.iter().all(Call::is_small) {
            return self.receive(calls).await;
        }
        let received = tokio::time::timeout(SMALL_TIMEOUT, self.receive(calls)).await;
        received.unwrap_or_else(|_| Err(self.unavailable("timed out")))
    }

    async fn receive(&self, calls: &[Call]) -> Result<(StatusCode, Vec<u8>)> {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body_of(calls));
        let response = request.send().await.map_err(|error| self.down(&error))?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.health.meters.rate_limited.increment(1);
        }
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            return Err(Error::Unavailable {
                endpoint: self.name.to_string(),
                reason: format!("HTTP {}", status.as_u16()),
                retry_after: retry_after(&response),
            });
        }
        // Some answer a JSON-RPC error with a status of its own: the body tells.
        Ok((status, self.read(response).await?))
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>> {
        let most = self.settings.answer_bytes_max;
        // What it says of its length is believed only so far.
        let said = response.content_length().unwrap_or(0).min(READ_AHEAD_MAX);
        let mut bytes = Vec::with_capacity(said as usize);
        let began = Instant::now();
        while let Some(part) = response.chunk().await.map_err(|error| self.down(&error))? {
            if bytes.len() as u64 + part.len() as u64 > most {
                let reason = format!("answer longer than {most} bytes");
                return Err(self.health.too_large(reason));
            }
            self.health
                .meters
                .received_bytes
                .increment(part.len() as u64);
            bytes.extend_from_slice(&part);
            if is_too_slow(began.elapsed(), bytes.len()) {
                return Err(self.unavailable("the answer comes too slowly"));
            }
        }
        Ok(bytes)
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
        if self.lacks(BATCH) {
            tracing::info!(endpoint = %self.name, "batches are refused, sending single calls");
        }
    }

    fn down(&self, error: &reqwest::Error) -> Error {
        self.unavailable(reason_of(error))
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> Error {
        self.health.unavailable(reason)
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
    pub(crate) fn lacks(&self, method: &'static str) -> bool {
        let mut missing = self.missing.lock();
        missing.insert(method, Instant::now()).is_none()
    }

    /// Whether it was not seen to lack this lately.
    pub(crate) fn has(&self, method: &str) -> bool {
        let missing = self.missing.lock();
        let noted = missing.get(method);
        noted.is_none_or(|noted| noted.elapsed() >= LACKS_FOR)
    }

    pub(crate) fn report(&self) -> EndpointReport {
        self.health.report(!self.is_healthy())
    }
}

/// A request to an endpoint, to be filled in.
pub(crate) fn rpc_span(chain: u64, endpoint: &str) -> Span {
    tracing::debug_span!(
        "rpc",
        chain,
        endpoint,
        methods = Empty,
        calls = Empty,
        outcome = Empty
    )
}

/// Decoding and proving what an endpoint said.
pub(crate) fn verify_span(chain: u64, endpoint: &str) -> Span {
    tracing::debug_span!("verify", chain, endpoint, blocks = Empty, outcome = Empty)
}

/// The methods of calls, each once.
fn methods_of(calls: &[Call]) -> BTreeSet<&'static str> {
    calls.iter().map(|call| call.method).collect()
}

fn body_of(calls: &[Call]) -> String {
    let mut body = String::new();
    let many = calls.len() != 1;
    body.push_str(if many { "[" } else { "" });
    for (id, call) in calls.iter().enumerate() {
        let comma = if id == 0 { "" } else { "," };
        let (method, params) = (call.method, &call.params);
        body.push_str(&format!(
            r#"{comma}{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
    }
    body.push_str(if many { "]" } else { "" });
    body
}

/// Why a request failed. The error's own text may hold the URL with its key.
pub(crate) fn reason_of(error: &reqwest::Error) -> &'static str {
    match () {
        () if error.is_timeout() => "timed out",
        () if error.is_connect() => "cannot connect",
        () if error.is_body() || error.is_decode() => "answer was cut",
        () => "request failed",
    }
}

/// Whether so many bytes in so long a time are too few to wait for the rest.
pub(crate) fn is_too_slow(elapsed: Duration, bytes: usize) -> bool {
    elapsed > PACE_AFTER && (bytes as f64) < elapsed.as_secs_f64() * PACE_BYTES_A_SECOND
}

/// How long the endpoint asked us to wait.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: f64 = value.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(3600.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::availability::BACKOFF_FIRST;

    fn endpoint() -> Endpoint {
        let url = "http://user:secret@node.example:8545/v3/KEY";
        Endpoint::named_apart(EndpointSettings::new(url), 1, &[]).unwrap()
    }

    #[test]
    fn no_secret_is_in_a_name_or_an_error() {
        let endpoint = endpoint();
        assert_eq!(&*endpoint.name, "node.example:8545");
        let shown = endpoint.unavailable("HTTP 500".to_owned()).to_string();
        let printed = format!("{endpoint:?} {:?}", endpoint.settings);
        for shown in [shown, printed] {
            assert!(
                !shown.contains("KEY") && !shown.contains("secret"),
                "{shown}"
            );
        }
    }

    /// Names of fields and whole values of an answer were in errors, the log and the report.
    #[test]
    fn hostile_text_is_cut_where_it_is_kept() {
        let endpoint = endpoint();
        let long = "ü".repeat(100_000);
        for say in [&|| endpoint.report_bad(&long) as (), &|| {
            endpoint.failed(&endpoint.unavailable(long.clone()))
        }] as [&dyn Fn(); 2]
        {
            say();
            let said = endpoint.report().last_error.unwrap();
            assert!(
                said.len() <= 1_000 && said.len() > 900,
                "{} bytes",
                said.len()
            );
        }
        let hostile = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{long}"}}"#);
        let parsed = endpoint.parsed::<u64>(StatusCode::OK, hostile.as_bytes(), 1);
        let said = parsed.unwrap_err().to_string();
        assert!(said.len() < 1_200, "{} bytes", said.len());
    }

    /// A refusal of one bad hour kept requests small for ever.
    #[test]
    fn batches_grow_again_after_many_good_requests() {
        let endpoint = endpoint();
        assert_eq!(endpoint.batch(), 100);
        endpoint.refused_batch(100);
        endpoint.refused_batch(50);
        for batch in [25, 50, 100, 100] {
            assert_eq!(endpoint.batch(), batch);
            (0..99).for_each(|_| endpoint.succeeded());
            assert_eq!(endpoint.batch(), batch, "too early");
            endpoint.succeeded();
        }
        endpoint.refused_batch(100);
        (0..99).for_each(|_| endpoint.succeeded());
        endpoint.failed(&endpoint.unavailable("HTTP 500".to_owned()));
        endpoint.succeeded();
        assert_eq!(endpoint.batch(), 50, "not in a row");
    }

    /// An endpoint that once denied a method counted as one without it until the next start.
    #[tokio::test(start_paused = true)]
    async fn what_an_endpoint_lacks_is_asked_for_again_after_a_pause() {
        let endpoint = endpoint();
        assert!(endpoint.has("eth_getBlockReceipts"));
        assert!(endpoint.lacks("eth_getBlockReceipts"));
        endpoint.refuses_batches();
        for _ in 0..3 {
            assert!(!endpoint.has("eth_getBlockReceipts"));
            assert_eq!(endpoint.batch(), 1);
            tokio::time::advance(LACKS_FOR - Duration::from_secs(1)).await;
            assert!(!endpoint.has("eth_getBlockReceipts"), "too early");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(endpoint.has("eth_getBlockReceipts"));
            assert_eq!(endpoint.batch(), 100);
            assert!(!endpoint.lacks("eth_getBlockReceipts"), "no news");
            endpoint.refuses_batches();
        }
    }

    /// The last 27 calls of a range were refused, and requests had 13 calls from then on.
    #[test]
    fn a_refused_rest_does_not_make_batches_smaller_than_they_must_be() {
        let endpoint = endpoint();
        endpoint.refused_batch(100);
        endpoint.refused_batch(27);
        assert_eq!(endpoint.batch(), 25);
        endpoint.refused_batch(50);
        assert_eq!(endpoint.batch(), 25, "known already");
        endpoint.refused_batch(2);
        endpoint.refused_batch(1);
        assert_eq!(endpoint.batch(), 1);
    }

    /// Endpoints that fail together must not all be asked again in the same instant.
    #[tokio::test(start_paused = true)]
    async fn equal_failures_pause_for_different_times() {
        let endpoint = endpoint();
        let pauses = (0..20).map(|_| {
            endpoint.failed(&endpoint.unavailable("HTTP 500".to_owned()));
            let pause = endpoint.usable_at().unwrap() - Instant::now();
            // The next one is a first failure again.
            endpoint.succeeded();
            pause
        });
        let pauses: BTreeSet<Duration> = pauses.collect();
        assert!(pauses.len() > 1, "{pauses:?}");
        let allowed = BACKOFF_FIRST / 2..=BACKOFF_FIRST;
        assert!(pauses.iter().all(|one| allowed.contains(one)), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_pause_longer_each_time_and_a_wish_is_followed() {
        let endpoint = endpoint();
        let mut before = Duration::ZERO;
        for _ in 0..6 {
            for _ in 0..5 {
                // Together they count once.
                endpoint.failed(&endpoint.unavailable("HTTP 500".to_owned()));
            }
            let pause = endpoint.usable_at().unwrap() - Instant::now();
            assert!(pause >= before, "{pause:?} after {before:?}");
            before = pause;
            tokio::time::sleep(pause).await;
        }
        let endpoint = self::endpoint();
        endpoint.failed(&Error::Unavailable {
            endpoint: "x".to_owned(),
            reason: "HTTP 429".to_owned(),
            retry_after: Some(Duration::from_secs(7)),
        });
        assert_eq!(
            endpoint.usable_at().unwrap() - Instant::now(),
            Duration::from_secs(7)
        );
        endpoint.succeeded();
        assert!(endpoint.usable_at().is_some(), "a wish outlasts a success");
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(endpoint.usable_at().is_none());
    }
}
