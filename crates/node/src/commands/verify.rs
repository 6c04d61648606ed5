//! `chronolith verify`.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context as _, Error, Result};
use chronolith_archive::{
    Archive, DamagedObject, Difference, Error as ArchiveError, Result as ArchiveResult,
};
use chronolith_follower::backfill::append::parts;
use chronolith_follower::chain::{open_reader, open_source, want_of};
use chronolith_follower::progress::{Progress, Unit};
use chronolith_follower::stellar::open_lake_alone;
use chronolith_model::{Block, BlockMeta, BlockRange, Dataset, DatasetSet, Payload, Proof};
use chronolith_serve::ChainId;
use chronolith_source::{Fetched, Source};
use serde_json::{Value, json};

use super::backfill::linked_end;
use super::output::print_json;
use super::query::range_of;
use super::state::{levels, levels_json};
use super::verify_evm;
use super::verify_stellar::{difference, recomputed};
use crate::cli::VerifyRange;
use crate::exit::Exit;
use crate::settings::{ChainSettings, Settings};

/// Blocks that are fetched at once.
const STEP_BLOCKS: u64 = 250;
/// Findings that are printed without `--json`.
const SHOWN: usize = 20;

/// What was found, and how many logs were read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) logs: u64,
    /// Blocks that are older than their parent. Nothing is wrong with them.
    pub(super) falling_times: u64,
    /// Blocks of which no hash was computed again.
    pub(super) not_recomputed: u64,
    /// What is wrong with which block.
    pub(super) blocks: Vec<Finding>,
    /// Objects that are damaged or gone, or hold other content than they should.
    pub(super) objects: Vec<DamagedObject>,
    /// Names of those among them that can be read and hold other content than the source has.
    pub(super) other: HashSet<String>,
    /// Segments with the same content as the source has, which proves it further now. They are whole.
    pub(super) less_proven: Vec<DamagedObject>,
    /// Blocks that were to be compared with the source and were not, and why.
    pub(super) not_compared: Option<(BlockRange, String)>,
    /// Why the comparison ended early. What was found before is still valid.
    pub(super) failed: Option<Error>,
}

/// What came of computing hashes and roots of a block again.
pub(super) enum Recomputed {
    /// All that can be computed holds.
    Right,
    /// This does not hold.
    Wrong(String),
    /// Nothing was proven of the block, or too little of it is kept.
    Nothing,
}

/// What is wrong with a block.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) block: u64,
    pub(super) what: String,
    /// Whether the block is the same and its content another.
    pub(super) content_differs: bool,
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.objects.is_empty()
    }

    fn find(&mut self, block: u64, what: String) {
        self.blocks.push(Finding {
            block,
            what,
            content_differs: false,
        });
    }

    /// Adds an object, unless it is known; returns whether it is new.
    fn add(&mut self, damaged: DamagedObject) -> bool {
        let mut known = self.objects.iter();
        let is_new = known.all(|known| known.object.name != damaged.object.name);
        self.objects.extend(is_new.then_some(damaged));
        is_new
    }

    /// Adds an object that can be read and holds other content than the source has.
    pub(super) fn add_other(&mut self, other: DamagedObject) {
        let name = other.object.name.clone();
        if self.add(other) {
            self.other.insert(name);
        }
    }

    /// How a command ends that has printed all this.
    pub(super) fn end(self) -> Result<Exit> {
        let whole = self.is_empty();
        match self.failed {
            Some(error) => Err(error.context("not everything was compared with the source")),
            None if whole => Ok(Exit::Done),
            None => Ok(Exit::NotWhole),
        }
    }
}

