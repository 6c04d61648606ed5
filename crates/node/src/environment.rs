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
        let port = match (cli.port, variable("PORT")) {
            (Some(port), _) => Some(port),
            (None, Some(text)) => Some(port_of("PORT", &text)?),
            (None, None) => None,
        };
        let api_port = variable("API_PORT");
        let api_port = api_port
            .map(|text| port_of("API_PORT", &text))
            .transpose()?;
        Ok(Self {
            port,
            api_port,
            metrics_port: cli.metrics_port,
            data_dir: data_dir.or_else(|| variable("DATA_DIR").map(PathBuf::from)),
            ingest_interval: seconds.map(Duration::from_secs),
            pg_url: variable("PG_URL"),
            pg_readonly_url: variable("PG_READONLY_URL"),
        })
    }
}

fn port_of(name: &str, text: &str) -> Result<u16> {
    match text.trim().parse() {
        Ok(port) => Ok(port),
        Err(_) => bail!("{name}: `{text}` is no port from 0 to 65535"),
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
