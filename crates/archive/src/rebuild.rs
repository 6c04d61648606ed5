//! Rebuilding a lost state from what the objects say of themselves.
//!
//! Every segment's summary names its blocks, its first parent and its last hash. From an anchor, a
//! block that is known to be right, the chain of segments is followed backwards by these links.
//! What does not hang together with the anchor is listed, not guessed at.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, DatasetSet, Hash32, Scope, Verification};
use chronolith_store::{BlobInfo, BlobStore, MetaStore, Version};
use rand::{RngCore, SeedableRng, rngs::StdRng};

use crate::book::Book;
use crate::catalog::{Catalog, ObjectRef, PackEntry, RunEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::Decoded;
use crate::format::container::{Container, FOOTER_BYTES, ObjectKind, Section, tables_start};
use crate::format::segment::SegmentTables;
use crate::format::term::TermKey;
use crate::meters::Meters;
use crate::read::objects::Objects;
use crate::read::snapshot::Snapshot;
use crate::settings::Settings;
use crate::state::{AuditEntry, CatalogRef, Halt, LiveRun, State};
use crate::write::edit::catalog_names;
use crate::write::pack::decode_summary;

const LIST_PAGE: usize = 1000;

/// What a rebuild found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuildReport {
    /// The blocks that hang together with the anchor.
    pub covered: BlockRange,
    /// How many segments hold them.
    pub segments: usize,
    /// Objects that are whole but were not needed: older copies, or not linked to the anchor.
    pub undecided: Vec<String>,
    /// Objects that could not be read, and why.
    pub damaged: Vec<(String, String)>,
    /// Runs and packs that belong to them.
    pub runs_and_packs: (usize, usize),
    /// Merged segments whose hashes no run holds: lookups by hash say so until they are derived
    /// again.
    pub without_hashes: Option<BlockRange>,
}

/// A segment that was found, with its tables.
struct Found {
    entry: SegmentEntry,
    tables: SegmentTables,
}

/// A pack or a run that was found.
struct FoundPart {
    object: ObjectRef,
    range: BlockRange,
    last_hash: Hash32,
    datasets: DatasetSet,
}

/// Makes a new state for a directory or bucket whose state is lost. The anchor is the newest block
/// that is known to be right. Refuses where a state exists.
///
/// # Errors
/// `Invalid` where there is a state, or nothing ends with the anchor; `Store`.
pub async fn rebuild_state(
    meta: Arc<dyn MetaStore>,
    blobs: Arc<dyn BlobStore>,
    settings: &Settings,
    anchor: BlockRef,
    audit: AuditEntry,
) -> Result<RebuildReport> {
    if meta
        .load()
        .await
        .map_err(Error::store("load the state"))?
        .is_some()
    {
        return Err(Error::Invalid(
            "there is a state: nothing to rebuild".to_owned(),
        ));
    }
    let mut damaged = Vec::new();
    let found = scan(&*blobs, &["seg/", "bat/"], &mut damaged, read_segment).await?;
    let runs = scan(&*blobs, &["run/"], &mut damaged, read_run).await?;
    let packs = scan(&*blobs, &["pack/"], &mut damaged, read_pack).await?;
    let chain = follow(&found, anchor);
    let (Some(first), Some(last)) = (chain.last(), chain.first()) else {
        let message = format!(
            "no segment ends with block {} {}",
            anchor.number, anchor.hash
        );
        return Err(Error::Invalid(message));
    };
    let covered = BlockRange::new(first.entry.facts.range.start, last.entry.facts.range.end);
    let head_timestamp = last.tables.facts.last_timestamp;
    let live = LiveRun {
        start: covered.start,
        head: anchor,
        head_timestamp,
    };
    let meters = Meters::new(settings.chain);
    let objects = Objects::new(blobs.clone(), settings.cache.clone(), meters);
    let catalog = catalog_of(&objects, &chain, &runs, &packs).await?;
    let used: HashSet<&str> = catalog_names(&catalog).collect();
    let segments = found.iter().map(|found| found.entry.object.name.as_str());
    let parts = runs
        .iter()
        .chain(&packs)
        .map(|part| part.object.name.as_str());
    let undecided = segments.chain(parts).filter(|name| !used.contains(name));
    let mut report = RebuildReport {
        covered,
        segments: chain.len(),
        runs_and_packs: (catalog.runs.len(), catalog.packs.len()),
        undecided: undecided.map(str::to_owned).collect(),
        damaged,
        without_hashes: None,
    };
    let halt = (!report.undecided.is_empty()).then(|| Halt {
        reason: format!(
            "the state was rebuilt and {} objects are undecided: look at the report, then resume",
            report.undecided.len()
        ),
        archived: None,
        offered: None,
        source: "rebuild".to_owned(),
        at: audit.at,
    });
    let state = publish(&*meta, &*blobs, settings, (&catalog, live, audit, halt)).await?;
    let snapshot = Snapshot::new(Version(0), state, Arc::new(catalog));
    report.without_hashes = snapshot.without_hashes();
    Ok(report)
}

