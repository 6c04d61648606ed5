//! Which answers caches may keep, and 304 for a client that has the answer already.
//!
//! | answer | `Cache-Control` |
//! |---|---|
//! | its content can never change: see [`Immutable`] | `public, max-age=31536000, immutable` |
//! | any other answer to GET | `no-cache`: it may be kept, and is confirmed at each use |
//! | an error, an answer to POST, health | `no-store` |

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::error::{ApiError, ErrorCode};
use crate::rest::logs::NEXT_CURSOR;

/// Answers up to this get a tag of their bytes, unless they have one. Hashing them takes 0.2 ms at most.
const HASHED_BYTES_MAX: u64 = 512 << 10;

pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
const PRIVATE_FOR_EVER: HeaderValue =
    HeaderValue::from_static("private, max-age=31536000, immutable");

/// Keeps an answer out of caches that several clients share: they do not know who may have it.
pub(crate) fn keep_from_shared(headers: &mut HeaderMap) {
    let private = match headers.get(header::CACHE_CONTROL) {
        Some(control) if *control == NO_STORE => return,
        Some(control) if *control == FOR_EVER => PRIVATE_FOR_EVER,
        _ => PRIVATE,
    };
    headers.insert(header::CACHE_CONTROL, private);
}

/// Whether caches that several clients share may keep an answer without asking again.
pub(crate) fn is_public(headers: &HeaderMap) -> bool {
    headers.get(header::CACHE_CONTROL) == Some(&FOR_EVER)
}

/// Marks an answer whose content can never change: everything in it is about blocks that are final, it names them by
/// number or hash and not by a tag such as `latest`, and blocks that are archived later cannot add to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Immutable;

/// The tag of an answer, made of what determines it instead of its bytes. It is weak: the same logs may be cut into
/// pages of other sizes, and their level may rise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tag(HeaderValue);

impl Tag {
    /// The tag of an answer that follows from these parts, and from the version of the program.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [env!("CARGO_PKG_VERSION").as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(named(hasher.finalize()))
    }

    /// The tag of an answer that is made of those with these tags.
    pub(crate) fn of_all(tags: &[Self]) -> Self {
        let parts: Vec<&[u8]> = tags.iter().map(|tag| tag.0.as_bytes()).collect();
        Self::of(&parts)
    }

    /// The answer with this tag, which never changes.
    pub(crate) fn put(self, response: &mut Response) {
        response.extensions_mut().insert(Immutable);
        response.headers_mut().insert(header::ETAG, self.0);
    }

    /// Whether the client of a request has the answer with this tag. One that has any answer (`*`) does not say
    /// which: it is confirmed when the answer is there.
    pub(crate) fn is_known(&self, request: &HeaderMap) -> bool {
        let mut known = request.get_all(header::IF_NONE_MATCH).iter();
        known.any(|list| *list != "*" && names(list, &self.0))
    }

    /// Tells the client that it has the answer.
    pub(crate) fn not_modified(self) -> Response {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        self.put(&mut response);
        response
    }
}

/// What a request says about caching.
pub(super) struct Conditions {
    is_read: bool,
    known: Vec<HeaderValue>,
}

impl Conditions {
    pub(super) fn of(request: &Request) -> Self {
        let known = request.headers().get_all(header::IF_NONE_MATCH);
        Self {
            is_read: matches!(*request.method(), Method::GET | Method::HEAD),
            known: known.iter().cloned().collect(),
        }
    }

    /// The answer with what caches need, or 304 where the client has it.
    pub(super) async fn apply(&self, mut response: Response) -> Response {
        let status = response.status();
        let is_immutable = response.extensions().get::<Immutable>().is_some();
        let headers = response.headers_mut();
        if !self.is_read || !matches!(status, StatusCode::OK | StatusCode::NOT_MODIFIED) {
            headers.insert(header::CACHE_CONTROL, NO_STORE);
            headers.remove(header::ETAG);
            return response;
        }
        if is_immutable {
            headers.insert(header::CACHE_CONTROL, FOR_EVER);
        }
        if headers.get(header::CACHE_CONTROL) == Some(&NO_STORE) {
            return response;
        }
        headers.entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
        let varies = HeaderValue::from_static("accept-encoding");
        headers.append(header::VARY, varies);
        if status == StatusCode::NOT_MODIFIED {
            return response;
        }
        let response = tagged(response).await;
        match response.headers().get(header::ETAG) {
            Some(tag) if self.known.iter().any(|list| names(list, tag)) => not_modified(response),
            _ => response,
        }
    }
}

/// The answer with a tag of its bytes, where it has none and its bytes are there. Where the next page begins is a part
/// of it: rows without a last line have that in a header alone.
async fn tagged(response: Response) -> Response {
    let bytes = response.body().size_hint().exact();
    let has_bytes = bytes.is_some_and(|bytes| (1..=HASHED_BYTES_MAX).contains(&bytes));
    if response.headers().contains_key(header::ETAG) || !has_bytes {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body with a length is one buffer: nothing is copied, and nothing is waited for.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        let message = "the answer failed before its end: retry";
        return ApiError::new(ErrorCode::Internal, message).into_response();
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes);
    if let Some(cursor) = parts.headers.get(NEXT_CURSOR) {
        hasher.update(cursor.as_bytes());
    }
    parts.headers.insert(header::ETAG, named(hasher.finalize()));
    Response::from_parts(parts, Body::from(bytes))
}

fn not_modified(response: Response) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE] {
        parts.headers.remove(name);
    }
    Response::from_parts(parts, Body::empty())
}

