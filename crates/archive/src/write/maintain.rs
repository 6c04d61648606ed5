//! Maintenance: which segments, runs and packs to put together next. One step at a time, beside
//! ingest; whatever changed meanwhile, the edit notices.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::edit::Edit;
use super::join::Join;
use super::merge::range_of;
use super::publish::Applied;
use super::writer::Writer;
use crate::catalog::{Catalog, PackEntry, RunEntry, SegmentEntry};
use crate::error::{Error, Result, outcome_name};
use crate::settings::SealSettings;

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Make one segment of these.
    Merge(Vec<Arc<SegmentEntry>>),
    /// This one is heavy enough for the next tier by itself.
    Promote(Arc<SegmentEntry>),
    /// Make one run of these.
    MergeRuns(Vec<Arc<RunEntry>>),
    /// Make one pack of these, to which more will be joined.
    JoinPacks(Vec<Arc<PackEntry>>),
    /// Make one pack of these for good.
    FinishPack(Vec<Arc<PackEntry>>),
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Self::Merge(_) => "merge segments",
            Self::Promote(_) => "promote a segment",
            Self::MergeRuns(_) => "merge runs",
            Self::JoinPacks(_) => "join packs",
            Self::FinishPack(_) => "finish a pack",
        }
    }
}

/// Chooses the next step: the lowest tier first. Groups depend on content alone: they begin where
/// a cell of the grid or the group before ends, and end at the first segment that fills them.
/// Steps on an object that `skip` names are passed over, so that one damaged object does not hold
/// up everything else.
pub(crate) fn next(
    catalog: &Catalog,
    batch_packs: &[Arc<PackEntry>],
    settings: &SealSettings,
    skip: &HashSet<String>,
) -> Option<Step> {
    (1..=settings.merge_tiers)
        .find_map(|tier| next_merge(&catalog.segments, tier, settings, skip))
        .or_else(|| next_runs(catalog, settings, skip))
        .or_else(|| next_packs(batch_packs, settings, skip))
}

/// A group of segments that is being collected; one for each sort of content, since segments of
/// several datasets and scopes may lie side by side.
type Groups = Vec<Vec<Arc<SegmentEntry>>>;

fn next_merge(
    segments: &[Arc<SegmentEntry>],
    tier: u8,
    settings: &SealSettings,
    skip: &HashSet<String>,
) -> Option<Step> {
    let scale = settings.fan_in.saturating_pow(u32::from(tier));
    let weight_limit = settings.weight.saturating_mul(scale);
    let bytes_limit = settings.bytes.saturating_mul(scale);
    let mut groups: Groups = Vec::new();
    for entry in segments {
        let facts = &entry.facts;
        let same_sort = |group: &Vec<Arc<SegmentEntry>>| {
            group.last().is_some_and(|last| {
                last.facts.datasets == facts.datasets && last.facts.scope == facts.scope
            })
        };
        let mut group = match groups.iter().position(same_sort) {
            Some(at) => groups.swap_remove(at),
            None => Vec::new(),
        };
        let follows = group.last().is_none_or(|last| last.facts.joins(facts));
        if !follows || entry.tier != tier || skip.contains(&entry.object.name) {
            group.clear();
        }
        if entry.tier != tier || skip.contains(&entry.object.name) {
            continue;
        }
        group.push(entry.clone());
        let weight: u64 = group.iter().map(|entry| entry.facts.weight()).sum();
        let bytes: u64 = group.iter().map(|entry| entry.facts.bytes()).sum();
        let cell_ends = facts.range.end.is_multiple_of(settings.grid_blocks.max(1));
        if weight >= weight_limit || bytes >= bytes_limit || cell_ends {
            return Some(match group.as_slice() {
                [only] => Step::Promote(only.clone()),
                _ => Step::Merge(group),
            });
        }
        groups.push(group);
    }
    None
}

/// Runs of one tier that lie side by side, once there are enough of them; or all runs of a range that
/// is complete, whatever their tiers: a finished range has one.
fn next_runs(catalog: &Catalog, settings: &SealSettings, skip: &HashSet<String>) -> Option<Step> {
    let fan_in = usize::try_from(settings.fan_in)
        .unwrap_or(usize::MAX)
        .max(2);
    let range_of = |run: &RunEntry| run.range.start / settings.range_blocks.max(1);
    let beside = |last: &RunEntry, run: &RunEntry| {
        last.range.end == run.range.start && range_of(last) == range_of(run)
    };
    let mut group: Vec<Arc<RunEntry>> = Vec::new();
    let mut all: Vec<Arc<RunEntry>> = Vec::new();
    for run in &catalog.runs {
        if skip.contains(&run.object.name) {
            group.clear();
            all.clear();
            continue;
        }
        if !all.last().is_none_or(|last| beside(last, run)) {
            all.clear();
            group.clear();
        }
        if !group.last().is_none_or(|last| last.tier == run.tier) {
            group.clear();
        }
        all.push(run.clone());
        group.push(run.clone());
        let ends = run.range.end.is_multiple_of(settings.range_blocks.max(1));
        if ends && all.len() > 1 && is_whole(catalog, &all, settings) {
            return Some(Step::MergeRuns(all));
        }
        if group.len() == fan_in {
            return Some(Step::MergeRuns(group));
        }
    }
    None
}