/// Reads every block of the range back: each must be there with all that is kept, link to the one before,
/// and pass its checksums. So must every object that holds one of them, whether a block needs it or only a query.
pub(crate) async fn verify(settings: &Settings, args: &VerifyRange) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let range = range_of(&archive, args.from, args.to)?;
    let mut found = look(&archive, chain, range).await?;
    if args.against_source {
        let differing = against_source(&archive, chain, range, &mut found).await;
        found.blocks.extend(differing);
    }
    let whole = found.is_empty();
    let root = if whole {
        Some(archive.content_root(range).await?.to_string())
    } else {
        None
    };
    let lowest = lowest(&archive.kept(chain.datasets, &chain.scope), &range);
    let (from, to, logs) = (range.start, range.end - 1, found.logs);
    if args.wanted.json {
        let answer = json!({
            "chainId": ChainId(chain.chain_id),
            "from": from,
            "to": to,
            "logs": logs,
            "fallingTimes": found.falling_times,
            "notRecomputed": found.not_recomputed,
            "level": lowest.of_all(chain.datasets).as_str(),
            "levels": levels_json(chain, lowest),
            "contentRoot": root,
            "findings": found.blocks.iter().map(finding_json).collect::<Vec<_>>(),
            "objects": found.objects.iter().map(object_json).collect::<Vec<_>>(),
            "notCompared": not_compared_json(&found),
        });
        print_json(&answer)?;
    } else {
        let count = found.blocks.len() + found.objects.len();
        println!("blocks {from} to {to}: {logs} logs, {count} findings");
        if found.falling_times > 0 {
            println!("{} blocks are older than their parent", found.falling_times);
        }
        if found.not_recomputed > 0 {
            println!(
                "{} blocks were not computed again: too little of them is kept, or nothing was proven",
                found.not_recomputed
            );
        }
        show(&found);
        if let Some(root) = root {
            println!("content root {root}, {} or better", levels(chain, lowest));
        }
    }
    found.end()
}

/// The lowest proof of blocks in a range.
fn lowest(covered: &[(BlockRange, Proof)], range: &BlockRange) -> Proof {
    let within = covered.iter();
    let within = within.filter(|(covered, _)| covered.intersect(range).is_some());
    let lowest = within.map(|(_, proof)| *proof).reduce(Proof::lower);
    lowest.unwrap_or(Proof::CLAIMED)
}

/// Prints objects and blocks, a limited number of them.
pub(super) fn show(found: &Found) {
    for DamagedObject { object, reason } in found.objects.iter().take(SHOWN) {
        let (from, to) = (object.range.start, object.range.end - 1);
        println!("  {} (blocks {from} to {to}): {reason}", object.name);
    }
    for Finding { block, what, .. } in found.blocks.iter().take(SHOWN) {
        println!("  block {block}: {what}");
    }
    let left_out = |all: usize| all.saturating_sub(SHOWN);
    let left_out = left_out(found.objects.len()) + left_out(found.blocks.len());
    if left_out > 0 {
        println!("  … and {left_out} more; --json shows all");
    }
    if let Some((range, why)) = &found.not_compared {
        let (from, to) = (range.start, range.end - 1);
        println!("  blocks {from} to {to} were not compared with the source: {why}");
    }
}

pub(super) fn not_compared_json(found: &Found) -> Option<Value> {
    let (range, why) = found.not_compared.as_ref()?;
    Some(json!({ "from": range.start, "to": range.end - 1, "why": why }))
}

pub(super) fn finding_json(finding: &Finding) -> Value {
    json!({ "block": finding.block, "what": finding.what })
}

pub(super) fn object_json(damaged: &DamagedObject) -> Value {
    let object = &damaged.object;
    json!({
        "object": object.name,
        "from": object.range.start,
        "to": object.range.end - 1,
        "what": damaged.reason,
    })
}

/// Reads everything: first the objects, whole, then every block.
pub(super) async fn look(
    archive: &Archive,
    chain: &ChainSettings,
    range: BlockRange,
) -> Result<Found> {
    let mut progress = Progress::of_command("reading objects", &chain.name, Unit::Bytes);
    let reached =
        &mut |done: chronolith_archive::Inspected| progress.reach(done.bytes, done.bytes_all);
    let objects = archive.inspect(range, reached).await?;
    drop(progress);
    let missing = archive.missing(range, chain.datasets, &chain.scope);
    let mut found = Found {
        blocks: gaps(archive, &missing),
        objects,
        ..Found::default()
    };
    read_back(archive, chain, range, &missing, &mut found).await;
    Ok(found)
}

/// One finding for each gap, however long it is.
fn gaps(archive: &Archive, missing: &[BlockRange]) -> Vec<Finding> {
    let head = archive.health().head.map_or(0, |head| head.number);
    let finding = |gap: &BlockRange| {
        let (from, last) = (gap.start, gap.end - 1);
        let what = if from > head {
            format!("not archived, up to block {last}: `chronolith run` fetches what is final")
        } else {
            let to = linked_end(archive, last.min(head) + 1) - 1;
            format!(
                "not archived with all that is kept, up to block {last}: fetch it with `chronolith \
                 backfill --from {from} --to {to}`"
            )
        };
        Finding {
            block: from,
            what,
            content_differs: false,
        }
    };
    missing.iter().map(finding).collect()
}

