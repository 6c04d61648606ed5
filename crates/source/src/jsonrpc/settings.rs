//! How an endpoint may be used.

/// How an endpoint may be used.
#[derive(Clone)]
pub struct EndpointSettings {
    pub url: String,
    /// Requests that may be in flight.
    pub in_flight: usize,
    /// Requests a second; 0 for no limit.
    pub per_second: f64,
    /// Calls in one request.
    pub batch: usize,
    /// An answer longer than this is refused. That to a call whose answer is small on every chain has a lower limit.
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
            answer_bytes_max: 128 << 20,
        }
    }
}
