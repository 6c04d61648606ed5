//! What the process shares among its chains: listeners and memory.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{Cache, OrPolicy, QueryLimits};
use chronolith_follower::settings::{HISTORY_BYTES_LEAST, TAIL_BYTES};
use chronolith_serve::http::{AnswerLimits, Limits};

use super::adfs::Versions;
use super::raw::{RawLimits, RawPlanner};
use super::{AlertSettings, ChainSettings, Mode};

/// Where everybody is answered by default, and where operators are.
const LISTEN: &str = "0.0.0.0:8080";
const ADMIN_LISTEN: &str = "127.0.0.1:9465";

const FEES_LISTEN: &str = "0.0.0.0:9999";

/// MiB of what queries read, of all chains together.
const CACHE_MIB: u64 = 256;
const CACHE_MIB_BOUNDS: RangeInclusive<u64> = 8..=1 << 20;

/// MiB of blocks of a chain that wait for finality. Base needs most: its blocks come every 2 s, weigh
/// about 650 KB with all logs and whole transactions, and may wait half an hour, which is 900 of them
/// or 560 MiB. It is a limit and not a reservation: a chain takes what its blocks weigh.
const TAIL_MIB: u64 = (TAIL_BYTES >> 20) as u64;
const TAIL_MIB_BOUNDS: RangeInclusive<u64> = 1..=1 << 16;

/// Connections at the most, whatever is asked for.
const CONNECTIONS: usize = 1 << 20;

/// Bytes of history that may be on their way, of all chains, and of one at least and at most.
const HISTORY_BYTES: u64 = 256 << 20;
const HISTORY_BYTES_MOST: u64 = 128 << 20;

/// What somebody must know; it is never printed.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// One cache for all chains, or theirs would add up.
pub(super) fn cache(mib: Option<u64>) -> Result<Cache> {
    let mib = mib.unwrap_or(CACHE_MIB);
    ensure!(
        CACHE_MIB_BOUNDS.contains(&mib),
        "cacheMib: {mib} is not between {} and {}",
        CACHE_MIB_BOUNDS.start(),
        CACHE_MIB_BOUNDS.end()
    );
    Ok(Cache::of_bytes(mib << 20))
}

/// What the blocks of a chain that wait for finality may take.
pub(super) fn tail_bytes(mib: Option<u64>) -> Result<usize> {
    let mib = mib.unwrap_or(TAIL_MIB);
    ensure!(
        TAIL_MIB_BOUNDS.contains(&mib),
        "tailMib: {mib} is not between {} and {}",
        TAIL_MIB_BOUNDS.start(),
        TAIL_MIB_BOUNDS.end()
    );
    Ok(usize::try_from(mib << 20).unwrap_or(usize::MAX))
}

/// What every chain shares with the others.
pub(super) struct Shared {
    pub(super) cache: Cache,
    pub(super) queries: QueryLimits,
    /// Versions of ADFS contracts.
    pub(super) adfs: Versions,
    pub(super) alerts: AlertSettings,
}

/// What requests may cost.
pub(super) fn limits(raw: &RawLimits, planner: &RawPlanner) -> Result<Limits> {
    let default = Limits::default();
    let within = |name: &str, asked: Option<usize>, default: usize, most: usize| {
        let value = asked.unwrap_or(default);
        let fits = (1..=most).contains(&value);
        ensure!(fits, "limits.{name}: {value} is not between 1 and {most}");
        Ok(value)
    };
    let seconds = raw.timeout_seconds.map(|seconds| seconds as usize);
    let seconds = within(
        "timeoutSeconds",
        seconds,
        default.timeout.as_secs() as usize,
        25,
    )?;
    let mib = within(
        "answerMib",
        raw.answer_mib,
        default.answer_bytes >> 20,
        1_024,
    )?;
    ensure!(
        raw.block_range != Some(0),
        "limits.blockRange: 0 blocks hold no log"
    );
    Ok(Limits {
        answers: AnswerLimits {
            results: within("results", raw.results, default.answers.results, 1_000_000)?,
            bytes: (mib as u64) << 20,
        },
        answer_bytes: mib << 20,
        batch: within("batch", raw.batch, default.batch, 10_000)?,
        block_range: raw.block_range,
        alternatives: match planner.or_policy.as_deref() {
            None | Some("refuse") => default.alternatives,
            Some("block_scan") => None,
            Some(other) => bail!("planner.orPolicy: `{other}` is neither refuse nor block_scan"),
        },
        timeout: Duration::from_secs(seconds as u64),
        connections: within(
            "connections",
            raw.connections,
            default.connections,
            CONNECTIONS,
        )?,
        connections_per_peer: match raw.connections_per_peer {
            None | Some(0) => None,
            asked => Some(within("connectionsPerPeer", asked, 0, CONNECTIONS)?),
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
        // Above so many, looking them up costs more than looking at every log.
        or_terms_max: limits.alternatives.unwrap_or(default.or_terms_max),
        or_policy: match limits.alternatives {
            Some(_) => OrPolicy::Refuse,
            None => OrPolicy::BlockScan,
        },
        ..default
    }
}

/// All chains together hold so much history on its way, each the same part of it.
pub(super) fn share_memory(chains: &mut [ChainSettings]) {
    let share = HISTORY_BYTES / chains.len().max(1) as u64;
    for chain in chains {
        let share = share.clamp(HISTORY_BYTES_LEAST, HISTORY_BYTES_MOST);
        chain.backfill.hold_bytes = share;
        let lake = chain.stellar.as_mut().and_then(|it| it.lake.as_mut());
        if let Some(lake) = lake {
            lake.hold_bytes = share;
        }
        if matches!(chain.mode, Mode::Backfill { .. }) {
            chain.share_among_ranges();
        }
    }
}

/// Where everybody is answered.
pub(super) fn public(listen: Option<&str>) -> Result<SocketAddr> {
    let listen = listen.unwrap_or(LISTEN);
    let address = listen.parse();
    address.with_context(|| format!("listen: `{listen}` is no address such as {LISTEN}"))
}

/// Where callers of the fee document are answered.
pub(super) fn fees(listen: Option<&str>) -> Result<SocketAddr> {
    let listen = listen.unwrap_or(FEES_LISTEN);
    let address = listen.parse();
    address.with_context(|| format!("feesListen: `{listen}` is no address such as {FEES_LISTEN}"))
}

/// Where acts are asked for: on this machine, or with a token.
pub(super) fn admin(
    listen: Option<&str>,
    token: Option<String>,
) -> Result<(SocketAddr, Option<Token>)> {
    let listen = listen.unwrap_or(ADMIN_LISTEN);
    let address: SocketAddr = listen
        .parse()
        .with_context(|| format!("adminListen: `{listen}` is no address such as {ADMIN_LISTEN}"))?;
    let token = token.filter(|token| !token.is_empty()).map(Token);
    ensure!(
        address.ip().is_loopback() || token.is_some(),
        "adminListen: {listen} can be reached from elsewhere: give an adminToken"
    );
    Ok((address, token))
}
