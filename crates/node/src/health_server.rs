//! Health and metrics, and what they show of the chains.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chronolith_archive::Health;
use chronolith_follower::chain::{Chain, Status};
use chronolith_follower::error::of_source;
use chronolith_follower::l1::L1;
use chronolith_model::{Scope, ScopeEntry};
use chronolith_projection_fees as fees;
use chronolith_serve::health::{
    ChainHealth, ConnectionState, DroppedRuleHealth, InclusionHealth, L1Health, Probe, PublicTexts,
    RpcHealth,
};
use chronolith_serve::http::{ConnectionLimits, Drain, Metrics, health_router, listen};
use chronolith_source::{DroppedRule, EndpointReport, FailureClass, Subscription};
use const_hex::encode_prefixed;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::exporter::observe;
use crate::public_server::{bind, on_threads};
use crate::readiness::{Facts, why_not_ready};
use crate::running::RunningChain;
use crate::runtimes::Threads;
use crate::settings::{ChainSettings, Settings};

/// How often samples of histograms are merged: they pile up until then.
const UPKEEP: Duration = Duration::from_secs(5);

/// Connections: operators and their programs are few. A probe must come through whoever else is there, also from its
/// own address. An answer takes milliseconds, so a connection that is cut while others wait has had its time.
const ROOM: ConnectionLimits = ConnectionLimits {
    connections: 64,
    per_peer: None,
    place_kept: Some(Duration::from_millis(250)),
};

/// All chains of the process.
pub(crate) struct Chains {
    pub(crate) all: Vec<Arc<RunningChain>>,
    drain: Drain,
}

impl Chains {
    pub(crate) fn new(all: Vec<Arc<RunningChain>>) -> Self {
        Self::until(all, Drain::never())
    }

    /// Not ready any more once this drain has begun.
    pub(crate) fn until(all: Vec<Arc<RunningChain>>, drain: Drain) -> Self {
        Self { all, drain }
    }
}

impl Probe for Chains {
    fn chains(&self) -> Vec<ChainHealth> {
        self.all.iter().map(|chain| health_of(chain)).collect()
    }

    fn is_stopping(&self) -> bool {
        self.drain.has_begun()
    }
}

pub(crate) fn health_of(chain: &RunningChain) -> ChainHealth {
    let report = chain.archive.health();
    let status = chain.status().clone();
    let endpoints = chain.source.endpoints();
    let (waiting, finalized, head, inclusion) = {
        let window = chain.window();
        let finalized = window.tracker.finalized().map(|block| block.number);
        let head = window.tracker.head().map(|block| block.number);
        let inclusion = finalized.and_then(|number| window.tracker.inclusion_of(number));
        (window.tail.len(), finalized, head, inclusion)
    };
    let halt = match &report.health {
        Health::Halted(halt) => Some(halt.reason.clone()),
        _ => None,
    };
    let failing = first_failing(&endpoints);
    let unanswered = status.unanswered(Instant::now());
    let unanswered = unanswered.filter(|_| failing.is_none());
    let error = error_of(chain, &status, unanswered.as_deref());
    let (error, public_error) = error.unzip();
    let (failing, public_failing) = failing.unzip();
    let since_good = status.last_success.map(|at| at.elapsed());
    let why_with = |error: Option<&str>| {
        why_not_ready(&Facts {
            halt: halt.as_deref(),
            since_good,
            poll: chain.settings.poll,
            error,
        })
    };
    let (projected, projected_for_all) = chain.projected.not_ready().unzip();
    let not_ready_reason = why_with(error.as_deref().or(failing.as_deref()));
    let not_ready_reason = not_ready_reason.or(projected.clone());
    let public_reason = why_with(public_error.as_deref().or(public_failing.as_deref()));
    let reason_for_all = public_reason.clone().or(projected_for_all);
    let public_reason = public_reason.or(projected);
    let halted = halt.is_some();
    let paused_reason = halt.or_else(|| chain.projected.paused());
    let seen = status.source_head.map(|(block, _)| block.number);
    let up = unanswered.is_none() && endpoints.iter().any(|endpoint| !endpoint.backing_off);
    ChainHealth {
        version: chain.projected.version(),
        topics_watching: topics_watched(&chain.settings),
        rpc: rpc_health(up, &chain.source.subscription()),
        queue_depth: waiting,
        paused: paused_reason.is_some(),
        halted,
        paused_reason,
        error,
        public: PublicTexts {
            error: public_error,
            not_ready_reason: public_reason,
            not_ready_reason_for_all: reason_for_all,
        },
        dropped_rules: dropped_rules(chain),
        not_ready_reason,
        last_success_seconds: since_good.map(|since| since.as_secs()),
        last_seen_block: seen,
        last_safe_block: finalized,
        last_backfill_block: report.head.map(|head| head.number),
        lag_blocks: seen.zip(head).map(|(seen, head)| seen.saturating_sub(head)),
        last_safe_inclusion: inclusion.map(|inclusion| InclusionHealth {
            l1_block: inclusion.l1_number,
            seen_at: inclusion.seen_at,
        }),
        l1: chain.l1.as_ref().map(l1_health),
        projections: chain.projected.health(),
        ..ChainHealth::new(chain.settings.chain_id, &chain.settings.name)
    }
}

