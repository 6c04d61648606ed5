//! The public API, and what it shows of the chains that this process follows.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronolith_archive::Archive;
use chronolith_chain_view::Live;
use chronolith_finality::TailSnapshot;
use chronolith_follower::clock::now;
use chronolith_follower::counters;
use chronolith_follower::ranges::Ranges;
use chronolith_model::{BlockRef, Hash32, Proof};
use chronolith_projection::Database;
use chronolith_serve::chain::{
    ChainRanges, ChainStatus, EndpointHealth, EndpointState, Family, Ingested, KnownChain, Reorg,
    ServedChain, ServedChains, StellarChain,
};
use chronolith_serve::health::{ChainHealth, Probe};
use chronolith_serve::http::{
    Access, ConnectionLimits, Drain, Limits, fees_router, listen, public_router,
};
use chronolith_source::{CHAINS, EndpointReport};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::access;
use crate::health_server::health_of;
use crate::projecting;
use crate::running::RunningChain;
use crate::runtimes::Threads;
use crate::settings::{ChainSettings, Mode, Settings};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// Connections of the fee API.
const FEES_CONNECTIONS: usize = 256;

/// How often the heads of chains are looked at for their charts: more often than they are noted, so that the
/// first sample comes soon after the first block.
const HISTORY_EVERY: Duration = Duration::from_secs(2);

/// A round takes a while beside the pause between two: a head counts as new for this long at least.
const ROUND_AT_LEAST: Duration = Duration::from_secs(2);

/// A chain that this process follows, for the API and for projections.
pub(crate) struct Followed(pub(crate) Arc<RunningChain>);

impl Live for Followed {
    fn tail(&self) -> TailSnapshot {
        self.0.tail()
    }

    fn source_head(&self) -> Option<u64> {
        let seen = self.0.status().source_head;
        seen.map(|(head, _)| head.number)
    }

    fn is_source_head(&self, head: BlockRef) -> bool {
        let patience = self.0.settings.poll.max(ROUND_AT_LEAST) * 2;
        let seen = self.0.status().source_head;
        seen.is_some_and(|(block, at)| block == head && at.elapsed() <= patience)
    }

    fn was_source_head(&self, head: BlockRef) -> bool {
        let seen = self.0.status().source_head;
        seen.is_some_and(|(block, _)| block == head)
    }

    fn proof(&self, block: &Hash32) -> Option<Proof> {
        self.0.proof_in_tail(block)
    }
}

impl ChainStatus for Followed {
    fn health(&self) -> ChainHealth {
        health_of(&self.0)
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.0
            .source
            .endpoints()
            .into_iter()
            .map(endpoint)
            .collect()
    }

    fn reorgs(&self) -> Vec<Reorg> {
        let reorg = |reorg: counters::Reorg| Reorg {
            at: reorg.at,
            depth: reorg.depth,
            from: reorg.from,
            to: reorg.to,
            dropped: reorg.dropped,
            adopted: reorg.adopted,
        };
        self.0.seen.reorgs().into_iter().map(reorg).collect()
    }

    fn ingested(&self) -> Ingested {
        let counters::Ingested { blocks, logs } = self.0.seen.ingested();
        Ingested { blocks, logs }
    }

    fn ranges(&self) -> Option<ChainRanges> {
        self.0
            .maintenance
            .ranges()
            .map(|ranges| ranges_dto(&ranges))
    }
}

/// Ranges as they are served.
pub(crate) fn ranges_dto(ranges: &Ranges) -> ChainRanges {
    ChainRanges {
        mode: ranges.mode,
        size: ranges.geometry.size,
        ranges: ranges.all.clone(),
    }
}

/// An endpoint as operators see it.
pub(crate) fn endpoint(report: EndpointReport) -> EndpointHealth {
    EndpointHealth {
        name: report.name,
        state: if report.backing_off {
            EndpointState::BackingOff
        } else {
            EndpointState::Healthy
        },
        last_error: report.last_error,
        last_failure: report.last_failure.map(|class| class.to_string()),
        requests: report.requests,
        failures: report.failures,
    }
}

/// A chain that is followed here, as it is served.
pub(crate) fn served(chain: &Arc<RunningChain>) -> Arc<ServedChain> {
    served_as(
        &chain.settings,
        &chain.archive,
        Arc::new(Followed(chain.clone())),
    )
}

/// A chain as it is served, followed here or not.
pub(crate) fn served_as(
    settings: &ChainSettings,
    archive: &Archive,
    live: Arc<dyn ChainStatus>,
) -> Arc<ServedChain> {
    Arc::new(ServedChain {
        id: settings.chain_id,
        name: settings.name.clone(),
        family: family(settings),
        datasets: settings.datasets,
        scope: settings.scope.clone(),
        start_block: settings.start_block,
        finality: settings.finality.to_string(),
        archive: archive.clone(),
        live,
        history: Mutex::default(),
    })
}

