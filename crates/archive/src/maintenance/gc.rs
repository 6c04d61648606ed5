//! Garbage: what nothing names any more, how much of it there may be, and how it goes.
//!
//! Only the holder of the epoch collects, and only objects that no swap can still make visible:
//! not named by the newest state, not being uploaded here, not pinned by a reader here. The grace
//! period protects readers in other processes and nothing else.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chronolith_store::{BlobInfo, BlobStore};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::settings::GarbageSettings;
use crate::state::head::View;
use crate::state::held::held;
use crate::state::record::Halt;
use crate::write::writer::Writer;

/// Objects that are listed at once.
const LIST_PAGE: usize = 1000;
/// Folders of segments, batches, runs, packs and catalogs.
pub(crate) const FOLDERS: [&str; 5] = ["seg/", "bat/", "run/", "pack/", "cat/"];

/// Whether garbage is removed or only listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GcMode {
    /// Remove what has outlived the grace period.
    Remove,
    /// Only report what is there.
    DryRun,
}

/// How old an object is, where the caller knows: one that was just begun to be watched may have
/// outlived the grace period long ago.
pub(crate) type Ages<'a> = &'a (dyn Fn(&BlobInfo) -> Option<Duration> + Send + Sync);

/// What a collection found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GarbageReport {
    /// Bytes of segments, runs and packs that nothing names.
    pub orphan_segment_bytes: u64,
    pub orphan_state_records: u64,
    pub stale_batch_keys: u64,
    pub orphans: Vec<BlobInfo>,
    /// How many of them were removed.
    pub removed: u64,
    /// Objects that nothing names and that stay all the same: a rebuild of the state left them
    /// undecided.
    pub held: u64,
}

/// What is limited, in the order of [`GarbageReport::values`].
const GUARDRAILS: [&str; 3] = [
    "orphan_segment_bytes",
    "orphan_state_records",
    "stale_batch_keys",
];

impl GarbageReport {
    /// What of these objects is garbage.
    fn of(listed: Vec<BlobInfo>, named: &HashSet<String>, held: &HashSet<String>) -> Self {
        let mut report = Self::default();
        for info in listed
            .into_iter()
            .filter(|info| !named.contains(&info.name))
        {
            if held.contains(&info.name) {
                report.held += 1;
                continue;
            }
            let (value, amount) = report.value_of(&info);
            *value += amount;
            report.orphans.push(info);
        }
        report
    }

    fn values(&self) -> [u64; 3] {
        [
            self.orphan_segment_bytes,
            self.orphan_state_records,
            self.stale_batch_keys,
        ]
    }

    /// The value that an object counts against, and how much.
    fn value_of(&mut self, info: &BlobInfo) -> (&mut u64, u64) {
        match info.name.split('/').next() {
            Some("cat") => (&mut self.orphan_state_records, 1),
            Some("bat") => (&mut self.stale_batch_keys, 1),
            _ => (&mut self.orphan_segment_bytes, info.len),
        }
    }
}

/// What nothing names, as a reader sees it: nothing is written and no epoch is taken. What another
/// process is uploading just now is among it.
pub(crate) async fn look(view: &View) -> Result<GarbageReport> {
    let blobs = &**view.objects.blobs();
    let listed = list_all(blobs).await?;
    let held = held(blobs).await?;
    let mut named = HashSet::new();
    if let Some(newest) = view.refresh().await? {
        named.extend(newest.names().map(str::to_owned));
    }
    Ok(GarbageReport::of(listed, &named, &held))
}

/// How much garbage there is, as the last collection saw it.
#[derive(Debug)]
pub(crate) struct Guardrails {
    grace: Duration,
    limits: [u64; 3],
    values: [AtomicU64; 3],
    /// How much this writer had done by the last collection.
    written: AtomicU64,
    /// When each orphan was first seen.
    seen: Mutex<HashMap<String, Instant>>,
}

impl Guardrails {
    pub(crate) fn new(settings: &GarbageSettings) -> Self {
        Self {
            grace: settings.grace,
            limits: [
                settings.orphan_segment_bytes_max,
                settings.orphan_state_records_max,
                settings.stale_batch_keys_max,
            ],
            values: Default::default(),
            written: AtomicU64::new(0),
            seen: Mutex::default(),
        }
    }

    /// The name, value and limit of each guardrail.
    fn all(&self) -> impl Iterator<Item = (&'static str, &AtomicU64, u64)> {
        let values = GUARDRAILS.into_iter().zip(&self.values);
        let all = values.zip(self.limits);
        all.map(|((name, value), limit)| (name, value, limit))
    }

