//! Filling: a bounded range of old blocks, written beside ingest. Nothing of it is visible before
//! it is complete and links to what lies around it. What may replace what is there already is decided in
//! `replace.rs`.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockMeta, BlockRange, DatasetSet, Hash32, Proof, Scope};

use super::append::Provenance;
use super::boundaries;
use super::check::{check_links, check_parent, check_same, prepare};
use super::dictionary::Learner;
use super::edit::Edit;
use super::pack::{BuiltPack, PackBuilder};
use super::publish::Uploading;
use super::rows::Rows;
use super::seal::{self, Built, Cut, Kept};
use super::writer::Writer;
use crate::blocking;
use crate::error::{Error, Result};
use crate::format::compress::Packer;
use crate::maintenance::repair::Purpose;
use crate::maintenance::repair_together::Packed;
use crate::maintenance::replace::superseded_runs;
use crate::settings::SealSettings;
use crate::state::catalog::{PackContent, PackEntry, SegmentEntry};
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;

/// A fill on its way. Dropping it leaves garbage and nothing else.
#[derive(Debug)]
pub struct Fill {
    pub(crate) writer: Arc<Writer>,
    pub(crate) purpose: Purpose,
    /// What an operator did, where the fill repairs.
    pub(crate) audit: Option<AuditEntry>,
    pub(crate) range: BlockRange,
    pub(crate) kept: Kept,
    next: u64,
    pub(crate) first_parent: Option<Hash32>,
    pub(crate) last_hash: Option<Hash32>,
    /// What packs hold of the blocks, where a segment alone is rebuilt.
    pub(crate) packed: Packed,
    rows: Option<Rows>,
    packer: Option<Arc<Packer>>,
    pub(crate) segments: Vec<SegmentEntry>,
    packs: Vec<PackEntry>,
    names: Vec<Uploading>,
    /// The pack that the payload goes to.
    pub(crate) pack: Option<PackBuilder>,
    pub(crate) learner: Learner,
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
        blocks: &[Arc<Block>],
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
        audit: Option<AuditEntry>,
    ) -> Result<Self> {
        if range.is_empty() {
            return Err(Error::Invalid("an empty range cannot be filled".to_owned()));
        }
        let (learner, term_key) = (writer.learner(), writer.term_key);
        Ok(Self {
            writer,
            purpose,
            audit,
            range,
            kept,
            next: range.start,
            first_parent: None,
            last_hash: None,
            packed: Packed::default(),
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

    /// The blocks that are to be pushed.
    #[must_use]
    pub fn range(&self) -> BlockRange {
        self.range
    }

    /// What is kept of them.
    #[must_use]
    pub fn datasets(&self) -> DatasetSet {
        self.kept.datasets
    }

    /// Which of their logs are kept.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.kept.scope
    }

    /// Adds the next blocks. What is complete is uploaded at once; memory stays bounded.
    ///
    /// # Errors
    /// `Throttled` while there is too much garbage: nothing of the blocks was taken, see
    /// [`Self::check_room`]. `Gap`, `BadParent` or `BadBlock` for what does not fit, or `Store`.
    pub async fn push(
        &mut self,
        blocks: Vec<impl Into<Arc<Block>>>,
        provenance: &Provenance,
    ) -> Result<()> {
        let mut blocks: Vec<Arc<Block>> = blocks.into_iter().map(Into::into).collect();
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
        if let Some(expected) = self.last_hash {
            check_parent(first.number, first.parent_hash, expected)?;
        }
        if first.number + blocks.len() as u64 > self.range.end {
            return Err(Error::Invalid(format!(
                "blocks after the end of the fill ({})",
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
        let proof = provenance.proof;
        match self.purpose {
            Purpose::Pack(_) => self.hold_payload(&blocks).await,
            Purpose::Segment(_) => {
                let levels = self.keep_packed(&mut blocks, proof).await?;
                self.seal(blocks, levels).await
            }
            Purpose::Fill | Purpose::Together => {
                let levels = vec![proof; blocks.len()];
                self.seal(blocks, levels).await
            }
        }
    }

    /// Whether blocks may be pushed now. A repair does not wait: it may be why there is garbage.
    ///
    /// # Errors
    /// `Throttled` while there is too much garbage.
    pub fn check_room(&self) -> Result<()> {
        if self.purpose.repairs() {
            return Ok(());
        }
        self.writer.guardrails.check()
    }

    /// What becomes of the blocks' payload.
    fn packing(&mut self) -> Packing {
        // Where a segment alone is rebuilt, packs are what they were.
        let content = Some(self.kept.packed()).filter(|_| self.purpose.packs());
        Packing {
            pack: self.pack.take(),
            learner: self.learner.clone(),
            content,
        }
    }

    /// Packs the blocks and uploads every segment that is complete.
    async fn seal(&mut self, blocks: Vec<Arc<Block>>, levels: Vec<Proof>) -> Result<()> {
        let mut rows = self.rows.take().ok_or_else(failed)?;
        let mut packing = self.packing();
        let (kept, settings) = (self.kept.clone(), self.writer.settings.seal.clone());
        let packer = self.packer.clone();
        let last = self.next == self.range.end;
        let job = move || {
            let packs = packing.push(&blocks, &settings, last)?;
            let leveled = blocks.iter().zip(levels);
            leveled.for_each(|(block, level)| rows.push(block, level));
            let mut cuts = boundaries::due(&rows, &settings);
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
            Ok((rows, built, (packing, packs), packer))
        };
        let (rows, built, (packing, packs), packer) = blocking::run(job).await?;
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
        // A push that failed or was abandoned took the rows with it.
        self.rows.take().ok_or_else(failed)?;
        // From the checks to the swap nothing else may move: no ingest, no rewind, no other fill.
        let writer = self.writer.clone();
        let mut appender = writer.appender.lock().await;
        let snapshot = self.writer.publisher.settled().await?;
        // Damage may be why it is halted: repairing adds no block, so it need not wait.
        if let Some(halt) = snapshot
            .state
            .halt
            .as_ref()
            .filter(|_| !self.purpose.repairs())
        {
            return Err(Error::Halted {
                reason: halt.reason.clone(),
            });
        }
        if let Purpose::Pack(name) = &self.purpose {
            let name = name.clone();
            return self.finish_pack(&snapshot, &name).await;
        }
        let beyond = snapshot
            .head()
            .is_some_and(|head| self.range.end > head.number + 1);
        if beyond {
            let message = "a fill cannot reach beyond the head: ingest these blocks instead";
            return Err(Error::Invalid(message.to_owned()));
        }
        self.check_neighbours(&snapshot).await?;
        self.check_known_ends(&snapshot).await?;
        let replaced = self.superseded(&snapshot).await?;
        self.check_repaired(&replaced)?;
        let mut edit = Edit {
            remove: replaced.names(),
            segments: std::mem::take(&mut self.segments),
            packs: std::mem::take(&mut self.packs),
            uploads: std::mem::take(&mut self.names),
            audit: self.audit.take(),
            now: self.now,
            ..Edit::default()
        };
        if !edit.remove.is_empty() {
            match self.purpose {
                Purpose::Fill => {
                    let packs = self.superseded_packs(&snapshot, &replaced)?;
                    edit.remove.extend(packs);
                }
                Purpose::Together => {
                    self.keep_around(&snapshot, &replaced, &mut edit).await?;
                }
                Purpose::Segment(_) | Purpose::Pack(_) => {}
            }
            let runs = superseded_runs(&snapshot, &edit.remove);
            edit.remove.extend(runs);
        }
        let gone = |batch: &Arc<SegmentEntry>| edit.remove.contains(&batch.object.name);
        if snapshot.state.batches.iter().any(gone) {
            // What ingest has in memory is of batches that are there no more.
            appender.forget();
        }
        let dropped = "the range changed while it was filled";
        self.writer.publisher.publish_or(edit, dropped).await
    }

    /// A block's clock as it is archived, from any segment that can be read. A repair may find
    /// none: the catalog's word on the segment's ends holds then.
    async fn archived_clock(&self, snapshot: &Snapshot, number: u64) -> Result<Option<BlockMeta>> {
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
        match damaged.filter(|_| !self.purpose.repairs()) {
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
        if let (Some(below), Some(names)) = (below, self.first_parent) {
            check_parent(self.range.start, names, below.hash)?;
        }
        if let (Some(above), Some(expected)) = (clock(self.range.end).await?, self.last_hash) {
            check_parent(self.range.end, above.parent_hash, expected)?;
        }
        for entry in &self.segments {
            let new = objects.open(&entry.object).await?;
            for number in entry.facts.range.start..entry.facts.range.end {
                let Some(old) = clock(number).await? else {
                    continue;
                };
                let new = objects.clock(&new, number).await?;
                check_same(old.block_ref(), new.ok_or_else(failed)?.hash)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn failed() -> Error {
    Error::Invalid("this fill failed before; begin a new one".to_owned())
}
