//! Settings outside the file: a flag wins over the environment, that over the file, that over the default.
//!
//! An empty variable counts as not set: many tools pass an unset one on as empty.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::Cli;

/// Where the data directory is by default.
pub(crate) const DATA_DIR: &str = "./data";

/// Seconds that may lie between two looks for new blocks.
pub(crate) const INTERVAL_SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// Settings of flags and environment, which win over the file.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    pub(crate) data_dir: Option<PathBuf>,
    /// The port of the public API.
    pub(crate) port: Option<u16>,
    /// The port of the fee API.
    pub(crate) api_port: Option<u16>,
    /// The port of health and metrics.
    pub(crate) metrics_port: Option<u16>,
    /// The port of the admin API.
    pub(crate) admin_port: Option<u16>,
    /// The Portal of known chains that name none, where the datasets are.
    pub(crate) portal_url: Option<String>,
    /// Requests to a Portal in ten seconds.
    pub(crate) portal_requests: Option<u32>,
    /// How often to look for new blocks at a portal.
    pub(crate) ingest_interval: Option<Duration>,
    /// Where projections are written and read.
    pub(crate) pg_url: Option<String>,
    pub(crate) pg_readonly_url: Option<String>,
}

impl Overrides {
    /// From flags, and from the environment where there is no flag.
    ///
    /// # Errors
    /// A bad number; the message names its variable.
    pub(crate) fn new(cli: &Cli, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let data_dir = cli.data_dir.clone();
        let seconds = match (cli.ingest_interval_secs, variable("INGEST_INTERVAL_SECS")) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(text)) => Some(interval("INGEST_INTERVAL_SECS", &text)?),
            (None, None) => None,
        };
        Ok(Self {
            port: port_of("PORT", cli.port, variable)?,
            api_port: port_of("API_PORT", None, variable)?,
            metrics_port: port_of("METRICS_PORT", cli.metrics_port, variable)?,
            admin_port: port_of("ADMIN_PORT", cli.admin_port, variable)?,
            portal_url: cli.portal_url.clone().or_else(|| variable("PORTAL_URL")),
            portal_requests: requests_of(variable)?,
            data_dir: data_dir.or_else(|| variable("DATA_DIR").map(PathBuf::from)),
            ingest_interval: seconds.map(Duration::from_secs),
            pg_url: variable("PG_URL"),
            pg_readonly_url: variable("PG_READONLY_URL"),
        })
    }
}

/// A port by its flag, else by its variable.
fn port_of(
    name: &str,
    flag: Option<u16>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<u16>> {
    let Some(text) = variable(name).filter(|_| flag.is_none()) else {
        return Ok(flag);
    };
    match text.trim().parse() {
        Ok(port) => Ok(Some(port)),
        Err(_) => bail!("{name}: `{text}` is no port from 0 to 65535"),
    }
}

fn requests_of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<u32>> {
    const NAME: &str = "PORTAL_REQUESTS";
    let Some(text) = variable(NAME) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(requests) => Ok(Some(requests)),
        Err(_) => bail!("{NAME}: `{text}` is no number of requests"),
    }
}

fn interval(name: &str, text: &str) -> Result<u64> {
    match text.trim().parse() {
        Ok(seconds) if INTERVAL_SECONDS.contains(&seconds) => Ok(seconds),
        _ => {
            let (least, most) = (INTERVAL_SECONDS.start(), INTERVAL_SECONDS.end());
            bail!("{name}: `{text}` is no number of seconds from {least} to {most}")
        }
    }
}

/// A variable of the environment that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
