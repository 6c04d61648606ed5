//! Sealing: rows become a segment.

use bytes::Bytes;
use chronolith_model::{BlockRange, Dataset, DatasetSet, Hash32, Proof, Scope};
use rayon::prelude::*;

use super::rows::{RowBlock, Rows, end_of};
use crate::error::Result;
use crate::format::blocks::{self, BlockRecord};
use crate::format::compress::{self, Packer};
use crate::format::container::{BlockSums, ContainerBuilder, Finished, ObjectKind, Section};
use crate::format::facts::{SegmentFacts, content_root};
use crate::format::frame::{self, FRAME_ROWS};
use crate::format::postings::{ListBuilder, Pointer};
use crate::format::row::RowNumbers;
use crate::format::segment::{
    self, HASH_BLOCK_BYTES, OddIndexes, POSTING_BLOCK_BYTES, Stretch, digests_follow,
    encode_frame_place,
};
use crate::format::table::{TableBuilder, TableShape};
use crate::format::term::{TERM_BITS, TermKey};
use crate::format::wire::Put;
use crate::ranges::tx_counts::TxCounts;
use crate::state::catalog::PackContent;

/// Rows of one stretch fit this many bits, so that a term and a row sort as one number.
const ROW_BITS: u32 = 64 - TERM_BITS;
/// Bits of a hash that a table from hash to block keeps. In a run of two thousand million hashes,
/// one lookup in five hundred meets another hash with the same bits, and looks at its block in vain.
pub(crate) const HASH_KEY_BITS: u32 = 40;
/// Frames that one task compresses.
const FRAMES_PER_TASK: usize = 256;
/// A dictionary is learnt from this many frames, spread over the rows.
const SAMPLE_FRAMES: usize = 512;
/// Why what belongs to a cut is there.
const CUT: &str = "a cut lies among the rows, and ends are those of rows and transactions";

const NOT_EMPTY: &str = "a cut has at least one block";

/// A part of rows: the blocks at these places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What is kept, as the segment records it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) datasets: DatasetSet,
    pub(crate) scope: Scope,
}

impl Kept {
    /// What a segment keeps.
    pub(crate) fn of(facts: &SegmentFacts) -> Self {
        Self {
            datasets: facts.datasets,
            scope: facts.scope.clone(),
        }
    }

    /// Whether a segment keeps exactly this.
    pub(crate) fn is_of(&self, facts: &SegmentFacts) -> bool {
        self.datasets == facts.datasets && self.scope == facts.scope
    }

    /// What of it goes into packs.
    pub(crate) fn packed(&self) -> PackContent {
        PackContent::new(self.datasets, &self.scope)
    }
}

/// A finished object and what it is about.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) bytes: Bytes,
    pub(crate) finished: Finished,
    pub(crate) facts: SegmentFacts,
    pub(crate) keys: TxCounts,
}

/// Makes a segment of the blocks at `cut`.
///
/// # Errors
/// Where a frame could not be packed.
pub(crate) fn seal(rows: &Rows, cut: Cut, kept: &Kept, packer: &Packer) -> Result<Built> {
    let part = Part::new(rows, cut);
    let (frames, postings) = rayon::join(|| pack_frames(&part, packer), || index_terms(&part));
    let mut container = ContainerBuilder::new(ObjectKind::Segment);
    let frame_table = write_frames(frames?, &mut container);
    let facts = part.facts(kept);
    let mut sums = Vec::new();
    let txs = part.txs().iter().map(|tx| &tx.hash);
    write_hashes(Section::TxHashes, txs, &mut container, &mut sums);
    let stored = if digests_follow(&facts) {
        0
    } else {
        part.blocks.len()
    };
    let digests = part.blocks.iter().take(stored).map(|block| &block.digest);
    write_hashes(Section::Digests, digests, &mut container, &mut sums);
    container.begin(Section::Postings);
    container.buffer().put(&postings.records);
    let mut posting_sums = BlockSums::new(POSTING_BLOCK_BYTES);
    posting_sums.update(&postings.records);
    posting_sums.finish(&mut sums);
    container.begin(Section::Terms);
    container.buffer().put(&postings.pages);
    let block_hashes = part.blocks.iter().map(|block| &block.clock.hash);
    write_hashes(
        Section::BlockHashes,
        block_hashes,
        &mut container,
        &mut sums,
    );
    let hash_directory = write_hash_table(&part, &mut container);

    let mut summary = Vec::new();
    facts.encode(&mut summary);
    let dictionary = Some(&packer.dictionary()[..]).filter(|dictionary| !dictionary.is_empty());
    let stretch = Stretch {
        blocks: part.blocks.len() as u32,
        rows: part.rows.len() as u32,
        txs: (part.tx_end - part.tx_start) as u32,
        frames: part.rows.len().div_ceil(FRAME_ROWS) as u32,
        dictionary: u32::from(dictionary.is_some()),
    };
    container.table(Section::Summary, summary);
    container.table(Section::Stretches, segment::encode_stretches(&[stretch]));
    let mut blocks = Vec::new();
    blocks::encode_stretch(part.records(), &mut blocks);
    container.table(Section::Blocks, blocks);
    container.table(Section::FrameTable, frame_table);
    container.table(
        Section::Dictionaries,
        segment::encode_dictionaries(dictionary.into_iter()),
    );
    container.table(Section::TxIndexes, part.tx_indexes());
    container.table(Section::TermDirectory, postings.directory);
    container.table(Section::HashDirectory, hash_directory);
    container.table(Section::BlockChecksums, sums);
    let finished = container.finish();
    let mut keys = TxCounts::default();
    part.txs().iter().for_each(|tx| keys.count(&tx.hash));
    Ok(Built {
        bytes: container.drain(),
        finished,
        facts,
        keys,
    })
}