fn rpc_health(is_up: bool, subscription: &Subscription) -> RpcHealth {
    RpcHealth {
        http: match is_up {
            true => ConnectionState::Healthy,
            false => ConnectionState::Down,
        },
        ws: match subscription {
            Subscription::Off => ConnectionState::Off,
            Subscription::Connecting(_) => ConnectionState::Connecting,
            Subscription::Connected => ConnectionState::Healthy,
        },
    }
}

/// The last failure of the first endpoint that fails, with what everybody may read of it: a round may try for long
/// before it fails, and meanwhile the endpoints know more.
fn first_failing(endpoints: &[EndpointReport]) -> Option<(String, String)> {
    let failing = endpoints.iter().filter(|endpoint| endpoint.backing_off);
    let mut failing = failing.filter_map(|endpoint| {
        let class = endpoint.last_failure.unwrap_or(FailureClass::Other);
        Some((endpoint.last_error.clone()?, of_source(class)))
    });
    failing.next()
}

/// What is wrong with a chain, and what everybody may read of it. New blocks may come in time while history, or that
/// of a projection, has gaps.
fn error_of(
    chain: &RunningChain,
    status: &Status,
    unanswered: Option<&str>,
) -> Option<(String, String)> {
    let same = |text: &str| (text.to_owned(), text.to_owned());
    let unknown = || "an error: see the log".to_owned();
    let public = |public: &Option<String>| public.clone().unwrap_or_else(unknown);
    let told = status
        .error
        .clone()
        .map(|error| (error, public(&status.public_error)));
    let gaps = status
        .gaps
        .clone()
        .map(|gaps| (gaps, public(&status.public_gaps)));
    let failed_jobs = chain.projected.failed_jobs();
    let error = unanswered.map(same).or(told).or(gaps);
    let error = error.or(failed_jobs.as_deref().map(same));
    error.map(|(error, public)| (without_paths(&error), public))
}

fn dropped_rules(chain: &Chain) -> Vec<DroppedRuleHealth> {
    let health = |DroppedRule { rule, block, what }| DroppedRuleHealth { rule, block, what };
    let dropped = chain.source.dropped_rules().into_iter();
    dropped.map(health).collect()
}

/// A message without paths of files: clients must not see them, and the log has them.
pub(crate) fn without_paths(message: &str) -> String {
    let mut parts = message.split(" (path=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |message, part| {
        message + part.split_once(')').map_or("", |(_, after)| after)
    })
}

fn l1_health(l1: &L1) -> L1Health {
    let observed = l1.observed();
    L1Health {
        chain: l1.chain_id,
        head: observed.map(|observed| observed.head),
        seen_at: observed.map(|observed| observed.at),
    }
}

/// First topics that projections look for, or without projections those of the logs that are kept.
fn topics_watched(settings: &ChainSettings) -> Option<Vec<String>> {
    let fees = settings.fees.iter().flat_map(|_| fees::topics());
    let adfs = settings.adfs.iter().flat_map(|adfs| adfs.topics());
    let topics: BTreeSet<String> = fees.chain(adfs).map(encode_prefixed).collect();
    if topics.is_empty() {
        return topics_of(&settings.scope);
    }
    Some(topics.into_iter().collect())
}

