//! API keys: who calls, and what is left of that caller's limits.
//!
//! A key is found by its hash. So no comparison depends on the key itself, and the settings hold nothing that opens
//! anything. The hash is a plain SHA-256: keys are 256 random bits, and no number of guesses finds one. What a slow
//! hash protects are passwords, and it would cost its time for each request.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, header};
use metrics::{Counter, counter};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::bucket::{Bucket, Rate, Short};
use super::refusal;
use crate::error::{ApiError, ErrorCode};

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Names all callers without a key, together.
const ANONYMOUS: &str = "anonymous";
const HASH_PREFIX: &str = "sha256:";

/// Who may use the public listener.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys {
    /// Whether requests without a key are refused.
    pub required: bool,
    /// The limits of all requests without a key together.
    pub anonymous: KeyLimits,
    pub keys: Vec<ApiKey>,
}

/// A key by its hash.
#[derive(Clone, Debug)]
pub struct ApiKey {
    pub name: String,
    pub hash: KeyHash,
    pub limits: KeyLimits,
}

/// What a caller may use; none for no limit.
#[derive(Clone, Copy, Default, Debug)]
pub struct KeyLimits {
    /// Requests; each call of a batch is one, each time of a lookup, and each chain of a query.
    pub requests: Option<Rate>,
    /// Bytes of answers as they are sent.
    pub bytes: Option<Rate>,
}

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HASH_PREFIX}{}", const_hex::encode(self.0))
    }
}

impl FromStr for KeyHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a hash is `sha256:` and 64 hex digits";
        let digits = text.strip_prefix(HASH_PREFIX).ok_or(wrong)?;
        const_hex::decode_to_array(digits)
            .map(Self)
            .map_err(|_| wrong)
    }
}

/// Finds the caller of a request.
pub(super) struct Gate {
    required: bool,
    anonymous: Arc<Caller>,
    keys: HashMap<KeyHash, Arc<Caller>>,
    unauthorized: Counter,
}

/// A request that is refused, with its caller where that is known.
pub(super) struct Refused {
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) error: ApiError,
}

impl Gate {
    pub(super) fn new(keys: &ApiKeys, now: Instant) -> Self {
        let caller = |key: &ApiKey| (key.hash, Caller::new(&key.name, key.limits, now));
        Self {
            required: keys.required,
            anonymous: Caller::new(ANONYMOUS, keys.anonymous, now),
            keys: keys.keys.iter().map(caller).collect(),
            unauthorized: counter!(
                "chronolith_key_refused_total", "key" => ANONYMOUS, "reason" => "unauthorized"
            ),
        }
    }

    /// Whether answers are for those with a key alone.
    pub(super) fn is_required(&self) -> bool {
        self.required
    }

    /// The caller of a request, which is counted.
    pub(super) fn admit(&self, headers: &HeaderMap, now: Instant) -> Result<Arc<Caller>, Refused> {
        let unauthorized = |message: &str| {
            self.unauthorized.increment(1);
            Refused {
                caller: None,
                error: ApiError::new(ErrorCode::Unauthorized, message),
            }
        };
        let caller = match key_of(headers) {
            Some(key) => {
                let found = self.keys.get(&KeyHash::of(key));
                let message = "the API key is not known here: it was mistyped or revoked";
                found.ok_or_else(|| unauthorized(message))?
            }
            None if self.required => {
                let message =
                    "an API key is needed: send it as `Authorization: Bearer …` or as `x-api-key`";
                return Err(unauthorized(message));
            }
            None => &self.anonymous,
        };
        match caller.begin(now) {
            Ok(()) => Ok(caller.clone()),
            Err(error) => Err(Refused {
                caller: Some(caller.clone()),
                error,
            }),
        }
    }
}

/// The key that a request has. Other credentials are for a proxy in front.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key)
    });
    let plain = || headers.get(API_KEY)?.to_str().ok();
    bearer.or_else(plain).map(str::trim)
}

/// A caller, and what is left of its limits.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    requests: Option<Mutex<Bucket>>,
    bytes: Option<Mutex<Bucket>>,
    meters: Meters,
}

/// What a caller used.
#[derive(Debug)]
struct Meters {
    requests: Counter,
    bytes: Counter,
    over_requests: Counter,
    over_bytes: Counter,
}

