//! Requests to Portal, what its statuses mean, and its health.
//!
//! Portal is called by the end of its host in logs and errors: a URL may carry a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::B256;
use chronolith_model::{BlockRef, Hash32};
use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::limit::Limit;
use super::lines::{Lines, Stop};
use super::source::PortalSettings;
use super::status::{Meaning, meaning, text_of};
use super::wire::Conflict;
use crate::answer_memory::AnswerMemory;
use crate::error::{Error, Result};
use crate::failure::FailureClass;
use crate::health::{EndpointReport, Health};
use crate::http::{RETRY_AFTER_MAX, Received, connection_failed, is_too_slow, retry_after};
use crate::jsonrpc::secrets::{Secrets, name_of};
use crate::meters::Outcome;
use crate::spans::{rpc_span, verify_span};

/// Pauses before a request is sent again; after the last the caller gets the error.
const PAUSES_MS: [u64; 6] = [10, 100, 500, 2_000, 10_000, 20_000];
/// An answer that is not a stream is refused above this length.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// The stream of blocks that cannot be replaced.
pub(crate) const FINALIZED_STREAM: &str = "finalized-stream";
const FINALIZED_NUMBER: &str = "x-sqd-finalized-head-number";
const FINALIZED_HASH: &str = "x-sqd-finalized-head-hash";

/// Why a request did not do what it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It may work the next time.
    Again(Error),
    /// It may work the next time, and no other request should be sent before that.
    Busy(Error),
    /// It will not work the next time either.
    Final(Error),
    /// Nothing failed: the taker of lines has as many as it holds.
    Enough,
}

/// A Portal and one dataset of it.
pub(crate) struct Client {
    pub(crate) name: Arc<str>,
    chain_id: u64,
    http: reqwest::Client,
    base: Url,
    /// Requests of this dataset that may be in flight.
    in_flight: Semaphore,
    /// Shared with the other datasets of this Portal.
    limit: Arc<Limit>,
    line_bytes_max: usize,
    idle_timeout: Duration,
    steps: AtomicU64,
    pub(crate) health: Health,
    /// The highest finalized block that it ever named.
    finalized: Mutex<Option<BlockRef>>,
}

impl std::fmt::Debug for Client {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {:?})", self.name, self.health)
    }
}

