//! `chronolith archive`: what is done to an archive as a whole.

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{
    Archive, AuditEntry, Place, RebuildReport, check_format, rebuild_anchors, rebuild_state,
};
use chronolith_model::{BlockRef, Hash32};
use chronolith_store::BlobStore;
use serde_json::json;

use super::state::chosen;
use crate::chain::{archive_settings, open_source};
use crate::cli::{ArchiveCommand, RebuildState, Wanted};
use crate::clock::now;
use crate::exit::Exit;
use crate::hex::parse_hex;
use crate::place::ArchivePlace;
use crate::settings::{ChainSettings, Settings};

/// Ends of segments that are shown to the source, the newest first, before it is given up.
const ANCHORS_MAX: usize = 1_000;
/// Objects that are shown without being asked for all.
const SHOWN: usize = 20;

pub(crate) async fn archive(settings: &Settings, what: &ArchiveCommand) -> Result<Exit> {
    match what {
        ArchiveCommand::RebuildState(asked) => rebuild(settings, asked).await,
        ArchiveCommand::Upgrade(wanted) => upgrade(settings, wanted).await,
    }
}

async fn rebuild(settings: &Settings, asked: &RebuildState) -> Result<Exit> {
    let chain = settings.chain(asked.wanted.chain.as_deref())?;
    let place = settings.place(chain);
    if let Some(dir) = place.directory() {
        ensure!(dir.exists(), "there is no archive in {place}");
    }
    let writable = place.writer().await;
    let writable = writable.context("stop the node that follows this chain first")?;
    check_lost(chain, &place).await?;
    let Place { meta, blobs } = writable.place;
    let anchor = match &asked.anchor {
        Some(text) => parse_anchor(text)?,
        None => confirmed_anchor(chain, &*blobs).await?,
    };
    let audit = AuditEntry {
        at: now(),
        act: format!(
            "rebuild-state: from block {} {}",
            anchor.number, anchor.hash
        ),
    };
    let report = rebuild_state(meta, blobs, &archive_settings(chain), anchor, audit).await?;
    tell(chain, anchor, asked, &report)?;
    let open = !report.damaged.is_empty() || report.without_hashes.is_some();
    Ok(match open {
        true => Exit::NotWhole,
        false => Exit::Done,
    })
}

/// Refuses where there is a state that can be used, and says what to do with one that cannot.
async fn check_lost(chain: &ChainSettings, place: &ArchivePlace) -> Result<()> {
    if !place.has_archive().await? {
        return Ok(());
    }
    let Place { meta, blobs } = place.reader();
    match Archive::open_reader(meta, blobs, archive_settings(chain)).await {
        Ok(_) => bail!(
            "the archive of {} has its state: there is nothing to rebuild",
            chain.name
        ),
        Err(error) => bail!(
            "there is a state, and it cannot be used ({error}): move {place}/state away, and say this once more"
        ),
    }
}

/// A number and a hash.
fn parse_anchor(text: &str) -> Result<BlockRef> {
    let parsed = text.split_once(':').and_then(|(number, hash)| {
        Some(BlockRef {
            number: number.parse().ok()?,
            hash: Hash32::from_slice(&parse_hex(hash)?)?,
        })
    });
    parsed.with_context(|| format!("--anchor: `{text}` is not NUMBER:0xHASH"))
}

/// The newest block that both a segment ends with and the source has.
async fn confirmed_anchor(chain: &ChainSettings, blobs: &dyn BlobStore) -> Result<BlockRef> {
    let anchors = rebuild_anchors(blobs).await?;
    ensure!(
        !anchors.is_empty(),
        "no segment can be read: restore a backup, or begin anew"
    );
    let source = open_source(chain)
        .await
        .context("no source can vouch for a block: name one with --anchor NUMBER:0xHASH")?;
    for anchor in anchors.into_iter().take(ANCHORS_MAX) {
        let clock = source.clock(anchor.number).await?;
        if clock.is_some_and(|clock| clock.hash == anchor.hash) {
            return Ok(anchor);
        }
    }
    bail!("the source has none of the blocks that segments end with: is it of the same chain?")
}

fn tell(
    chain: &ChainSettings,
    anchor: BlockRef,
    asked: &RebuildState,
    report: &RebuildReport,
) -> Result<()> {
    let (from, to) = (report.covered.start, report.covered.end - 1);
    let (runs, packs) = report.runs_and_packs;
    let without = report
        .without_hashes
        .map(|range| (range.start, range.end - 1));
    if asked.wanted.json {
        let damaged = report.damaged.iter();
        let damaged = damaged.map(|(object, what)| json!({ "object": object, "what": what }));
        let answer = json!({
            "chainId": chain.chain_id,
            "anchor": { "number": anchor.number, "hash": anchor.hash.to_string() },
            "from": from,
            "to": to,
            "segments": report.segments,
            "runs": runs,
            "packs": packs,
            "undecided": report.undecided,
            "damaged": damaged.collect::<Vec<_>>(),
            "withoutHashes": without.map(|(from, to)| json!({ "from": from, "to": to })),
            "halted": !report.undecided.is_empty(),
        });
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    println!(
        "{}: a new state, from block {} {}",
        chain.name, anchor.number, anchor.hash
    );
    println!(
        "  decided   blocks {from} to {to}, in {} segments, {runs} runs, {packs} packs",
        report.segments
    );
    if let Some((from, to)) = without {
        println!(
            "  open      hashes of blocks {from} to {to} are in no run: lookups by hash say so"
        );
    }
    for (object, what) in report.damaged.iter().take(SHOWN) {
        println!("  damaged   {object}: {what}");
    }
    for object in report.undecided.iter().take(SHOWN) {
        println!("  undecided {object}: older than what is used, or not linked to it");
    }
    let left_out =
        report.damaged.len().saturating_sub(SHOWN) + report.undecided.len().saturating_sub(SHOWN);
    if left_out > 0 {
        println!("  … and {left_out} more; --json shows all");
    }
    if !report.undecided.is_empty() {
        println!(
            "It is halted until you have looked: `chronolith verify`, then `chronolith resume`."
        );
    }
    Ok(())
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
            "chainId": chain.chain_id,
            "format": newest,
            "objects": report.objects,
            "upgraded": 0,
        }));
    }
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(Exit::Done)
}
