//! Inspecting: every unit of every object that the state names, read past the cache and checked.
//!
//! A query checks what it reads and no more. This reads everything, so that damage is found before
//! a query needs what is damaged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chronolith_model::{BlockRange, DatasetSet, Scope};

use crate::error::{Error, Result};
use crate::format::container::{Container, ObjectKind, Section};
use crate::format::digest::ClockDigests;
use crate::format::pack::OpenPack;
use crate::format::segment::{BlockedSection, FramePlace, SegmentTables};
use crate::format::table::TableDirectory;
use crate::format::{Decoded, ensure};
use crate::maintenance::gc::list_all;
use crate::maintenance::hash_check;
use crate::read::objects::Objects;
use crate::read::window::{STEP_BYTES, Window};
use crate::state::catalog::{ObjectRef, PackEntry, RunEntry, SegmentEntry};
use crate::state::head::View;
use crate::state::snapshot::Snapshot;
use crate::write::pack::decode_summary;

/// How often a newer state is taken because what was inspected is gone by now.
const ROUNDS_MAX: usize = 16;

pub(crate) const EVERYTHING: BlockRange = BlockRange::new(0, u64::MAX);

/// What an object of the archive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectSort {
    Segment,
    Pack,
    Run,
}

/// An object that the state names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredObject {
    pub name: String,
    pub sort: ObjectSort,
    /// The blocks it is about.
    pub range: BlockRange,
    /// What it keeps of them.
    pub datasets: DatasetSet,
    pub scope: Scope,
}

/// An object that is damaged or gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedObject {
    pub object: StoredObject,
    /// What is wrong with it.
    pub reason: String,
}

/// How far an inspection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// Bytes of the objects that were read.
    pub bytes: u64,
    /// Bytes of all that are to be read.
    pub bytes_all: u64,
}

/// An entry of the state or its catalog.
pub(crate) enum Entry {
    Segment(Arc<SegmentEntry>),
    Pack(Arc<PackEntry>),
    Run(Arc<RunEntry>),
}

impl Entry {
    pub(crate) fn place(&self) -> &ObjectRef {
        match self {
            Self::Segment(entry) => &entry.object,
            Self::Pack(entry) => &entry.object,
            Self::Run(entry) => &entry.object,
        }
    }

    fn range(&self) -> BlockRange {
        match self {
            Self::Segment(entry) => entry.facts.range,
            Self::Pack(entry) => entry.range,
            Self::Run(entry) => entry.range,
        }
    }

    pub(crate) fn described(&self) -> StoredObject {
        match self {
            Self::Segment(entry) => entry.described(),
            Self::Pack(entry) => entry.described(),
            Self::Run(entry) => StoredObject {
                name: entry.object.name.clone(),
                sort: ObjectSort::Run,
                range: entry.range,
                datasets: DatasetSet::CLOCK,
                scope: Scope::All,
            },
        }
    }
}

impl PackEntry {
    pub(crate) fn described(&self) -> StoredObject {
        StoredObject {
            name: self.object.name.clone(),
            sort: ObjectSort::Pack,
            range: self.range,
            datasets: self.content.datasets(),
            scope: self.content.scope(),
        }
    }
}

impl SegmentEntry {
    pub(crate) fn described(&self) -> StoredObject {
        StoredObject {
            name: self.object.name.clone(),
            sort: ObjectSort::Segment,
            range: self.facts.range,
            datasets: self.facts.datasets,
            scope: self.facts.scope.clone(),
        }
    }
}