impl Client {
    pub(crate) fn new(settings: &PortalSettings) -> Result<Self> {
        let invalid = |what: String| Error::Invalid(format!("Portal: {what}"));
        let base = Url::parse(&settings.url)
            .map_err(|error| invalid(format!("not a valid URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid("the URL is not HTTP or HTTPS".to_owned()));
        }
        // Gzip and zstd are offered and undone by the features that the package is built with.
        let http = crate::http::client(settings.idle_timeout)
            .build()
            .map_err(|error| invalid(format!("HTTP client: {error}")))?;
        // No endpoint has such a name: reports go by the name.
        let name = format!("Portal {}", name_of(&base));
        let health = Health::new(&name, settings.chain_id).hiding(Secrets::of(&base));
        Ok(Self {
            name: health.name.clone(),
            health,
            chain_id: settings.chain_id,
            http,
            limit: Limit::of(&base, settings.requests_per_10s),
            base,
            in_flight: Semaphore::new(settings.in_flight.max(1)),
            line_bytes_max: settings.line_bytes_max,
            idle_timeout: settings.idle_timeout,
            steps: AtomicU64::default(),
            finalized: Mutex::default(),
        })
    }

    /// Answers and lines so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// A small answer, parsed. Failures are retried.
    pub(crate) async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T> {
        let mut tries = 0;
        loop {
            match self.get_once(path).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => self.again(&mut tries, failure).await?,
            }
        }
    }

    async fn get_once<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, Failure> {
        let _turn = self.turn().await;
        let request = async {
            let response = self.send(self.http.get(self.url(path)), 0).await?;
            let bytes = self.read(response).await?;
            self.steps.fetch_add(1, Ordering::Relaxed);
            serde_json::from_slice(&bytes).map_err(|error| {
                let error = self.health.hide(&error.to_string());
                let reason = format!("/{path} is not understood: {error}");
                self.again_as(FailureClass::Unreadable, reason)
            })
        };
        self.measured(path, request).await
    }

    /// Counts a request by what became of it, and how long it took.
    async fn measured<T>(
        &self,
        path: &str,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let span = rpc_span(self.chain_id, &self.name);
        span.record("methods", path);
        span.record("calls", 1);
        let began = Instant::now();
        let done = request.instrument(span.clone()).await;
        let outcome = match &done {
            // A request that comes too early is no error.
            Ok(_) | Err(Failure::Final(Error::Missing { .. })) => Outcome::Success,
            Err(_) => Outcome::Error,
        };
        if matches!(done, Err(Failure::Busy(_))) {
            self.health.meters.rate_limited.increment(1);
        }
        span.record("outcome", outcome.name());
        self.health.meters.called(path, outcome, 1);
        self.health.meters.took(path, began.elapsed());
        done
    }

    /// Sends a request for a stream that begins with block `from`; every whole line goes to `take`
    /// as it comes, until that has enough. The stream may end anywhere, also without a failure.
    pub(crate) async fn stream(
        &self,
        path: &str,
        body: String,
        from: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let _turn = self.turn().await;
        let request = self.http.post(self.url(path));
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let lines = self.lines(request, from, &mut take);
        self.measured(path, lines).await
    }

    async fn lines(
        &self,
        request: RequestBuilder,
        from: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut response = self.send(request, from).await?;
        // Lines are decoded and proven as they come: what is busy in this span is that work.
        let span = verify_span(self.chain_id, &self.name);
        let (mut blocks, mut outcome) = (0_u64, Outcome::Success);
        let mut taken = |line: &[u8]| {
            blocks += 1;
            self.steps.fetch_add(1, Ordering::Relaxed);
            let taken = span.in_scope(|| take(line));
            if !matches!(taken, Err(Failure::Enough)) {
                outcome = Outcome::of(&taken);
            }
            taken
        };
        let read = self.take_lines(&mut response, &mut taken).await;
        span.record("blocks", blocks);
        span.record("outcome", outcome.name());
        match read {
            Err(Failure::Enough) => Ok(()),
            read => read,
        }
    }

    async fn take_lines(
        &self,
        response: &mut Response,
        take: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut lines = Lines::new(self.line_bytes_max);
        let mut held = AnswerMemory::of_process().begin();
        let mut last = Instant::now();
        while let Some(piece) = response.chunk().await.map_err(|error| self.down(&error))? {
            self.health.received(piece.len());
            let taken = lines.feed(&piece, |line| {
                last = Instant::now();
                take(line)
            });
            taken.map_err(|stop| match stop {
                Stop::Taker(failure) => failure,
                Stop::TooLong => {
                    let reason = format!("a line longer than {} bytes", self.line_bytes_max);
                    Failure::Final(self.health.too_large(reason))
                }
            })?;
            // The part of a line that came.
            held.change(lines.rest().len()).await;
            // Pieces without a line are not progress, unless they are a long line's.
            let elapsed = last.elapsed();
            if elapsed > self.idle_timeout && is_too_slow(elapsed, lines.rest().len()) {
                return Err(self.again_as(FailureClass::TimedOut, "the stream is too slow"));
            }
        }
        // No beginning of an object is an object: what parses has lost nothing but the line's end.
        match serde_json::from_slice::<serde::de::IgnoredAny>(lines.rest()) {
            Ok(_) => take(lines.rest()),
            Err(_) => Ok(()),
        }
    }

    /// Notes a failure and waits until the request may be sent again.
    ///
    /// # Errors
    /// The failure, where it is final or one too many.
    pub(crate) async fn again(&self, tries: &mut usize, failure: Failure) -> Result<()> {
        let busy = matches!(failure, Failure::Busy(_));
        let last = matches!(failure, Failure::Final(_));
        let error = match failure {
            Failure::Again(error) | Failure::Busy(error) | Failure::Final(error) => error,
            Failure::Enough => return Ok(()),
        };
        self.note(&error);
        if last {
            return Err(error);
        }
        let pause = PAUSES_MS.get(*tries).copied().map(Duration::from_millis);
        let stated = error.retry_after().map(|wait| wait.min(RETRY_AFTER_MAX));
        let until = Instant::now() + stated.or(pause).unwrap_or(Duration::ZERO);
        if busy {
            // Also after the last try: the pause holds for the next request.
            self.limit.pause(until);
        }
        if pause.is_none() {
            return Err(Error::Exhausted(Box::new(error)));
        }
        *tries += 1;
        tokio::time::sleep_until(until).await;
        Ok(())
    }

    /// Takes note of what went wrong.
    pub(crate) fn note(&self, error: &Error) {
        match error {
            // A request that comes too early is no error.
            Error::Missing { .. } => {}
            Error::Inconsistent { what, number, .. } => {
                self.health.report_bad(&format!("block {number}: {what}"));
            }
            _ => self.health.failed(error),
        }
    }

    /// The highest finalized block that is known, after this one is. Portal is many machines, and
    /// some are behind the others.
    pub(crate) fn finalized(&self, named: Option<BlockRef>) -> Option<BlockRef> {
        let mut finalized = self.finalized.lock();
        // Of two at one height, the one that is known already.
        let higher = named.into_iter().chain(*finalized);
        *finalized = higher.max_by_key(|block| block.number);
        *finalized
    }

    /// A Portal backs off as a whole, and is never suspended by itself.
    pub(crate) fn report(&self) -> EndpointReport {
        self.health.report(self.limit.pause_until().is_some())
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.in_flight.acquire().await.ok();
        self.limit.turn().await;
        permit
    }

    /// An answer; every other status is a failure.
    async fn send(&self, request: RequestBuilder, from: u64) -> Result<Response, Failure> {
        self.health.requested();
        let response = request.send().await.map_err(|error| self.down(&error))?;
        self.finalized(finalized_of(&response));
        match meaning(response.status().as_u16()) {
            Meaning::Answer => Ok(response),
            meaning => Err(self.refusal(meaning, response, from).await),
        }
    }

    async fn refusal(&self, meaning: Meaning, response: Response, from: u64) -> Failure {
        let endpoint = self.name.to_string();
        let class = FailureClass::of_status(response.status());
        let status = response.status().as_u16();
        let unavailable = Error::Unavailable {
            endpoint: endpoint.clone(),
            reason: format!("HTTP {status}"),
            class,
            retry_after: retry_after(&response),
        };
        let error = match meaning {
            Meaning::Answer | Meaning::Failed => return Failure::Again(unavailable),
            Meaning::Busy => return Failure::Busy(unavailable),
            Meaning::NotYet => self.health.missing(from),
            Meaning::NoDataset => Error::Invalid(format!(
                "Portal does not know the dataset (endpoint={endpoint})"
            )),
            Meaning::Refused => {
                let body = self.read(response).await;
                let text = body.map_or_else(|_| String::new(), |body| text_of(&body));
                Error::Refused {
                    endpoint,
                    status,
                    reason: self.health.hide(&text),
                }
            }
            Meaning::Conflict => self.conflict(response, from).await,
        };
        Failure::Final(error)
    }

    /// The chain is another one than we went along.
    async fn conflict(&self, response: Response, from: u64) -> Error {
        let final_one = response.url().path().ends_with(FINALIZED_STREAM);
        let body = self.read(response).await.ok();
        let body = body.and_then(|body| serde_json::from_slice::<Conflict>(&body).ok());
        let blocks = body.map(|body| body.previous_blocks);
        // The order is not the same everywhere.
        let newest = blocks.unwrap_or_default().into_iter();
        let newest = newest.max_by_key(|block| block.number).map(BlockRef::from);
        let now = newest.map(|block| format!(": block {} is {} now", block.number, block.hash));
        let now = now.unwrap_or_default();
        if final_one {
            let what = format!("a finalized block was replaced{now}");
            return self.health.inconsistent(from, what);
        }
        self.health
            .unavailable(format!("the chain changed below block {from}{now}"))
    }

    async fn read(&self, response: Response) -> Result<Received, Failure> {
        let read = crate::http::read(response, &self.health, ANSWER_BYTES_MAX).await;
        read.map_err(|error| match error {
            Error::TooLarge { .. } => Failure::Final(error),
            error => Failure::Again(error),
        })
    }

    fn down(&self, error: &reqwest::Error) -> Failure {
        Failure::Again(connection_failed(&self.health, error))
    }

    pub(crate) fn again_later(&self, reason: impl Into<String>) -> Failure {
        Failure::Again(self.health.unavailable(reason))
    }

    /// The same, with what everybody may read of it.
    fn again_as(&self, class: FailureClass, reason: impl Into<String>) -> Failure {
        Failure::Again(self.health.unavailable(reason).classed(class))
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        // Such a URL has segments: it was checked to be HTTP.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(path);
        }
        url
    }
}

/// The finalized block that an answer of any kind speaks of.
fn finalized_of(response: &Response) -> Option<BlockRef> {
    let text = |name| response.headers().get(name)?.to_str().ok();
    let hash: B256 = text(FINALIZED_HASH)?.parse().ok()?;
    Some(BlockRef {
        number: text(FINALIZED_NUMBER)?.parse().ok()?,
        hash: Hash32(hash.0),
    })
}
