//! `chronolith backfill`: history that coverage lacks, fetched into the archive.

use anyhow::{Result, bail, ensure};
use chronolith_archive::Archive;
use chronolith_model::{BlockRange, DatasetSet};
use serde_json::json;

use crate::admin::RunningNode;
use crate::backfill::parts;
use crate::chain::{open_for_operator, open_source, want_of};
use crate::cli::BackfillRange;
use crate::exit::Exit;
use crate::ingest::Trouble;
use crate::progress::{Progress, Unit};
use crate::refill::Refill;
use crate::settings::{ChainSettings, Settings};

/// How many times everything that may be asked for at once makes one fill. Each that is finished is
/// published, so no more than one is fetched twice.
const FILL_ROUNDS: u64 = 4;

pub(crate) async fn backfill(settings: &Settings, asked: &BackfillRange) -> Result<Exit> {
    let chain = settings.chain(asked.wanted.chain.as_deref())?;
    ensure!(
        asked.from <= asked.to,
        "--from {} lies behind --to {}",
        asked.from,
        asked.to
    );
    let range = BlockRange::new(asked.from, asked.to.saturating_add(1));
    if let Some(node) = RunningNode::find(settings).await? {
        let filled = node.backfill(chain.chain_id, range).await?;
        tell(chain, range, asked, filled)?;
        return Ok(Exit::Done);
    }
    let (archive, _lock) = open_for_operator(chain, &settings.place(chain)).await?;
    let source = open_source(chain).await;
    let filled = match source {
        Ok(source) => {
            let refill = Refill {
                chain,
                archive: &archive,
                source: &source,
            };
            fill_lacking(&refill, range).await
        }
        Err(error) => Err(error),
    };
    archive.release().await?;
    tell(chain, range, asked, filled?)?;
    Ok(Exit::Done)
}

/// Fetches what the archive lacks in a range, and returns how many blocks that was. The newest blocks
/// come first: each fill then links to blocks that are archived already. Whatever ends it early, what
/// was finished stays, and the next call goes on from there.
pub(crate) async fn fill_lacking(refill: &Refill<'_>, range: BlockRange) -> Result<u64> {
    let (archive, chain) = (refill.archive, refill.chain);
    let Some(head) = archive.health().head else {
        bail!(
            "the archive of {} is empty so far: start `chronolith run` first",
            chain.name
        );
    };
    ensure!(
        range.end <= head.number + 1,
        "only final blocks are filled in, and block {} is the newest one that is archived: `chronolith \
         run` fetches those above it",
        head.number
    );
    let plan = refill.source.plan(&want_of(chain));
    let fill_blocks = plan.blocks * plan.at_once as u64 * FILL_ROUNDS;
    let lacking = archive.lacking(range, chain.datasets, &chain.scope);
    if let Some(last) = lacking.last() {
        let linked = linked_end(archive, last.end);
        ensure!(
            linked == last.end,
            "block {} is not archived, so nothing would vouch for block {}: fill in up to the next archived \
             block, with --to {}",
            last.end,
            last.end - 1,
            linked - 1
        );
    }
    let all: u64 = lacking.iter().map(BlockRange::len).sum();
    let mut progress = Progress::of_command("backfill", &chain.name, Unit::Blocks);
    let mut done = 0;
    for gap in lacking.iter().rev() {
        let mut due: Vec<BlockRange> = parts(*gap, fill_blocks).collect();
        while let Some(part) = due.pop() {
            let told = &mut |reached: u64| progress.reach(done + reached, all);
            fill(refill, part, told).await?;
            done += part.len();
            let (from, to) = (part.start, part.end - 1);
            tracing::info!(chain = %chain.name, from, to, done, all, "filled");
            // Merging as it goes keeps the number of segments small.
            while archive.maintain().await? {}
        }
    }
    Ok(done)
}

/// Where a fill that is to end here can end: its last block is archived already, or the block behind it
/// is, which names it as its parent. What links to nothing is nobody's word but the source's.
pub(super) fn linked_end(archive: &Archive, end: u64) -> u64 {
    let covered = archive.coverage(DatasetSet::CLOCK, None);
    let mut at_or_behind = covered.iter().filter(|(range, _)| range.end >= end);
    at_or_behind
        .next()
        .map_or(end, |(range, _)| range.start.max(end))
}

async fn fill(
    refill: &Refill<'_>,
    part: BlockRange,
    told: &mut (dyn FnMut(u64) + Send),
) -> Result<(), Trouble> {
    let begin = || refill.archive.fill(part);
    let want = want_of(refill.chain);
    refill.refill(part, want, begin, told).await
}

fn tell(
    chain: &ChainSettings,
    range: BlockRange,
    asked: &BackfillRange,
    filled: u64,
) -> Result<()> {
    let (from, to) = (range.start, range.end - 1);
    if asked.wanted.json {
        let answer = json!({
            "chainId": chain.chain_id,
            "from": from,
            "to": to,
            "filledBlocks": filled,
        });
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        let already = range.len() - filled;
        println!(
            "{}: blocks {from} to {to} are archived; {filled} were fetched, {already} were there",
            chain.name
        );
    }
    Ok(())
}
