//! Settings: read from a file, checked, with every default filled in.
//!
//! The file is JSON or TOML by its extension. `${NAME}` and `${NAME:-default}` inside a string are
//! replaced by environment variables, so that keys need not be in the file.

mod adfs;
mod alerts;
mod collector;
mod datasets;
mod endpoints;
mod finality;
mod keys;
mod origin;
mod process;
mod projections;
mod ranges;
mod raw;
mod reading;
mod schema;
mod stellar;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use chronolith_follower::location::{ArchiveLocation, Remote};
use chronolith_model::{Scope, ScopeEntry, Verification};
use chronolith_projection_adfs::AdfsSettings;
use chronolith_serve::http::{ApiKeys, Limits};
use chronolith_source::evm::{Checks, RangeSettings, Strategy};
use chronolith_source::portal::PortalSettings;
use chronolith_source::{CHAINS, KnownChain, checks_of, known_chain};
use serde_json::Value;

use crate::environment::{DATA_DIR, Overrides, variable};
use crate::hex::parse_hex;

pub(crate) use chronolith_follower::settings::{Finality, FollowSettings, Mode};
use raw::{
    RawBackfill, RawChain, RawChainEntry, RawMode, RawScope, RawSettings, RawStrategy,
    RawVerification,
};

pub(crate) use alerts::AlertSettings;
use endpoints::{CommonPortal, PortalOverrides};
pub(crate) use keys::AccessLogTarget;
pub(crate) use origin::{DEFAULT_FILE, Origin, find_file};
use process::{FEES_LISTEN, LISTEN, Shared, address};
pub(crate) use process::{PUBLIC_PORT, Token};
pub(crate) use projections::{DatabaseSettings, FeesSettings};
use reading::{expand, rename_keys, typed};

pub(crate) use schema::schema;

/// What `config example` prints: enough for one chain on a local node.
pub(crate) const EXAMPLE: &str = r#"{
  "dataDir": "./data",
  "chains": [
    {
      "chainId": 31337,
      "name": "local",
      "rpcHttp": ["http://127.0.0.1:8545"],
      "startBlock": 0,
      "finality": { "mode": "l1_confirmations", "confirmations": 5 },
      "datasets": ["headers", "logs", "tx_hashes"]
    }
  ]
}
"#;

/// The public Portal with the datasets of known chains.
pub(crate) const PUBLIC_PORTAL: &str = "https://portal.sqd.dev/datasets";

/// Everything that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    /// Where archives are, where that is not the data directory.
    pub(crate) remote: Option<Remote>,
    /// The address of the public API, and what requests may cost.
    pub(crate) listen: SocketAddr,
    pub(crate) limits: Limits,
    /// Who may use the public API, and where its requests are logged.
    pub(crate) api_keys: Option<ApiKeys>,
    pub(crate) access_log: AccessLogTarget,
    /// The address of the fee API, where fees are projected.
    pub(crate) fees_listen: SocketAddr,
    /// The address of health and metrics.
    pub(crate) metrics_listen: SocketAddr,
    /// How long open connections have to end when the process stops.
    pub(crate) drain: Duration,
    /// The address of the admin API, and its token where that is not this machine.
    pub(crate) admin_listen: SocketAddr,
    pub(crate) admin_token: Option<Token>,
    /// Whether that address was chosen. Where it was not and is taken, another one may do.
    pub(crate) admin_is_asked_for: bool,
    /// Where these settings come from, and what of it is not used.
    pub(crate) origin: Origin,
    pub(crate) notes: Vec<String>,
    /// Where projections go.
    pub(crate) database: DatabaseSettings,
    pub(crate) chains: Vec<ChainSettings>,
}

/// One chain: how it is followed, what is projected of it, and when operators are alerted.
#[derive(Clone, Debug)]
pub(crate) struct ChainSettings {
    pub(crate) follow: FollowSettings,
    /// Its ADFS contract, whose updates are projected; its metrics have names of their own.
    pub(crate) adfs: Option<AdfsSettings>,
    /// Its fee contracts, where their events are projected.
    pub(crate) fees: Option<FeesSettings>,
    pub(crate) alerts: AlertSettings,
}

