//! `chronolith archive`: what is done to an archive as a whole.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{
    Archive, Place, RebuildReport, check_format, rebuild_anchors, rebuild_state,
};
use chronolith_follower::chain::{archive_settings, open_source};
use chronolith_follower::location::ArchiveLocation;
use chronolith_model::{BlockRange, BlockRef, Hash32};
use chronolith_serve::ChainId;
use chronolith_source::Source;
use chronolith_store::BlobStore;
use serde_json::{Value, json};

use super::output::print_json;
use super::state::chosen;
use crate::cli::{ArchiveCommand, RebuildState, Wanted};
use crate::control::queue::audit;
use crate::exit::Exit;
use crate::hex::parse_array;
use crate::settings::{ChainSettings, Settings};

/// Ends of segments that are compared with the source, the newest first, before the search ends.
const ANCHORS_MAX: usize = 1_000;
/// Objects that are printed without `--json`.
const SHOWN: usize = 20;

pub(crate) async fn archive(settings: &Settings, what: &ArchiveCommand) -> Result<Exit> {
    match what {
        ArchiveCommand::RebuildState(args) => rebuild(settings, args).await,
        ArchiveCommand::Upgrade(wanted) => upgrade(settings, wanted).await,
    }
}

async fn rebuild(settings: &Settings, args: &RebuildState) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let place = settings.place(chain);
    if let Some(dir) = place.directory() {
        ensure!(dir.exists(), "there is no archive in {place}");
    }
    let writable = place.writer().await;
    let writable = writable.context("stop the node that follows this chain first")?;
    check_lost(chain, &place).await?;
    let vouching = Vouching::open(chain, args, &*writable.place.blobs).await?;
    let anchor = vouching.anchor;
    let reason = format!("from block {} {}", anchor.number, anchor.hash);
    let audit = audit("rebuild-state", &reason);
    let confirm = async |block: BlockRef| Ok(vouching.confirms(block).await);
    let archive = archive_settings(chain);
    let report = rebuild_state(&writable.place, &archive, anchor, audit, &confirm).await?;
    if args.wanted.json {
        print_json(&report_json(chain, anchor, &report))?;
    } else {
        print(chain, anchor, &report);
    }
    let open = !report.damaged.is_empty() || report.without_hashes.is_some();
    Ok(if open { Exit::NotWhole } else { Exit::Done })
}

/// Who says which blocks are right: an operator, and the source.
struct Vouching {
    /// The newest block that is known to be right.
    anchor: BlockRef,
    /// Blocks that an operator names.
    named: Vec<BlockRef>,
    source: Option<Arc<dyn Source>>,
}

impl Vouching {
    async fn open(
        chain: &ChainSettings,
        args: &RebuildState,
        blobs: &dyn BlobStore,
    ) -> Result<Self> {
        let named = args.anchor.iter().map(|text| parse_anchor(text));
        let named = named.collect::<Result<Vec<BlockRef>>>()?;
        let source = open_source(chain).await;
        let (anchor, source) = match named.iter().max_by_key(|block| block.number) {
            Some(&anchor) => {
                if let Err(error) = &source {
                    eprintln!(
                        "no source is available, so only --anchor says what is right: {error:#}"
                    );
                }
                (anchor, source.ok())
            }
            None => {
                let source = source.context(
                    "no source can vouch for a block: name one with --anchor NUMBER:0xHASH",
                )?;
                (confirmed_anchor(&*source, blobs).await?, Some(source))
            }
        };
        Ok(Self {
            anchor,
            named,
            source,
        })
    }

    /// Whether a block is known to be right. Without an answer of the source it is not.
    async fn confirms(&self, block: BlockRef) -> bool {
        if self.named.contains(&block) {
            return true;
        }
        let Some(source) = &self.source else {
            return false;
        };
        match source.clock(block.number).await {
            Ok(clock) => clock.is_some_and(|clock| clock.hash == block.hash),
            Err(error) => {
                tracing::warn!(block = block.number, %error, "block not confirmed by the source");
                false
            }
        }
    }
}

/// Refuses where there is a state that can be used, and says what to do with one that cannot.
async fn check_lost(chain: &ChainSettings, place: &ArchiveLocation) -> Result<()> {
    if !place.has_state().await? {
        return Ok(());
    }
    let Place { meta, blobs } = place.reader();
    match Archive::open_reader(meta, blobs, archive_settings(chain)).await {
        Ok(_) => bail!(
            "the archive of {} has its state: there is nothing to rebuild",
            chain.name
        ),
        Err(error) => bail!(
            "there is a state, and it cannot be used ({error}): move {place}/state away, and run this again"
        ),
    }
}

/// A number and a hash.
fn parse_anchor(text: &str) -> Result<BlockRef> {
    let parsed = text.split_once(':').and_then(|(number, hash)| {
        Some(BlockRef {
            number: number.parse().ok()?,
            hash: Hash32(parse_array(hash)?),
        })
    });
    parsed.with_context(|| format!("--anchor: `{text}` is not NUMBER:0xHASH"))
}

