//! Rebuilding a lost state from the summaries in the objects.
//!
//! Every segment's summary names its blocks, its first parent and its last hash. From an anchor, a
//! block that is known to be right, the chain of segments is followed backwards by these links. Further
//! segments are used where their last block is confirmed. Nothing is guessed: what is left over is
//! listed, and held until an operator lets it go. A kept version of the state is the start where it
//! fits.

mod chain;
mod kept_states;
mod parts;
mod scan;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef};
use chronolith_store::{BlobStore, TakeOver};
use rand::{RngCore, SeedableRng, rngs::StdRng};

use self::chain::{Used, follow, take_islands, unlinked};
use self::scan::{Found, Scanned};
use super::copy::Place;
use crate::error::{Error, Result};
use crate::format::term::TermKey;
use crate::ranges::journal::Journal;
use crate::read::objects::Objects;
use crate::settings::Settings;
use crate::state::catalog::Catalog;
use crate::state::head::View;
use crate::state::held::hold;
use crate::state::lost::load;
use crate::state::record::{AuditEntry, Halt, LiveRun, State};
use crate::state::snapshot::Snapshot;
use crate::write::edit::{catalog_names, state_names};
use crate::write::writer::Writer;

/// What a rebuild found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RebuildReport {
    /// The blocks that hang together with the anchor.
    pub covered: BlockRange,
    /// Further blocks that are used, since their last one is confirmed.
    pub islands: Vec<BlockRange>,
    /// How many segments hold all of them.
    pub segments: usize,
    /// Whole segments of blocks that nothing used holds, and that no caller confirmed.
    pub unlinked: Vec<Island>,
    /// All other objects that are whole but were not needed: other copies, mostly older ones.
    pub undecided: Vec<String>,
    /// Objects that could not be read, and why: damaged, or of a newer format. They are held as well.
    pub damaged: Vec<(String, String)>,
    /// Runs and packs that belong to them.
    pub runs_and_packs: (usize, usize),
    /// How many of the runs were rebuilt from the segments, since none held exactly their hashes.
    pub runs_made: usize,
    /// Merged segments whose hashes no run holds: lookups by hash report it until they are derived
    /// again.
    pub without_hashes: Option<BlockRange>,
    /// The kept version of the state that was the start.
    pub kept_version: Option<u64>,
    /// Newer kept versions that could not be used, and why. What only they recorded is lost: what
    /// operators did, how ranges were counted.
    pub unusable_versions: Vec<(u64, String)>,
    /// Whether the archive is halted: something is open, or it was halted before the state was lost.
    pub is_halted: bool,
}

impl RebuildReport {
    /// Whether something is left for an operator to decide.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_objects().next().is_some() || !self.unusable_versions.is_empty()
    }

    /// Every object that an operator has to decide about. What cannot be read is among them: another
    /// program may read it, and a copy may be got from it.
    fn open_objects(&self) -> impl Iterator<Item = &String> {
        let unlinked = self.unlinked.iter().flat_map(|island| &island.objects);
        let damaged = self.damaged.iter().map(|(name, _)| name);
        unlinked.chain(&self.undecided).chain(damaged)
    }
}

/// Blocks of which whole segments are there that could not be decided about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Island {
    pub range: BlockRange,
    /// The newest block that a segment of them ends with: once it is confirmed, they are used.
    pub end: BlockRef,
    pub objects: Vec<String>,
}

