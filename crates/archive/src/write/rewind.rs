//! What operators do: end a halt, take back the newest blocks, let go of the oldest.

use std::sync::Arc;

use chronolith_model::{BlockMeta, BlockRange};

use super::boundaries;
use super::edit::{Edit, ExpectedHead, HaltChange};
use super::pack::PackBuilder;
use super::publish::Uploading;
use super::rows::Rows;
use super::seal::{self, Cut, Kept};
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::format::compress::Packer;
use crate::read::lookup::block_by_number;
use crate::state::catalog::SegmentEntry;
use crate::state::held;
use crate::state::record::{AuditEntry, LiveRun};
use crate::state::snapshot::Snapshot;

/// Why it cannot be rewound there, and what can be done.
fn refusal(to: u64, live: Option<LiveRun>) -> String {
    let Some(live) = live else {
        return format!("cannot rewind to {to}: nothing was ingested so far");
    };
    let (start, head) = (live.start, live.head.number);
    match to >= head {
        true => format!("cannot rewind to {to}: the newest block is {head}"),
        false => format!(
            "cannot rewind to {to}: blocks below {start} were filled in one by one and cannot be taken back; \
             rewind to {start}, or set the archive aside and fetch it again"
        ),
    }
}

impl Writer {
    /// Ends a halt and keeps what is archived.
    pub(crate) async fn resume(&self, audit: AuditEntry) -> Result<()> {
        let edit = Edit {
            halt: HaltChange::Clear,
            audit: Some(audit),
            ..Edit::default()
        };
        self.publisher.publish(edit).await.map(|_| ())
    }

    /// Lets the collector take what a rebuild left undecided. Recorded before anything is let go.
    pub(crate) async fn drop_undecided(&self, audit: AuditEntry) -> Result<()> {
        let edit = Edit {
            audit: Some(audit),
            ..Edit::default()
        };
        self.publisher.publish(edit).await?;
        held::let_go(&**self.view.objects.blobs()).await
    }

    /// Takes back every block after `to` and ends a halt. One swap: readers see all or nothing.
    pub(crate) async fn rewind(&self, to: u64, audit: AuditEntry) -> Result<()> {
        let mut appender = self.appender.lock().await;
        let _no_merges = self.maintenance.lock().await;
        appender.forget();
        let snapshot = self.publisher.settled().await?;
        let live = snapshot
            .state
            .live
            .filter(|live| live.start <= to && to < live.head.number);
        let Some(live) = live else {
            return Err(Error::Invalid(refusal(to, snapshot.state.live)));
        };
        let clock = block_by_number(&self.view.objects, &snapshot, to).await?;
        let live = LiveRun {
            head: clock.block_ref(),
            head_timestamp: clock.timestamp,
            ..live
        };
        let mut edit = Edit {
            expected_head: ExpectedHead::Exactly(snapshot.head()),
            live: Some(live),
            halt: HaltChange::Clear,
            now: audit.at,
            audit: Some(audit),
            ..Edit::default()
        };
        let mut uploads = self.cut_segments(&snapshot, to, &mut edit).await?;
        uploads.extend(self.cut_runs(&snapshot, to, &mut edit).await?);
        uploads.extend(self.cut_packs(&snapshot, to, &mut edit).await?);
        edit.uploads = uploads;
        let dropped = "the head moved while rewinding";
        self.publisher.publish_or(edit, dropped).await
    }

    /// Replaces segments that reach beyond `to` by what remains of them. Nothing stays unsealed:
    /// the next block begins a new cut.
    async fn cut_segments(
        &self,
        snapshot: &Snapshot,
        to: u64,
        edit: &mut Edit,
    ) -> Result<Vec<Uploading>> {
        let mut names = Vec::new();
        for entry in &snapshot.segments {
            let range = entry.facts.range;
            if range.end > to + 1 {
                edit.remove.push(entry.object.name.clone());
                if range.start <= to {
                    let kept = BlockRange::new(range.start, to + 1);
                    let (pieces, uploaded) = self.reseal(entry, kept).await?;
                    names.extend(uploaded);
                    edit.segments.extend(pieces);
                }
            } else if entry.tier == 0 {
                self.seal_batch(entry, edit).await;
            }
        }
        Ok(names)
    }

    /// Seals some blocks of a segment again, in bounded memory.
    pub(crate) async fn reseal(
        &self,
        entry: &SegmentEntry,
        range: BlockRange,
    ) -> Result<(Vec<SegmentEntry>, Vec<Uploading>)> {
        let kept = Kept {
            datasets: entry.facts.datasets,
            scope: entry.facts.scope.clone(),
        };
        let settings = &self.settings.seal;
        let (mut rows, mut pieces, mut names) = (Rows::new(self.term_key), Vec::new(), Vec::new());
        for number in range.start..range.end {
            self.read_rows(entry, BlockRange::one(number), &mut rows)
                .await?;
            let mut cuts = boundaries::due(&rows, settings);
            if cuts.is_empty() && number + 1 == range.end {
                let end = rows.blocks.len();
                cuts.push(Cut { start: 0, end });
            }
            for cut in cuts {
                let packer = Packer::new(seal::train(&rows, cut), settings.level);
                let built = seal::seal(&rows, cut, &kept, &packer)?;
                let mut uploads = Vec::new();
                pieces.push(self.upload(built, 1, &mut uploads));
                names.extend(self.put_all(uploads).await?);
                rows.drop_front(cut.end);
            }
        }
        Ok((pieces, names))
    }

