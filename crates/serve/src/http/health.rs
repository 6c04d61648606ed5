//! The router for operators: metrics, liveness, readiness. It needs no token, so that it shows nothing of providers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::error::{ApiError, ErrorCode};
use crate::health::{ChainHealth, Probe};
use crate::http::caching::NO_STORE;
use crate::http::panics;
use crate::renamed::with_old_names;

/// How long metrics may take. Prometheus waits for ten seconds by default.
const PRINT_TIMEOUT: Duration = Duration::from_secs(8);

/// Prints all metrics as text.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The health of the process.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok` where every chain is ready; `stopping` where the process is about to end.
    #[schemars(extend("enum" = ["ok", "degraded", "stopping"]))]
    status: &'static str,
    /// All chains.
    #[schemars(with = "Vec<ChainHealth>")]
    chains: Vec<Value>,
}

#[derive(Clone)]
struct Context {
    probe: Arc<dyn Probe>,
    metrics: Metrics,
    /// Held while the metrics are printed.
    printing: Arc<Semaphore>,
}

impl Context {
    fn new(probe: Arc<dyn Probe>, metrics: Metrics) -> Self {
        Self {
            probe,
            metrics,
            printing: Arc::new(Semaphore::new(1)),
        }
    }
}

/// `/metrics`, `/health`, `/health/live` and `/health/ready`.
pub fn health_router(probe: Arc<dyn Probe>, metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/health", get(ready))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .with_state(Context::new(probe, metrics))
        .layer(panics::catch_panics())
}

async fn show_metrics(State(context): State<Context>) -> Response {
    // For one client at a time: many of them must not take the cores. It is held to the end of the printing, also
    // where the client is gone by then.
    let Ok(printing) = timeout(PRINT_TIMEOUT, context.printing.acquire_owned()).await else {
        return not_in_time();
    };
    // Probes share the thread, and a process with many chains has many metrics.
    let print = move || {
        let text = (context.metrics)();
        drop(printing);
        text
    };
    let text = match timeout(PRINT_TIMEOUT, tokio::task::spawn_blocking(print)).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => {
            let message = "the metrics cannot be printed: please report it";
            return ApiError::new(ErrorCode::Internal, message).into_response();
        }
        // A disk that hangs, for example: its use is one of them.
        Err(_) => return not_in_time(),
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, text).into_response()
}

fn not_in_time() -> Response {
    let message = format!("no metrics within {} s: retry", PRINT_TIMEOUT.as_secs());
    ApiError::new(ErrorCode::Busy, message).into_response()
}

/// `/health` of the public listener: without what only operators may see.
pub(crate) fn health<S>(probe: Arc<dyn Probe>) -> MethodRouter<S> {
    let metrics: Metrics = Arc::new(String::new);
    get(public_ready).with_state(Context::new(probe, metrics))
}

/// The process runs; nothing else is checked.
async fn live() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// 200 where every chain is ready, else 503. The body lists every chain either way.
async fn ready(State(context): State<Context>) -> Response {
    let chains = context.probe.chains().into_iter();
    let chains = chains.map(ChainHealth::without_providers).collect();
    health_response(&*context.probe, chains)
}

async fn public_ready(State(context): State<Context>) -> Response {
    let chains = context.probe.chains().into_iter();
    let chains = chains.map(ChainHealth::redacted).collect();
    health_response(&*context.probe, chains)
}

