//! `chronolith serve`: answers from archives that another process writes.

use std::sync::Arc;

use anyhow::Result;
use chronolith_follower::chain::Chain;
use chronolith_follower::replica;
use futures::future::join_all;

use crate::exit::Exit;
use crate::health_server::{self, Chains};
use crate::public_server::Serving;
use crate::reader::{Reader, Readers};
use crate::running::RunningChain;
use crate::runtimes::Threads;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::{exporter, public_server};

pub(crate) async fn serve_archives(
    settings: &Settings,
    follow: bool,
    threads: &Threads,
) -> Result<Exit> {
    let metrics = (exporter::start(settings)?, threads);
    if follow {
        with_tails(settings, metrics).await?;
    } else {
        archives_alone(settings, metrics).await?;
    }
    Ok(Exit::Done)
}

type Metrics<'a> = (metrics_exporter_prometheus::PrometheusHandle, &'a Threads);

async fn archives_alone(settings: &Settings, metrics: Metrics<'_>) -> Result<()> {
    let mut stop = Stop::new(settings)?;
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
    let probe = Arc::new(Readers {
        all: readers.clone(),
        drain: stop.drain(),
    });
    let serving = Serving::new(settings, metrics.1, stop.drain());
    let public = public_server::serve(settings, served, probe.clone(), &serving);
    let work = async {
        tokio::select! {
            served = health_server::serve(settings, Vec::new(), probe, metrics) => served,
            _ = join_all(readers.iter().map(|reader| reader.refresh())) => Ok(()),
        }
    };
    stop.serve(public, work).await
}

async fn with_tails(settings: &Settings, metrics: Metrics<'_>) -> Result<()> {
    let mut stop = Stop::new(settings)?;
    let mut chains = Vec::new();
    for chain in &settings.chains {
        let place = settings.place(chain);
        let opened = Chain::open_replica(chain.follow.clone(), &place).await?;
        chains.push(Arc::new(RunningChain::new(chain.clone(), opened)));
    }
    let served = chains.iter().map(public_server::served).collect();
    let probe = Arc::new(Chains::until(chains.clone(), stop.drain()));
    let serving = Serving::new(settings, metrics.1, stop.drain());
    let public = public_server::serve(settings, served, probe.clone(), &serving);
    let work = async {
        tokio::select! {
            served = health_server::serve(settings, chains.clone(), probe, metrics) => served,
            _ = join_all(chains.iter().map(|chain| replica::run(chain))) => Ok(()),
        }
    };
    stop.serve(public, work).await
}
