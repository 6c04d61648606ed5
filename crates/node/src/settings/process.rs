//! What the process shares among its chains: listeners and memory.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::{Cache, OrPolicy, QueryLimits};
use chronolith_follower::settings::{HISTORY_BYTES_LEAST, TAIL_BYTES};
use chronolith_serve::http::{AnswerLimits, Limits};

use super::adfs::Versions;
use super::endpoints::CommonPortal;
use super::raw::{RawLimits, RawOrPolicy, RawPlanner};
use super::reading::between;
use super::{AlertSettings, ChainSettings, Mode};

/// The port of the public API where none is set.
pub(crate) const PUBLIC_PORT: u16 = 8080;
/// Default addresses of the public API, the fee API and the admin API.
pub(super) const LISTEN: &str = "0.0.0.0:8080";
pub(super) const FEES_LISTEN: &str = "0.0.0.0:9999";
const ADMIN_LISTEN: &str = "127.0.0.1:9465";
const METRICS_LISTEN: &str = "0.0.0.0:9464";

/// Seconds that connections have to end.
const DRAIN_SECONDS: u64 = 10;
const DRAIN_SECONDS_MAX: u64 = 3_600;

/// MiB of what queries read, of all chains together.
const CACHE_MIB: u64 = 256;
const CACHE_MIB_BOUNDS: RangeInclusive<u64> = 8..=1 << 20;

/// MiB of blocks of a chain that wait for finality. Base needs most: its blocks come every 2 s, weigh
/// about 650 KB with all logs and whole transactions, and may wait half an hour, which is 900 of them
/// or 560 MiB. It is a limit and not a reservation: a chain takes what its blocks weigh.
const TAIL_MIB: u64 = (TAIL_BYTES >> 20) as u64;
const TAIL_MIB_BOUNDS: RangeInclusive<u64> = 1..=1 << 16;

/// Connections that may be set at most.
const CONNECTIONS: usize = 1 << 20;

/// Bytes of history that may be on their way, of all chains, and of one at least and at most.
const HISTORY_BYTES: u64 = 256 << 20;
const HISTORY_BYTES_MOST: u64 = 128 << 20;

/// A secret; it is never printed.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// One cache for all chains, or theirs would add up.
pub(super) fn cache(mib: Option<u64>) -> Result<Cache> {
    let mib = between("cacheMib", mib, CACHE_MIB, CACHE_MIB_BOUNDS)?;
    Ok(Cache::of_bytes(mib << 20))
}

/// Memory for the blocks of a chain that wait for finality.
pub(super) fn tail_bytes(mib: Option<u64>) -> Result<usize> {
    let mib = between("tailMib", mib, TAIL_MIB, TAIL_MIB_BOUNDS)?;
    Ok(usize::try_from(mib << 20).unwrap_or(usize::MAX))
}

/// What every chain shares with the others.
pub(super) struct Shared {
    pub(super) cache: Cache,
    pub(super) queries: QueryLimits,
    /// Versions of ADFS contracts.
    pub(super) adfs: Versions,
    pub(super) alerts: AlertSettings,
    pub(super) portal: CommonPortal,
}

/// What requests may cost.
pub(super) fn limits(raw: &RawLimits, planner: &RawPlanner) -> Result<Limits> {
    let default = Limits::default();
    let within = |name: &str, number: Option<usize>, default: usize, most: usize| {
        between(&format!("limits.{name}"), number, default, 1..=most)
    };
    let (name, seconds) = ("limits.timeoutSeconds", default.timeout.as_secs());
    let seconds = between(name, raw.timeout_seconds, seconds, 1..=25)?;
    let mib = default.answer_bytes >> 20;
    let mib = within("answerMib", raw.answer_mib, mib, 1_024)?;
    let results = default.answers.results;
    let connections = default.connections;
    ensure!(
        raw.block_range != Some(0),
        "limits.blockRange: 0 blocks hold no log"
    );
    Ok(Limits {
        answers: AnswerLimits {
            results: within("results", raw.results, results, 1_000_000)?,
            bytes: (mib as u64) << 20,
        },
        answer_bytes: mib << 20,
        batch: within("batch", raw.batch, default.batch, 10_000)?,
        block_range: raw.block_range,
        alternatives: match planner.or_policy {
            None | Some(RawOrPolicy::Refuse) => default.alternatives,
            Some(RawOrPolicy::BlockScan) => None,
        },
        timeout: Duration::from_secs(seconds),
        connections: within("connections", raw.connections, connections, CONNECTIONS)?,
        connections_per_peer: match raw.connections_per_peer {
            None => default.connections_per_peer,
            Some(0) => None,
            number => Some(within("connectionsPerPeer", number, 0, CONNECTIONS)?),
        },
        ..default
    })
}