/// All tags are weak: an answer has the same one in every coding, and a 304 has that of the answer that it confirms.
fn named(hash: blake3::Hash) -> HeaderValue {
    let digits = hash.to_hex();
    let digits = digits.as_bytes().get(..32).unwrap_or_default();
    let text = [&b"W/\""[..], digits, b"\""].concat();
    HeaderValue::from_bytes(&text).expect("it is letters, quotes and hex digits")
}

/// Whether a list of `If-None-Match` names a tag. Weak and strong ones count as the same.
fn names(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let strong = |tag: &[u8]| -> Vec<u8> {
        let tag = tag.trim_ascii();
        tag.strip_prefix(b"W/").unwrap_or(tag).to_vec()
    };
    let tag = strong(tag.as_bytes());
    // No tag of ours has a comma.
    let mut listed = list.as_bytes().split(|byte| *byte == b',').map(strong);
    listed.any(|one| one == b"*" || one == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn applied(
        method: Method,
        known: &str,
        response: Response,
    ) -> (StatusCode, HeaderMap, usize) {
        let mut request = Request::builder().method(method);
        if !known.is_empty() {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        let conditions = Conditions::of(&request.body(Body::empty()).unwrap());
        let response = conditions.apply(response).await;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, parts.headers, bytes.len())
    }

    fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
        let value = headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn an_answer_is_confirmed_by_its_tag() {
        let answer = || "the answer".into_response();
        let (status, headers, length) = applied(Method::GET, "", answer()).await;
        assert_eq!((status, length), (StatusCode::OK, 10));
        assert_eq!(text(&headers, header::CACHE_CONTROL), "no-cache");
        assert_eq!(text(&headers, header::VARY), "accept-encoding");
        let tag = text(&headers, header::ETAG);
        assert!(tag.starts_with("W/\"") && tag.len() == 36, "{tag}");
        for known in [
            tag.clone(),
            tag.replace("W/", ""),
            format!("\"other\", {tag}"),
            "*".to_owned(),
        ] {
            let (status, headers, length) = applied(Method::GET, &known, answer()).await;
            assert_eq!((status, length), (StatusCode::NOT_MODIFIED, 0), "{known}");
            assert_eq!(text(&headers, header::ETAG), tag);
            assert_eq!(text(&headers, header::CACHE_CONTROL), "no-cache");
            assert!(!headers.contains_key(header::CONTENT_TYPE));
        }
        let (status, ..) = applied(Method::GET, &tag, "another one".into_response()).await;
        assert_eq!(status, StatusCode::OK);
    }

    /// The same rows with another cursor, or with none any more, were confirmed: the client had the old cursor.
    #[tokio::test]
    async fn the_cursor_is_a_part_of_a_page() {
        let page = |cursor: Option<&'static str>| {
            let mut response = "rows\n".into_response();
            let cursor = cursor.map(|cursor| (NEXT_CURSOR, HeaderValue::from_static(cursor)));
            response.headers_mut().extend(cursor);
            response
        };
        let (_, headers, _) = applied(Method::GET, "", page(Some("5-0-aa"))).await;
        let known = text(&headers, header::ETAG);
        for (cursor, status) in [(Some("5-0-aa"), 304), (Some("6-0-bb"), 200), (None, 200)] {
            let (got, headers, _) = applied(Method::GET, &known, page(cursor)).await;
            assert_eq!(got, status, "{cursor:?}");
            assert_eq!(text(&headers, header::ETAG) == known, status == 304);
        }
    }

    #[tokio::test]
    async fn only_what_cannot_change_is_kept() {
        let immutable = || {
            let mut response = "logs".into_response();
            Tag::of(&[b"logs", b"1"]).put(&mut response);
            response
        };
        let failed = || {
            let mut response = immutable();
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        };
        let live = || ([(header::CACHE_CONTROL, NO_STORE)], "ok").into_response();
        let kept = "public, max-age=31536000, immutable";
        for (method, response, expected) in [
            (Method::GET, immutable(), kept),
            (Method::HEAD, immutable(), kept),
            (Method::GET, "x".into_response(), "no-cache"),
            (Method::GET, live(), "no-store"),
            (Method::GET, failed(), "no-store"),
            (Method::POST, immutable(), "no-store"),
        ] {
            let (_, headers, _) = applied(method.clone(), "", response).await;
            let control = text(&headers, header::CACHE_CONTROL);
            assert_eq!(control, expected, "{method}");
            let has_tag = headers.contains_key(header::ETAG);
            assert_eq!(has_tag, expected != "no-store", "{method} {expected}");
        }
    }

    #[test]
    fn a_tag_is_of_all_its_parts() {
        let tag = Tag::of(&[b"ab", b"c"]);
        assert_eq!(tag, Tag::of(&[b"ab", b"c"]));
        assert_ne!(tag, Tag::of(&[b"a", b"bc"]));
        let mut request = HeaderMap::new();
        assert!(!tag.is_known(&request));
        request.insert(header::IF_NONE_MATCH, tag.0.clone());
        assert!(tag.is_known(&request));
        assert!(!Tag::of(&[b"ab"]).is_known(&request));
        request.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        assert!(!tag.is_known(&request));
        let both = Tag::of_all(&[tag.clone(), Tag::of(&[b"c"])]);
        assert_ne!(both, Tag::of_all(&[Tag::of(&[b"c"]), tag.clone()]));
        assert_ne!(both, Tag::of_all(std::slice::from_ref(&tag)));
        let response = tag.clone().not_modified();
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(response.headers().get(header::ETAG), Some(&tag.0));
    }
}
