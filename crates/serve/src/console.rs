//! The console and the API description: the files of the public listener.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

use crate::openapi::OPENAPI;

/// Pages load nothing from other hosts.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
const POLICY_NAME: HeaderName = header::CONTENT_SECURITY_POLICY;

#[derive(Clone, Copy)]
pub(crate) struct File {
    pub(crate) path: &'static str,
    text: &'static str,
}

const fn file(path: &'static str, text: &'static str) -> File {
    File { path, text }
}

/// Files that are part of the program, with their paths.
const FILES: [File; 27] = [
    file("/", include_str!("console/index.html")),
    file("/console.css", include_str!("console/console.css")),
    file("/console.svg", include_str!("console/console.svg")),
    file("/console.js", include_str!("console/console.js")),
    file("/api.js", include_str!("console/api.js")),
    file("/chains.js", include_str!("console/chains.js")),
    file("/charts.js", include_str!("console/charts.js")),
    file("/dom.js", include_str!("console/dom.js")),
    file("/lookup.js", include_str!("console/lookup.js")),
    file("/search.js", include_str!("console/search.js")),
    file("/poll.js", include_str!("console/poll.js")),
    file("/ranges.js", include_str!("console/ranges.js")),
    file("/projections", include_str!("console/projections.html")),
    file("/projections.js", include_str!("console/projections.js")),
    file("/boards.js", include_str!("console/boards.js")),
    file("/projections.css", include_str!("console/projections.css")),
    file("/docs", include_str!("console/docs.html")),
    file("/docs.js", include_str!("console/docs.js")),
    file("/docs-code.js", include_str!("console/docs-code.js")),
    file("/docs-entry.js", include_str!("console/docs-entry.js")),
    file("/docs-model.js", include_str!("console/docs-model.js")),
    file("/docs-nav.js", include_str!("console/docs-nav.js")),
    file("/docs-pages.js", include_str!("console/docs-pages.js")),
    file("/docs-request.js", include_str!("console/docs-request.js")),
    file("/docs-search.js", include_str!("console/docs-search.js")),
    file("/schemas.js", include_str!("console/schemas.js")),
    file("/docs.css", include_str!("console/docs.css")),
];

/// Every file with its path.
pub(crate) fn files() -> impl Iterator<Item = File> {
    let description = file("/openapi.json", OPENAPI);
    FILES.into_iter().chain([description])
}

impl File {
    pub(crate) fn response(self) -> Response {
        let kind = match self.path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css",
            Some((_, "svg")) => "image/svg+xml",
            Some((_, "json")) => "application/json",
            _ => "text/html; charset=utf-8",
        };
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
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
