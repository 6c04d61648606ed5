//! `chronolith backfill`: missing history, fetched into the archive.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail, ensure};
use chronolith_archive::Archive;
use chronolith_follower::backfill::bounded;
use chronolith_follower::backfill::fill::{Filler, Filling};
use chronolith_follower::backfill::retry_policy::OnFatal;
use chronolith_follower::chain::{Chain, archive_settings};
use chronolith_follower::ingest;
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::progress::Progress;
use chronolith_follower::run_state::RunState;
use chronolith_follower::settings::RangePlan;
use chronolith_model::{BlockRange, DatasetSet, ErrorKind};
use chronolith_serve::ChainId;
use chronolith_source::Error as SourceError;
use serde_json::json;

use super::output::print_result;
use crate::cli::BackfillRange;
use crate::control::server::RunningNode;
use crate::exit::Exit;
use crate::settings::{ChainSettings, Mode, Settings};

/// How long a command waits for the first ledger of a core: its state is fetched first, which takes long
/// on a large network.
const CORE_WAIT_MAX: Duration = Duration::from_secs(2 * 3_600);
const CORE_LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn backfill(settings: &Settings, args: &BackfillRange) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    ensure!(
        args.from <= args.to,
        "--from {} is after --to {}",
        args.from,
        args.to
    );
    check_numbers(chain, args.from, args.to)?;
    let range = BlockRange::new(args.from, args.to.saturating_add(1));
    let filled = match RunningNode::find(settings).await? {
        Some(node) => node.backfill(chain.chain_id, range).await?,
        None => fetch(settings, chain, range).await?,
    };
    let (from, to) = (args.from, args.to);
    let answer = json!({
        "chainId": ChainId(chain.chain_id),
        "from": from,
        "to": to,
        "filledBlocks": filled,
    });
    let text = format!(
        "{}: blocks {from} to {to} are archived; {filled} were fetched, {} were there",
        chain.name,
        range.len() - filled
    );
    print_result(&args.wanted, &answer, &text)
}

/// Refuses numbers that no ledger of a Stellar network has: they would be waited for.
pub(crate) fn check_numbers(chain: &ChainSettings, from: u64, to: u64) -> Result<()> {
    if chain.stellar.is_none() {
        return Ok(());
    }
    let RangePlan { first, size, .. } = chain.ranges;
    ensure!(
        from >= first,
        "--start-ledger {from}: the first ledger is {first}, and range 0 holds ledgers (0 × {size}) + {first} = \
         {first} to ((0 + 1) × {size}) + {first} - 1 = {}",
        size + first - 1
    );
    let last = u64::from(u32::MAX);
    ensure!(
        to <= last,
        "--end-ledger {to}: ledgers have 32-bit numbers, and the last is {last}"
    );
    Ok(())
}

/// The chain as mode backfill has it, with these bounds.
fn bounded(chain: &ChainSettings, range: BlockRange) -> ChainSettings {
    let mut bounded = chain.clone();
    let last = range.end - 1;
    bounded.start_block = range.start;
    bounded.mode = Mode::Backfill { end_block: last };
    if let Some(stellar) = &mut bounded.stellar {
        if let Some(core) = &mut stellar.core {
            core.last_ledger = u32::try_from(last).ok();
        }
        if let Some(lake) = &mut stellar.lake {
            // For a lake that cannot be listed: what is below may never have been in it.
            lake.first_ledger = u32::try_from(range.start).unwrap_or(lake.first_ledger);
        }
    }
    bounded.share_among_ranges();
    bounded
}

/// Does what mode backfill does, for one chain and these blocks, and returns how many were fetched.
async fn fetch(settings: &Settings, chain: &ChainSettings, range: BlockRange) -> Result<u64> {
    let place = settings.place(chain);
    let chain = open(bounded(chain, range), &place).await?;
    let fetched = async {
        // First, so that a new archive shows its purpose also where the rest fails.
        RunState::note(&chain.settings, place.notes())?;
        chain.admit().await.context("the source cannot be used")?;
        check_reachable(&chain, range)?;
        check_final(&chain, range).await?;
        check_linked(&chain.archive, &missing_below_head(&chain, range))?;
        let count = |gaps: Vec<BlockRange>| gaps.iter().map(BlockRange::len).sum::<u64>();
        let before = count(chain.missing_below(range.end));
        let work = Box::pin(bounded::run(&chain, OnFatal::Exit));
        ingest::beside_l1(&chain, work).await?;
        Ok(before - count(chain.missing_below(range.end)).min(before))
    };
    let fetched = fetched.await;
    chain.archive.release().await?;
    fetched
}

/// Opens the chain for writing. In shared storage it does not wait long for another writer.
async fn open(chain: ChainSettings, place: &ArchiveLocation) -> Result<Chain> {
    let patience = match place.directory() {
        Some(_) => Duration::MAX,
        None => archive_settings(&chain).lease_ttl * 4,
    };
    let opened = tokio::time::timeout(patience, Chain::open(chain.follow, place)).await;
    opened.unwrap_or_else(|_| {
        bail!("the archive in {place} is locked by another writer: stop the node that follows this chain first")
    })
}