impl Caller {
    fn new(name: &str, limits: KeyLimits, now: Instant) -> Arc<Self> {
        let bucket = |rate: Option<Rate>| rate.map(|rate| Mutex::new(Bucket::new(rate, now)));
        let named = |metric: &'static str| counter!(metric, "key" => name.to_owned());
        let refused = |reason: &'static str| counter!("chronolith_key_refused_total", "key" => name.to_owned(), "reason" => reason);
        Arc::new(Self {
            name: name.into(),
            requests: bucket(limits.requests),
            bytes: bucket(limits.bytes),
            meters: Meters {
                requests: named("chronolith_key_requests_total"),
                bytes: named("chronolith_key_bytes_total"),
                over_requests: refused("requests"),
                over_bytes: refused("bytes"),
            },
        })
    }

    /// Counts a request. Its bytes are not known yet: it is refused where those of earlier ones are still owed.
    fn begin(&self, now: Instant) -> Result<(), ApiError> {
        if let Some(bytes) = &self.bytes {
            let mut bucket = bytes.lock();
            if let Err(short) = bucket.any_left(now) {
                self.meters.over_bytes.increment(1);
                return Err(over("bytes", bucket.rate(), short));
            }
        }
        self.count(1, 1, now)
    }

    /// Counts the calls of a batch, of which the request was one. That is given back where there are too few: after
    /// the time that the refusal names, the whole batch passes.
    pub(super) fn count_batch(&self, calls: u64, now: Instant) -> Result<(), ApiError> {
        self.count(calls - 1, calls, now).inspect_err(|_| {
            if let Some(bucket) = &self.requests {
                bucket.lock().owe(-1.0, now);
            }
        })
    }

    /// Counts this many requests of as many that come together.
    fn count(&self, requests: u64, together: u64, now: Instant) -> Result<(), ApiError> {
        if let Some(bucket) = &self.requests {
            let mut bucket = bucket.lock();
            let taken = match together as f64 > bucket.rate().burst {
                true => Err(Short::Forever),
                false => bucket.take(requests as f64, now),
            };
            if let Err(short) = taken {
                self.meters.over_requests.increment(1);
                return Err(over("requests", bucket.rate(), short));
            }
        }
        self.meters.requests.increment(requests);
        Ok(())
    }

    /// Bytes that may be sent at once; none without such a limit.
    pub(super) fn byte_burst(&self) -> Option<f64> {
        let bytes = self.bytes.as_ref()?;
        Some(bytes.lock().rate().burst)
    }

    /// The time until this part of the bytes at once is back; none where it is, or without such a limit.
    pub(super) fn bytes_back(&self, part: f64, now: Instant) -> Option<Duration> {
        let mut bucket = self.bytes.as_ref()?.lock();
        let level = bucket.rate().burst * part;
        bucket.time_until(level, now)
    }

    /// Counts bytes that were handed to the connection.
    pub(super) fn wrote(&self, bytes: u64, now: Instant) {
        self.meters.bytes.increment(bytes);
        if let Some(bucket) = &self.bytes {
            bucket.lock().owe(bytes as f64, now);
        }
    }

    /// Shows in an answer what is left.
    pub(super) fn show(&self, headers: &mut HeaderMap, now: Instant) {
        let left = |bucket: &Option<Mutex<Bucket>>| {
            let mut bucket = bucket.as_ref()?.lock();
            let (left, full) = bucket.left(now);
            Some((bucket.rate(), left, full))
        };
        refusal::show_limits(headers, left(&self.requests), left(&self.bytes));
    }
}

fn over(what: &'static str, rate: Rate, short: Short) -> ApiError {
    let Rate { per_second, burst } = rate;
    match short {
        Short::For(wait) => {
            let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
            let message = format!(
                "too many {what} with this key: {per_second} a second and {burst} at once are allowed, retry in {seconds} s"
            );
            ApiError::rate_limited(message, what, seconds)
        }
        Short::Forever => {
            let message = format!(
                "the request has more calls, times or chains than the {burst} that this key may request at once: send smaller batches"
            );
            ApiError::new(ErrorCode::TooLarge, message)
        }
    }
}
