//! A chain's source, with the checks of its identity before the first use.
//!
//! A provider may be down when the program starts, and that must stop no other chain. So no request is sent
//! when a chain is opened. The checks are made when the source is first needed: the chain id, the genesis,
//! and the first block that it has. Until they hold nothing is taken from it, by any caller; a check that
//! failed is made again with the next call.

use std::sync::Arc;

use anyhow::Error as AnyError;
use async_trait::async_trait;
use chronolith_archive::Archive;
use chronolith_model::{BlockMeta, BlockRange, BlockRef};
use chronolith_source::{
    EndpointBlock, EndpointReport, Error, FailureClass, Fetched, Heads, Identity, Plan, Source,
    Want,
};
use tokio::sync::{OnceCell, watch};

use crate::location::ArchiveLocation;
use crate::preflight::genesis;
use crate::settings::FollowSettings;
use crate::stellar;

/// The message for a lake that was not reached yet.
const NOT_REACHED: &str = "it was not reached since the start";

/// A source that is used only once it is known to be the chain's.
#[derive(Debug)]
pub struct Admission {
    settings: FollowSettings,
    /// The archive, and where it and its genesis are kept.
    place: ArchiveLocation,
    archive: Archive,
    /// The first block to fetch, where nothing is archived yet.
    begins_at: Option<u64>,
    source: Opened,
    admitted: OnceCell<()>,
    /// Of a source that is not there yet; never changes.
    hints: watch::Sender<u64>,
}

#[derive(Debug)]
enum Opened {
    AtOnce(Arc<dyn Source>),
    /// The layout of a lake must be known before it can be read.
    OnceReached(OnceCell<Arc<dyn Source>>),
}

impl Admission {
    /// Over this source; without one, over that of a Stellar network, which is opened when it is needed.
    pub fn new(
        settings: &FollowSettings,
        place: ArchiveLocation,
        archive: Archive,
        begins_at: Option<u64>,
        source: Option<Arc<dyn Source>>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            place,
            archive,
            begins_at,
            source: source.map_or_else(|| Opened::OnceReached(OnceCell::new()), Opened::AtOnce),
            admitted: OnceCell::new(),
            hints: watch::Sender::new(0),
        }
    }

    /// Whether the checks held.
    pub fn is_admitted(&self) -> bool {
        self.admitted.initialized()
    }

    /// The source, after the checks.
    ///
    /// # Errors
    /// `Invalid` or `WrongChain` where it is not the chain's, else that it does not answer.
    pub async fn admitted(&self) -> Result<&Arc<dyn Source>, Error> {
        let source = self.opened().await?;
        let check = || self.check(&**source);
        self.admitted.get_or_try_init(check).await?;
        Ok(source)
    }

    async fn opened(&self) -> Result<&Arc<dyn Source>, Error> {
        match &self.source {
            Opened::AtOnce(source) => Ok(source),
            Opened::OnceReached(source) => {
                let open = || stellar::open_of(&self.settings);
                source.get_or_try_init(open).await.map_err(as_source_error)
            }
        }
    }

    async fn check(&self, source: &dyn Source) -> Result<(), Error> {
        let found = genesis::check(&self.settings, &self.place, source).await;
        let found = found.map_err(as_source_error)?;
        let kept = genesis::keep(&self.place, &self.archive, found).await;
        kept.map_err(as_source_error)?;
        if let Some((begins_at, first)) = self.begins_at.zip(source.first_block().await?)
            && begins_at < first
        {
            return Err(Error::Invalid(format!(
                "the dataset begins with block {first}: set startBlock to {first} or a later block (startBlock={begins_at})"
            )));
        }
        self.warn_of_syncing(source).await;
        Ok(())
    }

    /// Warns of endpoints that are still catching up: the head that they show is not the chain's.
    async fn warn_of_syncing(&self, source: &dyn Source) {
        let healthy = |endpoint: &EndpointReport| !endpoint.backing_off;
        for endpoint in source.endpoints().into_iter().filter(healthy) {
            // One that does not answer is reported where blocks are fetched.
            if let Ok(true) = source.syncing(&endpoint.name).await {
                let (chain, endpoint) = (&self.settings.name, &endpoint.name);
                tracing::warn!(%chain, %endpoint, "endpoint says that it is syncing: its newest block is not the chain's");
            }
        }
    }

    /// The source as far as it is there, checked or not: for what takes no block.
    fn known(&self) -> Option<&Arc<dyn Source>> {
        match &self.source {
            Opened::AtOnce(source) => Some(source),
            Opened::OnceReached(source) => source.get(),
        }
    }
}

/// What a check says, as an error of the source: one that no later try changes is `Invalid`.
fn as_source_error(error: AnyError) -> Error {
    // The archive's own store did not answer: that passes.
    let store = error.downcast_ref::<chronolith_store::Error>();
    if let Some(chronolith_store::Error::Unavailable { .. }) = store {
        return Error::Unavailable {
            endpoint: "archive".to_owned(),
            reason: format!("{error:#}"),
            class: FailureClass::Other,
            retry_after: None,
        };
    }
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(other) => Error::Invalid(format!("{other:#}")),
    }
}

#[async_trait]
impl Source for Admission {
    /// For methods that take no block. Those that do are below: they make sure of the checks first.
    fn inner(&self) -> Option<&dyn Source> {
        self.known().map(|source| &**source)
    }

    async fn identity(&self) -> Result<Identity, Error> {
        self.admitted().await?.identity().await
    }

    async fn first_block(&self) -> Result<Option<u64>, Error> {
        self.admitted().await?.first_block().await
    }

    async fn heads(&self) -> Result<Heads, Error> {
        self.admitted().await?.heads().await
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>, Error> {
        self.admitted().await?.clock(number).await
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        match self.admitted().await {
            Ok(source) => source.block_at_each_endpoint(number).await,
            Err(_) => Vec::new(),
        }
    }

    async fn block_at_healthy_endpoints(
        &self,
        number: u64,
        also: &[Arc<str>],
    ) -> Vec<EndpointBlock> {
        match self.admitted().await {
            Ok(source) => source.block_at_healthy_endpoints(number, also).await,
            Err(_) => Vec::new(),
        }
    }

    async fn syncing(&self, endpoint: &str) -> Result<bool, Error> {
        self.admitted().await?.syncing(endpoint).await
    }

    async fn code(&self, address: [u8; 20]) -> Result<Option<Vec<u8>>, Error> {
        self.admitted().await?.code(address).await
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>, Error> {
        let source = self.admitted().await?;
        source.fetch_some(range, want, anchor).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        match self.known() {
            Some(source) => source.hints(),
            None => self.hints.subscribe(),
        }
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if let Some(source) = self.known() {
            source.report_bad(endpoint, block, what);
        }
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        let unreached = || EndpointReport {
            name: "lake".to_owned(),
            requests: 0,
            failures: 0,
            inconsistencies: 0,
            backing_off: true,
            last_error: Some(NOT_REACHED.to_owned()),
            last_failure: Some(FailureClass::Unreachable),
        };
        let source = self.known();
        source.map_or_else(|| vec![unreached()], |source| source.endpoints())
    }

    fn plan(&self, want: &Want) -> Plan {
        self.known().map_or(Plan::ONE, |source| source.plan(want))
    }

    fn plan_at(&self, start: u64, want: &Want) -> Plan {
        let source = self.known();
        source.map_or(Plan::ONE, |source| source.plan_at(start, want))
    }
}
