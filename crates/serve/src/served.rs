//! A chain as it is served: its archive, and what the process that follows it knows beside that.

use std::sync::Arc;

use chronolith_archive::Archive;
use chronolith_finality::TailSnapshot;
use chronolith_model::{BlockRef, DatasetSet, Scope, Verification};
use chronolith_projection::Database;
use serde::Serialize;

use crate::health::ChainHealth;

/// A chain that is served.
pub struct ServedChain {
    /// Its id.
    pub id: u64,
    /// Its name in the settings.
    pub name: String,
    /// What is kept of each block.
    pub datasets: DatasetSet,
    /// Which logs are kept.
    pub scope: Scope,
    /// How far every block was proven at the least.
    pub level: Verification,
    /// The first block that is wanted.
    pub start_block: u64,
    /// What makes a block final, in words.
    pub finality: String,
    /// Its final blocks.
    pub archive: Archive,
    /// Its newest ones, and how it does.
    pub live: Arc<dyn Live>,
}

/// Whoever follows a chain. Nothing here waits.
pub trait Live: Send + Sync {
    /// The blocks above the archive as they are now.
    fn tail(&self) -> TailSnapshot;
    /// The source's newest block, where it is known.
    fn source_head(&self) -> Option<u64>;
    /// Whether the source's newest block was this one when it was last looked at, and that was no
    /// longer ago than it is looked at.
    fn is_source_head(&self, head: BlockRef) -> bool;
    /// How it does.
    fn health(&self) -> ChainHealth;
    /// How its endpoints do.
    fn endpoints(&self) -> Vec<EndpointHealth>;
    /// The last reorgs, newest first.
    fn reorgs(&self) -> Vec<Reorg>;
    /// What was taken in since the process began.
    fn ingested(&self) -> Ingested;
}

/// How an endpoint does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointHealth {
    /// Its host, without what may be a key: anybody may read it.
    pub name: String,
    /// `well`, or `cooling` while it is passed over.
    pub state: &'static str,
    /// The last failure.
    pub last_error: Option<String>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
}

/// Blocks that were replaced.
#[derive(Clone, Copy, Debug)]
pub struct Reorg {
    /// When it was seen, in seconds since 1970.
    pub at: u64,
    /// How many blocks were dropped.
    pub depth: u64,
    /// The newest block that was dropped.
    pub from: BlockRef,
    /// The newest block that stayed.
    pub to: BlockRef,
}

/// What was taken in since the process began.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Ingested {
    /// Blocks, each as often as it came.
    pub blocks: u64,
    /// Their logs.
    pub logs: u64,
}

/// All chains that are served, and the database with what is projected of them.
#[derive(Clone)]
pub struct Served {
    chains: Arc<[Arc<ServedChain>]>,
    fees: Option<Database>,
    projections: Option<Database>,
}

impl Served {
    /// These chains, by their ids.
    #[must_use]
    pub fn new(mut chains: Vec<Arc<ServedChain>>) -> Self {
        chains.sort_by_key(|chain| chain.id);
        Self {
            chains: chains.into(),
            fees: None,
            projections: None,
        }
    }

    /// Serves fees out of this database too. One for reading is enough.
    #[must_use]
    pub fn with_fees(mut self, database: Option<Database>) -> Self {
        self.fees = database;
        self
    }

    /// Shows how projections do that are in this database. One for reading is enough.
    #[must_use]
    pub fn with_projections(mut self, database: Option<Database>) -> Self {
        self.projections = database;
        self
    }

    /// Where projections are, if there are any.
    pub(crate) fn projections(&self) -> Option<&Database> {
        self.projections.as_ref()
    }

    /// Where fees are, if they are served.
    pub(crate) fn fees(&self) -> Option<&Database> {
        self.fees.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedChain>> {
        self.chains.iter()
    }

    /// The chain with an id as callers write it: in decimal, and in no second spelling.
    pub(crate) fn find_named(&self, id: &str) -> Option<&Arc<ServedChain>> {
        let number = id
            .parse()
            .ok()
            .filter(|number: &u64| number.to_string() == id);
        self.find(number?)
    }

    pub(crate) fn find(&self, id: u64) -> Option<&Arc<ServedChain>> {
        let found = self.chains.binary_search_by_key(&id, |chain| chain.id);
        self.chains.get(found.ok()?)
    }
}
