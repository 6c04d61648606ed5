//! A chain whose archive another process writes: this one reads it and takes new states as they come.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use chronolith_archive::{Archive, Error as ArchiveError, Health};
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_follower::chain::open_reader;
use chronolith_follower::error::of_archive;
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::replica::REFRESH_EVERY;
use chronolith_follower::run_state::RunState;
use chronolith_model::{BlockRef, Hash32, Proof};
use chronolith_serve::chain::{
    ChainRanges, ChainStatus, EndpointHealth, Ingested, Reorg, ServedChain,
};
use chronolith_serve::health::{ChainHealth, Probe, PublicTexts};
use chronolith_serve::http::Drain;
use parking_lot::Mutex;

use crate::health_server::without_paths;
use crate::public_server::{ranges_dto, served_as};
use crate::readiness::{Facts, why_not_ready};
use crate::settings::ChainSettings;

/// An archive that another process writes.
pub(crate) struct Reader {
    settings: ChainSettings,
    archive: Archive,
    looked: Mutex<Looked>,
    /// Where the process that writes notes how the chain is run.
    notes: PathBuf,
    ranges: Mutex<Option<ChainRanges>>,
}

/// How looking for newer states goes.
#[derive(Clone, Default)]
struct Looked {
    good: Option<Instant>,
    error: Option<String>,
    public_error: Option<String>,
}

impl Reader {
    pub(crate) async fn open(settings: ChainSettings, place: &ArchiveLocation) -> Result<Self> {
        let archive = open_reader(&settings, place).await?;
        Ok(Self {
            settings,
            archive,
            looked: Mutex::new(Looked {
                good: Some(Instant::now()),
                ..Looked::default()
            }),
            notes: place.notes().to_owned(),
            ranges: Mutex::default(),
        })
    }

    pub(crate) fn served(self: &Arc<Self>) -> Arc<ServedChain> {
        served_as(&self.settings, &self.archive, self.clone())
    }

    /// Takes newer states until dropped.
    pub(crate) async fn refresh(&self) {
        loop {
            let refreshed = self.archive.refresh().await;
            self.note(refreshed.err());
            self.look().await;
            tokio::time::sleep(REFRESH_EVERY).await;
        }
    }

    /// Brings what is known of ranges up to date.
    async fn look(&self) {
        let remembered = match RunState::load(&self.settings, &self.notes) {
            Ok(remembered) => remembered,
            Err(error) => {
                tracing::debug!(chain = %self.settings.name, %error, "ranges not refreshed");
                return;
            }
        };
        let ranges = ranges_dto(&Ranges::of(&self.archive, &remembered).await);
        *self.ranges.lock() = Some(ranges);
    }

    fn note(&self, error: Option<ArchiveError>) {
        let mut looked = self.looked.lock();
        looked.public_error = error.as_ref().map(of_archive);
        let error = error.map(|error| error.to_string());
        if error.is_none() {
            looked.good = Some(Instant::now());
        }
        let known = std::mem::replace(&mut looked.error, error.clone());
        if let Some(error) = error.filter(|error| known.as_ref() != Some(error)) {
            let name = &self.settings.name;
            tracing::warn!(chain = %name, %error, "cannot read a newer state, serving the last one");
        }
    }
}

impl Live for Reader {
    fn tail(&self) -> TailSnapshot {
        Tail::new(0, None).snapshot()
    }

    fn source_head(&self) -> Option<u64> {
        None
    }

    /// Without a source this is not known.
    fn is_source_head(&self, _head: BlockRef) -> bool {
        false
    }

    fn was_source_head(&self, _head: BlockRef) -> bool {
        false
    }

    fn proof(&self, _block: &Hash32) -> Option<Proof> {
        None
    }
}

impl ChainStatus for Reader {
    fn health(&self) -> ChainHealth {
        let report = self.archive.health();
        let looked = self.looked.lock().clone();
        let halt = match &report.health {
            Health::Halted(halt) => Some(halt.reason.clone()),
            _ => None,
        };
        let error = looked.error.as_deref().map(without_paths);
        let since_good = looked.good.map(|at| at.elapsed());
        // A halted archive is served as before: only its writer is stopped.
        let why_with = |error: Option<&str>| {
            why_not_ready(&Facts {
                halt: None,
                since_good,
                poll: REFRESH_EVERY,
                error,
            })
        };
        let head = report.head.map(|head| head.number);
        let public_reason = why_with(looked.public_error.as_deref());
        ChainHealth {
            paused: halt.is_some(),
            halted: halt.is_some(),
            not_ready_reason: why_with(error.as_deref()),
            public: PublicTexts {
                error: looked.public_error,
                not_ready_reason: public_reason.clone(),
                not_ready_reason_for_all: public_reason,
            },
            paused_reason: halt,
            error,
            last_success_seconds: since_good.map(|since| since.as_secs()),
            last_safe_block: head,
            last_backfill_block: head,
            ..ChainHealth::new(self.settings.chain_id, &self.settings.name)
        }
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }

    fn reorgs(&self) -> Vec<Reorg> {
        Vec::new()
    }

    fn ingested(&self) -> Ingested {
        Ingested::default()
    }

    fn ranges(&self) -> Option<ChainRanges> {
        self.ranges.lock().clone()
    }
}

/// All archives that are read.
pub(crate) struct Readers {
    pub(crate) all: Vec<Arc<Reader>>,
    pub(crate) drain: Drain,
}

impl Probe for Readers {
    fn chains(&self) -> Vec<ChainHealth> {
        self.all.iter().map(|reader| reader.health()).collect()
    }

    fn is_stopping(&self) -> bool {
        self.drain.has_begun()
    }
}
