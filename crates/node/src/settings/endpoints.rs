//! Where the blocks of an EVM chain come from: endpoints, a Portal, and how often they are asked.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_source::portal::PortalSettings;
use chronolith_source::{EndpointSettings, KnownChain};
use reqwest::Url;

use super::raw::{RawChain, RawEndpoint, RawEndpointSettings, RawSettings};
use super::reading::{between, typed};
use crate::environment::Overrides;

/// What URLs may begin with.
pub(super) const HTTP: [&str; 2] = ["http", "https"];
const SOCKET: [&str; 2] = ["ws", "wss"];

/// Requests to an endpoint at the same time, and calls in one, at most.
const IN_FLIGHT_MAX: usize = 10_000;
const BATCH_MAX: usize = 10_000;

/// Whether this is a URL with one of these schemes. The message does not quote it: it may hold a key.
pub(super) fn check_url(name: &str, url: &str, schemes: [&str; 2]) -> Result<()> {
    let [plain, secure] = schemes;
    let begins = |scheme: &str| {
        let scheme_of = url.split_once("://").map(|(scheme, _)| scheme);
        scheme_of.is_some_and(|found| found.eq_ignore_ascii_case(scheme))
    };
    ensure!(
        schemes.into_iter().any(begins),
        "{name}: a URL begins with {plain}:// or {secure}:// here"
    );
    // The host first: a space in it would be reported as an odd letter of another one.
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or(host);
    ensure!(
        !host.contains(char::is_whitespace),
        "{name}: the host of the URL has a space in it"
    );
    let url = Url::parse(url).map_err(|error| anyhow::anyhow!("{name}: not a URL: {error}"))?;
    ensure!(url.host_str().is_some(), "{name}: the URL has no host");
    Ok(())
}

/// Endpoints of a list with this name.
pub(super) fn endpoints(name: &str, all: &[RawEndpoint]) -> Result<Vec<EndpointSettings>> {
    let each = all.iter().enumerate();
    each.map(|(at, raw)| endpoint(&format!("{name}[{at}]"), raw))
        .collect()
}

fn endpoint(name: &str, raw: &RawEndpoint) -> Result<EndpointSettings> {
    let settings = match raw {
        RawEndpoint::Url(url) => EndpointSettings::new(url),
        RawEndpoint::Whole(value) => {
            ensure!(
                value.is_object(),
                "{name}: an endpoint is a URL, or an object with `url`"
            );
            let raw: RawEndpointSettings = typed(value.clone(), name)?;
            with_limits(name, &raw)?
        }
    };
    check_url(name, &settings.url, HTTP)?;
    Ok(settings)
}

fn with_limits(name: &str, raw: &RawEndpointSettings) -> Result<EndpointSettings> {
    let mut settings = EndpointSettings::new(&raw.url);
    let within = |field: &str, number, default, most| {
        between(&format!("{name}.{field}"), number, default, 1..=most)
    };
    settings.in_flight = within("inFlight", raw.in_flight, settings.in_flight, IN_FLIGHT_MAX)?;
    settings.batch = within("batch", raw.batch, settings.batch, BATCH_MAX)?;
    settings.per_second = raw.requests_per_second.unwrap_or(settings.per_second);
    ensure!(
        settings.per_second.is_finite() && settings.per_second >= 0.0,
        "{name}.requestsPerSecond: {} is not 0 or more",
        settings.per_second
    );
    Ok(settings)
}

/// WebSockets that announce new heads.
pub(super) fn check_sockets(all: &[String]) -> Result<()> {
    let mut each = all.iter().enumerate();
    each.try_for_each(|(at, url)| check_url(&format!("rpcWs[{at}]"), url, SOCKET))
}

/// What flags and environment say of the Portal, over the file.
#[derive(Clone, Copy, Default)]
pub(super) struct PortalOverrides<'a> {
    pub(super) url: Option<&'a str>,
    pub(super) requests_per_10s: Option<u32>,
}

impl<'a> From<&'a Overrides> for PortalOverrides<'a> {
    fn from(overrides: &'a Overrides) -> Self {
        Self {
            url: overrides.portal_url.as_deref(),
            requests_per_10s: overrides.portal_requests,
        }
    }
}

impl PortalOverrides<'_> {
    pub(super) fn put_over(self, raw: &mut RawSettings) {
        if let Some(url) = self.url {
            raw.portal_url = Some(url.to_owned());
        }
        raw.portal_requests = self.requests_per_10s.or(raw.portal_requests);
    }
}

/// What chains have in common that are read from a Portal.
pub(super) struct CommonPortal {
    /// The Portal of chains that name none.
    pub(super) url: String,
    pub(super) requests_per_10s: Option<u32>,
}

/// A Portal dataset: the one that is named, or that of a chain that is known and has no endpoints, at the common
/// Portal. One that is named beside endpoints is for final history.
pub(super) fn portal(
    raw: &RawChain,
    chain_id: u64,
    known: Option<&KnownChain>,
    common: &CommonPortal,
) -> Result<Option<PortalSettings>> {
    if !raw.rpc_http.is_empty() && raw.portal.is_none() {
        return Ok(None);
    }
    let named = raw.portal.as_ref();
    let named = named.and_then(|portal| portal.dataset.as_deref());
    let dataset = named.or(known.map(|known| known.portal));
    let base = match (&raw.portal, known) {
        (Some(portal), _) => portal.url.as_str(),
        (None, Some(_)) => common.url.as_str(),
        (None, None) => bail!("rpcHttp: at least one endpoint is needed, or a portal"),
    };
    check_url("portal.url", base, HTTP)?;
    let dataset = dataset.context("portal.dataset is needed: the chain is not known by name")?;
    let url = format!("{}/{dataset}", base.trim_end_matches('/'));
    let settings = PortalSettings::new(&url, chain_id);
    let default = settings.requests_per_10s;
    Ok(Some(PortalSettings {
        requests_per_10s: common.requests_per_10s.unwrap_or(default),
        ..settings
    }))
}

/// How often to look for new blocks: once a second at endpoints, once a minute at a Portal alone, which many
/// share: it gets at most one request a second.
pub(super) fn poll(poll_ms: Option<u64>, portal_alone: Option<&PortalSettings>) -> Duration {
    let (default_ms, least_ms) = match portal_alone {
        Some(_) => (60_000, 1_000),
        None => (1_000, 10),
    };
    Duration::from_millis(poll_ms.unwrap_or(default_ms).max(least_ms))
}