/// The newest block that both a segment ends with and the source has.
async fn confirmed_anchor(source: &dyn Source, blobs: &dyn BlobStore) -> Result<BlockRef> {
    let anchors = rebuild_anchors(blobs).await?;
    ensure!(
        !anchors.is_empty(),
        "no segment can be read: restore a backup, or start with an empty archive"
    );
    for anchor in anchors.into_iter().take(ANCHORS_MAX) {
        let clock = source.clock(anchor.number).await?;
        if clock.is_some_and(|clock| clock.hash == anchor.hash) {
            return Ok(anchor);
        }
    }
    bail!("the source has none of the blocks that segments end with: is it of the same chain?")
}

fn range_json(range: BlockRange) -> Value {
    json!({ "from": range.start, "to": range.end - 1 })
}

fn report_json(chain: &ChainSettings, anchor: BlockRef, report: &RebuildReport) -> Value {
    let (runs, packs) = report.runs_and_packs;
    let damaged = report.damaged.iter();
    let damaged = damaged.map(|(object, what)| json!({ "object": object, "what": what }));
    let unusable = report.unusable_versions.iter();
    let unusable = unusable.map(|(version, what)| json!({ "version": version, "what": what }));
    let islands = report.islands.iter().map(|range| range_json(*range));
    let unlinked = report.unlinked.iter().map(|island| {
        json!({
            "from": island.range.start,
            "to": island.range.end - 1,
            "end": { "number": island.end.number, "hash": island.end.hash.to_string() },
            "objects": island.objects,
        })
    });
    json!({
        "chainId": ChainId(chain.chain_id),
        "anchor": { "number": anchor.number, "hash": anchor.hash.to_string() },
        "keptVersion": report.kept_version,
        "unusableVersions": unusable.collect::<Vec<_>>(),
        "from": report.covered.start,
        "to": report.covered.end.saturating_sub(1),
        "islands": islands.collect::<Vec<_>>(),
        "segments": report.segments,
        "runs": runs,
        "runsMade": report.runs_made,
        "packs": packs,
        "unlinked": unlinked.collect::<Vec<_>>(),
        "undecided": report.undecided,
        "damaged": damaged.collect::<Vec<_>>(),
        "withoutHashes": report.without_hashes.map(range_json),
        "halted": report.is_halted,
    })
}

fn print(chain: &ChainSettings, anchor: BlockRef, report: &RebuildReport) {
    let ends = |range: BlockRange| (range.start, range.end.saturating_sub(1));
    let (runs, packs) = report.runs_and_packs;
    println!(
        "{}: a new state, from block {} {}",
        chain.name, anchor.number, anchor.hash
    );
    if let Some(version) = report.kept_version {
        println!("  start     version {version} of the state, which was kept");
    }
    for (version, why) in &report.unusable_versions {
        println!("  lost      version {version} of the state, newer and not usable: {why}");
    }
    let (from, to) = ends(report.covered);
    println!(
        "  decided   blocks {from} to {to}, in {} segments, {runs} runs ({} rebuilt), {packs} packs",
        report.segments, report.runs_made
    );
    for (from, to) in report.islands.iter().map(|range| ends(*range)) {
        println!("  island    blocks {from} to {to}: used, the last one is confirmed");
    }
    if let Some((from, to)) = report.without_hashes.map(ends) {
        println!(
            "  open      hashes of blocks {from} to {to} are in no run: lookups by hash say so"
        );
    }
    for (object, what) in report.damaged.iter().take(SHOWN) {
        println!("  damaged   {object}: {what}");
    }
    for island in report.unlinked.iter().take(SHOWN) {
        let (from, to) = ends(island.range);
        println!(
            "  unlinked  blocks {from} to {to} in {} segments: block {} {} is not confirmed",
            island.objects.len(),
            island.end.number,
            island.end.hash
        );
    }
    for object in report.undecided.iter().take(SHOWN) {
        println!("  copy      {object}: of blocks that are used from elsewhere");
    }
    let over = |count: usize| count.saturating_sub(SHOWN);
    let left_out =
        over(report.damaged.len()) + over(report.undecided.len()) + over(report.unlinked.len());
    if left_out > 0 {
        println!("  … and {left_out} more; --json shows all");
    }
    if report.is_halted {
        println!(
            "The archive is halted until you have looked: `chronolith verify`, then `chronolith resume`. \
             Unlinked segments, copies and what cannot be read stay; `chronolith resume --drop-undecided` lets them go."
        );
    }
}

async fn upgrade(settings: &Settings, wanted: &Wanted) -> Result<Exit> {
    let mut all = Vec::new();
    for chain in chosen(settings, wanted)? {
        let report = check_format(&settings.place(chain).reader()).await;
        let report = report.with_context(|| format!("chain {}", chain.name))?;
        let objects: u64 = report.objects.values().sum();
        let newest = report.newest;
        if !wanted.json {
            println!(
                "{}: {objects} objects, all of a format that this program reads; it writes format \
                 {newest}, so there is nothing to be done",
                chain.name
            );
        }
        all.push(json!({
            "chainId": ChainId(chain.chain_id),
            "format": newest,
            "objects": report.objects,
            "upgraded": 0,
        }));
    }
    if wanted.json {
        print_json(&all)?;
    }
    Ok(Exit::Done)
}
