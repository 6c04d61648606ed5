//! JSON-RPC over HTTP, and what goes wrong on that way.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;

use super::Context;
use crate::evm::faults::RpcFault;
use crate::evm::rpc;
use crate::http_server::cut_short;

const JSON: &str = "application/json";
/// Padding of a huge body is sent in pieces of this length.
const PADDING: &[u8] = &[b' '; 64 << 10];

/// Answers one POST.
pub(super) async fn answer(State(context): State<Arc<Context>>, body: Bytes) -> Response {
    let _under_way = context.count_http(&body);
    wait(&context).await;
    let request = rpc::parse(&body);
    if let Some(refusal) = refuse(&context, rpc::call_count(&request)) {
        return refusal;
    }
    let answer = rpc::answer(&context, &request, None);
    let faults = context.faults();
    if answer.len() > 1 && faults.hits(RpcFault::TruncatedBody) {
        return truncated(&context, answer);
    }
    if faults.hits(RpcFault::HugeBody) {
        return huge(&context, answer);
    }
    context.count_bytes(answer.len() as u64);
    respond(StatusCode::OK, None, Body::from(answer))
}

/// The delay that every answer has, and the one that some have.
pub(super) async fn wait(context: &Context) {
    let mut delay = context.options.delay;
    if context.faults().hits(RpcFault::SlowAnswer) {
        delay += context.faults().sizes().slow_answer;
    }
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Why a request is not answered at all.
fn refuse(context: &Context, calls: u64) -> Option<Response> {
    let faults = context.faults();
    let too_many = |retry_after| {
        let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}"#;
        context.count_bytes(text.len() as u64);
        respond(StatusCode::TOO_MANY_REQUESTS, retry_after, Body::from(text))
    };
    if !context.limiter.admits(calls) {
        return Some(too_many(context.limiter.retry_after_seconds()));
    }
    if faults.hits(RpcFault::Http429RetryAfter) {
        return Some(too_many(Some(faults.sizes().retry_after_seconds)));
    }
    if faults.hits(RpcFault::Http429Bare) {
        return Some(too_many(None));
    }
    faults.hits(RpcFault::Http500).then(|| {
        let text = "internal server error";
        context.count_bytes(text.len() as u64);
        respond(StatusCode::INTERNAL_SERVER_ERROR, None, Body::from(text))
    })
}

/// Promises the whole answer, sends half of it and breaks the connection.
fn truncated(context: &Context, answer: Vec<u8>) -> Response {
    let answer = Bytes::from(answer);
    context.count_bytes(answer.len() as u64 / 2);
    let mut response = respond(StatusCode::OK, None, cut_short(&answer));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, answer.len().into());
    response
}

/// The answer and spaces up to the wanted length: valid JSON for a client with enough memory.
fn huge(context: &Context, answer: Vec<u8>) -> Response {
    let wanted = context.faults().sizes().huge_body_bytes;
    let missing = wanted.saturating_sub(answer.len() as u64);
    context.count_bytes(answer.len() as u64 + missing);
    let whole = (0..missing / PADDING.len() as u64).map(|_| PADDING);
    let rest = PADDING.get(..(missing % PADDING.len() as u64) as usize);
    let padding = whole.chain(rest).map(Bytes::from_static);
    let parts = [Bytes::from(answer)].into_iter().chain(padding);
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, io::Error>)));
    respond(StatusCode::OK, None, body)
}

fn respond(status: StatusCode, retry_after: Option<u64>, body: Body) -> Response {
    let builder = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, JSON);
    let builder = match retry_after {
        Some(seconds) => builder.header(RETRY_AFTER, seconds),
        None => builder,
    };
    builder.body(body).expect("status and headers are valid")
}
