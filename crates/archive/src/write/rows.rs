//! Rows: blocks on their way into a segment, in the form that sealing needs.
//!
//! Each log is packed once, when its block arrives. Sealing then only cuts, compresses and sorts.

use chronolith_model::{Block, BlockMeta, Hash32, Proof, Tx};

use crate::format::digest::digest;
use crate::format::row::{self, RowNumbers};
use crate::format::term::{Field, Term, TermKey};

/// A block among the rows. Ends count from the beginning of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowBlock {
    pub(crate) clock: BlockMeta,
    pub(crate) level: Proof,
    pub(crate) digest: Hash32,
    pub(crate) txs_in_sequence: bool,
    pub(crate) tx_end: usize,
    pub(crate) row_end: usize,
    /// Unpacked bytes of all logs so far.
    pub(crate) log_bytes_end: u64,
}

/// Consecutive blocks, packed.
#[derive(Debug)]
pub(crate) struct Rows {
    /// What terms are hashed with.
    pub(crate) term_key: TermKey,
    pub(crate) blocks: Vec<RowBlock>,
    pub(crate) txs: Vec<Tx>,
    pub(crate) numbers: Vec<RowNumbers>,
    /// Packed bodies, one after the other, and where each ends.
    pub(crate) bodies: Vec<u8>,
    pub(crate) body_ends: Vec<usize>,
    /// Terms of each row, one after the other, and where each row's end.
    pub(crate) terms: Vec<Term>,
    pub(crate) term_ends: Vec<usize>,
}

impl Rows {
    pub(crate) fn new(term_key: TermKey) -> Self {
        Self {
            term_key,
            blocks: Vec::new(),
            txs: Vec::new(),
            numbers: Vec::new(),
            bodies: Vec::new(),
            body_ends: Vec::new(),
            terms: Vec::new(),
            term_ends: Vec::new(),
        }
    }

    /// Adds the block after those that are here. It must already be checked and hold nothing but
    /// what is kept.
    pub(crate) fn push(&mut self, block: &Block, level: Proof) {
        let first_body = self.bodies.len();
        self.push_known(block, level, Hash32::ZERO);
        let bodies = self.bodies.get(first_body..);
        let bodies = bodies.expect("bodies only grew since their length was taken");
        let digest = digest(block, bodies);
        let last = self.blocks.last_mut();
        last.expect("a block was added just now").digest = digest;
    }

    /// Adds a block whose digest is known.
    pub(crate) fn push_known(&mut self, block: &Block, level: Proof, digest: Hash32) {
        let first_tx = self.txs.len();
        let first_row = self.numbers.len();
        self.txs.extend_from_slice(&block.txs);
        let mut log_bytes = self.blocks.last().map_or(0, |block| block.log_bytes_end);
        let mut place = 0;
        for log in &block.logs {
            while block
                .txs
                .get(place)
                .is_some_and(|tx| tx.index < log.tx_index())
            {
                place += 1;
            }
            let tx_ordinal = (first_tx + place) as u32;
            self.numbers.push(RowNumbers {
                tx_ordinal,
                log_index: log.log_index(),
            });
            row::encode(log, &mut self.bodies);
            self.body_ends.push(self.bodies.len());
            let term = |field: Field, value: &[u8]| Term::new(self.term_key, field, value);
            self.terms.push(term(Field::Emitter, log.emitter()));
            let topics = log.topics().enumerate();
            let topics = topics.map(|(at, topic)| term(Field::Topic(at), topic));
            self.terms.extend(topics);
            let count = Term::topic_count(self.term_key, log.topic_count());
            self.terms.push(count);
            self.term_ends.push(self.terms.len());
            log_bytes += log.byte_len() as u64;
        }
        let in_sequence = block
            .txs
            .iter()
            .enumerate()
            .all(|(at, tx)| tx.index as usize == at);
        self.blocks.push(RowBlock {
            clock: block.clock,
            level,
            digest,
            txs_in_sequence: in_sequence,
            tx_end: self.txs.len(),
            row_end: first_row + block.logs.len(),
            log_bytes_end: log_bytes,
        });
    }

    /// How many transactions, rows and log bytes lie before the block at this place.
    pub(crate) fn before(&self, place: usize) -> (usize, usize, u64) {
        let before = place
            .checked_sub(1)
            .and_then(|before| self.blocks.get(before));
        before.map_or((0, 0, 0), |block| {
            (block.tx_end, block.row_end, block.log_bytes_end)
        })
    }

    /// Forgets the first blocks.
    pub(crate) fn drop_front(&mut self, count: usize) {
        let (txs, rows, log_bytes) = self.before(count);
        let (bodies, terms) = (end_of(&self.body_ends, rows), end_of(&self.term_ends, rows));
        self.blocks.drain(..count);
        self.txs.drain(..txs);
        self.numbers.drain(..rows);
        self.body_ends.drain(..rows);
        self.term_ends.drain(..rows);
        self.bodies.drain(..bodies);
        self.terms.drain(..terms);
        for block in &mut self.blocks {
            block.tx_end -= txs;
            block.row_end -= rows;
            block.log_bytes_end -= log_bytes;
        }
        self.numbers
            .iter_mut()
            .for_each(|row| row.tx_ordinal -= txs as u32);
        self.body_ends.iter_mut().for_each(|end| *end -= bodies);
        self.term_ends.iter_mut().for_each(|end| *end -= terms);
    }

    /// Frees memory that a larger segment needed.
    pub(crate) fn shrink(&mut self) {
        shrink(&mut self.blocks);
        shrink(&mut self.txs);
        shrink(&mut self.numbers);
        shrink(&mut self.bodies);
        shrink(&mut self.body_ends);
        shrink(&mut self.terms);
        shrink(&mut self.term_ends);
    }
}

/// Where what belongs to the first rows ends, by the end of each row.
pub(crate) fn end_of(ends: &[usize], rows: usize) -> usize {
    match rows.checked_sub(1) {
        None => 0,
        Some(last) => *ends.get(last).expect("each row has its end"),
    }
}

/// Gives back memory of which less than half is used.
fn shrink<T>(values: &mut Vec<T>) {
    if values.capacity() / 2 > values.len() {
        values.shrink_to_fit();
    }
}