/// Learns a dictionary from the rows at `cut`.
pub(crate) fn train(rows: &Rows, cut: Cut) -> Bytes {
    let part = Part::new(rows, cut);
    let frames = part.rows.len().div_ceil(FRAME_ROWS);
    let step = frames.div_ceil(SAMPLE_FRAMES).max(1);
    let (mut samples, mut sizes) = (Vec::new(), Vec::new());
    for at in (0..frames).step_by(step) {
        let start = samples.len();
        part.frame(at, &mut samples);
        sizes.push(samples.len() - start);
    }
    compress::train(&samples, &sizes)
}

/// The rows of a cut, with everything before it left out.
struct Part<'a> {
    all: &'a Rows,
    blocks: &'a [RowBlock],
    rows: &'a [RowNumbers],
    row_start: usize,
    tx_start: usize,
    tx_end: usize,
    log_bytes: u64,
}

impl<'a> Part<'a> {
    fn new(all: &'a Rows, cut: Cut) -> Self {
        let (tx_start, row_start, bytes_start) = all.before(cut.start);
        let (tx_end, row_end, bytes_end) = all.before(cut.end);
        Self {
            all,
            blocks: all.blocks.get(cut.start..cut.end).expect(CUT),
            rows: all.numbers.get(row_start..row_end).expect(CUT),
            row_start,
            tx_start,
            tx_end,
            log_bytes: bytes_end - bytes_start,
        }
    }

    fn body_end(&self, row: usize) -> usize {
        end_of(&self.all.body_ends, self.row_start + row)
    }

    /// Appends a frame, unpacked, and returns the ordinal of its first transaction.
    fn frame(&self, at: usize, out: &mut Vec<u8>) -> u32 {
        let start = at * FRAME_ROWS;
        let end = (start + FRAME_ROWS).min(self.rows.len());
        let rows = self.rows.get(start..end).expect(CUT);
        let bodies = self
            .all
            .bodies
            .get(self.body_end(start)..self.body_end(end));
        let first = rows.first().expect("a frame has at least one row");
        let first = first.tx_ordinal;
        // Ordinals count from the beginning of the rows; the frame only stores steps.
        frame::encode(first, rows, bodies.expect(CUT), out);
        first - self.tx_start as u32
    }