    /// Whether ingest, fills and merges may continue: all of them leave garbage.
    pub(crate) fn check(&self) -> Result<()> {
        for (guardrail, value, limit) in self.all() {
            let value = value.load(Ordering::Relaxed);
            if value > limit {
                return Err(Error::Throttled {
                    guardrail,
                    value,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Takes new values. Returns the guardrail that was over its limit already and has risen further
    /// although this writer wrote nothing since. What was under way when the limit was reached still ends
    /// and leaves its garbage: that is no fault.
    fn update(&self, report: &GarbageReport, written: u64) -> Option<&'static str> {
        let wrote = self.written.swap(written, Ordering::Relaxed) != written;
        let mut rising = None;
        for ((guardrail, known, limit), value) in self.all().zip(report.values()) {
            let before = known.swap(value, Ordering::Relaxed);
            if before > limit && value > before && !wrote {
                rising = Some(guardrail);
            }
        }
        rising
    }
}

/// Every object of an archive, named or not.
pub(crate) async fn list_all(blobs: &dyn BlobStore) -> Result<Vec<BlobInfo>> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        all.extend(list(blobs, folder).await?);
    }
    Ok(all)
}

/// Every object of a folder.
pub(crate) async fn list(blobs: &dyn BlobStore, folder: &str) -> Result<Vec<BlobInfo>> {
    let mut all: Vec<BlobInfo> = Vec::new();
    loop {
        let after = all.last().map(|info| info.name.as_str());
        let page = blobs.list(folder, after, LIST_PAGE).await;
        let page = page.map_err(Error::store("list objects"))?;
        let is_last = page.len() < LIST_PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

impl Writer {
    /// Finds what nothing names and removes what has outlived the grace period.
    pub(crate) async fn collect(&self, how: GcMode, ages: Ages<'_>) -> Result<GarbageReport> {
        // The order matters: whatever was uploaded before the list was taken is either still being
        // uploaded now, or named by the state that is settled after that, or garbage.
        let written = self.publisher.written();
        let listed = list_all(&**self.view.objects.blobs()).await?;
        let uploading = self.publisher.uploading();
        self.publisher.settled().await?;
        let newest = self.view.refresh().await?;
        let newest = newest.ok_or_else(|| Error::Invalid("the state is gone".to_owned()))?;
        if let Some(halt) = newest.state.halt.as_ref().filter(|_| how == GcMode::Remove) {
            // While an operator has to look, everything stays as it is.
            let reason = halt.reason.clone();
            return Err(Error::Halted { reason });
        }
        let (ours, theirs) = (self.publisher.epoch(), newest.state.epoch);
        if ours != theirs {
            return Err(Error::Fenced { ours, theirs });
        }
        let mut named: HashSet<String> = uploading;
        for snapshot in self.view.pinned() {
            named.extend(snapshot.names().map(str::to_owned));
        }
        let held = held(&**self.view.objects.blobs()).await?;
        let mut report = GarbageReport::of(listed, &named, &held);
        if how == GcMode::Remove {
            self.remove_aged(&mut report, ages).await?;
        }
        let gauges = self.view.objects.meters.garbage.iter();
        for (gauge, value) in gauges.zip(report.values()) {
            gauge.set(value as f64);
        }
        let rising = self.guardrails.update(&report, written);
        if let Some(guardrail) = rising.filter(|_| how == GcMode::Remove) {
            self.halt_for_garbage(guardrail).await?;
        }
        Ok(report)
    }

    async fn remove_aged(&self, report: &mut GarbageReport, ages: Ages<'_>) -> Result<()> {
        let now = Instant::now();
        let aged: Vec<BlobInfo> = {
            let mut seen = self.guardrails.seen.lock();
            let orphans = report.orphans.iter().map(|info| info.name.as_str());
            let orphans: HashSet<&str> = orphans.collect();
            seen.retain(|name, _| orphans.contains(name.as_str()));
            let grace = self.guardrails.grace;
            let aged = |info: &&BlobInfo| {
                let since = seen.entry(info.name.clone()).or_insert(now);
                now.duration_since(*since) >= grace || ages(info).is_some_and(|age| age >= grace)
            };
            report.orphans.iter().filter(aged).cloned().collect()
        };
        for info in aged {
            let removed = self.view.objects.blobs().delete(&info.name).await;
            removed.map_err(Error::store("remove an object"))?;
            report.removed += 1;
            let (value, amount) = report.value_of(&info);
            *value -= amount;
        }
        let meters = &self.view.objects.meters;
        meters.garbage_removed.increment(report.removed);
        Ok(())
    }

    /// Garbage is over its limit and still grows although nothing is written here: another program
    /// writes into this archive, or objects that are removed come back. Stop for good.
    async fn halt_for_garbage(&self, guardrail: &'static str) -> Result<()> {
        let halt = Halt {
            reason: format!(
                "{guardrail} is over its limit and still rising, though this writer wrote nothing: see \
                 what else writes to this place"
            ),
            archived: None,
            offered: None,
            source: "garbage collection".to_owned(),
            at: 0,
        };
        self.publisher.halt(halt).await
    }
}