/// Whether runs, up to the end of their range, hold the hashes of all its segments. Where more is to
/// come, putting them together would be done again.
fn is_whole(catalog: &Catalog, runs: &[Arc<RunEntry>], settings: &SealSettings) -> bool {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return false;
    };
    let start = first.range.start / settings.range_blocks.max(1) * settings.range_blocks;
    let mut segments = catalog.segments.iter().filter(|entry| {
        let range = entry.facts.range;
        range.start < last.range.end && range.end > start
    });
    segments.all(|entry| entry.tier > 1 && entry.facts.range.start >= first.range.start)
}

/// Packs that lie side by side and hold the same are joined until they are large enough, or until
/// something else follows.
fn next_packs(
    packs: &[Arc<PackEntry>],
    settings: &SealSettings,
    skip: &HashSet<String>,
) -> Option<Step> {
    let side_by_side = |a: &Arc<PackEntry>, b: &Arc<PackEntry>| {
        a.range.end == b.range.start && a.datasets == b.datasets
    };
    let group = packs.chunk_by(side_by_side).next()?;
    if group.iter().any(|pack| skip.contains(&pack.object.name)) {
        return None;
    }
    let bytes: u64 = group.iter().map(|pack| pack.object.len).sum();
    let full = bytes >= settings.pack_bytes || group.len() < packs.len();
    let many = group.len() > settings.batches_max;
    let packs = group.to_vec();
    match (full, many) {
        (true, _) => Some(Step::FinishPack(packs)),
        (false, true) => Some(Step::JoinPacks(packs)),
        (false, false) => None,
    }
}

impl Writer {
    /// Does the next step of maintenance, if there is one.
    pub(crate) async fn maintain(&self) -> Result<bool> {
        let _one_at_a_time = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let packs = &snapshot.state.batch_packs;
        let skip = self
            .damaged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(step) = next(&snapshot.catalog, packs, &self.settings.seal, &skip) else {
            return Ok(false);
        };
        let started = Instant::now();
        let span = tracing::debug_span!(
            "archive.merge",
            chain = self.settings.chain.0,
            step = step.name(),
            outcome = Empty,
        );
        let done = self.carry_out(step).instrument(span.clone()).await;
        span.record("outcome", outcome_name(&done));
        if let Err(Error::Corrupt { object, .. }) = &done {
            let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
            damaged.insert(object.clone());
        }
        done?;
        self.view
            .objects
            .meters
            .merge_seconds
            .record(started.elapsed().as_secs_f64());
        Ok(true)
    }

    async fn carry_out(&self, step: Step) -> Result<Applied> {
        let mut edit = Edit::default();
        match step {
            Step::Promote(entry) => {
                edit.remove.push(entry.object.name.clone());
                let tier = entry.tier + 1;
                // Its hashes move to a run when it leaves the first tier.
                if let Some((run, name)) = self
                    .run_of_segments(std::slice::from_ref(&entry), entry.facts.range)
                    .await?
                {
                    edit.runs.push(run);
                    edit.uploads.push(name);
                }
                edit.segments.push(SegmentEntry {
                    tier,
                    ..(*entry).clone()
                });
            }
            Step::Merge(inputs) => {
                let range = range_of(&inputs)?;
                if let Some((run, name)) = self.run_of_segments(&inputs, range).await? {
                    edit.runs.push(run);
                    edit.uploads.push(name);
                }
                let (segment, name) = self.merge(&inputs).await?;
                edit.segments.push(segment);
                edit.uploads.push(name);
                edit.remove
                    .extend(inputs.iter().map(|input| input.object.name.clone()));
            }
            Step::MergeRuns(inputs) => {
                let (run, name) = self.merge_runs(&inputs).await?;
                edit.runs.push(run);
                edit.uploads.push(name);
                edit.remove
                    .extend(inputs.iter().map(|input| input.object.name.clone()));
            }
            Step::JoinPacks(inputs) => {
                let pack = self.replace_packs(&inputs, Join::ForNow, &mut edit).await?;
                edit.batch_packs.push(pack);
            }
            Step::FinishPack(inputs) => {
                let pack = self
                    .replace_packs(&inputs, Join::ForGood, &mut edit)
                    .await?;
                edit.packs.push(pack);
            }
        }
        self.publisher.publish(edit).await
    }

    async fn replace_packs(
        &self,
        inputs: &[Arc<PackEntry>],
        why: Join,
        edit: &mut Edit,
    ) -> Result<PackEntry> {
        let (pack, name) = self.join_packs(inputs, why).await?;
        edit.uploads.extend(name);
        edit.remove
            .extend(inputs.iter().map(|input| input.object.name.clone()));
        Ok(pack)
    }
}
