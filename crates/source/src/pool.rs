//! Endpoints in order of preference: the first that is well is asked, the next one if it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::endpoint::{Endpoint, EndpointReport, EndpointSettings};
use crate::error::{Error, Result};

/// The longest wait for an endpoint that is paused.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Endpoints of one chain, the preferred first.
#[derive(Debug)]
pub(crate) struct Pool {
    endpoints: Vec<Arc<Endpoint>>,
}

impl Pool {
    pub(crate) fn new(chain_id: u64, settings: Vec<EndpointSettings>) -> Result<Self> {
        let mut endpoints: Vec<Arc<Endpoint>> = Vec::with_capacity(settings.len());
        for one in settings {
            endpoints.push(Arc::new(Endpoint::named_apart(one, chain_id, &endpoints)?));
        }
        if endpoints.is_empty() {
            return Err(Error::Invalid("no endpoint is given".to_owned()));
        }
        Ok(Self { endpoints })
    }

    pub(crate) fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Endpoint>> {
        self.endpoints
            .iter()
            .find(|endpoint| &*endpoint.name == name)
    }

    /// The preferred endpoint that is well and is not among those to avoid; else the one that will
    /// be well first, with the time until then.
    fn choose(&self, avoid: &[Arc<str>]) -> Option<(&Arc<Endpoint>, Option<Instant>)> {
        let usable = || {
            let avoided = |endpoint: &&Arc<Endpoint>| !avoid.contains(&endpoint.name);
            self.endpoints.iter().filter(avoided)
        };
        let well = usable().find(|endpoint| endpoint.cool_until().is_none());
        well.map(|endpoint| (endpoint, None)).or_else(|| {
            let cooling = usable().map(|endpoint| (endpoint, endpoint.cool_until()));
            cooling.min_by_key(|(_, until)| *until)
        })
    }

    /// An endpoint to work with, once it is well.
    pub(crate) async fn endpoint(&self, avoid: &[Arc<str>]) -> Result<Arc<Endpoint>> {
        let Some((endpoint, until)) = self.choose(avoid) else {
            return Err(Error::Invalid("no endpoint is left to ask".to_owned()));
        };
        if let Some(until) = until {
            let most = Instant::now() + WAIT_MAX;
            tokio::time::sleep_until(until.min(most)).await;
        }
        Ok(endpoint.clone())
    }

    pub(crate) fn report(&self) -> Vec<EndpointReport> {
        let report = |endpoint: &Arc<Endpoint>| endpoint.report();
        self.endpoints.iter().map(report).collect()
    }
}
