//! A bug in a handler fails its own request alone, on every listener.

use std::any::Any;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;

use crate::meters;
use crate::rest::RestError;

/// Makes a panic an answer: counted, and told without its details.
pub(crate) fn caught() -> CatchPanicLayer<fn(Box<dyn Any + Send>) -> Response> {
    CatchPanicLayer::custom(panicked as fn(_) -> _)
}

fn panicked(_: Box<dyn Any + Send>) -> Response {
    meters::panicked();
    let message = "internal error: please report it";
    RestError::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", message).into_response()
}