/// The blocks of a range that lie in none of the gaps.
fn between(range: BlockRange, gaps: &[BlockRange]) -> Vec<BlockRange> {
    let starts = std::iter::once(range.start).chain(gaps.iter().map(|gap| gap.end));
    let ends = gaps.iter().map(|gap| gap.start).chain([range.end]);
    let parts = starts.zip(ends);
    let parts = parts.map(|(start, end)| BlockRange::new(start, end));
    parts.filter(|part| !part.is_empty()).collect()
}

/// A block as far as it is kept: without its logs, only its clock can be requested.
async fn read(archive: &Archive, chain: &ChainSettings, number: u64) -> ArchiveResult<Block> {
    if chain.datasets.contains(Dataset::Logs) {
        return archive.block(number).await;
    }
    clock_alone(archive, number).await
}

async fn clock_alone(archive: &Archive, number: u64) -> ArchiveResult<Block> {
    Ok(Block {
        clock: archive.block_by_number(number).await?,
        txs: Vec::new(),
        logs: Vec::new(),
        payload: Payload::default(),
    })
}

/// Compares every block that is archived with the source. What was not compared, and why, is noted.
pub(super) async fn against_source(
    archive: &Archive,
    chain: &ChainSettings,
    range: BlockRange,
    found: &mut Found,
) -> Vec<Finding> {
    let mut comparison = Comparison {
        archive,
        chain,
        findings: Vec::new(),
        less_proven: &mut found.less_proven,
        next: range.start,
    };
    let compared = async {
        let (source, reach) = open_to_compare(chain).await?;
        let end = reach.map_or(range.end, |reach| reach.saturating_add(1));
        let within = BlockRange::new(range.start, end.clamp(range.start, range.end));
        comparison.compare(&*source, within).await?;
        Ok(within.end)
    };
    let compared = compared.await;
    let Comparison { findings, next, .. } = comparison;
    let (end, why) = match compared {
        Ok(end) => (
            end,
            "the lake ends before them, and core is not used".to_owned(),
        ),
        Err(error) => {
            let why = format!("{error:#}");
            found.failed = Some(error);
            (next, why)
        }
    };
    let rest = BlockRange::new(end, range.end);
    found.not_compared = (!rest.is_empty()).then_some((rest, why));
    findings
}

/// The source to compare with, and how far it reaches where that is known to be less than the chain: a
/// lake where there is one, since only one process may run core, and that may be a node.
async fn open_to_compare(chain: &ChainSettings) -> Result<(Arc<dyn Source>, Option<u64>)> {
    let stellar = chain.stellar.as_ref();
    let both = stellar.filter(|stellar| stellar.lake.is_some() && stellar.core.is_some());
    let Some(stellar) = both else {
        return Ok((open_source(chain).await?, None));
    };
    let lake = open_lake_alone(&chain.name, stellar).await?;
    let newest = lake.heads().await.context("find the end of the lake")?;
    Ok((lake, Some(newest.head.number)))
}

/// A comparison with a source. What was found stays where it ends early.
struct Comparison<'a> {
    archive: &'a Archive,
    chain: &'a ChainSettings,
    findings: Vec<Finding>,
    less_proven: &'a mut Vec<DamagedObject>,
    /// The first block that was not compared.
    next: u64,
}