/// What an archive lets a query cost.
pub(super) fn queries(limits: &Limits) -> QueryLimits {
    let default = QueryLimits::default();
    QueryLimits {
        results_max: limits.answers.results,
        bytes_max: limits.answers.bytes,
        timeout: limits.timeout,
        // Above this number, looking them up costs more than looking at every log.
        or_terms_max: limits.alternatives.unwrap_or(default.or_terms_max),
        or_policy: match limits.alternatives {
            Some(_) => OrPolicy::Refuse,
            None => OrPolicy::BlockScan,
        },
        ..default
    }
}

/// All chains together hold this much history on its way, each the same part of it.
pub(super) fn share_memory(chains: &mut [ChainSettings]) {
    let share = HISTORY_BYTES / chains.len().max(1) as u64;
    for chain in chains {
        let share = share.clamp(HISTORY_BYTES_LEAST, HISTORY_BYTES_MOST);
        chain.backfill.hold_bytes = share;
        if let Some(lake) = chain.stellar.as_mut().and_then(|it| it.lake.as_mut()) {
            lake.hold_bytes = share;
        }
        if matches!(chain.mode, Mode::Backfill { .. }) {
            chain.share_among_ranges();
        }
    }
}

/// The address of a listener.
pub(super) fn address(name: &str, listen: Option<&str>, default: &str) -> Result<SocketAddr> {
    let listen = listen.unwrap_or(default);
    let address = listen.parse();
    address.with_context(|| format!("{name}: `{listen}` is not an address such as {default}"))
}

/// The address of health and metrics.
pub(super) fn metrics(listen: Option<&str>, port: Option<u16>) -> Result<SocketAddr> {
    let mut address = address("metricsListen", listen, METRICS_LISTEN)?;
    if let Some(port) = port {
        address.set_port(port);
    }
    Ok(address)
}

/// How long connections have to end when the process stops.
pub(super) fn drain(seconds: Option<u64>) -> Result<Duration> {
    let bounds = 0..=DRAIN_SECONDS_MAX;
    let seconds = between("drainSeconds", seconds, DRAIN_SECONDS, bounds)?;
    Ok(Duration::from_secs(seconds))
}

/// The address of the admin API: on this machine, or with a token.
pub(super) fn admin(
    listen: Option<&str>,
    token: Option<String>,
) -> Result<(SocketAddr, Option<Token>)> {
    let address = address("adminListen", listen, ADMIN_LISTEN)?;
    let token = token.filter(|token| !token.is_empty()).map(Token);
    ensure!(
        address.ip().is_loopback() || token.is_some(),
        "adminListen: {address} can be reached from elsewhere: give an adminToken"
    );
    Ok((address, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory that docs/deployment.md adds up is that of the defaults.
    #[test]
    fn the_documented_sum_of_memory_has_the_numbers_of_the_defaults() {
        let page = include_str!("../../../../docs/deployment.md");
        let (_, chapter) = page.split_once("\n## Memory\n").unwrap();
        let (chapter, _) = chapter.split_once("\n## ").unwrap();
        let rows = chapter.lines().filter_map(|line| {
            let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
            let (what, mib) = row.rsplit_once(" | ")?;
            Some((what, mib.parse().ok()?))
        });
        let rows: Vec<(&str, u64)> = rows.collect();
        let limits = Limits::default();
        for (start, bytes) in [
            ("query cache", CACHE_MIB << 20),
            ("answers, ", limits.unread_bytes as u64),
            ("requests of more than", limits.bodies_bytes as u64),
        ] {
            let of = rows.iter().filter(|(what, _)| what.starts_with(start));
            let documented: Vec<u64> = of.map(|(_, mib)| mib << 20).collect();
            assert_eq!(documented, [bytes], "{start}");
        }
        let sum: u64 = rows.iter().map(|(_, mib)| mib).sum();
        for text in [
            format!("Together these are {sum} MiB."),
            format!("{} MiB of history", HISTORY_BYTES >> 20),
        ] {
            assert!(chapter.contains(&text), "{text}");
        }
    }
}
