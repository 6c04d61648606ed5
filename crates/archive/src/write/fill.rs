//! Filling: a bounded range of old blocks, written beside ingest. Nothing of it is visible before
//! it is complete and links to what lies around it. What is there already is replaced only by
//! content that is equal or proven further; what mends a damaged object may be no less.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockClock, BlockRange, Hash32, Proof};

use super::append::Provenance;
use super::check::{check_links, prepare};
use super::cut;
use super::edit::Edit;
use super::learn::Learner;
use super::mend::Purpose;
use super::pack::{BuiltPack, PackBuilder};
use super::publish::{Applied, Uploading};
use super::rows::Rows;
use super::seal::{self, Built, Cut, Kept};
use super::writer::Writer;
use crate::catalog::{PackContent, PackEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::compress::Packer;
use crate::read::snapshot::Snapshot;
use crate::settings::SealSettings;

/// A fill on its way. Dropping it leaves garbage and nothing else.
#[derive(Debug)]
pub struct Fill {
    pub(super) writer: Arc<Writer>,
    pub(super) purpose: Purpose,
    pub(super) range: BlockRange,
    pub(super) kept: Kept,
    next: u64,
    pub(super) first_parent: Option<Hash32>,
    pub(super) last_hash: Option<Hash32>,
    pub(super) level: Option<Proof>,
    rows: Option<Rows>,
    packer: Option<Arc<Packer>>,
    pub(super) segments: Vec<SegmentEntry>,
    packs: Vec<PackEntry>,
    names: Vec<Uploading>,
    /// The pack that the payload goes to.
    pub(super) pack: Option<PackBuilder>,
    pub(super) learner: Learner,
    /// When the last blocks came.
    now: u64,
}

/// The payload of a fill on its way into packs.
struct Packing {
    pack: Option<PackBuilder>,
    learner: Learner,
    content: Option<PackContent>,
}

impl Packing {
    /// Takes the blocks' payload. Returns the packs that are large enough, or at whose last block a range or
    /// the fill ends.
    fn push(
        &mut self,
        blocks: &[Block],
        settings: &SealSettings,
        last: bool,
    ) -> Result<Vec<BuiltPack>> {
        let mut built = Vec::new();
        for block in blocks {
            let Some(pack) = self.begun() else {
                return Ok(built);
            };
            let number = block.clock.number;
            pack.0.push(&block.clock, &block.payload);
            pack.0.pack_waiting(pack.1)?;
            let is_last = last
                && blocks
                    .last()
                    .is_some_and(|last| last.clock.number == number);
            let range_ends = settings.range_begins(number.saturating_add(1));
            if is_last || range_ends || pack.0.bytes() >= settings.pack_bytes {
                let pack = self.pack.take();
                let pack = pack.map(|pack| pack.finish(&mut self.learner));
                built.extend(pack.transpose()?.flatten());
            }
        }
        Ok(built)
    }

    /// The pack that is being made, and what it learns from; none where nothing goes into packs.
    fn begun(&mut self) -> Option<(&mut PackBuilder, &mut Learner)> {
        if self.pack.is_none() {
            self.pack = self.content.clone().and_then(PackBuilder::new);
        }
        Some((self.pack.as_mut()?, &mut self.learner))
    }
}

impl Fill {
    pub(crate) fn new(
        writer: Arc<Writer>,
        range: BlockRange,
        kept: Kept,
        purpose: Purpose,
    ) -> Result<Self> {
        if range.is_empty() {
            return Err(Error::Invalid("an empty range cannot be filled".to_owned()));
        }
        let (learner, term_key) = (writer.learner(), writer.term_key);
        Ok(Self {
            writer,
            purpose,
            range,
            kept,
            next: range.start,
            first_parent: None,
            last_hash: None,
            level: None,
            rows: Some(Rows::new(term_key)),
            packer: None,
            segments: Vec::new(),
            packs: Vec::new(),
            names: Vec::new(),
            pack: None,
            learner,
            now: 0,
        })
    }

    /// Adds the next blocks. What is complete is uploaded at once; memory stays bounded.
    ///
    /// # Errors
    /// `Throttled` while there is too much garbage: nothing of the blocks was taken, see
    /// [`Self::check_room`]. `Gap`, `BadParent` or `BadBlock` for what does not fit, or `Store`.
    pub async fn push(&mut self, mut blocks: Vec<Block>, provenance: &Provenance) -> Result<()> {
        self.check_room()?;
        check_links(&blocks)?;
        let Some(first) = blocks.first().map(|block| block.clock) else {
            return Ok(());
        };
        if first.number != self.next {
            return Err(Error::Gap {
                expected: self.next,
                got: first.number,
            });
        }
        let links = self
            .last_hash
            .filter(|&expected| expected != first.parent_hash);
        if let Some(expected) = links {
            let (number, names) = (first.number, first.parent_hash);
            return Err(Error::BadParent {
                number,
                names,
                expected,
            });
        }
        if first.number + blocks.len() as u64 > self.range.end {
            return Err(Error::Invalid(format!(
                "blocks behind the end of the fill ({})",
                self.range
            )));
        }
        for block in &mut blocks {
            prepare(block, &self.kept, &self.writer.settings.profile)?;
        }
        self.first_parent.get_or_insert(first.parent_hash);
        self.last_hash = blocks.last().map(|block| block.clock.hash);
        self.next += blocks.len() as u64;
        self.now = self.now.max(provenance.now);
        let lowest = self
            .level
            .map_or(provenance.proof, |proof| proof.lower(provenance.proof));
        self.level = Some(lowest);
        match self.purpose {
            Purpose::Pack { .. } => self.hold_payload(&blocks).await,
            Purpose::Fill | Purpose::Segment { .. } => self.seal(blocks, provenance.proof).await,
        }
    }

    /// Whether blocks may be pushed now. What repairs need not wait: it may be why there is garbage.
    ///
    /// # Errors
    /// `Throttled` while there is too much garbage.
    pub fn check_room(&self) -> Result<()> {
        if self.purpose.mends() {
            return Ok(());
        }
        self.writer.guardrails.check()
    }

    /// What becomes of the blocks' payload.
    fn packing(&mut self) -> Packing {
        // Where a segment alone is made anew, packs are what they were.
        let content = Some(self.kept.packed()).filter(|_| !self.purpose.mends());
        Packing {
            pack: self.pack.take(),
            learner: self.learner.clone(),
            content,
        }
    }

    /// Packs the blocks and uploads every segment that is complete.
    async fn seal(&mut self, blocks: Vec<Block>, level: Proof) -> Result<()> {
        let mut rows = self.rows.take().ok_or_else(failed)?;
        let mut packing = self.packing();
        let (kept, settings) = (self.kept.clone(), self.writer.settings.seal.clone());
        let packer = self.packer.clone();
        let last = self.next == self.range.end;
        let job = move || {
            let packs = packing.push(&blocks, &settings, last)?;
            blocks.iter().for_each(|block| rows.push(block, level));
            let mut cuts = cut::due(&rows, &settings);
            let sealed = cuts.last().map_or(0, |cut| cut.end);
            if last && sealed < rows.blocks.len() {
                cuts.push(Cut {
                    start: sealed,
                    end: rows.blocks.len(),
                });
            }
            let packer = packer.or_else(|| {
                let cut = cuts.first()?;
                Some(Arc::new(Packer::new(
                    seal::train(&rows, *cut),
                    settings.level,
                )))
            });
            let plain = Arc::new(Packer::new(Bytes::new(), settings.level));
            // There is none only where there is nothing to seal.
            let used = packer.clone().unwrap_or(plain);
            let built = cuts
                .iter()
                .map(|&cut| seal::seal(&rows, cut, &kept, &used))
                .collect::<Result<Vec<Built>>>()?;
            rows.drop_front(cuts.last().map_or(0, |cut| cut.end));
            Ok::<_, Error>((rows, built, (packing, packs), packer))
        };
        let done = tokio::task::spawn_blocking(job)
            .await
            .map_err(|_| failed())?;
        let (rows, built, (packing, packs), packer) = done?;
        (self.pack, self.learner) = (packing.pack, packing.learner);
        let mut uploads = Vec::new();
        for built in built {
            self.segments
                .push(self.writer.upload(built, 1, &mut uploads));
        }
        for pack in packs {
            self.packs.push(self.writer.upload_pack(pack, &mut uploads));
        }
        self.names.extend(self.writer.put_all(uploads).await?);
        (self.rows, self.packer) = (Some(rows), packer);
        Ok(())
    }

    /// Makes the range visible, after checking that it links on both sides.
    ///
    /// # Errors
    /// `Gap` where blocks are missing, `BadParent` or `FinalityViolation` where it does not link to
    /// or contradicts what is archived, `Invalid` where it may not replace what is there: nothing is
    /// published then. `Fenced` or `Store`.
    pub async fn finish(mut self) -> Result<()> {
        if self.next != self.range.end {
            return Err(Error::Gap {
                expected: self.next,
                got: self.range.end,
            });
        }
        // A push that failed or was given up took the rows with it.
        self.rows.take().ok_or_else(failed)?;
        // From the checks to the swap nothing else may move: no ingest, no rewind, no other fill.
        let writer = self.writer.clone();
        let mut appender = writer.appender.lock().await;
        let snapshot = self.writer.publisher.settled().await?;
        // Damage may be why it is halted: mending adds no block, so it need not wait.
        if let Some(halt) = snapshot
            .state
            .halt
            .as_ref()
            .filter(|_| !self.purpose.mends())
        {
            return Err(Error::Halted {
                reason: halt.reason.clone(),
            });
        }
        if let Purpose::Pack { .. } = self.purpose {
            return self.finish_pack(&snapshot).await;
        }
        let beyond = snapshot
            .head()
            .is_some_and(|head| self.range.end > head.number + 1);
        if beyond {
            let message = "a fill cannot reach beyond the head: ingest these blocks instead";
            return Err(Error::Invalid(message.to_owned()));
        }
        self.check_neighbours(&snapshot).await?;
        let (mut superseded, same_content) = self.superseded(&snapshot).await?;
        self.check_mended(&snapshot, &superseded)?;
        if !superseded.is_empty() {
            if !self.purpose.mends() {
                superseded.extend(self.superseded_packs(&snapshot, same_content)?);
            }
            let runs = superseded_runs(&snapshot, &superseded);
            superseded.extend(runs);
        }
        let edit = Edit {
            remove: superseded,
            segments: std::mem::take(&mut self.segments),
            packs: std::mem::take(&mut self.packs),
            uploads: std::mem::take(&mut self.names),
            audit: self.purpose.audit(),
            now: self.now,
            ..Edit::default()
        };
        let gone = |batch: &Arc<SegmentEntry>| edit.remove.contains(&batch.object.name);
        if snapshot.state.batches.iter().any(gone) {
            // What ingest has in memory is of batches that are there no more.
            appender.forget();
        }
        match self.writer.publisher.publish(edit).await? {
            Applied::Published => Ok(()),
            Applied::Dropped => Err(Error::Invalid(
                "the range changed while it was filled".to_owned(),
            )),
        }
    }

    /// A block's clock as it is archived, from any segment that can be read. What mends may find
    /// none: the catalog's word on the segment's ends holds then.
    async fn archived_clock(&self, snapshot: &Snapshot, number: u64) -> Result<Option<BlockClock>> {
        let mut damaged = None;
        for entry in snapshot.holding(number) {
            let objects = &self.writer.view.objects;
            let clock = async {
                let segment = objects.open(&entry.object).await?;
                objects.clock(&segment, number).await
            };
            match clock.await {
                Ok(clock) => return Ok(clock),
                Err(error @ Error::Corrupt { .. }) => damaged = Some(error),
                Err(error) => return Err(error),
            }
        }
        match damaged.filter(|_| !self.purpose.mends()) {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    async fn check_neighbours(&self, snapshot: &Snapshot) -> Result<()> {
        let objects = &self.writer.view.objects;
        let clock = async |number: u64| self.archived_clock(snapshot, number).await;
        let below = match self.range.start.checked_sub(1) {
            Some(before) => clock(before).await?,
            None => None,
        };
        if let (Some(below), Some(names)) = (below, self.first_parent)
            && below.hash != names
        {
            let (number, expected) = (self.range.start, below.hash);
            return Err(Error::BadParent {
                number,
                names,
                expected,
            });
        }
        if let (Some(above), Some(expected)) = (clock(self.range.end).await?, self.last_hash)
            && above.parent_hash != expected
        {
            let (number, names) = (self.range.end, above.parent_hash);
            return Err(Error::BadParent {
                number,
                names,
                expected,
            });
        }
        for entry in &self.segments {
            let new = objects.open(&entry.object).await?;
            for number in entry.facts.range.start..entry.facts.range.end {
                let Some(old) = clock(number).await? else {
                    continue;
                };
                let Some(new) = objects.clock(&new, number).await? else {
                    continue;
                };
                if old.hash != new.hash {
                    let archived = old.block_ref();
                    return Err(Error::FinalityViolation {
                        archived,
                        offered: new.hash,
                    });
                }
            }
        }
        Ok(())
    }

    /// Segments that this fill replaces: the same is kept of their blocks, they lie inside the
    /// range, and they are either equal in every block or proven less far than this fill is. Also
    /// whether they are all equal.
    async fn superseded(&self, snapshot: &Snapshot) -> Result<(Vec<String>, bool)> {
        let (mut names, mut same_content) = (Vec::new(), true);
        for old in &snapshot.segments {
            let facts = &old.facts;
            let same = facts.datasets == self.kept.datasets && facts.scope == self.kept.scope;
            let Some(shared) = facts.range.intersect(&self.range).filter(|_| same) else {
                continue;
            };
            // Ingest still works on a batch: it goes only where it has to.
            let inside = self.range.covers(&facts.range) && (old.tier > 0 || self.purpose.mends());
            let surer = inside && self.is_surer(old);
            let other = match self.first_difference(old, shared).await {
                Err(Error::Corrupt { .. }) if self.purpose.mends() => {
                    if inside {
                        self.check_replaces_unreadable(old).await?;
                        names.push(old.object.name.clone());
                    }
                    continue;
                }
                other => other?,
            };
            if let Some(number) = other.filter(|_| !surer) {
                return Err(Error::Invalid(format!(
                    "block {number} is archived with the same hash and other content; only a fill \
                     that holds all of {} and is proven further may replace it",
                    facts.range
                )));
            }
            same_content &= other.is_none();
            if inside {
                self.check_no_less_proven(old)?;
                names.push(old.object.name.clone());
            }
        }
        Ok((names, same_content))
    }

    /// Whether all of it is proven further than any block of an archived segment.
    pub(super) fn is_surer(&self, old: &SegmentEntry) -> bool {
        let profile = &self.writer.settings.profile;
        let levels = old.facts.levels.iter();
        let levels = levels.map(|(_, level)| profile.reads(*level));
        let highest = levels.reduce(Proof::higher);
        self.level
            .zip(highest)
            .is_some_and(|(offered, archived)| offered.exceeds(archived))
    }

    /// The first block of the range whose content differs from what an archived segment holds.
    async fn first_difference(&self, old: &SegmentEntry, range: BlockRange) -> Result<Option<u64>> {
        let objects = &self.writer.view.objects;
        let old = objects.open(&old.object).await?;
        for entry in &self.segments {
            let Some(shared) = entry.facts.range.intersect(&range) else {
                continue;
            };
            let new = objects.open(&entry.object).await?;
            for number in shared.start..shared.end {
                let known = objects.digest(&old, number).await?;
                if known != objects.digest(&new, number).await? {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Packs of the segments that this fill replaces: their payload may be the one that was wrong. One
    /// that reaches beyond the fill stays where no content changes: digests are over payload too.
    fn superseded_packs(&self, snapshot: &Snapshot, same_content: bool) -> Result<Vec<String>> {
        let (mut names, content) = (Vec::new(), self.kept.packed());
        let packs = snapshot.packs().filter(|pack| pack.content == content);
        for pack in packs.filter(|pack| pack.range.intersect(&self.range).is_some()) {
            if !self.range.covers(&pack.range) {
                if same_content {
                    continue;
                }
                return Err(Error::Invalid(format!(
                    "the fill cuts the pack of blocks {}: fill all of it",
                    pack.range
                )));
            }
            names.push(pack.object.name.clone());
        }
        Ok(names)
    }
}

/// Runs that no merged segment needs once these are gone.
fn superseded_runs(snapshot: &Snapshot, gone: &[String]) -> Vec<String> {
    let needed = |range: &BlockRange| {
        let merged = snapshot.segments.iter().filter(|entry| entry.tier > 1);
        let mut staying = merged.filter(|entry| !gone.contains(&entry.object.name));
        staying.any(|entry| entry.facts.range.intersect(range).is_some())
    };
    let runs = snapshot
        .catalog
        .runs
        .iter()
        .filter(|run| !needed(&run.range));
    runs.map(|run| run.object.name.clone()).collect()
}

pub(super) fn failed() -> Error {
    Error::Invalid("this fill failed before; begin a new one".to_owned())
}