/// Blocks that segments end with, the newest first: where a rebuild can begin. Which of them is right
/// is for others to say.
///
/// # Errors
/// `Store`.
pub async fn rebuild_anchors(blobs: &dyn BlobStore) -> Result<Vec<BlockRef>> {
    let found = scan(blobs, &["seg/", "bat/"], &mut Vec::new(), read_segment).await?;
    let end = |found: &Found| {
        let facts = &found.entry.facts;
        BlockRef {
            number: facts.range.end - 1,
            hash: facts.last_hash,
        }
    };
    let mut ends: Vec<BlockRef> = found.iter().map(end).collect();
    ends.sort_by_key(|end| (Reverse(end.number), end.hash));
    ends.dedup();
    Ok(ends)
}

async fn catalog_of(
    objects: &Objects,
    chain: &[&Found],
    runs: &[FoundPart],
    packs: &[FoundPart],
) -> Result<Catalog> {
    let segments = chain
        .iter()
        .map(|found| Arc::new(found.entry.clone()))
        .collect();
    let run = |part: &FoundPart| RunEntry {
        object: part.object.clone(),
        tier: 1,
        range: part.range,
        last_hash: part.last_hash,
        entries: 0,
    };
    let pack = |part: &FoundPart| PackEntry {
        object: part.object.clone(),
        range: part.range,
        last_hash: part.last_hash,
        datasets: part.datasets,
    };
    let runs = belonging(objects, runs, chain).await?;
    let packs = belonging(objects, packs, chain).await?;
    let mut catalog = Catalog {
        segments,
        runs: runs.into_iter().map(|part| Arc::new(run(part))).collect(),
        packs: packs.into_iter().map(|part| Arc::new(pack(part))).collect(),
        book: Book::default(),
    };
    catalog.sort();
    Ok(catalog)
}

/// Of the parts that end with a block of the chain, those that hold something of a block that no other
/// holds. They may overlap.
async fn belonging<'a>(
    objects: &Objects,
    parts: &'a [FoundPart],
    chain: &[&Found],
) -> Result<Vec<&'a FoundPart>> {
    let mut fitting: Vec<&FoundPart> = Vec::new();
    for part in parts {
        if ends_in(objects, part, chain).await? {
            fitting.push(part);
        }
    }
    fitting.sort_by_key(|part| {
        let datasets = part.datasets.bits().count_ones();
        let range = part.range;
        (range.start, Reverse(range.end), Reverse(datasets))
    });
    let mut taken: Vec<&FoundPart> = Vec::new();
    // How far those reach that hold the same datasets, and begin no later than the next.
    let mut reached: Vec<(DatasetSet, u64)> = Vec::new();
    for part in fitting {
        let (datasets, end) = (part.datasets, part.range.end);
        let holds = |held: &(DatasetSet, u64)| held.0.covers(datasets) && held.1 >= end;
        if reached.iter().any(holds) {
            continue;
        }
        // It reaches further than all before it.
        reached.retain(|held| held.0 != datasets);
        reached.push((datasets, end));
        taken.push(part);
    }
    Ok(taken)
}

