//! The console and the description of the interface: files that are part of the program.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// What pages may load: nothing from elsewhere.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const POLICY_NAME: HeaderName = header::CONTENT_SECURITY_POLICY;

/// The console, and `/openapi.json`.
pub(crate) fn routes() -> Router {
    let openapi = || async { file("application/json", include_str!("openapi.json")) };
    Router::new().route("/openapi.json", get(openapi))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (POLICY_NAME, POLICY),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, text).into_response()
}