impl ChainSettings {
    /// Whether this is the name or the id of the chain.
    pub(crate) fn is_called(&self, wanted: &str) -> bool {
        self.name.eq_ignore_ascii_case(wanted) || self.chain_id.to_string() == wanted
    }
}

/// Most readers want a chain's name, id or start block, which are settings of the follower.
impl Deref for ChainSettings {
    type Target = FollowSettings;

    fn deref(&self) -> &FollowSettings {
        &self.follow
    }
}

impl DerefMut for ChainSettings {
    fn deref_mut(&mut self) -> &mut FollowSettings {
        &mut self.follow
    }
}

impl Settings {
    /// Reads the file that is named or found, else what there is without one, and applies flags and environment
    /// over it.
    pub(crate) fn load(named: Option<&Path>, overrides: &Overrides) -> Result<Self> {
        let origin = Origin::find(Path::new(""), named, &variable)?;
        let portal = PortalOverrides::from(overrides);
        let mut settings = match &origin {
            Origin::File(path) => Self::read(path, portal)?,
            Origin::Collector => collector::settings(&variable, portal)?,
            Origin::KnownChains => Self::build(origin::clocks_of_known_chains(), portal)?,
        };
        settings.notes = origin.notes(&variable);
        settings.origin = origin;
        settings.put_over(overrides);
        settings.database.check()?;
        Ok(settings)
    }

    fn read(path: &Path, portal: PortalOverrides<'_>) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the settings file {}", path.display()))?;
        let is_toml = path.extension().is_some_and(|name| name == "toml");
        let read = value_of(&text, is_toml).and_then(|value| Self::build(value, portal));
        read.with_context(|| format!("in {}", path.display()))
    }

    fn put_over(&mut self, overrides: &Overrides) {
        if let Some(data_dir) = &overrides.data_dir {
            self.data_dir.clone_from(data_dir);
        }
        self.database.put_over(overrides);
        if let Some(port) = overrides.port {
            self.listen.set_port(port);
        }
        if let Some(port) = overrides.api_port {
            self.fees_listen.set_port(port);
        }
        if let Some(port) = overrides.metrics_port {
            self.metrics_listen.set_port(port);
        }
        if let Some(port) = overrides.admin_port {
            self.admin_listen.set_port(port);
            self.admin_is_asked_for = true;
        }
        let places: Vec<ArchiveLocation> =
            self.chains.iter().map(|chain| self.place(chain)).collect();
        for (chain, place) in self.chains.iter_mut().zip(places) {
            if let Some(stellar) = &mut chain.stellar {
                stellar.place_core(place.notes());
            }
            if chain.portal.is_some() {
                chain.poll = overrides.ingest_interval.unwrap_or(chain.poll);
            }
        }
    }

    /// Reads text.
    #[cfg(any(test, feature = "demo"))]
    pub(crate) fn parse(text: &str, is_toml: bool) -> Result<Self> {
        Self::build(value_of(text, is_toml)?, PortalOverrides::default())
    }

