//! `/v1/projections`: how projections do, for the console and for whoever watches.
//!
//! Anybody may ask, so all who ask within a second get what one look at the database found.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use chronolith_projection::{ChainOverview, Database, Result as OverviewResult, overview};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::{ApiError, ErrorCode};
use crate::health::without_host;
use crate::http::context::Context;

/// For so long what was found is told to everybody, at the least.
const FRESH: Duration = Duration::from_secs(1);
/// A look that takes long is not repeated soon: looking takes no more than this part of the time.
const LOOKING_PART: u32 = 10;
/// How long a look may take, connecting and all statements together.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// What is known of the database with projections.
#[derive(Default)]
pub(crate) struct ProjectionsCache {
    database: Option<Database>,
    /// Held while somebody looks, so that the others wait for that look and do not look themselves.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Until when it counts.
    until: Option<Instant>,
    found: Overview,
    /// Since when it does not answer.
    unavailable_since: Option<u64>,
}

#[derive(Clone)]
enum Overview {
    Known {
        as_of: u64,
        chains: Arc<[ChainOverview]>,
    },
    Unavailable {
        since: u64,
    },
}

impl Default for Overview {
    fn default() -> Self {
        Self::Unavailable { since: 0 }
    }
}

impl ProjectionsCache {
    pub(crate) fn new(database: Option<Database>) -> Self {
        Self {
            database,
            seen: Mutex::default(),
        }
    }

    /// What was found within the last second, or what is found now.
    async fn look(
        &self,
        now: u64,
        look: impl Future<Output = OverviewResult<Vec<ChainOverview>>>,
    ) -> Overview {
        let mut seen = self.seen.lock().await;
        if seen.until.is_some_and(|until| Instant::now() < until) {
            return seen.found.clone();
        }
        let started = Instant::now();
        // Whoever goes away in the middle must not let the next one look at once.
        seen.until = Some(started + FRESH);
        let looked = tokio::time::timeout(LOOK_WITHIN, look).await;
        let chains = match looked {
            Ok(Ok(chains)) => Some(chains),
            Ok(Err(error)) => {
                // It may name what is nobody's business.
                tracing::warn!(%error, "projections could not be read");
                None
            }
            Err(_) => {
                tracing::warn!(limit = ?LOOK_WITHIN, "projections took too long to read");
                None
            }
        };
        let mut fresh = FRESH;
        seen.found = match chains {
            Some(chains) => {
                fresh = fresh.max(started.elapsed() * LOOKING_PART);
                seen.unavailable_since = None;
                Overview::Known {
                    as_of: now,
                    chains: chains.into(),
                }
            }
            None => Overview::Unavailable {
                since: *seen.unavailable_since.get_or_insert(now),
            },
        };
        seen.until = Some(Instant::now() + fresh);
        seen.found.clone()
    }
}

pub(crate) async fn show(State(context): State<Context>) -> Result<Json<Value>, ApiError> {
    let now = (context.clock)();
    let cache = &context.projections;
    let Some(database) = &cache.database else {
        return Ok(Json(json!({ "enabled": false, "asOf": now, "chains": [] })));
    };
    let served: Vec<u64> = context.served.iter().map(|chain| chain.id).collect();
    match cache.look(now, overview(database, &served)).await {
        Overview::Known { as_of, chains } => {
            let chains = chains.iter();
            let chains = chains.filter_map(|chain| about(&context, chain));
            let chains: Vec<Value> = chains.collect();
            Ok(Json(
                json!({ "enabled": true, "asOf": as_of, "chains": chains }),
            ))
        }
        Overview::Unavailable { since } => {
            let message = format!(
                "the database with projections has not answered for {} s: see that PostgreSQL runs and that \
                 PG_READONLY_URL or PG_URL leads to it",
                now.saturating_sub(since)
            );
            let error = ApiError::new(ErrorCode::DatabaseUnavailable, message);
            Err(error.with(json!({ "since": since })))
        }
    }
}

/// A chain beside what its source says; none where it is not served here.
fn about(context: &Context, chain: &ChainOverview) -> Option<Value> {
    let id = u64::try_from(chain.chain_id).ok()?;
    let source_head = context.served.find(id)?.live.source_head();
    let seen = chain
        .last_seen_block
        .and_then(|block| u64::try_from(block).ok());
    let behind = source_head.zip(seen);
    let behind = behind.map(|(head, seen)| head.saturating_sub(seen));
    let mut shown = serde_json::to_value(redacted(chain.clone())).ok()?;
    if let Value::Object(fields) = &mut shown {
        fields.insert("sourceHead".to_owned(), json!(source_head));
        fields.insert("headLagBlocks".to_owned(), json!(behind));
    }
    Some(shown)
}

/// Which machines there are is for those who run them.
fn redacted(mut chain: ChainOverview) -> ChainOverview {
    for lock in &mut chain.locks {
        lock.holder = lock.holder.take().map(without_host);
    }
    let projections = chain.projections.iter_mut();
    for job in projections.flat_map(|one| &mut one.some_jobs) {
        job.locked_by = job.locked_by.take().map(without_host);
    }
    chain
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use chronolith_projection::Error;
    use futures::future::join_all;

    use super::*;

    fn away() -> Error {
        Error::Unavailable {
            context: "connect".to_owned(),
            reason: "nobody answers".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_look_cost_one_look_a_second() {
        let (cache, looks) = (ProjectionsCache::default(), AtomicUsize::new(0));
        let look = || async {
            looks.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Vec::new())
        };
        for seconds in 1..=3 {
            let found = join_all((0..100).map(|_| cache.look(seconds, look()))).await;
            let same =
                |one: &Overview| matches!(one, Overview::Known { as_of, .. } if *as_of == seconds);
            assert!(found.iter().all(same));
            assert_eq!(looks.load(Ordering::SeqCst), seconds as usize);
            tokio::time::advance(FRESH).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_look_is_not_repeated_soon() {
        let cache = ProjectionsCache::default();
        let slow = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(Vec::new())
        };
        cache.look(1, slow).await;
        tokio::time::advance(Duration::from_secs(19)).await;
        let found = cache.look(20, async { panic!("looked again") }).await;
        assert!(matches!(found, Overview::Known { as_of: 1, .. }));
        tokio::time::advance(Duration::from_secs(1)).await;
        let found = cache.look(21, async { Ok(Vec::new()) }).await;
        assert!(matches!(found, Overview::Known { as_of: 21, .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn an_absence_is_told_from_its_beginning_and_costs_no_more() {
        let cache = ProjectionsCache::default();
        let since = |found: &Overview| match found {
            Overview::Unavailable { since } => Some(*since),
            Overview::Known { .. } => None,
        };
        let found = cache.look(10, async { Err(away()) }).await;
        assert_eq!(since(&found), Some(10));
        // Whoever asks at once is not made to wait for the same failure.
        let found = cache
            .look(10, async { panic!("looked again at once") })
            .await;
        assert_eq!(since(&found), Some(10));
        tokio::time::advance(FRESH).await;
        // One that says nothing at all is given up.
        let found = cache.look(12, std::future::pending()).await;
        assert_eq!(since(&found), Some(10));
        tokio::time::advance(FRESH).await;
        let found = cache.look(20, async { Ok(Vec::new()) }).await;
        assert_eq!(since(&found), None);
        tokio::time::advance(FRESH).await;
        let found = cache.look(30, async { Err(away()) }).await;
        assert_eq!(since(&found), Some(30));
    }
}
