//! A chain over the real source: simulated nodes and Portals behind servers on loopback, in this process. The
//! clock is the real one here, so tests wait for changes of the chain and not for a time.

use std::time::Duration;

use chronolith_archive::Health;
use chronolith_follower::backfill::append::parts;
use chronolith_follower::chain::{Chain, open_source};
use chronolith_follower::settings::Finality;
use chronolith_model::{BlockRange, Dataset, DatasetSet};
use chronolith_sim::evm::{EvmNode, Faults, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFaults, PortalOptions, PortalServer};
use chronolith_source::EndpointSettings;
use chronolith_source::portal::PortalSettings;

use super::{Ground, opened};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the chain looks for new blocks, and how often a state is looked at that announces no change.
const POLL: Duration = Duration::from_millis(20);
/// Blocks that are compared with the source at once.
const COMPARE_BLOCKS: u64 = 250;

pub async fn serve(node: &EvmNode) -> RpcServer {
    serve_with(node, RpcOptions::default()).await
}

pub async fn serve_with(node: &EvmNode, options: RpcOptions) -> RpcServer {
    RpcServer::start(node.clone(), options).await.unwrap()
}

/// A server that fails as these faults say.
pub async fn serve_failing(node: &EvmNode, faults: &Faults) -> RpcServer {
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    serve_with(node, options).await
}

pub async fn serve_portal(node: &EvmNode, faults: &PortalFaults) -> PortalServer {
    let options = PortalOptions {
        faults: faults.clone(),
        ..PortalOptions::default()
    };
    PortalServer::start(node.clone(), options).await.unwrap()
}

/// What a source calls the endpoint of a server.
pub fn name_of(server: &RpcServer) -> String {
    let url = server.url();
    let name = url.trim_start_matches("http://").trim_end_matches('/');
    name.to_owned()
}

impl Ground {
    /// A chain over these endpoints, the preferred first, with the datasets that the settings file has unless
    /// it names others.
    pub fn over(servers: &[&RpcServer], finality: Finality) -> Self {
        let mut ground = Self::new(finality);
        let datasets = [Dataset::Headers, Dataset::Logs, Dataset::TxHashes];
        ground.settings.datasets = DatasetSet::of(&datasets);
        ground.settings.poll = POLL;
        ground.set_endpoints(servers);
        ground
    }

    /// A chain of which a Portal alone has the blocks.
    pub fn over_portal(portal: &PortalServer) -> Self {
        let mut ground = Self::new(Finality::Finalized);
        ground.settings.poll = POLL;
        ground.set_portal(portal);
        ground
    }

    /// Uses these endpoints from the next start on.
    pub fn set_endpoints(&mut self, servers: &[&RpcServer]) {
        let urls = servers.iter().map(|server| server.url());
        self.settings.endpoints = urls.map(|url| EndpointSettings::new(&url)).collect();
    }

    /// Uses this Portal for final history, with the datasets that a Portal has.
    pub fn set_portal(&mut self, portal: &PortalServer) {
        let (url, chain_id) = (portal.url(), self.settings.chain_id);
        let settings = PortalSettings::new(url.trim_end_matches('/'), chain_id);
        self.settings.portal = Some(settings);
        self.settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    }

    /// Opens the archive to write it, with the source of the settings.
    pub async fn open_served(&self) -> Chain {
        opened(PATIENCE, || {
            let (settings, place) = (self.settings.clone(), self.place());
            async move { Chain::open(settings, &place).await }
        })
        .await
    }

    /// Opens it, and follows until everything that is final is archived.
    pub async fn caught_up(&self) -> Chain {
        let chain = self.open_served().await;
        super::catch_up(&chain).await.unwrap();
        chain
    }
}

/// Waits until a chain is as wanted.
pub async fn until(chain: &Chain, what: &str, mut reached: impl FnMut() -> bool) {
    let mut moves = chain.moves();
    let waiting = async {
        loop {
            moves.mark_unchanged();
            if reached() {
                return;
            }
            // Status and endpoints announce no change.
            let _ = tokio::time::timeout(POLL, moves.changed()).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(
        waited.is_ok(),
        "{what} was not reached: archived {:?}, {:?}",
        super::archived(chain),
        chain.status().error
    );
}

/// Waits until this block is the newest one that is archived.
pub async fn until_head(chain: &Chain, number: u64) {
    let what = format!("block {number}");
    until(chain, &what, || super::archived(chain) == Some(number)).await;
}

/// Waits until the status reports an error with this text.
pub async fn until_error(chain: &Chain, text: &str) {
    until(chain, text, || error_of(chain).contains(text)).await;
}

/// The error that the status reports; empty without one.
pub fn error_of(chain: &Chain) -> String {
    chain.status().error.clone().unwrap_or_default()
}

pub fn is_halted(chain: &Chain) -> bool {
    matches!(chain.archive.health().health, Health::Halted(_))
}

/// Every block of a range is archived as the source has it, and every object of it can be read.
pub async fn assert_equals_source(chain: &Chain, range: BlockRange) {
    let settings = &chain.settings;
    let source = open_source(settings).await.unwrap();
    for part in parts(range, COMPARE_BLOCKS) {
        for theirs in source.fetch(part, &chain.want, None).await.unwrap() {
            let (datasets, scope) = (settings.datasets, &settings.scope);
            let archive = &chain.archive;
            let difference = archive.difference(&theirs.block, datasets, scope).await;
            let number = theirs.block.clock.number;
            assert_eq!(difference.unwrap(), None, "block {number}");
        }
    }
    let damaged = chain.archive.inspect(range, &mut |_| {}).await.unwrap();
    assert!(damaged.is_empty(), "{} damaged objects", damaged.len());
}
