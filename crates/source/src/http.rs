//! What every HTTP client of this crate keeps to.

use std::ops::Deref;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response};
use tokio::time::Instant;

use crate::answer_memory::{AnswerMemory, HeldAnswer};
use crate::error::{Error, Result};
use crate::failure::FailureClass;
use crate::health::Health;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that a `Retry-After` is believed.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Bytes reserved for an answer before it comes: its stated length is believed only this far.
pub(crate) const READ_AHEAD_MAX: u64 = 16 << 20;
/// An answer that has taken this long must have come at this pace.
const PACE_AFTER: Duration = Duration::from_secs(60);
const PACE_BYTES_A_SECOND: f64 = 10_000.0;
/// One that is longer than this takes memory from others, and must come faster.
const LONG_BYTES: usize = 4 << 20;
const LONG_PACE_BYTES_A_SECOND: f64 = 200_000.0;

/// The bytes of an answer, with the memory that they count for. To be dropped when they are parsed.
pub(crate) struct Received {
    bytes: Vec<u8>,
    _held: HeldAnswer,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A client that waits this long between two pieces of an answer. There is no limit on the whole: large
/// answers take long, and only have to keep a pace.
pub(crate) fn client(read_timeout: Duration) -> ClientBuilder {
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(read_timeout)
        // It would hand the key in the path to another host.
        .redirect(Policy::none())
        .referer(false)
}

/// Why a request failed. The error's own text may hold the URL with its key.
pub(crate) fn reason_of(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "timed out"
    } else if error.is_connect() {
        "cannot connect"
    } else if error.is_body() || error.is_decode() {
        "answer was cut"
    } else {
        "request failed"
    }
}

/// The error of a request that had no answer, or only a part of it.
pub(crate) fn connection_failed(health: &Health, error: &reqwest::Error) -> Error {
    let class = FailureClass::of_http(error);
    health.unavailable(reason_of(error)).classed(class)
}

/// The bytes of an answer.
///
/// # Errors
/// `TooLarge` above `bytes_max` bytes, `Unavailable` where the connection fails or is too slow.
pub(crate) async fn read(
    mut response: Response,
    health: &Health,
    bytes_max: u64,
) -> Result<Received> {
    let stated = response.content_length().unwrap_or(0);
    let mut bytes = Vec::with_capacity(stated.min(bytes_max).min(READ_AHEAD_MAX) as usize);
    let mut held = AnswerMemory::of_process().begin();
    let mut began = Instant::now();
    let failed = |error| connection_failed(health, &error);
    while let Some(part) = response.chunk().await.map_err(failed)? {
        let len = bytes.len() + part.len();
        if len as u64 > bytes_max {
            return Err(health.too_large(format!("answer longer than {bytes_max} bytes")));
        }
        health.received(part.len());
        let waits = Instant::now();
        held.grow(len).await;
        // The endpoint is not slow while its answer waits for memory.
        began += waits.elapsed();
        bytes.extend_from_slice(&part);
        if is_too_slow(began.elapsed(), bytes.len()) {
            let slow = health.unavailable("the answer comes too slowly");
            return Err(slow.classed(FailureClass::TimedOut));
        }
    }
    Ok(Received { bytes, _held: held })
}

/// Whether an answer comes too slowly to wait for the rest.
pub(crate) fn is_too_slow(elapsed: Duration, bytes: usize) -> bool {
    let pace = match bytes > LONG_BYTES {
        true => LONG_PACE_BYTES_A_SECOND,
        false => PACE_BYTES_A_SECOND,
    };
    elapsed > PACE_AFTER && (bytes as f64) < elapsed.as_secs_f64() * pace
}

/// The pause that the endpoint requested.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: f64 = value.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(3600.0)))
}
