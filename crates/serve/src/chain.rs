//! A chain as it is served: its archive, and what the process that follows it reports.

use std::sync::Arc;

use chronolith_archive::{Archive, RangeReport};
use chronolith_chain_view::Live;
use chronolith_model::{BlockRef, DatasetSet, Scope};
use chronolith_projection::Database;
use chronolith_stellar::Network;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::excerpt;
use crate::health::ChainHealth;
use crate::history::{History, Sample};
use crate::names::{BlockJson, all_as_json, as_json};
use crate::view::View;

/// A chain that is served.
pub struct ServedChain {
    pub id: u64,
    /// Its name in the settings.
    pub name: String,
    /// Which RPC methods it has.
    pub family: Family,
    pub datasets: DatasetSet,
    pub scope: Scope,
    /// The first block that is indexed.
    pub start_block: u64,
    /// What makes a block final, as text.
    pub finality: String,
    pub archive: Archive,
    /// The tail, and the state of the process that follows it.
    pub live: Arc<dyn ChainStatus>,
    /// Where its heads were: [`ServedChains::note_history`] adds to it.
    pub history: Mutex<History>,
}

/// The RPC methods of a chain.
pub enum Family {
    /// Ethereum's methods, at `/{chainId}`.
    Evm,
    /// Stellar's, at `/stellar/{network}`.
    Stellar(StellarChain),
}

/// The settings that only a Stellar chain has.
pub struct StellarChain {
    pub network: Network,
    /// `pubnet`, `testnet` or another name.
    pub network_name: String,
    /// Where an account of a test network gets funds.
    pub friendbot_url: Option<String>,
    /// `backfill` or `streaming`.
    pub mode: String,
}

impl ServedChain {
    pub(crate) fn stellar(&self) -> Option<&StellarChain> {
        match &self.family {
            Family::Evm => None,
            Family::Stellar(stellar) => Some(stellar),
        }
    }

    /// The first block that can hold transactions: Stellar's ledger 1 is a constant that no source has.
    pub(crate) fn first_block(&self) -> u64 {
        match &self.family {
            Family::Evm => 0,
            Family::Stellar(_) => 2,
        }
    }

    /// The path of its RPC methods.
    pub(crate) fn rpc_path(&self) -> String {
        match &self.family {
            Family::Evm => format!("/{}", self.id),
            Family::Stellar(_) => format!("/stellar/{}", self.name),
        }
    }

    /// Notes where its heads are now. Where no block can be served, nothing is noted: the gap says so.
    async fn note_history(&self, now: u64) {
        let Ok(view) = View::take(self).await else {
            return;
        };
        let Some(head) = view.head() else {
            return;
        };
        let archived = self.archive.health().head;
        let sample = Sample {
            at: now,
            head: head.number,
            finalized: self.live.health().last_safe_block,
            archived: archived.map(|archived| archived.number),
            lag_seconds: view.head_timestamp().map(|time| now.saturating_sub(time)),
            blocks: self.live.ingested().blocks,
        };
        self.history.lock().note(sample);
    }

    /// Whether this is a Stellar chain of the network with a name.
    fn is_of_network(&self, name: &str) -> bool {
        let stellar = self.stellar();
        stellar.is_some_and(|stellar| stellar.network_name == name)
    }
}

/// The process that follows a chain: its newest blocks and its health. No method waits.
pub trait ChainStatus: Live {
    fn health(&self) -> ChainHealth;
    fn endpoints(&self) -> Vec<EndpointHealth>;
    /// The last reorgs, newest first.
    fn reorgs(&self) -> Vec<Reorg>;
    /// Since the start of the process.
    fn ingested(&self) -> Ingested;
    /// Its ranges as of the last refresh; none before the first.
    fn ranges(&self) -> Option<ChainRanges> {
        None
    }
}

/// The ranges of a chain's history.
#[derive(Clone, Debug)]
pub struct ChainRanges {
    /// `backfill` or `streaming`.
    pub mode: &'static str,
    pub size: u64,
    /// In order.
    pub ranges: Vec<RangeReport>,
}

/// The health of an endpoint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Endpoint")]
pub struct EndpointHealth {
    /// `endpoint 1` for the first one of the settings, and so on. Operators see the end of its host instead.
    pub name: String,
    /// `cooling` while other endpoints get its requests, until a pause is over.
    pub state: EndpointState,
    /// The kind of the last failure, such as `rate limited`, `timed out` or `HTTP 401`. Operators see its text instead.
    pub last_error: Option<String>,
    /// The kind of the last failure, as everybody sees it.
    #[serde(skip)]
    pub last_failure: Option<String>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
}

/// Whether requests go to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum EndpointState {
    #[serde(rename = "well")]
    Healthy,
    #[serde(rename = "cooling")]
    BackingOff,
}