    fn txs(&self) -> &'a [chronolith_model::Tx] {
        self.all.txs.get(self.tx_start..self.tx_end).expect(CUT)
    }

    fn records(&self) -> impl Iterator<Item = BlockRecord> {
        let (mut tx, mut row) = (self.tx_start, self.row_start);
        self.blocks.iter().map(move |block| {
            let record = BlockRecord {
                timestamp: block.clock.timestamp,
                logs: (block.row_end - row) as u32,
                txs: (block.tx_end - tx) as u32,
                txs_in_sequence: block.txs_in_sequence,
            };
            (tx, row) = (block.tx_end, block.row_end);
            record
        })
    }

    fn tx_indexes(&self) -> Vec<u8> {
        let mut start = self.tx_start;
        let mut odd = Vec::new();
        for (at, block) in self.blocks.iter().enumerate() {
            if !block.txs_in_sequence {
                let txs = self.all.txs.get(start..block.tx_end).expect(CUT);
                odd.push(OddIndexes::new(at as u32, txs.iter().map(|tx| tx.index)));
            }
            start = block.tx_end;
        }
        segment::encode_tx_indexes(odd.into_iter())
    }

    fn facts(&self, kept: &Kept) -> SegmentFacts {
        let first = self.blocks.first().expect(NOT_EMPTY).clock;
        let last = self.blocks.last().expect(NOT_EMPTY).clock;
        let times = self.blocks.iter().map(|block| block.clock.timestamp);
        let mut levels: Vec<(u64, Proof)> = Vec::new();
        for block in self.blocks {
            let end = block.clock.number + 1;
            match levels.last_mut() {
                Some(last) if last.1 == block.level => last.0 = end,
                _ => levels.push((end, block.level)),
            }
        }
        SegmentFacts {
            range: BlockRange::new(first.number, last.number + 1),
            parent_hash: first.parent_hash,
            last_hash: last.hash,
            first_timestamp: first.timestamp,
            last_timestamp: last.timestamp,
            latest_timestamp: times.max().expect(NOT_EMPTY),
            logs: self.rows.len() as u64,
            txs: (self.tx_end - self.tx_start) as u64,
            log_bytes: self.log_bytes,
            datasets: kept.datasets,
            scope: kept.scope.clone(),
            levels,
            root: content_root(self.blocks.iter().map(|block| &block.digest)),
            // Without logs there are no terms, and segments of all archives are alike.
            term_key: match kept.datasets.contains(Dataset::Logs) {
                true => self.all.term_key,
                false => TermKey::NONE,
            },
        }
    }
}

/// Packed frames of one task: bytes, and length and first transaction of each.
type PackedFrames = (Vec<u8>, Vec<(u32, u32)>);

fn pack_frames(part: &Part<'_>, packer: &Packer) -> Result<Vec<PackedFrames>> {
    let frames = part.rows.len().div_ceil(FRAME_ROWS);
    let tasks = frames.div_ceil(FRAMES_PER_TASK);
    let pack_task = |task: usize| {
        let mut context = packer.context();
        let (mut unpacked, mut bytes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for at in task * FRAMES_PER_TASK..((task + 1) * FRAMES_PER_TASK).min(frames) {
            unpacked.clear();
            let first_tx = part.frame(at, &mut unpacked);
            let len = context.pack(&unpacked, &mut bytes)?;
            places.push((len as u32, first_tx));
        }
        Ok((bytes, places))
    };
    (0..tasks).into_par_iter().map(pack_task).collect()
}

fn write_frames(packed: Vec<PackedFrames>, container: &mut ContainerBuilder) -> Vec<u8> {
    container.begin(Section::Frames);
    let mut table = Vec::new();
    let mut index = 0;
    for (bytes, places) in packed {
        let mut rest = bytes.as_slice();
        for (len, first_tx) in places {
            let split = rest.split_at_checked(len as usize);
            let (frame, behind) = split.expect("a task's frames lie end to end");
            encode_frame_place(frame, index, first_tx, &mut table);
            (rest, index) = (behind, index + 1);
        }
        container.buffer().put(&bytes);
    }
    table
}

/// Writes a section of hashes, end to end, and the checksums of its blocks.
fn write_hashes<'a>(
    section: Section,
    hashes: impl Iterator<Item = &'a Hash32>,
    container: &mut ContainerBuilder,
    sums: &mut Vec<u8>,
) {
    container.begin(section);
    let mut own = BlockSums::new(HASH_BLOCK_BYTES);
    for hash in hashes {
        container.buffer().put(&hash.0);
        own.update(&hash.0);
    }
    own.finish(sums);
}

/// The key under which a table from hash to block keeps a hash.
pub(crate) fn hash_key(hash: &Hash32) -> u64 {
    hash.prefix64() >> (64 - HASH_KEY_BITS)
}

fn write_hash_table(part: &Part<'_>, container: &mut ContainerBuilder) -> Vec<u8> {
    container.begin(Section::Hashes);
    let mut entries = Vec::with_capacity(part.txs().len() + part.blocks.len());
    let mut start = part.tx_start;
    for (offset, block) in part.blocks.iter().enumerate() {
        let txs = part.all.txs.get(start..block.tx_end).expect(CUT);
        entries.extend(txs.iter().map(|tx| (hash_key(&tx.hash), offset as u64)));
        entries.push((hash_key(&block.clock.hash), offset as u64));
        start = block.tx_end;
    }
    entries.sort_unstable();
    entries.dedup();
    let count = entries.len() as u64;
    let blocks = part.blocks.len() as u64;
    build_hash_table(blocks, count, entries.into_iter(), container.buffer())
}

