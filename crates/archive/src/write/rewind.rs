//! What operators do: end a halt, take back the newest blocks, let go of the oldest.

use std::sync::Arc;

use chronolith_model::{BlockMeta, BlockRange, Hash32};

use super::boundaries;
use super::dictionary::Learner;
use super::edit::{Edit, ExpectedHead, HaltChange};
use super::pack::{BuiltPack, PackBuilder};
use super::rows::Rows;
use super::seal::{self, Cut, Kept};
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::format::compress::Packer;
use crate::read::lookup::block_by_number;
use crate::state::catalog::{PackEntry, SegmentEntry};
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
        self.cut_segments(&snapshot, to, &mut edit).await?;
        self.cut_runs(&snapshot, to, &mut edit).await?;
        self.cut_packs(&snapshot, to, &mut edit).await?;
        let dropped = "the head moved while rewinding";
        self.publisher.publish_or(edit, dropped).await
    }

    /// Replaces segments that reach beyond `to` by what remains of them. Nothing stays unsealed:
    /// the next block begins a new cut.
    async fn cut_segments(&self, snapshot: &Snapshot, to: u64, edit: &mut Edit) -> Result<()> {
        for entry in &snapshot.segments {
            let range = entry.facts.range;
            if range.end > to + 1 {
                edit.remove.push(entry.object.name.clone());
                if range.start <= to {
                    let kept = BlockRange::new(range.start, to + 1);
                    self.reseal(entry, kept, edit).await?;
                }
            } else if entry.tier == 0 {
                self.seal_batch(entry, edit).await;
            }
        }
        Ok(())
    }

    /// Seals some blocks of a segment again, in bounded memory.
    pub(crate) async fn reseal(
        &self,
        entry: &SegmentEntry,
        range: BlockRange,
        edit: &mut Edit,
    ) -> Result<()> {
        let (kept, settings) = (Kept::of(&entry.facts), &self.settings.seal);
        let mut rows = Rows::new(self.term_key);
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
                edit.segments.push(self.upload(built, 1, &mut uploads));
                edit.uploads.extend(self.put_all(uploads).await?);
                rows.drop_front(cut.end);
            }
        }
        Ok(())
    }

    /// Runs keep the hashes of the merged segments that stay. What was sealed again has a table of
    /// its own.
    async fn cut_runs(&self, snapshot: &Snapshot, to: u64, edit: &mut Edit) -> Result<()> {
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
                let last_hash = last.facts.last_hash;
                edit.add_run(self.trim_run(run, (kept, last_hash)).await?);
            }
        }
        Ok(())
    }

    async fn cut_packs(&self, snapshot: &Snapshot, to: u64, edit: &mut Edit) -> Result<()> {
        let last = block_by_number(&self.view.objects, snapshot, to).await?;
        let mut uploads = Vec::new();
        for pack in snapshot.packs().filter(|pack| pack.range.end > to + 1) {
            edit.remove.push(pack.object.name.clone());
            let kept = BlockRange::new(pack.range.start, to + 1);
            let built = self.repack(pack, kept, last.hash, self.learner()).await?;
            if let Some(built) = built {
                edit.batch_packs.push(self.upload_pack(built, &mut uploads));
            }
        }
        edit.uploads.extend(self.put_all(uploads).await?);
        Ok(())
    }

    /// Packs some blocks of another pack again, in bounded memory; none where these are no blocks.
    pub(crate) async fn repack(
        &self,
        pack: &PackEntry,
        blocks: BlockRange,
        last_hash: Hash32,
        mut learner: Learner,
    ) -> Result<Option<BuiltPack>> {
        let Some(mut kept) = PackBuilder::new(pack.content.clone()) else {
            return Ok(None);
        };
        for number in blocks.start..blocks.end {
            let payload = self.view.objects.payload(pack, number).await?;
            // Only the number of the first and the hash of the last are looked at, and older blocks
            // may be pruned.
            let clock = BlockMeta {
                number,
                hash: last_hash,
                parent_hash: Hash32::ZERO,
                timestamp: 0,
            };
            kept.push(&clock, &payload);
            // A pack unpacks to many times its size: no more of it waits than must.
            kept.pack_waiting(&mut learner)?;
        }
        kept.finish(&mut learner)
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
        let mut edit = Edit {
            expected_head: ExpectedHead::Exactly(snapshot.head()),
            now: audit.at,
            audit: Some(audit),
            ..Edit::default()
        };
        edit.remove_all(segments.map(|entry| &entry.object));
        let pruned = edit.remove.len() as u64;
        let kept = snapshot
            .segments
            .iter()
            .filter(|entry| !old(&entry.facts.range) || entry.tier == 0)
            .map(|entry| entry.facts.range.start);
        // A segment that straddles the block keeps its payload, and the runs that hold its hashes.
        let first_kept = kept.clone().min().map_or(below, |first| first.min(below));
        let runs = catalog.runs.iter();
        let runs = runs.filter(|run| run.range.end <= first_kept);
        edit.remove_all(runs.map(|run| &run.object));
        let packs = snapshot.packs().filter(|pack| pack.range.end <= first_kept);
        edit.remove_all(packs.map(|pack| &pack.object));
        let first = kept.filter(|&start| start >= live.start).min();
        live.start = first.unwrap_or(live.start);
        edit.live = Some(live);
        let dropped = "the archive changed while pruning";
        self.publisher.publish_or(edit, dropped).await?;
        Ok(pruned)
    }
}