    /// Checks what a file says and fills in the rest. Without a Portal in it, this is the one of known chains.
    fn build(mut value: Value, portal: PortalOverrides<'_>) -> Result<Self> {
        rename_keys(&mut value)?;
        let mut raw: RawSettings = typed(value, "")?;
        ensure!(
            !raw.chains.is_empty(),
            "chains: at least one chain is needed"
        );
        portal.put_over(&mut raw);
        let portal = raw.portal_url.as_deref().unwrap_or(PUBLIC_PORTAL);
        endpoints::check_url("portalUrl, PORTAL_URL", portal, endpoints::HTTP)?;
        let limits = process::limits(&raw.limits, &raw.planner)?;
        let shared = Shared {
            cache: process::cache(raw.cache_mib)?,
            queries: process::queries(&limits),
            alerts: alerts::of_service(&raw)?,
            adfs: adfs::Versions::new(&raw)?,
            portal: CommonPortal {
                url: portal.to_owned(),
                requests_per_10s: raw.portal_requests,
            },
        };
        let mut chains: Vec<ChainSettings> = Vec::new();
        for (at, entry) in raw.chains.into_iter().enumerate() {
            let path = format!("chains[{at}]");
            let chain = chain(entry, &path, &shared).with_context(|| path.clone())?;
            if let Some(other) = chains.iter().find(|other| other.chain_id == chain.chain_id) {
                bail!(
                    "{path}: chain {} is there twice, as {} and {}",
                    chain.chain_id,
                    other.name,
                    chain.name
                );
            }
            chains.push(chain);
        }
        finality::settle(&mut chains)?;
        process::share_memory(&mut chains);
        let port = raw.metrics_port.or(raw.service.metrics_port);
        let port = port.or(raw.metrics.and_then(|metrics| metrics.port));
        let (admin_listen, admin_token) =
            process::admin(raw.admin_listen.as_deref(), raw.admin_token)?;
        Ok(Self {
            limits,
            api_keys: keys::api_keys(raw.api_keys)?,
            access_log: keys::access_log(raw.access_log.as_deref())?,
            database: DatabaseSettings::new(&raw.db)?,
            listen: address("listen", raw.listen.as_deref(), LISTEN)?,
            fees_listen: address("feesListen", raw.fees_listen.as_deref(), FEES_LISTEN)?,
            admin_is_asked_for: raw.admin_listen.is_some(),
            admin_listen,
            admin_token,
            origin: Origin::KnownChains,
            notes: Vec::new(),
            metrics_listen: process::metrics(raw.metrics_listen.as_deref(), port)?,
            drain: process::drain(raw.drain_seconds)?,
            data_dir: raw.data_dir.unwrap_or_else(|| DATA_DIR.to_owned()).into(),
            remote: raw
                .archive_url
                .map(|url| Remote::open(&url).context("archiveUrl"))
                .transpose()?,
            chains,
        })
    }

    /// A chain by its name or id.
    pub(crate) fn chain(&self, wanted: Option<&str>) -> Result<&ChainSettings> {
        let name = |chain: &ChainSettings| format!("{} ({})", chain.name, chain.chain_id);
        let names: Vec<String> = self.chains.iter().map(name).collect();
        let names = names.join(", ");
        match (wanted, self.chains.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => bail!("several chains are set up: name one with --chain: {names}"),
            (Some(wanted), chains) => {
                let found = chains.iter().find(|chain| chain.is_called(wanted));
                found.ok_or_else(|| anyhow!("no chain {wanted}; there are: {names}"))
            }
        }
    }

    /// Where a chain's archive is.
    pub(crate) fn place(&self, chain: &FollowSettings) -> ArchiveLocation {
        let id = chain.chain_id.to_string();
        let dir = self.data_dir.join("chains").join(&id);
        match &self.remote {
            None => ArchiveLocation::Directory(dir),
            Some(remote) => ArchiveLocation::Remote {
                remote: remote.clone(),
                part: id,
                notes: dir,
            },
        }
    }
}

/// The text of a file as a value, with variables put in.
///
/// # Errors
/// It is neither JSON nor TOML. The message has the position and not the text, which may hold a key.
fn value_of(text: &str, is_toml: bool) -> Result<Value> {
    let mut value: Value = if is_toml {
        toml::from_str(text).map_err(|error| reading::not_toml(text, &error))?
    } else {
        serde_json::from_str(text).context("not JSON")?
    };
    expand(&mut value, &|name| std::env::var(name).ok())?;
    Ok(value)
}

/// Whether a text is a settings file in JSON.
pub(crate) fn check_text(text: &str) -> Result<()> {
    Settings::build(value_of(text, false)?, PortalOverrides::default()).map(|_| ())
}

