//! A panic in a handler fails its own request alone, on every listener.

use std::any::Any;

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;

use crate::error::{ApiError, ErrorCode};
use crate::http::caching::NO_STORE;
use crate::metrics;

/// Turns a panic into a 500 without its details, and counts it.
pub(crate) fn catch_panics() -> CatchPanicLayer<fn(Box<dyn Any + Send>) -> Response> {
    CatchPanicLayer::custom(panicked as fn(_) -> _)
}

fn panicked(_: Box<dyn Any + Send>) -> Response {
    metrics::panicked();
    let message = "internal error: please report it";
    let error = ApiError::new(ErrorCode::Internal, message);
    ([(header::CACHE_CONTROL, NO_STORE)], error).into_response()
}
