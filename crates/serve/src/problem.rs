//! Errors over REST as problem details (RFC 9457): what is wrong for people, a code and the details for programs,
//! and the id of the request.
//!
//! The details are those of the JSON-RPC error. `error` is the form of earlier releases; the next one removes it.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::ApiError;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why one of several items has no answer. The API description has its schema.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ItemProblem(Map<String, Value>);

/// An item without an answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FailedItem {
    error: ItemProblem,
}

impl From<&ApiError> for ItemProblem {
    fn from(error: &ApiError) -> Self {
        let mut fields = fields(error);
        // The old name of `detail`.
        fields.insert("message".to_owned(), error.message.clone().into());
        Self(fields)
    }
}

impl From<ApiError> for FailedItem {
    fn from(error: ApiError) -> Self {
        let error = (&error).into();
        Self { error }
    }
}

/// Renders an error that a handler returned as problem details.
pub(crate) fn render(response: &mut Response, error: &ApiError, request_id: &HeaderValue) {
    let problem = Value::Object(problem(error, request_id.to_str().unwrap_or_default()));
    *response.body_mut() = Body::from(problem.to_string());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
}

/// The body of an answer.
pub(crate) fn problem(error: &ApiError, request_id: &str) -> Map<String, Value> {
    let mut fields = fields(error);
    fields.insert("requestId".to_owned(), request_id.into());
    fields.insert("error".to_owned(), error.failure().0.into());
    fields
}

fn fields(error: &ApiError) -> Map<String, Value> {
    let (status, code) = error.code.rest();
    let mut fields = match &error.details {
        Some(Value::Object(details)) => details.clone(),
        _ => Map::new(),
    };
    fields.extend([
        ("type".to_owned(), format!("/docs#{code}").into()),
        ("title".to_owned(), title(code).into()),
        ("status".to_owned(), status.as_u16().into()),
        ("detail".to_owned(), error.message.clone().into()),
        ("code".to_owned(), code.into()),
    ]);
    fields
}

/// A code as words: `NOT_COVERED` is `Not covered`.
fn title(code: &str) -> String {
    let words = code.replace('_', " ").to_lowercase();
    let mut rest = words.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use chronolith_archive::Error as ArchiveError;
    use chronolith_model::BlockRange;
    use serde_json::json;

    use super::*;

    /// What is missing and covered used to be known over JSON-RPC alone.
    #[test]
    fn a_problem_has_the_details_of_the_call() {
        let error = ApiError::from(ArchiveError::NotCovered {
            missing: BlockRange::new(0, 10),
            covered: BlockRange::new(10, 21),
        });
        let problem = Value::Object(problem(&error, "a-1"));
        assert_eq!(
            problem,
            json!({
                "type": "/docs#NOT_COVERED",
                "title": "Not covered",
                "status": 409,
                "detail": error.message,
                "code": "NOT_COVERED",
                "requestId": "a-1",
                "missing": [0, 9],
                "covered": [10, 20],
                "error": {
                    "code": "NOT_COVERED", "message": error.message, "missing": [0, 9], "covered": [10, 20],
                },
            })
        );
        let call = error.rpc_json();
        for field in ["missing", "covered"] {
            assert_eq!(call["data"][field], problem[field]);
        }
    }

    #[test]
    fn an_item_has_no_request_of_its_own() {
        let error = ApiError::params("limit: 0");
        let item = serde_json::to_value(FailedItem::from(error)).unwrap();
        let expected = json!({
            "type": "/docs#INVALID_FILTER",
            "title": "Invalid filter",
            "status": 400,
            "detail": "limit: 0",
            "code": "INVALID_FILTER",
            "message": "limit: 0",
        });
        assert_eq!(item, json!({ "error": expected }));
    }
}