/// How much history is requested at once.
fn backfill(raw: &RawBackfill) -> Result<RangeSettings> {
    let default = RangeSettings::default();
    let most = raw.max_range.unwrap_or(default.most);
    let first = raw.initial_range.unwrap_or(default.first.min(most));
    let least = raw.min_range.unwrap_or(default.least.min(most));
    ensure!(
        least >= 1 && least <= most && first <= most && first >= 1,
        "backfill: minRange {least} and initialRange {first} must lie between 1 and maxRange {most}"
    );
    Ok(RangeSettings {
        first,
        least,
        most,
        ..default
    })
}

fn chain(entry: RawChainEntry, path: &str, shared: &Shared) -> Result<ChainSettings> {
    let raw: RawChain = match entry {
        RawChainEntry::Name(name) => RawChain {
            name: Some(name),
            ..RawChain::default()
        },
        RawChainEntry::Whole(value) => typed(value, path)?,
    };
    if let Some(stellar) = &raw.stellar {
        return stellar::chain(&raw, stellar, shared);
    }
    let (chain_id, name, known) = identity(&raw)?;
    let endpoints = endpoints::endpoints("rpcHttp", &raw.rpc_http)?;
    endpoints::check_sockets(&raw.rpc_ws)?;
    let (level, checks) = proof(raw.verification, chain_id);
    let portal = endpoints::portal(&raw, chain_id, known, &shared.portal)?;
    let portal = portal.map(|portal| PortalSettings { checks, ..portal });
    // With endpoints beside it, they report the chain's head and what a portal does not have.
    let portal_alone = portal.as_ref().filter(|_| raw.rpc_http.is_empty());
    ensure!(
        portal_alone.is_none() || level == Verification::Claimed,
        "verification: a Portal alone proves nothing, its blocks are its own word: add rpcHttp, whose headers prove them by bloom, or set verification to claimed"
    );
    let scope = scope(raw.logs.as_ref())?;
    let finality = match (&raw.finality, portal_alone) {
        // A portal knows what is final.
        (None, Some(_)) => Finality::Finalized,
        (rule, _) => finality::rule(rule.as_ref(), known).context("finality")?,
    };
    ensure!(
        portal_alone.is_none() || !finality.tags().safe,
        "finality: a portal reports no safe block: give rpcHttp as well, or use mode finalized"
    );
    let datasets = datasets::datasets(raw.datasets.as_deref(), portal.as_ref(), portal_alone)?;
    let adfs = adfs::contract(&raw, &shared.adfs)?;
    let kept = adfs::Kept { datasets, scope };
    let kept = adfs::kept(&raw, kept, adfs.as_ref(), portal_alone)?;
    let start_block = raw.start_block.unwrap_or(0);
    let fees = projections::fees(raw.fees.as_ref(), chain_id, start_block)?;
    let follow = FollowSettings {
        chain_id,
        name,
        endpoints,
        heads: raw.rpc_ws,
        start_block,
        mode: mode(raw.mode, raw.start_block, raw.end_block)?,
        ranges: ranges::ranges(&raw.ranges, 0)?,
        finality,
        l1: finality::l1(raw.finality.as_ref(), chain_id, known).context("finality")?,
        datasets: kept.datasets,
        scope: projections::widen(kept, fees.as_ref())?,
        level,
        checks,
        strategy: strategy(raw.strategy),
        poll: endpoints::poll(raw.poll_ms, portal_alone),
        catching_up: None,
        backfill: backfill(&raw.backfill)?,
        tail_bytes: process::tail_bytes(raw.tail_mib)?,
        cache: shared.cache.clone(),
        queries: shared.queries.clone(),
        portal,
        stellar: None,
    };
    Ok(ChainSettings {
        follow,
        adfs,
        fees,
        alerts: alerts::of_chain(raw.alerts_config.as_ref(), shared.alerts)?,
    })
}