/// Reads all objects that hold blocks of the range. What went away meanwhile, because something
/// newer replaced it, is no finding, and what replaced it is read too.
pub(crate) async fn inspect(
    view: &View,
    range: &BlockRange,
    progress: &mut (dyn FnMut(Inspected) + Send),
) -> Result<Vec<DamagedObject>> {
    let (mut seen, mut damaged) = (HashSet::new(), Vec::<DamagedObject>::new());
    for _ in 0..ROUNDS_MAX {
        let Some(snapshot) = view.refresh().await? else {
            return Ok(Vec::new());
        };
        if let Some(place) = &snapshot.state.catalog {
            view.load_catalog(place).await?;
        }
        let named: HashSet<&str> = snapshot.names().collect();
        let found = damaged.len();
        damaged.retain(|damaged| named.contains(damaged.object.name.as_str()));
        if !seen.is_empty() && damaged.len() == found {
            return Ok(damaged);
        }
        let due = entries(&snapshot, range).filter(|entry| !seen.contains(&entry.place().name));
        let due: Vec<Entry> = due.collect();
        let mut done = Inspected {
            bytes: 0,
            bytes_all: due.iter().map(|entry| entry.place().len).sum(),
        };
        let lengths = lengths(&view.objects).await?;
        for entry in due {
            let checked = match read(&view.objects, &entry).await {
                Ok(()) => check_length(&entry, &lengths),
                failed => failed,
            };
            match checked {
                Ok(()) => {}
                Err(Error::Corrupt { reason, .. }) => damaged.push(DamagedObject {
                    object: entry.described(),
                    reason,
                }),
                Err(error) => return Err(error),
            }
            done.bytes += entry.place().len;
            progress(done);
            seen.insert(entry.place().name.clone());
        }
        for missing in hash_check::missing(&view.objects, &snapshot, range).await? {
            if damaged.iter().all(|known| known.object != missing.object) {
                damaged.push(missing);
            }
        }
        if damaged.is_empty() {
            return Ok(damaged);
        }
    }
    let message = "objects are replaced faster than they are inspected: try a smaller range";
    Err(Error::Invalid(message.to_owned()))
}

/// How long every object is.
pub(crate) async fn lengths(objects: &Objects) -> Result<HashMap<String, u64>> {
    let listed = list_all(&**objects.blobs()).await?.into_iter();
    Ok(listed.map(|info| (info.name, info.len)).collect())
}

/// No query reads what lies after the end of an object, and a rebuild of the state looks for its
/// tables there.
fn check_length(entry: &Entry, lengths: &HashMap<String, u64>) -> Result<()> {
    let place = entry.place();
    match lengths.get(&place.name) {
        Some(&len) if len > place.len => {
            let expected = place.len;
            let reason =
                format!("there are bytes behind its end (bytes={len}, expected={expected})");
            Err(Error::damaged(&place.name, reason))
        }
        _ => Ok(()),
    }
}

/// The objects that hold blocks of a range.
pub(crate) fn entries(snapshot: &Snapshot, range: &BlockRange) -> impl Iterator<Item = Entry> {
    let segments = snapshot.segments.iter().cloned().map(Entry::Segment);
    let packs = snapshot.packs().cloned().map(Entry::Pack);
    let runs = snapshot.catalog.runs.iter().cloned().map(Entry::Run);
    let all = segments.chain(packs).chain(runs);
    all.filter(|entry| entry.range().intersect(range).is_some())
}

/// Reads one object, past the cache, and checks all of it.
pub(crate) async fn read(objects: &Objects, entry: &Entry) -> Result<()> {
    match entry {
        Entry::Segment(entry) => read_segment(objects, entry).await,
        Entry::Pack(entry) => read_pack(objects, entry).await,
        Entry::Run(entry) => read_run(objects, entry).await,
    }
}

async fn read_segment(objects: &Objects, entry: &SegmentEntry) -> Result<()> {
    let name = &entry.object.name;
    let damaged = |damage| Error::damaged(name, damage);
    let tables = open_segment(objects, entry).await?;
    let len = tables.frames.last().map_or(0, FramePlace::end);
    let mut window = Window::new(objects, name, (tables.frames_offset, len));
    for (number, place) in (0..).zip(&tables.frames) {
        let bytes = window.slice(place.start, place.end());
        place.verify(&bytes.await?, number).map_err(damaged)?;
    }
    let mut root = blake3::Hasher::new();
    read_blocks(objects, name, &tables.tx_hashes, &mut |_| {}).await?;
    read_blocks(objects, name, &tables.postings, &mut |_| {}).await?;
    let digests = &mut |bytes: &[u8]| {
        root.update(bytes);
    };
    read_blocks(objects, name, &tables.digests, digests).await?;
    let (facts, follow) = (&entry.facts, tables.digests.len == 0);
    let times = tables.blocks.times();
    let mut clocks = ClockDigests::new(facts.range.start, facts.parent_hash, times);
    let mut last_hash = None;
    let hashes = &mut |bytes: &[u8]| {
        if follow {
            clocks.add_to(&mut root, bytes);
        }
        last_hash = bytes.last_chunk::<32>().copied();
    };
    match &tables.listed_hashes {
        Some(listed) => hashes(listed),
        None => read_blocks(objects, name, &tables.block_hashes, hashes).await?,
    }
    let is_last = last_hash == Some(facts.last_hash.0);
    ensure(is_last, "its last block is not the one it names").map_err(damaged)?;
    let is_root = *root.finalize().as_bytes() == facts.root.0;
    ensure(is_root, "its digests do not give its content root").map_err(damaged)?;
    read_table(objects, name, &tables.terms, tables.terms_offset).await?;
    match &tables.hashes {
        Some((table, offset)) => read_table(objects, name, table, *offset).await,
        None => Ok(()),
    }
}