    /// Runs keep the hashes of the merged segments that stay. What was sealed again has a table of
    /// its own.
    async fn cut_runs(
        &self,
        snapshot: &Snapshot,
        to: u64,
        edit: &mut Edit,
    ) -> Result<Vec<Uploading>> {
        let mut names = Vec::new();
        let (staying, cut): (Vec<_>, Vec<_>) = snapshot
            .segments
            .iter()
            .partition(|entry| entry.facts.range.end <= to + 1);
        for run in &snapshot.catalog.runs {
            let of_it = |entry: &&&Arc<SegmentEntry>| {
                entry.tier > 1 && entry.facts.range.intersect(&run.range).is_some()
            };
            if run.range.end <= to + 1 && !cut.iter().any(|entry| of_it(&entry)) {
                continue;
            }
            let needed = staying.iter().filter(of_it);
            let last = needed.max_by_key(|entry| entry.facts.range.end);
            if last.is_some_and(|last| last.facts.range.end >= run.range.end) {
                continue;
            }
            edit.remove.push(run.object.name.clone());
            if let Some(last) = last {
                let kept = BlockRange::new(run.range.start, last.facts.range.end);
                let trimmed = self.trim_run(run, (kept, last.facts.last_hash)).await?;
                edit.runs.push(trimmed.0);
                names.push(trimmed.1);
            }
        }
        Ok(names)
    }

    async fn cut_packs(
        &self,
        snapshot: &Snapshot,
        to: u64,
        edit: &mut Edit,
    ) -> Result<Vec<Uploading>> {
        let last = block_by_number(&self.view.objects, snapshot, to).await?;
        let mut uploads = Vec::new();
        let past = snapshot.packs().filter(|pack| pack.range.end > to + 1);
        let past: Vec<_> = past.cloned().collect();
        for pack in past {
            edit.remove.push(pack.object.name.clone());
            let (mut kept, mut learner) = (PackBuilder::new(pack.content.clone()), self.learner());
            for number in pack.range.start..(to + 1).max(pack.range.start) {
                let payload = self.view.objects.payload(&pack, number).await?;
                // Only the number of the first and the hash of the last are looked at, and older
                // blocks may be pruned.
                let clock = BlockMeta { number, ..last };
                if let Some(kept) = &mut kept {
                    kept.push(&clock, &payload);
                    // A pack unpacks to many times its size: no more of it waits than must.
                    kept.pack_waiting(&mut learner)?;
                }
            }
            let built = kept.map(|kept| kept.finish(&mut learner)).transpose()?;
            if let Some(built) = built.flatten() {
                edit.batch_packs.push(self.upload_pack(built, &mut uploads));
            }
        }
        self.put_all(uploads).await
    }

    /// Lets go of whole segments, runs and packs below a block. What straddles it stays.
    pub(crate) async fn prune(&self, below: u64, audit: AuditEntry) -> Result<u64> {
        let _appender = self.appender.lock().await;
        let _no_merges = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let catalog = &snapshot.catalog;
        let live = snapshot.state.live.filter(|live| below <= live.head.number);
        let Some(mut live) = live else {
            return Err(Error::Invalid(format!(
                "cannot prune below {below}: it is after the head"
            )));
        };
        let old = |range: &BlockRange| range.end <= below;
        let segments = catalog
            .segments
            .iter()
            .filter(|entry| old(&entry.facts.range));
        let mut remove: Vec<String> = segments.map(|entry| entry.object.name.clone()).collect();
        let pruned = remove.len() as u64;
        let kept = snapshot
            .segments
            .iter()
            .filter(|entry| !old(&entry.facts.range) || entry.tier == 0)
            .map(|entry| entry.facts.range.start);
        // A segment that straddles the block keeps its payload, and the runs that hold its hashes.
        let first_kept = kept.clone().min().map_or(below, |first| first.min(below));
        let runs = catalog.runs.iter();
        let runs = runs.filter(|run| run.range.end <= first_kept);
        remove.extend(runs.map(|run| run.object.name.clone()));
        let packs = snapshot.packs().filter(|pack| pack.range.end <= first_kept);
        remove.extend(packs.map(|pack| pack.object.name.clone()));
        let first = kept.filter(|&start| start >= live.start).min();
        live.start = first.unwrap_or(live.start);
        let edit = Edit {
            expected_head: ExpectedHead::Exactly(snapshot.head()),
            remove,
            live: Some(live),
            now: audit.at,
            audit: Some(audit),
            ..Edit::default()
        };
        let dropped = "the archive changed while pruning";
        self.publisher.publish_or(edit, dropped).await?;
        Ok(pruned)
    }
}
