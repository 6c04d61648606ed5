//! The body of an answer that is counted while it is sent, and logged at its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, StatusCode};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

use super::log::AccessLog;
use super::visit::Seen;

pub(super) struct MeteredBody {
    body: Body,
    seen: Option<Box<Seen>>,
    log: Option<AccessLog>,
    bytes: u64,
    has_ended: bool,
}

impl MeteredBody {
    pub(super) fn new(body: Body, seen: Seen, log: Option<AccessLog>) -> Self {
        // Nothing of such an answer is sent, whatever its body would be.
        let is_empty = seen.method == Method::HEAD || seen.status == StatusCode::NOT_MODIFIED;
        Self {
            body,
            seen: Some(Box::new(seen)),
            log,
            bytes: 0,
            has_ended: is_empty,
        }
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.bytes += bytes;
                let seen = self.seen.as_ref().filter(|seen| !seen.was_refused);
                if let Some(caller) = seen.and_then(|seen| seen.caller.as_ref()) {
                    caller.wrote(bytes, Instant::now());
                }
            }
            Poll::Ready(None) => self.has_ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for MeteredBody {
    fn drop(&mut self) {
        // A body with a length may be left as soon as all of it came.
        let is_complete = self.has_ended || self.body.is_end_stream();
        if let (Some(seen), Some(log)) = (self.seen.take(), &self.log) {
            log.note(*seen, self.bytes, is_complete);
        }
    }
}