/// Refuses blocks that lie above the next one that the archive takes: all blocks between would have to be fetched
/// too, which may be very many more than were requested.
fn check_reachable(chain: &Chain, range: BlockRange) -> Result<()> {
    let Some(head) = chain.archive.health().head else {
        return Ok(());
    };
    let (next, last) = (head.number + 1, range.end - 1);
    let (blocks, from, to) = match chain.settings.stellar {
        Some(_) => ("ledgers", "--start-ledger", "--end-ledger"),
        None => ("blocks", "--from", "--to"),
    };
    ensure!(
        range.start <= next,
        "the archive ends with {}, and continues from there: {} {blocks} between it and {} would have to be \
         fetched as well; to fetch them too, use {from} {next} {to} {last}",
        head.number,
        range.start.saturating_sub(next),
        range.start
    );
    Ok(())
}

/// A command does not wait for blocks that are not final yet.
async fn check_final(chain: &Chain, range: BlockRange) -> Result<()> {
    if chain.archive_next() >= range.end {
        return Ok(());
    }
    chain.source.note_next(chain.archive_next());
    if chain.has_core() {
        return wait_for_core(chain).await;
    }
    let heads = chain.source.heads().await?;
    let settled = ingest::settled(chain, &heads).map(|(settled, _)| settled);
    let newest = settled.or_else(|| chain.archive_next().checked_sub(1));
    ensure!(
        newest.is_some_and(|newest| newest >= range.end - 1),
        "only final blocks are filled in, and block {} is the newest one that is final",
        newest.unwrap_or(0)
    );
    Ok(())
}

/// A core shows no more than a few ledgers ahead of what was taken, and the first one late: that it brings
/// any is all that can be known before. One that never does is not waited for.
async fn wait_for_core(chain: &Chain) -> Result<()> {
    let began = Instant::now();
    let mut hints = chain.source.hints();
    let (name, mut reported) = (&chain.settings.name, String::new());
    loop {
        hints.mark_unchanged();
        let error = match chain.source.heads().await {
            Ok(_) => return Ok(()),
            // What the lake has comes without it, and then there is an end.
            Err(SourceError::Stuck { .. }) if !chain.is_core_alone() => return Ok(()),
            Err(error @ SourceError::Stuck { .. }) => return Err(error.into()),
            Err(error) if error.kind() != ErrorKind::Unavailable => return Err(error.into()),
            Err(error) if began.elapsed() >= CORE_WAIT_MAX => {
                return Err(Error::new(error).context("core brought no ledger"));
            }
            Err(error) => error.to_string(),
        };
        if error != reported {
            tracing::warn!(event = "waiting_for_core", chain = %name, %error, "waiting for core");
            reported = error;
        }
        let _ = tokio::time::timeout(CORE_LOOK_EVERY, hints.changed()).await;
    }
}

fn missing_below_head(chain: &Chain, range: BlockRange) -> Vec<BlockRange> {
    match chain.archive.health().head {
        Some(head) => chain.missing_below(range.end.min(head.number + 1)),
        None => Vec::new(),
    }
}

/// Refuses to fill in what no archived block would vouch for.
fn check_linked(archive: &Archive, missing: &[BlockRange]) -> Result<()> {
    let Some(last) = missing.last() else {
        return Ok(());
    };
    let linked = linked_end(archive, last.end);
    ensure!(
        linked == last.end,
        "block {} is not archived, so nothing would vouch for block {}: fill in up to the next archived \
         block, with --to {}",
        last.end,
        last.end - 1,
        linked - 1
    );
    Ok(())
}

/// Fetches the missing blocks of a range below the archive's head, and returns their number. What was
/// published stays after a failure, and the next call continues from there.
pub(crate) async fn fill_missing(
    filler: &Filler<'_>,
    range: BlockRange,
    moved: &(dyn Fn() + Send + Sync),
) -> Result<u64> {
    let (archive, chain) = (filler.archive, filler.chain);
    let Some(head) = archive.health().head else {
        bail!("the archive of {} is empty so far", chain.name);
    };
    ensure!(
        range.end <= head.number + 1,
        "only final blocks are filled in, and block {} is the newest one that is archived",
        head.number
    );
    let missing = archive.missing(range, chain.datasets, &chain.scope);
    check_linked(archive, &missing)?;
    let all: u64 = missing.iter().map(BlockRange::len).sum();
    let progress = Progress::in_log("backfill", &chain.name);
    let mut filling = Filling::new(progress, all, moved);
    for gap in missing {
        filler.fill_gap(gap, None, &mut filling).await?;
    }
    Ok(all)
}

/// Where a fill that is to end here can end: its last block is archived already, or the block after it is, which
/// names it as its parent. A block that links to nothing would only be claimed by the source.
pub(super) fn linked_end(archive: &Archive, end: u64) -> u64 {
    let covered = archive.coverage(DatasetSet::CLOCK, None);
    let next = covered.iter().find(|(range, _)| range.end >= end);
    next.map_or(end, |(range, _)| range.start.max(end))
}