/// The id and name of a chain, and what is known of it by either.
fn identity(raw: &RawChain) -> Result<(u64, String, Option<&'static KnownChain>)> {
    let (chain_id, known) = match (raw.chain_id, raw.name.as_deref()) {
        (Some(id), _) => (id, CHAINS.iter().find(|known| known.chain_id == id)),
        (None, Some(name)) => {
            let known = known_chain(name).ok_or_else(|| {
                let names: Vec<&str> = CHAINS.iter().map(|known| known.name).collect();
                anyhow!(
                    "chain {name} is not known by name: give its chainId, or one of {}",
                    names.join(", ")
                )
            })?;
            (known.chain_id, Some(known))
        }
        (None, None) => bail!("give a chainId or the name of a known chain"),
    };
    let name = raw.name.as_deref().or(known.map(|known| known.name));
    let name = name.map_or_else(|| chain_id.to_string(), str::to_owned);
    Ok((chain_id, name, known))
}

/// The level that blocks must reach, and what is checked. A level of the settings is checked whatever the table
/// of chains has; without one, everything that the chain allows is.
fn proof(level: Option<RawVerification>, chain_id: u64) -> (Verification, Checks) {
    let known = checks_of(chain_id);
    let level = match level {
        None => return (Verification::Claimed, known),
        Some(RawVerification::Claimed) => Verification::Claimed,
        Some(RawVerification::Linked) => Verification::Linked,
        Some(RawVerification::Bloom) => Verification::Bloom,
        Some(RawVerification::Receipts) => Verification::Receipts,
        Some(RawVerification::Roots) => Verification::Roots,
    };
    let checks = Checks {
        oddity: known.oddity,
        ..Checks::ALL
    };
    (level, checks.up_to(level))
}

fn strategy(raw: Option<RawStrategy>) -> Strategy {
    match raw {
        None | Some(RawStrategy::Receipts) => Strategy::Receipts,
        Some(RawStrategy::Logs) => Strategy::Logs,
    }
}

fn mode(mode: Option<RawMode>, start: Option<u64>, end: Option<u64>) -> Result<Mode> {
    let mode = match mode {
        None | Some(RawMode::Auto) => Mode::Auto,
        Some(RawMode::Streaming) => Mode::Streaming,
        Some(RawMode::Backfill) => {
            let ends = start.zip(end);
            let (start, end_block) =
                ends.context("mode: backfill needs startBlock and endBlock")?;
            ensure!(
                start <= end_block,
                "endBlock: {end_block} is below startBlock {start}"
            );
            return Ok(Mode::Backfill { end_block });
        }
    };
    ensure!(end.is_none(), "endBlock is for mode backfill only");
    Ok(mode)
}

fn scope(raw: Option<&RawScope>) -> Result<Scope> {
    let Some(raw) = raw.filter(|raw| !raw.addresses.is_empty() || !raw.topic0.is_empty()) else {
        return Ok(Scope::All);
    };
    let bytes = |texts: &[String], len: usize, what: &str| -> Result<Vec<Option<Bytes>>> {
        let parse = |text: &String| {
            let parsed = parse_hex(text).filter(|bytes| bytes.len() == len);
            parsed
                .map(Some)
                .with_context(|| format!("logs.{what}: `{text}` is not {len} bytes of hex"))
        };
        let parsed: Vec<_> = texts.iter().map(parse).collect::<Result<_>>()?;
        Ok(if parsed.is_empty() {
            vec![None]
        } else {
            parsed
        })
    };
    let emitters = bytes(&raw.addresses, 20, "addresses")?;
    let topics = bytes(&raw.topic0, 32, "topic0")?;
    let mut entries = Vec::new();
    for emitter in &emitters {
        entries.extend(topics.iter().map(|topic0| ScopeEntry {
            emitter: emitter.clone(),
            topic0: topic0.clone(),
        }));
    }
    Ok(Scope::only(entries))
}

#[cfg(test)]
mod tests;
