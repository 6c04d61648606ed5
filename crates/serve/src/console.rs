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

/// Where each file is, what it is, and the file.
const FILES: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("console/index.html")),
    (
        "/console.css",
        "text/css",
        include_str!("console/console.css"),
    ),
    (
        "/console.svg",
        "image/svg+xml",
        include_str!("console/console.svg"),
    ),
    ("/console.js", SCRIPT, include_str!("console/console.js")),
    ("/api.js", SCRIPT, include_str!("console/api.js")),
    ("/chains.js", SCRIPT, include_str!("console/chains.js")),
    ("/charts.js", SCRIPT, include_str!("console/charts.js")),
    ("/dom.js", SCRIPT, include_str!("console/dom.js")),
    ("/lookup.js", SCRIPT, include_str!("console/lookup.js")),
    ("/search.js", SCRIPT, include_str!("console/search.js")),
    (
        "/openapi.json",
        "application/json",
        include_str!("openapi.json"),
    ),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The console, and `/openapi.json`.
pub(crate) fn routes() -> Router {
    let place = |router: Router, (path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    };
    FILES.into_iter().fold(Router::new(), place)
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