/// Appends the pages of a table from hash to block and returns its directory. The payload is the
/// block's offset among `blocks`. Every block has its own hash among the entries, so a table with
/// many blocks has many pages, and remainder and payload always fit an entry together.
pub(crate) fn build_hash_table(
    blocks: u64,
    count: u64,
    entries: impl Iterator<Item = (u64, u64)>,
    out: &mut Vec<u8>,
) -> Vec<u8> {
    let payload_bits = blocks.max(2).next_power_of_two().ilog2();
    let shape = TableShape::for_entries(count.max(blocks), HASH_KEY_BITS, payload_bits);
    let mut table = TableBuilder::new(shape);
    entries.for_each(|(key, offset)| table.push(key, offset, out));
    table.finish(out)
}

struct IndexedTerms {
    records: Vec<u8>,
    pages: Vec<u8>,
    directory: Vec<u8>,
}

/// Sorts the terms of all rows and writes their lists in the order of the terms.
fn index_terms(part: &Part<'_>) -> IndexedTerms {
    let mut pairs = term_pairs(part);
    sort_by_term(&mut pairs);
    pairs.dedup();
    let mut records = Vec::new();
    let mut entries = Vec::new();
    let mut list = ListBuilder::default();
    let mut ids = Vec::new();
    for run in pairs.chunk_by(|a, b| a >> ROW_BITS == b >> ROW_BITS) {
        let first = run.first().expect("a chunk has at least one element");
        ids.clear();
        ids.extend(run.iter().map(|pair| (pair & ((1 << ROW_BITS) - 1)) as u32));
        list.clear();
        list.push_ids(&ids);
        let pointer = list.finish(records.len() as u64, &mut records);
        entries.push((first >> ROW_BITS, pointer));
    }
    let payload_bits = Pointer::bits(part.rows.len() as u64, records.len() as u64);
    let shape = TableShape::for_entries(entries.len() as u64, TERM_BITS, payload_bits);
    let mut table = TableBuilder::new(shape);
    let mut pages = Vec::new();
    for (term, pointer) in entries {
        table.push(term, pointer.encode(), &mut pages);
    }
    let directory = table.finish(&mut pages);
    IndexedTerms {
        records,
        pages,
        directory,
    }
}

/// Every term of every row, as one number that sorts by term, then by row.
fn term_pairs(part: &Part<'_>) -> Vec<u64> {
    let start = end_of(&part.all.term_ends, part.row_start);
    let end = end_of(&part.all.term_ends, part.row_start + part.rows.len());
    let mut pairs = Vec::with_capacity(end - start);
    let mut term_start = start;
    let ends = part
        .all
        .term_ends
        .iter()
        .skip(part.row_start)
        .take(part.rows.len());
    for (row, &term_end) in ends.enumerate() {
        let terms = part.all.terms.get(term_start..term_end).expect(CUT);
        pairs.extend(terms.iter().map(|term| term.0 << ROW_BITS | row as u64));
        term_start = term_end;
    }
    pairs
}

/// Sorts pairs by term, keeping rows in the order they came in, which is rising. Three passes over
/// twelve bits each: about three times as fast as comparing.
#[expect(
    clippy::indexing_slicing,
    reason = "digits are masked to their number, and each has as many slots as were counted"
)]
fn sort_by_term(pairs: &mut Vec<u64>) {
    const DIGIT_BITS: u32 = TERM_BITS / 3;
    const DIGITS: usize = 1 << DIGIT_BITS;
    let mut target = vec![0; pairs.len()];
    for pass in 0..3 {
        let shift = ROW_BITS + pass * DIGIT_BITS;
        let digit = |pair: u64| (pair >> shift) as usize & (DIGITS - 1);
        let mut starts = vec![0_usize; DIGITS];
        for &pair in pairs.iter() {
            starts[digit(pair)] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            (*start, sum) = (sum, sum + *start);
        }
        for &pair in pairs.iter() {
            let next = &mut starts[digit(pair)];
            target[*next] = pair;
            *next += 1;
        }
        std::mem::swap(pairs, &mut target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_sort_by_term_and_keep_their_rows(terms in proptest::collection::vec(any::<u64>(), 0..500)) {
            let mut pairs: Vec<u64> = terms
                .iter()
                .enumerate()
                .map(|(row, term)| (term % 50 * (u64::MAX / 51)) >> ROW_BITS << ROW_BITS | row as u64)
                .collect();
            let mut expected = pairs.clone();
            expected.sort_unstable();
            sort_by_term(&mut pairs);
            prop_assert_eq!(pairs, expected);
        }
    }
}
