//! `chronolith serve`: answers from archives that another process writes.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronolith_follower::chain::Chain;
use chronolith_follower::replica;
use futures::future::join_all;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::health_server::{self, Chains};
use crate::reader::{Reader, Readers};
use crate::running::RunningChain;
use crate::settings::Settings;
use crate::{exporter, public_server};

pub(crate) async fn serve_archives(settings: &Settings, follow: bool) -> Result<Exit> {
    let metrics = exporter::start(settings)?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for signals")?;
    let serving = async {
        if follow {
            with_tails(settings, metrics).await
        } else {
            archives_alone(settings, metrics).await
        }
    };
    tokio::select! {
        served = serving => served.map(|()| Exit::Done),
        _ = terminate.recv() => Ok(Exit::Done),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
    }
}

type Metrics = metrics_exporter_prometheus::PrometheusHandle;

async fn archives_alone(settings: &Settings, metrics: Metrics) -> Result<()> {
    let mut readers = Vec::new();
    for chain in &settings.chains {
        let place = settings.place(chain);
        readers.push(Arc::new(Reader::open(chain.clone(), &place).await?));
    }
    tracing::info!(
        event = "archives_served",
        "no tail: `latest` is the newest archived block"
    );
    let served = readers.iter().map(Reader::served).collect();
    let probe = Arc::new(Readers(readers.clone()));
    tokio::select! {
        served = public_server::serve(settings, served, probe.clone()) => served,
        served = health_server::serve(settings, Vec::new(), probe, metrics) => served,
        _ = join_all(readers.iter().map(|reader| reader.refresh())) => Ok(()),
    }
}

async fn with_tails(settings: &Settings, metrics: Metrics) -> Result<()> {
    let mut chains = Vec::new();
    for chain in &settings.chains {
        let place = settings.place(chain);
        let opened = Chain::open_replica(chain.follow.clone(), &place).await?;
        chains.push(Arc::new(RunningChain::new(chain.clone(), opened)));
    }
    let served = chains.iter().map(public_server::served).collect();
    let probe = Arc::new(Chains(chains.clone()));
    tokio::select! {
        served = public_server::serve(settings, served, probe.clone()) => served,
        served = health_server::serve(settings, chains.clone(), probe.clone(), metrics) => served,
        _ = join_all(chains.iter().map(|chain| replica::run(chain))) => Ok(()),
    }
}
