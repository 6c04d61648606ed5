//! How a process that serves ends: not ready, no new connections, the open ones finished, then the rest.

use std::time::Duration;

use anyhow::{Context as _, Result};
use chronolith_serve::http::{Drain, Drainer, drain};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::settings::Settings;

/// The end of the process, on SIGTERM or SIGINT.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    drainer: Drainer,
    drain: Drain,
    within: Duration,
}

impl Stop {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let (drainer, drain) = drain();
        let signal = |kind| signal(kind).context("wait for signals");
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            drainer,
            drain,
            within: settings.drain,
        })
    }

    /// For listeners that are to be drained.
    pub(crate) fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Waits for a signal.
    pub(crate) async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Serves and works until one of them ends or a signal comes, and then until connections are drained.
    /// The work goes on meanwhile: answers are made of what it follows. A second signal does not wait.
    pub(crate) async fn serve(
        &mut self,
        serving: impl Future<Output = Result<()>>,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let (mut serving, mut work) = (std::pin::pin!(serving), std::pin::pin!(work));
        tokio::select! {
            served = &mut serving => return served,
            worked = &mut work => return worked,
            () = self.requested() => {}
        }
        let seconds = self.within.as_secs();
        tracing::info!(event = "draining", seconds, "draining connections");
        self.drainer.begin(self.within);
        tokio::select! {
            served = &mut serving => served,
            worked = &mut work => worked,
            () = self.requested() => Ok(()),
        }
    }
}