/// Makes a new state for a directory or bucket whose state is lost. The anchor is the newest block
/// that is known to be right; `confirm` decides whether others are. Refuses where a state exists.
///
/// # Errors
/// `Invalid` where there is a state, or nothing ends with the anchor; `Store`; what `confirm` gives.
pub async fn rebuild_state(
    place: &Place,
    settings: &Settings,
    anchor: BlockRef,
    audit: AuditEntry,
    confirm: &impl AsyncFn(BlockRef) -> Result<bool>,
) -> Result<RebuildReport> {
    if load(&*place.meta).await?.is_some() {
        let message = "there is a state: nothing to rebuild";
        return Err(Error::Invalid(message.to_owned()));
    }
    let (meta, blobs) = (place.meta.clone(), place.blobs.clone());
    let view = View::new(meta, blobs, settings.cache.clone(), settings.chain);
    let view = Arc::new(view);
    let scanned = Scanned::read(&*place.blobs).await?;
    let kept = kept_states::newest_fitting(&view, &*place.meta, settings, anchor).await?;
    let base = kept.base;
    let (mut state, mut used) = match &base {
        Some(base) => (base.state.clone(), Used::new(base.segments.clone())),
        None => from_anchor(settings, &scanned, anchor)?,
    };
    state.halt = kept.halt.or(state.halt);
    take_islands(
        &view.objects,
        &scanned.segments,
        (&mut used, anchor),
        &settings.profile,
        confirm,
    )
    .await?;
    let catalog = catalog_of(&view.objects, &used, &scanned, base.as_ref()).await?;
    let missing = parts::without_run(&used, &catalog.runs);
    let mut report = report_of(&state, &catalog, &used, scanned);
    report.kept_version = base.map(|base| base.version.0);
    report.unusable_versions = kept.unusable;
    report.is_halted = report.is_open() || state.halt.is_some();
    publish(&view, state, &catalog, (&report, audit)).await?;
    drop(catalog);
    let newest = match missing.is_empty() {
        true => view.refresh().await?,
        false => {
            let settings = Arc::new(settings.clone());
            let writer = Writer::open(view.clone(), settings, TakeOver::NoWait).await?;
            report.runs_made = writer.derive_runs(&missing).await?;
            writer.release().await?;
            view.current()
        }
    };
    if let Some(newest) = newest {
        report.without_hashes = newest.without_hashes();
        report.runs_and_packs = (newest.catalog.runs.len(), newest.packs().count());
    }
    Ok(report)
}

/// Blocks that segments end with, the newest first: where a rebuild can begin. Which of them is right
/// the caller decides.
///
/// # Errors
/// `Store`.
pub async fn rebuild_anchors(blobs: &dyn BlobStore) -> Result<Vec<BlockRef>> {
    let found = scan::segments(blobs, &mut Vec::new()).await?;
    let mut ends: Vec<BlockRef> = found.iter().map(Found::end).collect();
    ends.sort_by_key(|end| (Reverse(end.number), end.hash));
    ends.dedup();
    Ok(ends)
}

/// A new state whose live run ends with the anchor, and the segments of that run.
fn from_anchor(settings: &Settings, scanned: &Scanned, anchor: BlockRef) -> Result<(State, Used)> {
    let found: Vec<&Found> = scanned.segments.iter().collect();
    let chain = follow(&found, anchor, &settings.profile);
    let (Some(first), Some(last)) = (chain.last(), chain.first()) else {
        let message = format!(
            "no segment ends with block {} {}",
            anchor.number, anchor.hash
        );
        return Err(Error::Invalid(message));
    };
    let live = LiveRun {
        start: first.entry.facts.range.start,
        head: anchor,
        head_timestamp: last.last_timestamp,
    };
    let state = State {
        live: Some(live),
        term_key: newest_key(&chain),
        ..State::new(settings, &mut StdRng::from_os_rng())
    };
    let segments = chain.iter().map(|found| Arc::new(found.entry.clone()));
    Ok((state, Used::new(segments.collect())))
}

/// What the newest segment's terms are hashed with, so that new segments merge with it. Where there is
/// none, the next writer makes a key.
fn newest_key(chain: &[&Found]) -> TermKey {
    let facts = chain.iter().map(|found| &found.entry.facts);
    let keyed = facts.filter(|facts| !facts.term_key.is_none());
    let newest = keyed.max_by_key(|facts| facts.range.end);
    newest.map_or(TermKey::NONE, |facts| facts.term_key)
}

