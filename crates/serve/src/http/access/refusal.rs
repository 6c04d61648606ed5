//! What a caller sees of its limits: headers on every answer, and the error where they are used up.
//!
//! The headers are those of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy` has the quota and its window in
//! seconds, `RateLimit` what is left and in how many seconds all of it is back.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use serde_json::json;

use super::bucket::Rate;
use crate::error::ApiError;
use crate::http::finish::add_headers;
use crate::http::{caching, finish};
use crate::{problem, rpc};

pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A rate, what is left of it, and the time until it is whole again.
type Left = (Rate, u64, Duration);

/// Puts what is left of both limits into the headers of an answer.
pub(super) fn show_limits(headers: &mut HeaderMap, requests: Option<Left>, bytes: Option<Left>) {
    let (mut policies, mut limits) = (Vec::new(), Vec::new());
    let both = [
        ("requests", "", requests),
        ("bytes", ";qu=\"content-bytes\"", bytes),
    ];
    for (name, unit, left) in both {
        let Some((rate, left, full)) = left else {
            continue;
        };
        let (quota, window) = (rate.burst as u64, rate.window());
        let full = full.as_secs_f64().ceil() as u64;
        policies.push(format!("\"{name}\";q={quota};w={window}{unit}"));
        limits.push(format!("\"{name}\";r={left};t={full}"));
    }
    for (name, parts) in [(RATE_LIMIT_POLICY, policies), (RATE_LIMIT, limits)] {
        if let Ok(value) = HeaderValue::try_from(parts.join(", "))
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
}

/// An error that no handler returned, in the form of a route. Where that is problem details, it is rendered later.
pub(crate) fn of_route(route: Option<&str>, error: &ApiError) -> Response {
    let mut response = match route {
        Some(route) if rpc::is_path(route) => rpc::refused(error.clone()),
        _ => error.clone().into_response(),
    };
    if matches!(route, Some("/fees" | "/fees/totals")) {
        let text = json!({ "error": error.message }).to_string();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(text);
    }
    response
}

/// The answer to a request that is refused before it reaches its handler, in the form of its route.
pub(super) fn render(route: Option<&str>, error: &ApiError, id: &HeaderValue) -> Response {
    let mut response = of_route(route, error);
    match route {
        Some(route) if rpc::is_path(route) || finish::is_fixed(route) => {}
        _ => problem::render(&mut response, error, id),
    }
    add_headers(&mut response, id.clone());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, caching::NO_STORE);
    if error.status() == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        headers.insert(header::WWW_AUTHENTICATE, scheme);
    }
    // Without these a page cannot read why it is refused.
    let any = HeaderValue::from_static("*");
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    let exposed = HeaderValue::from_static("x-request-id,retry-after,ratelimit,ratelimit-policy");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response
}
