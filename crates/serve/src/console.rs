//! The console and the API description: the files of the public listener.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::openapi::OPENAPI;

/// Pages load nothing from other hosts.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const POLICY_NAME: HeaderName = header::CONTENT_SECURITY_POLICY;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

#[derive(Clone, Copy)]
pub(crate) struct File {
    pub(crate) path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const fn file(path: &'static str, kind: &'static str, text: &'static str) -> File {
    File { path, kind, text }
}

/// Files that are part of the program, with their paths and types.
const FILES: [File; 20] = [
    file("/", HTML, include_str!("console/index.html")),
    file(
        "/console.css",
        "text/css",
        include_str!("console/console.css"),
    ),
    file(
        "/console.svg",
        "image/svg+xml",
        include_str!("console/console.svg"),
    ),
    file("/console.js", SCRIPT, include_str!("console/console.js")),
    file("/api.js", SCRIPT, include_str!("console/api.js")),
    file("/chains.js", SCRIPT, include_str!("console/chains.js")),
    file("/charts.js", SCRIPT, include_str!("console/charts.js")),
    file("/dom.js", SCRIPT, include_str!("console/dom.js")),
    file("/lookup.js", SCRIPT, include_str!("console/lookup.js")),
    file("/search.js", SCRIPT, include_str!("console/search.js")),
    file("/poll.js", SCRIPT, include_str!("console/poll.js")),
    file("/ranges.js", SCRIPT, include_str!("console/ranges.js")),
    file(
        "/projections",
        HTML,
        include_str!("console/projections.html"),
    ),
    file(
        "/projections.js",
        SCRIPT,
        include_str!("console/projections.js"),
    ),
    file("/boards.js", SCRIPT, include_str!("console/boards.js")),
    file(
        "/projections.css",
        "text/css",
        include_str!("console/projections.css"),
    ),
    file("/docs", HTML, include_str!("console/docs.html")),
    file("/docs.js", SCRIPT, include_str!("console/docs.js")),
    file("/schemas.js", SCRIPT, include_str!("console/schemas.js")),
    file("/docs.css", "text/css", include_str!("console/docs.css")),
];

/// Every file with its path and its type.
pub(crate) fn files() -> impl Iterator<Item = File> {
    let description = file("/openapi.json", "application/json", OPENAPI);
    FILES.into_iter().chain([description])
}

impl File {
    pub(crate) fn response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (POLICY_NAME, POLICY),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (
                header::X_CONTENT_TYPE_OPTIONS,
                HeaderValue::from_static("nosniff"),
            ),
        ];
        (headers, self.text).into_response()
    }
}
