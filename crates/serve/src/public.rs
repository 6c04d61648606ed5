//! The public listener's places: console, REST, JSON-RPC.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::cors::{Any, CorsLayer};

use crate::console;
use crate::context::{Clock, Context, Limits};
use crate::health::Probe;
use crate::meters;
use crate::operations::health;
use crate::rest::{self, RestError, chains, logs, overview, times};
use crate::rpc;
use crate::served::Served;

/// Below this, packing costs more than it saves.
const PACKED_FROM_BYTES: u16 = 1_024;

/// Everything that is served to everybody.
pub fn public(
    served: Served,
    probe: std::sync::Arc<dyn Probe>,
    limits: Limits,
    clock: Clock,
) -> Router {
    let context = Context::new(served, limits, clock);
    let next_cursor = HeaderName::from_static("x-next-cursor");
    let cross_origin = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET])
        .expose_headers([next_cursor]);
    Router::new()
        .route(
            "/{chain}",
            post(rpc::serve).fallback(rest::wrong_method_of_chain),
        )
        .route("/v1/chains/{chain}/rpc", post(rpc::serve))
        .route("/v1/chains", get(chains::list))
        .route("/v1/chains/{chain}", get(chains::one))
        .route(
            "/v1/chains/{chain}/block/{direction}/{time}",
            get(times::one),
        )
        .route("/v1/chains/{chain}/logs", get(logs::show))
        .route("/v1/blocks/by-time", post(times::many))
        .route("/v1/indexing-status", get(chains::status))
        .route("/v1/overview", get(overview::show))
        .with_state(context)
        .merge(health(probe))
        .merge(console::routes())
        .fallback(rest::nothing)
        .method_not_allowed_fallback(rest::wrong_method)
        .layer(middleware::from_fn(in_time))
        .layer(cross_origin)
        .layer(CompressionLayer::new().compress_when(SizeAbove::new(PACKED_FROM_BYTES)))
        .layer(CatchPanicLayer::custom(panicked))
}

/// The longest that anything may take until its answer begins. What a client asks for has limits of its
/// own, far below.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("no answer within {} s: ask for less", TIMEOUT.as_secs());
            RestError::new(StatusCode::SERVICE_UNAVAILABLE, "TIMEOUT", message).into_response()
        }
    }
}

/// A bug in a handler: counted, and told without its details.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    meters::panicked();
    let message = "internal error: please report it";
    RestError::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", message).into_response()
}
