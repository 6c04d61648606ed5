//! Endpoints in order of preference: the first healthy one is used, the next one if it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::health::EndpointReport;
use crate::jsonrpc::endpoint::Endpoint;
use crate::jsonrpc::settings::EndpointSettings;

/// The longest wait for an endpoint that is paused.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The least wait before an endpoint that failed gets the same request again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Endpoints that are passed over in one search for an answer.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PassedOver<'a> {
    /// They failed: used last.
    pub(crate) failed: &'a [Arc<str>],
    /// They cannot answer: not used.
    pub(crate) unfit: &'a [Arc<str>],
}

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
        self.endpoints.iter().find(|one| &*one.name == name)
    }

    /// The preferred healthy endpoint that has not failed; else the one that can be used first, with the time
    /// until then. One that failed a moment ago may be that one: the others may be suspended for minutes.
    fn choose(&self, passed: &PassedOver<'_>) -> Option<(&Arc<Endpoint>, Option<Instant>)> {
        let fit = |endpoint: &&Arc<Endpoint>| !passed.unfit.contains(&endpoint.name);
        let has_failed = |endpoint: &Arc<Endpoint>| passed.failed.contains(&endpoint.name);
        let fit = || self.endpoints.iter().filter(fit);
        let healthy = fit().find(|one| one.is_healthy() && !has_failed(one));
        healthy.map(|endpoint| (endpoint, None)).or_else(|| {
            let soonest = Instant::now() + AGAIN_AFTER;
            let usable = fit().map(|one| {
                let earliest = has_failed(one).then_some(soonest);
                (one, one.usable_at().max(earliest))
            });
            usable.min_by_key(|(_, until)| *until)
        })
    }

    /// An endpoint to use, once it is usable.
    pub(crate) async fn endpoint(&self, passed: &PassedOver<'_>) -> Result<Arc<Endpoint>> {
        let Some((endpoint, until)) = self.choose(passed) else {
            return Err(Error::Invalid("no endpoint is left".to_owned()));
        };
        if let Some(until) = until {
            let most = Instant::now() + WAIT_MAX;
            tokio::time::sleep_until(until.min(most)).await;
        }
        Ok(endpoint.clone())
    }

    pub(crate) fn report(&self) -> Vec<EndpointReport> {
        self.endpoints.iter().map(|one| one.report()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of three endpoints were suspended for wrong answers, and one failed request of the third made
    /// ingest wait half a minute for one of the two.
    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_failed_comes_before_suspended_ones() {
        let settings = ["http://one", "http://two"].map(EndpointSettings::new);
        let pool = Pool::new(1, settings.to_vec()).unwrap();
        let [one, two] = pool.endpoints() else {
            panic!("two endpoints")
        };
        one.report_bad("its hash");
        let names = [one.name.clone(), two.name.clone()];
        let first = pool.endpoint(&PassedOver::default()).await.unwrap();
        assert_eq!(first.name, two.name);
        let failed = PassedOver {
            failed: &names[1..],
            unfit: &[],
        };
        let began = Instant::now();
        let next = pool.endpoint(&failed).await.unwrap();
        assert_eq!(next.name, two.name);
        assert!(began.elapsed() >= AGAIN_AFTER, "not at once");
        assert!(began.elapsed() < Duration::from_secs(1));
        let unfit = PassedOver {
            failed: &[],
            unfit: &names[1..],
        };
        let began = Instant::now();
        let next = pool.endpoint(&unfit).await.unwrap();
        assert_eq!(next.name, one.name);
        assert_eq!(began.elapsed().as_secs(), WAIT_MAX.as_secs());
    }
}
