//! One HTTP request with calls, and the bytes of its answer.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;

use super::Endpoint;
use crate::error::{Error, Result};
use crate::failure::FailureClass;
use crate::http::{Received, connection_failed, read, retry_after};
use crate::jsonrpc::call::{Call, body_of, small_bytes_max};

/// All of an answer that is known to be small.
const SMALL_TIMEOUT: Duration = Duration::from_secs(30);

impl Endpoint {
    pub(super) async fn exchange(&self, calls: &[Call]) -> Result<(StatusCode, Received)> {
        let bytes_max = self.settings.answer_bytes_max;
        // What has a hundred bytes must not take the memory of the longest answers.
        let Some(small) = small_bytes_max(calls) else {
            return self.receive(calls, bytes_max).await;
        };
        let receive = self.receive(calls, small.min(bytes_max));
        let received = tokio::time::timeout(SMALL_TIMEOUT, receive).await;
        let late = |_| {
            Err(self
                .unavailable("timed out")
                .classed(FailureClass::TimedOut))
        };
        received.unwrap_or_else(late)
    }

    async fn receive(&self, calls: &[Call], bytes_max: u64) -> Result<(StatusCode, Received)> {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body_of(calls));
        let failed = |error| connection_failed(&self.health, &error);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.health.meters.rate_limited.increment(1);
        }
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            return Err(Error::Unavailable {
                endpoint: self.name.to_string(),
                reason: format!("HTTP {}", status.as_u16()),
                class: FailureClass::of_status(status),
                retry_after: retry_after(&response),
            });
        }
        // Some answer a JSON-RPC error with a status of its own: the body says which.
        let bytes = read(response, &self.health, bytes_max).await?;
        Ok((status, bytes))
    }
}