/// What is spoken with a chain.
fn family(settings: &ChainSettings) -> Family {
    let Some(stellar) = &settings.stellar else {
        return Family::Evm;
    };
    let mode = match settings.mode {
        Mode::Backfill { .. } => "backfill",
        Mode::Auto | Mode::Streaming => "streaming",
    };
    Family::Stellar(StellarChain {
        network: stellar.network.clone(),
        network_name: stellar.network_name.clone(),
        friendbot_url: None,
        mode: mode.to_owned(),
    })
}

/// How answers are served.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) limits: Limits,
    pub(crate) threads: Threads,
    pub(crate) drain: Drain,
}

impl Serving {
    pub(crate) fn new(settings: &Settings, threads: &Threads, drain: Drain) -> Self {
        Self {
            limits: settings.limits,
            threads: threads.clone(),
            drain,
        }
    }
}

/// Serves the public API until it is drained or dropped.
pub(crate) async fn serve(
    settings: &Settings,
    chains: Vec<Arc<ServedChain>>,
    probe: Arc<dyn Probe>,
    serving: &Serving,
) -> Result<()> {
    let projections = projecting::reader(settings)?;
    let has_fees = settings.chains.iter().any(|chain| chain.fees.is_some());
    let fees = projections.clone().filter(|_| has_fees);
    let listener = bind(settings.listen, "listen, PORT", &serving.threads.answers)?;
    tracing::info!(listen = %listener.local_addr()?, event = "public_listening", "serving");
    let served = ServedChains::new(chains)
        .with_known(known_chains())
        .with_fees(fees.clone())
        .with_projections(projections);
    let access = access::start(settings, &served)?;
    let Some(fees) = fees else {
        return serve_on(listener, served, probe, serving, access).await;
    };
    // Both end when they are drained.
    let public = serve_on(listener, served, probe, serving, access);
    let fees = serve_fees(settings.fees_listen, fees, serving);
    tokio::try_join!(public, fees).map(|((), ())| ())
}

/// The chains that are listed whether they are served or not.
fn known_chains() -> Vec<KnownChain> {
    let known = CHAINS.iter().map(|chain| KnownChain {
        id: chain.chain_id,
        title: chain.title,
        genesis_timestamp: chain.genesis_timestamp,
    });
    known.collect()
}

/// Binds the address of a listener whose connections these threads serve, or says which setting to change.
pub(crate) fn bind(address: SocketAddr, setting: &str, threads: &Handle) -> Result<TcpListener> {
    let _threads = threads.enter();
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().with_context(|| format!("cannot listen on {address} ({setting})"))
}

/// Serves the fee API until it is drained or dropped.
async fn serve_fees(address: SocketAddr, fees: Database, serving: &Serving) -> Result<()> {
    let listener = bind(address, "feesListen, API_PORT", &serving.threads.answers)?;
    tracing::info!(event = "fees_listening", listen = %listener.local_addr()?, "serving fees");
    let room = ConnectionLimits {
        connections: FEES_CONNECTIONS,
        // One address must not have all of them.
        per_peer: (serving.limits.connections_per_peer)
            .map(|connections| connections.min(FEES_CONNECTIONS / 2)),
        place_kept: None,
    };
    let listening = listen(
        listener,
        fees_router(Some(fees)),
        room,
        serving.drain.clone(),
    );
    on_threads(&serving.threads.answers, listening).await
}

/// Runs a listener on these threads, until it ends or the caller is dropped.
pub(crate) async fn on_threads(
    threads: &Handle,
    listening: impl Future<Output = std::io::Result<()>> + Send + 'static,
) -> Result<()> {
    let mut task = JoinSet::new();
    task.spawn_on(listening, threads);
    match task.join_next().await {
        Some(Ok(served)) => served.context("serve"),
        _ => bail!("a listener ended, please report it"),
    }
}

/// The same on a listener that is there.
pub(crate) async fn serve_on(
    listener: TcpListener,
    served: ServedChains,
    probe: Arc<dyn Probe>,
    serving: &Serving,
    access: Option<Access>,
) -> Result<()> {
    let mut limits = serving.limits;
    limits.connections = limits.connections.min(files_for_connections());
    let heavy = serving.threads.heavy.clone();
    let router = public_router(served.clone(), probe, limits, Arc::new(now), heavy);
    let router = match access {
        Some(access) => access.guard(router),
        None => router,
    };
    let room = ConnectionLimits {
        connections: limits.connections,
        per_peer: limits.connections_per_peer,
        place_kept: None,
    };
    let listening = listen(listener, router, room, serving.drain.clone());
    tokio::select! {
        ended = on_threads(&serving.threads.answers, listening) => ended,
        never = note_history(&served) => match never {},
    }
}

/// Notes where the chains' heads are, for their charts.
async fn note_history(served: &ServedChains) -> Infallible {
    loop {
        served.note_history(now()).await;
        tokio::time::sleep(HISTORY_EVERY).await;
    }
}

/// Files that the archives and everything else may have open.
const FILES_KEPT: u64 = 512;

/// How many connections the system allows, with as many files as may be had and a part of them kept for
/// the archives: a crowd of clients must not keep blocks from being written.
fn files_for_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.or(limit.current).unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(most),
        maximum: limit.maximum,
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(most),
    };
    let left = files.saturating_sub(FILES_KEPT).max(files / 4);
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}