/// Whether the chain holds the first block of a part, and its last one with the hash it names.
async fn ends_in(objects: &Objects, part: &FoundPart, chain: &[&Found]) -> Result<bool> {
    let holding = |number: u64| {
        let holds = |found: &&&Found| found.entry.facts.range.contains(number);
        chain.iter().find(holds)
    };
    let last = part.range.end - 1;
    let (Some(_), Some(found)) = (holding(part.range.start), holding(last)) else {
        return Ok(false);
    };
    let segment = objects.open(&found.entry.object).await?;
    match objects.clock(&segment, last).await {
        Ok(clock) => Ok(clock.is_some_and(|clock| clock.hash == part.last_hash)),
        // Nothing tells whether it belongs: it is listed as undecided.
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads what every object of these folders says of itself.
async fn scan<T>(
    blobs: &dyn BlobStore,
    folders: &[&str],
    damaged: &mut Vec<(String, String)>,
    read: impl Fn(ObjectRef, Bytes) -> Decoded<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for folder in folders {
        let mut after: Option<String> = None;
        loop {
            let page = blobs.list(folder, after.as_deref(), LIST_PAGE).await;
            let page = page.map_err(Error::store("list objects"))?;
            let full = page.len() == LIST_PAGE;
            after = page.last().map(|info| info.name.clone());
            for info in page {
                match read_tail(blobs, &info).await {
                    Ok((object, tail)) => match read(object, tail) {
                        Ok(part) => found.push(part),
                        Err(damage) => damaged.push((info.name, damage.0.to_owned())),
                    },
                    Err(Error::Corrupt { object, reason }) => damaged.push((object, reason)),
                    Err(error) => return Err(error),
                }
            }
            if !full {
                break;
            }
        }
    }
    Ok(found)
}

/// The end of an object, from where its tables begin.
async fn read_tail(blobs: &dyn BlobStore, info: &BlobInfo) -> Result<(ObjectRef, Bytes)> {
    let (name, len) = (info.name.clone(), info.len);
    let reading = |error| Error::reading(&info.name, error);
    let footer = blobs
        .range(&name, len.saturating_sub(FOOTER_BYTES)..len)
        .await
        .map_err(reading)?;
    let tables_start = tables_start(&footer)
        .map_err(|damage| Error::damaged(&info.name, damage))?
        .min(len);
    let tail = blobs
        .range(&name, tables_start..len)
        .await
        .map_err(reading)?;
    Ok((
        ObjectRef {
            name,
            len,
            tables_start,
        },
        tail,
    ))
}

fn read_segment(object: ObjectRef, tail: Bytes) -> Decoded<Found> {
    let tables = SegmentTables::decode(tail, object.tables_start)?;
    // A batch becomes a sealed segment: its content is the same. One without hashes of its own
    // was merged.
    let tier = if tables.hashes.is_some() { 1 } else { 2 };
    Ok(Found {
        entry: SegmentEntry {
            object,
            tier,
            facts: tables.facts.clone(),
            keys: None,
        },
        tables,
    })
}

fn read_run(object: ObjectRef, tail: Bytes) -> Decoded<FoundPart> {
    read_part(object, tail, ObjectKind::Run)
}

fn read_pack(object: ObjectRef, tail: Bytes) -> Decoded<FoundPart> {
    read_part(object, tail, ObjectKind::Pack)
}

fn read_part(object: ObjectRef, tail: Bytes, kind: ObjectKind) -> Decoded<FoundPart> {
    let container = Container::parse(tail, object.tables_start, kind)?;
    let (range, last_hash, datasets) = decode_summary(&container.table(Section::Summary)?)?;
    Ok(FoundPart {
        object,
        range,
        last_hash,
        datasets,
    })
}

/// What makes one copy better than another: all logs, more datasets, better proven, longer.
fn worth(found: &Found) -> (bool, u32, Option<(Verification, Verification)>, u64) {
    let facts = &found.entry.facts;
    let datasets = facts.datasets.bits().count_ones();
    let level = facts.level_within(&facts.range);
    (
        facts.scope == Scope::All,
        datasets,
        level.map(|proof| (proof.logs(), proof.txs())),
        facts.range.len(),
    )
}

/// How far down each segment leads, through those that end where it begins.
fn reaches(found: &[Found]) -> HashMap<&str, u64> {
    let mut by_end: Vec<&Found> = found.iter().collect();
    by_end.sort_by_key(|found| found.entry.facts.range.end);
    // The lowest block that a segment with this end leads to.
    let mut lowest: HashMap<(u64, Hash32), u64> = HashMap::new();
    let mut reaches = HashMap::new();
    for found in by_end {
        let facts = &found.entry.facts;
        let below = lowest.get(&(facts.range.start, facts.parent_hash));
        let reach = below.copied().unwrap_or(facts.range.start);
        let end = lowest
            .entry((facts.range.end, facts.last_hash))
            .or_insert(reach);
        *end = reach.min(*end);
        reaches.insert(found.entry.object.name.as_str(), reach);
    }
    reaches
}

/// The segments that lead from the anchor backwards. Of several that fit, one that leads furthest: what
/// is left out is collected once an operator has looked. Of those, the best.
fn follow(found: &[Found], anchor: BlockRef) -> Vec<&Found> {
    let reaches = reaches(found);
    let reach = |found: &Found| reaches.get(found.entry.object.name.as_str()).copied();
    let mut chain = Vec::new();
    let (mut end, mut hash) = (anchor.number + 1, anchor.hash);
    loop {
        let fits = found.iter().filter(|found| {
            let facts = &found.entry.facts;
            facts.range.end == end && facts.last_hash == hash
        });
        let Some(next) = fits.max_by_key(|found| (Reverse(reach(found)), worth(found))) else {
            break;
        };
        chain.push(next);
        (end, hash) = (next.entry.facts.range.start, next.entry.facts.parent_hash);
    }
    chain
}

/// What the newest segment's terms are hashed with, so that new segments merge with it. Where there is
/// none, the next writer makes a key.
fn newest_key(catalog: &Catalog) -> TermKey {
    let keyed = catalog.segments.iter();
    let keyed = keyed.filter(|entry| !entry.facts.term_key.is_none());
    let newest = keyed.max_by_key(|entry| entry.facts.range.end);
    newest.map_or(TermKey::NONE, |entry| entry.facts.term_key)
}

async fn publish(
    meta: &dyn MetaStore,
    blobs: &dyn BlobStore,
    settings: &Settings,
    (catalog, live, audit, halt): (&Catalog, LiveRun, AuditEntry, Option<Halt>),
) -> Result<State> {
    let mut random = StdRng::from_os_rng();
    let mut archive_id = [0; 16];
    random.fill_bytes(&mut archive_id);
    let nonce = random.next_u64();
    let (bytes, tables_start) = catalog.encode();
    let name = format!("cat/{:016x}-0-{nonce:016x}", 0);
    let (len, hash) = (bytes.len() as u64, Hash32(*blake3::hash(&bytes).as_bytes()));
    blobs
        .put(&name, bytes)
        .await
        .map_err(Error::store("store the catalog"))?;
    let state = State {
        archive_id,
        chain: settings.chain,
        epoch: 0,
        sequence: 0,
        nonce,
        instance: String::new(),
        halt,
        live: Some(live),
        datasets: settings.datasets,
        scope: settings.scope.clone(),
        catalog: Some(CatalogRef {
            name,
            len,
            tables_start,
            hash,
        }),
        batches: Vec::new(),
        batch_packs: Vec::new(),
        audit: vec![audit],
        term_key: newest_key(catalog),
    };
    let swapped = meta.swap(None, Bytes::from(state.encode())).await;
    swapped.map_err(Error::store("swap the state"))?;
    Ok(state)
}
