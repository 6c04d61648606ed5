//! What happens to every answer of the public listener before it is sent: a time limit, what caches need, the id of
//! the request, the form of errors, a length for old clients, and compression.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::answer_memory::MemoryReservation;
use super::caching::Conditions;
use super::compress::{Coding, Compressor};
use super::context::Context;
use super::request_id::{REQUEST_ID, RequestIds};
use crate::error::{ApiError, ErrorCode, Limit};
use crate::problem;

/// How long any response may take to begin. Queries have their own, far lower limits.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Routes whose errors are an object with a code and a message, for the clients that they were made for.
const FIXED_ERRORS: [&str; 6] = [
    "/fees",
    "/fees/totals",
    "/v1/chains",
    "/v1/chains/{chainId}",
    "/v1/chains/{chainId}/block/{direction}/{time}",
    "/v1/indexing-status",
];

pub(super) fn is_fixed(route: &str) -> bool {
    FIXED_ERRORS.contains(&route)
}

/// What answers need before they are sent.
#[derive(Clone)]
pub(crate) struct Finisher {
    pub(crate) context: Context,
    pub(crate) compressor: Compressor,
    pub(crate) ids: RequestIds,
}

pub(crate) async fn finish(
    State(finisher): State<Finisher>,
    request: Request,
    next: Next,
) -> Response {
    let (version, coding) = (request.version(), Coding::of(request.headers()));
    let conditions = Conditions::of(&request);
    let id = finisher.ids.of(request.headers());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map(MatchedPath::as_str);
    let fixed_errors = path.is_some_and(is_fixed);
    let started = Instant::now();
    let response = match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s: request less", TIMEOUT.as_secs());
            ApiError::new(ErrorCode::Timeout, message).into_response()
        }
    };
    let mut response = conditions.apply(response).await;
    if version < Version::HTTP_11 {
        response = match with_length(&finisher.context, response).await {
            Ok(response) => response,
            // Caches must not keep it.
            Err(error) => conditions.apply(error.into_response()).await,
        };
    }
    let error = response.extensions_mut().remove::<ApiError>();
    if let Some(error) = error.filter(|_| !fixed_errors) {
        problem::render(&mut response, &error, &id);
    }
    add_headers(&mut response, id);
    let meters = &finisher.context.requests;
    meters.answered(path, response.status(), started.elapsed());
    if version < Version::HTTP_11 {
        return response;
    }
    finisher.compressor.apply(response, coding)
}

/// After this many seconds a client may try again, where its answer does not say.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

pub(super) fn add_headers(response: &mut Response, id: HeaderValue) {
    let is_later = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if is_later && !headers.contains_key(header::RETRY_AFTER) {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
}

/// The answer with its length. Without one, the end of an HTTP/1.0 connection is the end of the answer: one
/// that is cut would look whole.
async fn with_length(context: &Context, response: Response) -> Result<Response, ApiError> {
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    let max = context.limits.answer_bytes;
    let (parts, body) = response.into_parts();
    let mut chunks = body.into_data_stream();
    let (mut whole, mut held) = (Vec::new(), MemoryReservation::default());
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            let message = "the answer failed before its end: retry";
            return Err(ApiError::new(ErrorCode::Internal, message));
        };
        let bytes = whole.len() + chunk.len();
        if bytes > max {
            let message = "the answer is too long for HTTP/1.0: use HTTP/1.1 (in nginx: proxy_http_version 1.1), or request less";
            return Err(ApiError::over(Limit::ResponseBytes, max as u64, message));
        }
        context.grow(&mut held, bytes).await?;
        whole.extend_from_slice(&chunk);
    }
    let held = super::body::HeldMemory::new(held);
    Ok(Response::from_parts(parts, Body::from(held.hold(whole))))
}