impl Comparison<'_> {
    /// Fetches every archived block again, proven as it was when it came, and compares it.
    async fn compare(&mut self, source: &dyn Source, range: BlockRange) -> Result<()> {
        let (archive, chain) = (self.archive, self.chain);
        let want = want_of(chain);
        let mut progress = Progress::of_command("comparing", &chain.name, Unit::Blocks);
        let missing = archive.missing(range, chain.datasets, &chain.scope);
        let there = between(range, &missing);
        let all: u64 = there.iter().map(BlockRange::len).sum();
        let mut done = 0;
        for part in there.iter().flat_map(|part| parts(*part, STEP_BLOCKS)) {
            self.next = part.start;
            for theirs in source.fetch(part, &want, None).await? {
                match difference(archive, chain, &theirs.block).await {
                    Ok(None) => self.note_less_proven(&theirs),
                    Ok(Some(difference)) => self.findings.push(Finding {
                        block: theirs.block.clock.number,
                        what: format!(
                            "the source has {} (endpoint={})",
                            described(difference),
                            theirs.endpoint
                        ),
                        content_differs: difference != Difference::Block,
                    }),
                    // A damaged object is a finding already.
                    Err(ArchiveError::Corrupt { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            done += part.len();
            progress.reach(done, all);
        }
        Ok(())
    }

    /// Notes the segments that prove less of a block than the source has just proven of the same content.
    fn note_less_proven(&mut self, theirs: &Fetched) {
        let (archive, chain) = (self.archive, self.chain);
        let number = theirs.block.clock.number;
        let is_noted = |one: &DamagedObject| one.object.range.contains(number);
        if self.less_proven.last().is_some_and(is_noted) {
            return;
        }
        for object in archive.segments_of(number) {
            let ours = object.datasets == chain.datasets && object.scope == chain.scope;
            let Some(level) = archive.level_of(&object, number).filter(|_| ours) else {
                continue;
            };
            let mut kept = chain.datasets.iter();
            if kept.any(|dataset| theirs.proof.of(dataset) > level.of(dataset)) {
                let (was, is) = (levels(chain, level), levels(chain, theirs.proof));
                let reason = format!("block {number} is at {was}, and the source proves {is}");
                self.less_proven.push(DamagedObject { object, reason });
            }
        }
    }
}

fn described(difference: Difference) -> &'static str {
    match difference {
        Difference::Block => "another block",
        Difference::Logs => "other logs",
        Difference::Transactions => "other transactions",
        Difference::Header => "another header",
        Difference::Bodies => "other bodies of transactions",
        Difference::Raw => "other raw bytes",
    }
}

/// Reads all blocks that are there: in gaps as well, where no more than a clock may be kept.
async fn read_back(
    archive: &Archive,
    chain: &ChainSettings,
    range: BlockRange,
    missing: &[BlockRange],
    found: &mut Found,
) {
    let clocks = archive.coverage(DatasetSet::CLOCK, None).into_iter();
    let there: Vec<BlockRange> = clocks
        .filter_map(|(covered, _)| covered.intersect(&range))
        .collect();
    let all: u64 = there.iter().map(BlockRange::len).sum();
    let mut progress = Progress::of_command("reading blocks", &chain.name, Unit::Blocks);
    let mut done = 0;
    let mut before: Option<BlockMeta> = None;
    let levels = archive.kept(chain.datasets, &chain.scope);
    for number in there.iter().flat_map(|part| part.start..part.end) {
        let gap = missing.partition_point(|gap| gap.end <= number);
        let in_gap = missing.get(gap).is_some_and(|gap| gap.contains(number));
        let block = if in_gap {
            clock_alone(archive, number).await
        } else {
            read(archive, chain, number).await
        };
        match block {
            Ok(block) => {
                let before = before.replace(block.clock);
                let before = before.filter(|before| before.number + 1 == number);
                let is_older = |before: BlockMeta| block.clock.timestamp < before.timestamp;
                found.falling_times += u64::from(before.is_some_and(is_older));
                if before.is_some_and(|before| before.hash != block.clock.parent_hash) {
                    found.find(number, "does not link to the block before".to_owned());
                }
                found.logs += block.logs.len() as u64;
                let recomputed = if in_gap {
                    Ok(Recomputed::Right)
                } else {
                    let proof = lowest(&levels, &BlockRange::one(number));
                    recomputed_by_bytes(archive, chain, &block, proof).await
                };
                match recomputed {
                    Ok(Recomputed::Right) => {}
                    Ok(Recomputed::Nothing) => found.not_recomputed += 1,
                    Ok(Recomputed::Wrong(what)) => found.find(number, what),
                    Err(error) => found.find(number, error.to_string()),
                }
                find_misfit(archive, number, found).await;
            }
            Err(error) => {
                found.find(number, error.to_string());
                before = None;
            }
        }
        done += 1;
        progress.reach(done, all);
    }
}

/// Finds the pack that holds other payload of a block than its segment was made with.
async fn find_misfit(archive: &Archive, number: u64, found: &mut Found) {
    match archive.misfit(number).await {
        Ok(None) => {}
        Ok(Some(object)) => {
            let reason =
                format!("block {number}: its payload is not what the digest of the block is over");
            found.add(DamagedObject { object, reason });
        }
        // A damaged object is a finding already.
        Err(ArchiveError::Corrupt { .. }) => {}
        Err(error) => found.find(number, error.to_string()),
    }
}

/// What is wrong with an archived block, by its own bytes.
async fn recomputed_by_bytes(
    archive: &Archive,
    chain: &ChainSettings,
    block: &Block,
    proof: Proof,
) -> ArchiveResult<Recomputed> {
    if chain.stellar.is_some() {
        recomputed(archive, chain, block).await
    } else {
        verify_evm::recomputed(archive, chain, block, proof).await
    }
}