/// Blocks that were replaced.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Reorg {
    /// When it was seen, in seconds since 1970.
    pub at: u64,
    /// How many blocks were dropped.
    pub depth: u64,
    /// The newest block that was dropped.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "BlockJson")]
    pub from: BlockRef,
    /// The newest block that stayed.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "BlockJson")]
    pub to: BlockRef,
    /// The blocks that were dropped, oldest first; at most 32, those nearest to the block that stayed.
    #[serde(serialize_with = "all_as_json")]
    #[schemars(with = "Vec<BlockJson>", length(max = 32))]
    pub dropped: Vec<BlockRef>,
    /// The blocks that took the places of `dropped`, oldest first. There are fewer while they are still
    /// fetched, and where the next reorg replaced them.
    #[serde(serialize_with = "all_as_json")]
    #[schemars(with = "Vec<BlockJson>", length(max = 32))]
    pub adopted: Vec<BlockRef>,
}

/// What was ingested since the start of the process.
#[derive(Clone, Copy, Default, Debug, Serialize, JsonSchema)]
pub struct Ingested {
    /// Blocks, each as often as it arrived.
    pub blocks: u64,
    /// Their logs.
    pub logs: u64,
}

/// A chain that this program knows, served or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownChain {
    pub id: u64,
    /// What people call it.
    pub title: &'static str,
    /// The time of its first block, in seconds since 1970.
    pub genesis_timestamp: u64,
}

/// All chains that are served, and the databases of their projections.
#[derive(Clone)]
pub struct ServedChains {
    chains: Arc<[Arc<ServedChain>]>,
    /// By id.
    known: Arc<[KnownChain]>,
    pub(crate) fees: Option<Database>,
    pub(crate) projections: Option<Database>,
}

impl ServedChains {
    #[must_use]
    pub fn new(mut chains: Vec<Arc<ServedChain>>) -> Self {
        chains.sort_by_key(|chain| chain.id);
        Self {
            chains: chains.into(),
            known: Arc::default(),
            fees: None,
            projections: None,
        }
    }

    /// Lists these chains too, where they are not served.
    #[must_use]
    pub fn with_known(mut self, mut known: Vec<KnownChain>) -> Self {
        known.sort_by_key(|chain| chain.id);
        self.known = known.into();
        self
    }

    /// The chains that are known and not served, by id.
    pub(crate) fn known_only(&self) -> impl Iterator<Item = &KnownChain> {
        let mut known = self.known.iter();
        std::iter::from_fn(move || known.find(|chain| self.find(chain.id).is_none()))
    }

    /// What is known of a chain, served or not.
    pub(crate) fn known(&self, id: u64) -> Option<&KnownChain> {
        let found = self.known.binary_search_by_key(&id, |chain| chain.id);
        self.known.get(found.ok()?)
    }

    /// The chain of an id as clients write it, where it is known and not served.
    pub(crate) fn known_named(&self, id: &str) -> Option<&KnownChain> {
        self.known_only().find(|chain| chain.id.to_string() == id)
    }

    /// Why there are no data of a chain.
    pub(crate) fn why_not_found(&self, id: &str) -> String {
        match self.known_named(id) {
            Some(known) => format!(
                "chain {id} ({}) is known, not followed here: add it to the settings",
                known.title
            ),
            None => format!("chain {} not found", excerpt(id)),
        }
    }

    /// Serves fees from this database too. It is only read.
    #[must_use]
    pub fn with_fees(mut self, database: Option<Database>) -> Self {
        self.fees = database;
        self
    }

    /// Shows the state of the projections in this database. It is only read.
    #[must_use]
    pub fn with_projections(mut self, database: Option<Database>) -> Self {
        self.projections = database;
        self
    }

    /// Notes where the heads of all chains are now. To be called at least every
    /// [`STEP`](crate::history::STEP) seconds.
    pub async fn note_history(&self, now: u64) {
        for chain in self.iter() {
            chain.note_history(now).await;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedChain>> {
        self.chains.iter()
    }

    /// The chain with an id as clients write it: in decimal, in exactly one spelling. Stellar chains are
    /// found by name too: their ids are derived.
    pub(crate) fn find_named(&self, id: &str) -> Option<&Arc<ServedChain>> {
        let number = id
            .parse()
            .ok()
            .filter(|number: &u64| number.to_string() == id);
        match number.and_then(|number| self.find(number)) {
            None => self.find_stellar(id),
            found => found,
        }
    }

    /// The Stellar chain with a name. The name of a chain takes precedence over that of its network.
    pub(crate) fn find_stellar(&self, name: &str) -> Option<&Arc<ServedChain>> {
        let mut own = self.iter().filter(|chain| chain.name == name);
        let own = own.find(|chain| chain.stellar().is_some());
        own.or_else(|| self.iter().find(|chain| chain.is_of_network(name)))
    }

    /// The chain that a client of Stellar's methods names.
    pub(crate) fn find_network(&self, name: &str) -> Option<&Arc<ServedChain>> {
        let other = || self.iter().find(|chain| chain.name == name);
        self.find_named(name).or_else(other)
    }

    pub(crate) fn find(&self, id: u64) -> Option<&Arc<ServedChain>> {
        let found = self.chains.binary_search_by_key(&id, |chain| chain.id);
        self.chains.get(found.ok()?)
    }
}