fn health_response(probe: &dyn Probe, chains: Vec<ChainHealth>) -> Response {
    let (code, status) = if probe.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else if chains.iter().all(ChainHealth::is_ready) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "degraded")
    };
    let chains = chains.iter().map(|chain| with_old_names(json!(chain)));
    let chains = chains.collect();
    let live = [(header::CACHE_CONTROL, NO_STORE)];
    let mut response = (code, live, Json(Health { status, chains })).into_response();
    if code == StatusCode::SERVICE_UNAVAILABLE {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::health::PublicTexts;
    use crate::http::test_client::fetch;

    struct Fixed(Vec<ChainHealth>);

    impl Probe for Fixed {
        fn chains(&self) -> Vec<ChainHealth> {
            self.0.clone()
        }
    }

    fn chain() -> ChainHealth {
        ChainHealth {
            queue_depth: 3,
            last_success_seconds: Some(1),
            last_seen_block: Some(10),
            last_safe_block: Some(7),
            last_backfill_block: Some(7),
            lag_blocks: Some(0),
            ..ChainHealth::new(1, "one")
        }
    }

    /// A chain that is not ready for a reason that everybody may read.
    fn not_ready(reason: &str) -> ChainHealth {
        ChainHealth {
            not_ready_reason: Some(reason.to_owned()),
            public: PublicTexts {
                error: None,
                not_ready_reason: Some(reason.to_owned()),
                not_ready_reason_for_all: Some(reason.to_owned()),
            },
            ..chain()
        }
    }

    async fn fetch_path(chains: Vec<ChainHealth>, path: &str) -> String {
        let router = health_router(Arc::new(Fixed(chains)), Arc::new(|| "up 1\n".to_owned()));
        fetch(router, &format!("GET {path}")).await
    }

    struct Broken;

    impl Probe for Broken {
        fn chains(&self) -> Vec<ChainHealth> {
            panic!("a bug with /secret/details")
        }
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_request_alone() {
        let router = health_router(Arc::new(Broken), Arc::new(|| "a 1".to_owned()));
        let failed = fetch(router.clone(), "GET /health").await;
        assert!(failed.starts_with("HTTP/1.1 500"), "{failed}");
        assert!(!failed.contains("secret"), "{failed}");
        let metrics = fetch(router, "GET /metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    }

    /// As many threads as clients printed them at the same time.
    #[tokio::test]
    async fn metrics_are_printed_for_one_client_at_a_time() {
        let (printing, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let metrics: Metrics = Arc::new(move || {
            let at_once = printing.fetch_add(1, Ordering::SeqCst) + 1;
            seen.fetch_max(at_once, Ordering::SeqCst);
            // Long enough for others to begin.
            (0..10_000).for_each(|_| std::thread::yield_now());
            printing.fetch_sub(1, Ordering::SeqCst);
            "a 1".to_owned()
        });
        let router = health_router(Arc::new(Fixed(Vec::new())), metrics);
        let scrapes = (0..8).map(|_| fetch(router.clone(), "GET /metrics"));
        for scraped in futures::future::join_all(scrapes).await {
            assert!(scraped.starts_with("HTTP/1.1 200"), "{scraped}");
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn health_has_a_status_code_and_a_reason() {
        let halted = ChainHealth {
            paused: true,
            halted: true,
            paused_reason: Some("a finalized block was replaced".to_owned()),
            ..not_ready("halted: a finalized block was replaced")
        };
        let failing = ChainHealth {
            error: Some("no answer (endpoint=10.0.0.1)".to_owned()),
            public: PublicTexts {
                error: Some("timed out".to_owned()),
                ..PublicTexts::default()
            },
            ..chain()
        };
        let unknown = ChainHealth {
            public: PublicTexts::default(),
            ..failing.clone()
        };
        let starting = ChainHealth {
            last_backfill_block: None,
            ..not_ready("no round has ended well since the start")
        };
        for (chains, path, code, text) in [
            (vec![chain()], "/health", "200", "\"status\":\"ok\""),
            (vec![chain()], "/health/ready", "200", "\"queueDepth\":3"),
            (
                vec![chain(), halted.clone()],
                "/health",
                "503",
                "a finalized block was replaced",
            ),
            (
                vec![failing],
                "/health/ready",
                "200",
                "\"error\":\"timed out\"",
            ),
            (
                vec![unknown],
                "/health",
                "200",
                "\"error\":\"an error: see `chronolith state` or the log\"",
            ),
            (
                vec![starting.clone()],
                "/health/ready",
                "503",
                "\"lastBackfillBlock\":null",
            ),
            (
                vec![chain(), starting],
                "/health",
                "503",
                "\"notReadyReason\":\"no round has ended well since the start\"",
            ),
            (vec![halted], "/health/live", "200", "ok"),
            (vec![], "/metrics", "200", "up 1"),
            (vec![], "/nowhere", "404", ""),
        ] {
            let answer = fetch_path(chains, path).await;
            let first = answer.lines().next().unwrap_or_default().to_owned();
            assert!(
                first.contains(code) && answer.contains(text),
                "{path}: {answer}"
            );
            assert!(!answer.contains("10.0.0.1"), "{path}: {answer}");
            let later = answer.contains("\r\nretry-after: 5\r\n");
            assert_eq!(later, code == "503", "{path}: {answer}");
        }
    }
}