/// Reads a section whose blocks the window verifies.
async fn read_blocks(
    objects: &Objects,
    name: &str,
    section: &BlockedSection,
    each: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<()> {
    let mut window = Window::blocked(objects, name, section);
    let mut at = 0;
    while at < section.len {
        let end = (at + STEP_BYTES).min(section.len);
        each(&window.slice(at, end).await?);
        at = end;
    }
    Ok(())
}

async fn read_table(
    objects: &Objects,
    name: &str,
    table: &TableDirectory,
    offset: u64,
) -> Result<()> {
    let mut window = Window::new(objects, name, (offset, table.section_len()));
    for place in (0..table.page_count()).filter_map(|at| table.place(at)) {
        let bytes = window.slice(place.start, place.end).await?;
        let verified = place.verify(&bytes);
        verified.map_err(|damage| Error::damaged(name, damage))?;
    }
    Ok(())
}

async fn read_run(objects: &Objects, entry: &RunEntry) -> Result<()> {
    let name = &entry.object.name;
    let tail = objects.tail(&entry.object).await?;
    let parse = || -> Decoded<(TableDirectory, u64)> {
        let container = Container::parse(tail, entry.object.tables_start, ObjectKind::Run)?;
        let (offset, len) = container.data(Section::Hashes)?;
        let (range, last_hash, _) = decode_summary(&container.table(Section::Summary)?)?;
        let expected = (range, last_hash) == (entry.range, entry.last_hash);
        ensure(expected, "it is not the run that the catalog names")?;
        let table = TableDirectory::decode(&container.table(Section::HashDirectory)?, len)?;
        Ok((table, offset))
    };
    let (table, offset) = parse().map_err(|damage| Error::damaged(name, damage))?;
    read_table(objects, name, &table, offset).await
}

async fn read_pack(objects: &Objects, entry: &PackEntry) -> Result<()> {
    let name = &entry.object.name;
    let pack = open_pack(objects, entry).await?;
    let len = pack.frames.last().map_or(0, |last| last.end);
    let mut window = Window::new(objects, name, (pack.frames_offset, len));
    for (number, frame) in pack.frames.iter().enumerate() {
        let bytes = window.slice(frame.start, frame.end).await?;
        let verified = frame.verify(&bytes, number);
        verified.map_err(|damage| Error::damaged(name, damage))?;
    }
    Ok(())
}

/// Reads the tables of a segment, past the cache: it is there, and it is the one that is named.
pub(crate) async fn open_segment(objects: &Objects, entry: &SegmentEntry) -> Result<SegmentTables> {
    let damaged = |damage| Error::damaged(&entry.object.name, damage);
    let tail = objects.tail(&entry.object).await?;
    let tables = SegmentTables::decode(tail, entry.object.tables_start).map_err(damaged)?;
    let expected = tables.facts == entry.facts;
    ensure(expected, "it is not the segment that the state names").map_err(damaged)?;
    Ok(tables)
}

/// Reads the tables of a pack, past the cache: it is there, and it is the one that is named.
pub(crate) async fn open_pack(objects: &Objects, entry: &PackEntry) -> Result<OpenPack> {
    let tail = objects.tail(&entry.object).await?;
    let at = entry.object.tables_start;
    let parse = || -> Decoded<OpenPack> {
        let container = Container::parse(tail.clone(), at, ObjectKind::Pack)?;
        let summary = decode_summary(&container.table(Section::Summary)?)?;
        let expected = summary == (entry.range, entry.last_hash, entry.content.clone());
        ensure(expected, "it is not the pack that the state names")?;
        OpenPack::decode(tail, at, entry.range)
    };
    parse().map_err(|damage| Error::damaged(&entry.object.name, damage))
}