/// Everything that is used, but for what a kept state names itself.
async fn catalog_of(
    objects: &Objects,
    used: &Used,
    scanned: &Scanned,
    base: Option<&Snapshot>,
) -> Result<Catalog> {
    let (known_runs, known_packs, journal) = match base {
        Some(base) => (
            base.catalog.runs.as_slice(),
            base.packs().cloned().collect(),
            base.catalog.journal.clone(),
        ),
        None => (&[][..], Vec::new(), Journal::default()),
    };
    let runs = parts::runs_of(objects, used, &scanned.runs, known_runs).await?;
    let packs = parts::packs_of(objects, used, &scanned.packs, known_packs).await?;
    let state = base.map(|base| &base.state);
    let own: HashSet<&str> = state.into_iter().flat_map(state_names).collect();
    let segments = used.segments.iter().cloned();
    let mut catalog = Catalog {
        segments: segments
            .filter(|entry| !own.contains(entry.object.name.as_str()))
            .collect(),
        runs,
        packs: packs
            .into_iter()
            .filter(|pack| !own.contains(pack.object.name.as_str()))
            .collect(),
        journal,
    };
    catalog.sort();
    Ok(catalog)
}

fn report_of(state: &State, catalog: &Catalog, used: &Used, scanned: Scanned) -> RebuildReport {
    let blocks = used.blocks();
    let live = state.live.map_or(0, |live| live.head.number);
    let (covered, islands): (Vec<_>, Vec<_>) =
        blocks.into_iter().partition(|range| range.contains(live));
    let island = |(range, found): (BlockRange, Vec<&Found>)| {
        let ends = found.iter().map(|found| found.end());
        let end = ends.max_by_key(|end| end.number);
        let objects = found.iter().map(|found| found.entry.object.name.clone());
        Island {
            range,
            end: end.expect("the blocks are those of segments"),
            objects: objects.collect(),
        }
    };
    let unlinked = unlinked(&scanned.segments, used);
    let unlinked: Vec<Island> = unlinked.into_iter().map(island).collect();
    let mut decided: HashSet<&str> = catalog_names(catalog).chain(state_names(state)).collect();
    decided.extend(
        unlinked
            .iter()
            .flat_map(|island| &island.objects)
            .map(String::as_str),
    );
    let undecided = scanned.names().filter(|name| !decided.contains(name));
    let undecided = undecided.map(str::to_owned).collect();
    RebuildReport {
        covered: covered
            .into_iter()
            .next()
            .unwrap_or(BlockRange::new(live, live)),
        islands,
        segments: used.segments.len(),
        unlinked,
        undecided,
        damaged: scanned.damaged,
        runs_and_packs: (catalog.runs.len(), catalog.packs.len()),
        ..RebuildReport::default()
    }
}

/// Holds what is undecided, and publishes the state.
async fn publish(
    view: &View,
    mut state: State,
    catalog: &Catalog,
    (report, audit): (&RebuildReport, AuditEntry),
) -> Result<()> {
    let nonce = StdRng::from_os_rng().next_u64();
    let blobs = view.objects.blobs();
    let open: Vec<String> = report.open_objects().cloned().collect();
    hold(&**blobs, &open, nonce).await?;
    state.sequence += 1;
    let name = format!("cat/{:016x}-0-{nonce:016x}", state.sequence);
    let (bytes, catalog) = catalog.to_object(&name);
    let put = blobs.put(&name, bytes).await;
    put.map_err(Error::store("store the catalog"))?;
    state.catalog = Some(catalog);
    state.nonce = nonce;
    state.instance = String::new();
    // An earlier halt names what an operator must look at first.
    if report.is_open() && state.halt.is_none() {
        state.halt = Some(Halt {
            reason: format!(
                "the state was rebuilt, {} objects are undecided, {} of them cannot be read, and {} kept \
                 versions of the state could not be used: look at the report, then resume",
                open.len(),
                report.damaged.len(),
                report.unusable_versions.len()
            ),
            archived: None,
            offered: None,
            source: "rebuild".to_owned(),
            at: audit.at,
        });
    }
    state.record(audit);
    let swapped = view.meta.swap(None, Bytes::from(state.encode())).await;
    swapped.map_err(Error::store("swap the state"))?;
    Ok(())
}
