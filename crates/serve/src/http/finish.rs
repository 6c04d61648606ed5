//! What happens to every answer of the public listener before it is sent: a time limit, what caches need, a
//! length for old clients, and compression.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::Version;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;

use super::answer_memory::MemoryReservation;
use super::caching::Conditions;
use super::compress::{Coding, Compressor};
use super::context::Context;
use crate::error::{ApiError, ErrorCode};

/// How long any response may take to begin. Queries have their own, far lower limits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What answers need before they are sent.
#[derive(Clone)]
pub(crate) struct Finisher {
    pub(crate) context: Context,
    pub(crate) compressor: Compressor,
}

pub(crate) async fn finish(
    State(finisher): State<Finisher>,
    request: Request,
    next: Next,
) -> Response {
    let (version, coding) = (request.version(), Coding::of(request.headers()));
    let conditions = Conditions::of(&request);
    let response = match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s: request less", TIMEOUT.as_secs());
            ApiError::new(ErrorCode::Timeout, message).into_response()
        }
    };
    let response = conditions.apply(response).await;
    if version < Version::HTTP_11 {
        return with_length(&finisher.context, response).await;
    }
    finisher.compressor.apply(response, coding)
}

/// The answer with its length. Without one, the end of an HTTP/1.0 connection is the end of the answer: one
/// that is cut would look whole.
async fn with_length(context: &Context, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let mut chunks = body.into_data_stream();
    let (mut whole, mut held) = (Vec::new(), MemoryReservation::default());
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            let message = "the answer failed before its end: retry";
            return ApiError::new(ErrorCode::Internal, message).into_response();
        };
        let bytes = whole.len() + chunk.len();
        if bytes > context.limits.answer_bytes {
            let message = "the answer is too long for HTTP/1.0: use HTTP/1.1 (in nginx: proxy_http_version 1.1), or request less";
            return ApiError::new(ErrorCode::TooLarge, message).into_response();
        }
        if let Err(fault) = context.grow(&mut held, bytes).await {
            return ApiError::from(fault).into_response();
        }
        whole.extend_from_slice(&chunk);
    }
    let held = super::body::HeldMemory::new(held);
    Response::from_parts(parts, Body::from(held.hold(whole)))
}
