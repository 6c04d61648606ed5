//! Maintenance: one step at a time, beside ingest; whatever changed meanwhile, the edit notices.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::merge::range_of;
use super::packs::Join;
use super::plan::{Plan, Step};
use crate::error::{Error, Result, outcome_name};
use crate::ranges::journal::Entry;
use crate::ranges::report::count_segment;
use crate::ranges::status::range_statuses;
use crate::state::catalog::{PackEntry, SegmentEntry};
use crate::state::snapshot::Snapshot;
use crate::write::edit::Edit;
use crate::write::publish::Applied;
use crate::write::writer::Writer;

impl Writer {
    /// Does the next step of maintenance, if there is one. `now` is 0 where the time is unknown.
    pub(crate) async fn maintain(&self, now: u64) -> Result<bool> {
        // What a merge replaces is garbage until it is collected.
        self.guardrails.check()?;
        let one_at_a_time = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let seal = &self.settings.seal;
        let statuses = range_statuses(&snapshot.state, &snapshot.catalog, seal.geometry(), seal);
        let skip = copy_of(&self.damaged);
        let plan = Plan {
            catalog: &snapshot.catalog,
            batch_packs: &snapshot.state.batch_packs,
            settings: seal,
            skip: &skip,
            statuses: &statuses,
            verifying: &copy_of(&self.verifying),
        };
        let Some(step) = plan.next() else {
            return Ok(false);
        };
        let closing = step.first_block().and_then(|block| plan.status(block));
        let closing = closing.filter(|status| status.in_transition());
        let closing = closing.map(|status| status.id);
        let verifying = closing.filter(|_| matches!(step, Step::Verify(..)));
        let verifying = verifying.map(|id| Verifying::begin(&self.verifying, id));
        // Verifying reads a whole range and changes nothing: nothing waits for it, and what it
        // finds counts only if the range is still what it was.
        let _held = verifying.is_none().then_some(one_at_a_time);
        let (phase, started) = (step.phase(), Instant::now());
        let span = tracing::debug_span!(
            "archive.merge",
            chain = self.settings.chain.0,
            step = step.name(),
            outcome = Empty,
        );
        let done = self.carry_out(&snapshot, step, now);
        let done = done.instrument(span.clone()).await;
        span.record("outcome", outcome_name(&done));
        if let Err(Error::Corrupt { object, reason }) = &done {
            if let Some(id) = closing {
                let named = snapshot.names().any(|name| name == object);
                let what = (object.as_str(), reason.as_str(), named);
                self.fail_range(id, phase, what, now).await?;
                return Ok(true);
            }
            let mut damaged = self.damaged.lock();
            if damaged.insert(object.clone()) {
                let chain = self.settings.chain.0;
                tracing::error!(chain, %object, %reason, "an object is damaged, maintenance passes it over");
            }
            self.view.objects.meters.damaged.set(damaged.len() as f64);
        }
        done?;
        self.view
            .objects
            .meters
            .merge_seconds
            .record(started.elapsed().as_secs_f64());
        Ok(true)
    }

    async fn carry_out(&self, snapshot: &Snapshot, step: Step, now: u64) -> Result<Applied> {
        let mut edit = Edit {
            now,
            ..Edit::default()
        };
        match step {
            Step::Promote(entry) => self.promote(&entry, &mut edit).await?,
            Step::Merge(inputs) => {
                let range = range_of(&inputs)?;
                if let Some(run) = self.run_of_segments(&inputs, range).await? {
                    edit.add_run(run);
                }
                let (segment, name) = self.merge(&inputs).await?;
                edit.segments.push(segment);
                edit.uploads.push(name);
                edit.remove_all(inputs.iter().map(|input| &input.object));
            }
            Step::MergeRuns(inputs) => {
                edit.add_run(self.merge_runs(&inputs).await?);
                edit.remove_all(inputs.iter().map(|input| &input.object));
            }
            Step::MakeRun(blocks) => self.make_runs(snapshot, blocks, None, &mut edit).await?,
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
            Step::Count(entry) => {
                let objects = &self.view.objects;
                let keys = count_segment(objects, &*objects.open(&entry.object).await?).await?;
                let segment = entry.object.name.clone();
                edit.journal.push(Entry::Counted { segment, keys });
            }
            Step::Verify(blocks, run) => {
                self.finish_range(snapshot, blocks, &run, &mut edit).await?;
            }
        }
        self.publisher.publish(edit).await
    }

    /// Lifts a segment to the next tier. Its hashes move to a run when it leaves the first.
    async fn promote(&self, entry: &Arc<SegmentEntry>, edit: &mut Edit) -> Result<()> {
        edit.remove.push(entry.object.name.clone());
        let alone = std::slice::from_ref(entry);
        if let Some(run) = self.run_of_segments(alone, entry.facts.range).await? {
            edit.add_run(run);
        }
        edit.segments.push(SegmentEntry {
            tier: entry.tier + 1,
            ..(**entry).clone()
        });
        Ok(())
    }

    async fn replace_packs(
        &self,
        inputs: &[Arc<PackEntry>],
        why: Join,
        edit: &mut Edit,
    ) -> Result<PackEntry> {
        let (pack, name) = self.join_packs(inputs, why).await?;
        edit.uploads.extend(name);
        edit.remove_all(inputs.iter().map(|input| &input.object));
        Ok(pack)
    }
}

fn copy_of<T: Clone>(set: &Mutex<T>) -> T {
    set.lock().clone()
}

/// A range that is being verified, as long as this lives.
struct Verifying<'a> {
    all: &'a Mutex<HashSet<u64>>,
    id: u64,
}

impl<'a> Verifying<'a> {
    fn begin(all: &'a Mutex<HashSet<u64>>, id: u64) -> Self {
        let mut ids = all.lock();
        ids.insert(id);
        drop(ids);
        Self { all, id }
    }
}

impl Drop for Verifying<'_> {
    fn drop(&mut self) {
        let mut ids = self.all.lock();
        ids.remove(&self.id);
    }
}