/// First topics of the logs that are kept; none where one entry takes every topic.
fn topics_of(scope: &Scope) -> Option<Vec<String>> {
    let Scope::Only(entries) = scope else {
        return None;
    };
    let topic = |entry: &ScopeEntry| Some(encode_prefixed(entry.topic0.as_ref()?));
    let topics: BTreeSet<String> = entries.iter().map(topic).collect::<Option<_>>()?;
    Some(topics.into_iter().collect())
}

/// Serves health and metrics until dropped; `chains` are those that are followed here.
pub(crate) async fn serve(
    settings: &Settings,
    chains: Vec<Arc<RunningChain>>,
    probe: Arc<dyn Probe>,
    (handle, threads): (PrometheusHandle, &Threads),
) -> Result<()> {
    let listener = bind(
        settings.metrics_listen,
        "metricsListen, metricsPort, METRICS_PORT",
        &threads.health,
    )?;
    tracing::info!(event = "health_listening", listen = %listener.local_addr()?, "health and metrics listening");
    let upkeep = handle.clone();
    let (of, data_dir) = (probe.clone(), settings.data_dir.clone());
    let metrics: Metrics = Arc::new(move || {
        observe(&chains, &of.chains(), &data_dir);
        handle.render()
    });
    let tidy = async {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    };
    let router = health_router(probe, metrics);
    // It answers until the process ends: that the node is stopping, while its connections are drained.
    let listening = listen(listener, router, ROOM, Drain::never());
    tokio::select! {
        served = on_threads(&threads.health, listening) => served,
        () = tidy => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain whose endpoints do not exist, with an archive in this directory.
    async fn chain_in(dir: &std::path::Path) -> RunningChain {
        let text = serde_json::json!({ "dataDir": dir, "chains": [
            {
                "chainId": 31_337, "name": "sim", "rpcHttp": ["http://127.0.0.1:1"],
                "rpcWs": ["ws://127.0.0.1:1"],
            },
        ] });
        let mut settings = Settings::parse(&text.to_string(), false).unwrap();
        let one = settings.chains.remove(0);
        let place = settings.place(&one);
        let chain = Chain::open(one.follow.clone(), &place).await.unwrap();
        RunningChain::new(one, chain)
    }

    #[tokio::test]
    async fn a_chain_without_a_good_round_for_long_is_not_ready_and_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let chain = chain_in(dir.path()).await;
        let seconds_ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        chain.status().error = Some("HTTP 500".to_owned());
        for (ago, is_ready) in [(1, true), (31, false)] {
            chain.status().last_success = seconds_ago(ago);
            let health = health_of(&chain);
            assert!(health.last_success_seconds >= Some(ago));
            assert_eq!(health.error.as_deref(), Some("HTTP 500"));
            let reason = health.not_ready_reason;
            assert_eq!(reason.is_none(), is_ready);
            let reason = reason.unwrap_or_default();
            let says_both = reason.starts_with("no round has ended well for 3")
                && reason.ends_with(" s: HTTP 500");
            assert!(is_ready || says_both, "{reason}");
        }
    }

    /// An endpoint that never answers used to look healthy for forty seconds, and the chain to be catching up.
    #[tokio::test]
    async fn a_source_that_does_not_answer_is_down_in_health() {
        let dir = tempfile::tempdir().unwrap();
        let chain = chain_in(dir.path()).await;
        let now = Instant::now();
        for (waited, http, error) in [
            (4, ConnectionState::Healthy, None),
            (
                6,
                ConnectionState::Down,
                Some("the source has not answered for 6 s"),
            ),
        ] {
            chain.status().request_started = now.checked_sub(Duration::from_secs(waited));
            let health = health_of(&chain);
            assert_eq!(health.rpc.http, http, "after {waited} s");
            assert_eq!(health.rpc.ws, ConnectionState::Connecting);
            assert_eq!(health.error.as_deref(), error);
        }
    }

    #[test]
    fn paths_stay_inside() {
        for (message, shown) in [
            ("no answer", "no answer"),
            (
                "cannot open (path=/a/b c): gone (path=/d)",
                "cannot open: gone",
            ),
            ("cut (path=/a", "cut"),
            // Not where, but why: a full disk must be visible from outside, too.
            (
                "write object (path=/a/b): No space left on device (os error 28)",
                "write object: No space left on device (os error 28)",
            ),
        ] {
            assert_eq!(without_paths(message), shown);
        }
    }
}
