//! A ledger taken apart, so that one transaction can be read without the others, and put together again.
//!
//! The bytes of a transaction lie in two places of a ledger: its envelope in the set, what was recorded of
//! it after the set. Its body holds both, one after the other; the skeleton holds everything else, and
//! where the bodies go.
//!
//! ```text
//! body:      form u8 | envelope | processing            form: 0 as in V0 and V1, 1 as in V2
//! skeleton:  form u8 | transactions varint
//!            | runs of envelopes varint, per run: bytes before it varint, envelopes varint
//!            | bytes between the last run and the processing varint
//!            | bytes before the header varint, bytes of the header varint
//!            | the transaction of each envelope of the set, in as many bits as their number takes
//!            | the bytes that are left
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::fault::Fault;
use crate::ledger::Version;
use crate::prove::Proven;
use crate::reader::{Reader, Span, put_varint, take_varint};
use crate::schema::WIRE;

/// How bodies are laid out.
pub(crate) const FORM_V1: u8 = 0;
pub(crate) const FORM_V2: u8 = 1;

const NO_SKELETON: Fault = Fault::Parts("not the skeleton of a ledger");

/// Skeleton and bodies of a ledger. All bodies share one buffer.
pub(crate) fn split(proven: &Proven) -> (Bytes, Vec<Bytes>) {
    let ledger = &proven.ledger;
    let raw = &ledger.raw;
    let form = match ledger.version {
        Version::V0 | Version::V1 => FORM_V1,
        Version::V2 => FORM_V2,
    };
    let mut buffer = BytesMut::with_capacity(raw.len());
    let mut ends = Vec::with_capacity(ledger.txs.len());
    for (tx, &envelope) in ledger.txs.iter().zip(&proven.envelope_of) {
        let envelope = ledger.envelopes.get(envelope as usize);
        let envelope = envelope.expect("each transaction was paired with an envelope");
        buffer.put_u8(form);
        buffer.put_slice(envelope.of(raw));
        buffer.put_slice(tx.processing.of(raw));
        ends.push(buffer.len());
    }
    let buffer = buffer.freeze();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let bodies = starts
        .zip(&ends)
        .map(|(start, &end)| buffer.slice(start..end));
    (skeleton(proven, form).into(), bodies.collect())
}

fn skeleton(proven: &Proven, form: u8) -> Vec<u8> {
    let ledger = &proven.ledger;
    let raw = &ledger.raw;
    let mut out = vec![form];
    put_varint(ledger.txs.len() as u64, &mut out);
    let runs: Vec<&[Span]> = ledger.envelopes.chunk_by(|a, b| a.end == b.start).collect();
    put_varint(runs.len() as u64, &mut out);
    let between = |start: u32, end: u32| Span { start, end };
    let mut rest = Vec::new();
    let mut at = 0;
    for run in runs {
        let (first, last) = run.first().zip(run.last()).expect("no run is empty");
        put_varint(u64::from(first.start - at), &mut out);
        put_varint(run.len() as u64, &mut out);
        rest.extend_from_slice(between(at, first.start).of(raw));
        at = last.end;
    }
    let end = raw.len() as u32;
    let txs = ledger.txs.first().zip(ledger.txs.last());
    let processing = txs.map_or(end..end, |(first, last)| {
        first.processing.start..last.processing.end
    });
    put_varint(u64::from(processing.start - at), &mut out);
    rest.extend_from_slice(between(at, processing.start).of(raw));
    rest.extend_from_slice(between(processing.end, end).of(raw));
    // The header lies before the set, so nothing was taken out before it.
    let header = ledger.header.entry;
    put_varint(header.start.into(), &mut out);
    put_varint((header.end - header.start).into(), &mut out);
    put_order(&proven.envelope_of, &mut out);
    out.extend_from_slice(&rest);
    out
}

/// Bits that a position among this many takes.
fn order_bits(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// The transaction of each envelope.
fn put_order(envelope_of: &[u32], out: &mut Vec<u8>) {
    let mut tx_of = vec![0_u32; envelope_of.len()];
    for (&envelope, tx) in envelope_of.iter().zip(0..) {
        let slot = tx_of.get_mut(envelope as usize);
        *slot.expect("there are as many envelopes as transactions") = tx;
    }
    let bits = order_bits(envelope_of.len());
    let (mut held, mut filled) = (0_u64, 0);
    for tx in tx_of {
        held |= u64::from(tx) << filled;
        filled += bits;
        while filled >= 8 {
            out.push(held as u8);
            held >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        out.push(held as u8);
    }
}

fn take_order(rest: &mut &[u8], count: usize) -> Option<Vec<u32>> {
    let bits = order_bits(count);
    let len = (count as u64).checked_mul(bits.into())?.div_ceil(8);
    let (packed, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    let mut packed = packed.iter();
    let (mut held, mut filled) = (0_u64, 0);
    let mut order = Vec::with_capacity(count);
    for _ in 0..count {
        while filled < bits {
            held |= u64::from(*packed.next()?) << filled;
            filled += 8;
        }
        order.push((held & ((1 << bits) - 1)) as u32);
        held >>= bits;
        filled -= bits;
    }
    Some(order)
}

/// Whether each transaction is named once: a ledger is no longer than its parts.
fn is_order(order: &[u32]) -> bool {
    let mut seen = vec![false; order.len()];
    order.iter().all(|&tx| {
        let slot = seen.get_mut(tx as usize);
        slot.is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

/// A skeleton, read as far as its list of runs.
struct Skeleton<'a> {
    form: u8,
    /// Bytes before each run of envelopes, and how many there are.
    runs: Vec<(usize, usize)>,
    before_processing: usize,
    header: (usize, usize),
    order: Vec<u32>,
    rest: &'a [u8],
}

impl<'a> Skeleton<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        Self::read(bytes).ok_or(NO_SKELETON)
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&form, mut rest) = bytes.split_first()?;
        let number = |rest: &mut &[u8]| usize::try_from(take_varint(rest)?).ok();
        let count = number(&mut rest)?;
        // Each takes at least two bytes here.
        let runs = number(&mut rest).filter(|&runs| runs <= rest.len())?;
        let runs = (0..runs).map(|_| Some((number(&mut rest)?, number(&mut rest)?)));
        let runs = runs.collect::<Option<Vec<_>>>()?;
        let before_processing = number(&mut rest)?;
        let header = (number(&mut rest)?, number(&mut rest)?);
        let mut envelopes = runs.iter().map(|run| run.1);
        let in_runs = envelopes.try_fold(0_usize, usize::checked_add)?;
        // One envelope takes no bits here, so the count is bounded by what follows only with two.
        let bounded = in_runs == count && (count <= 1 || count / 8 <= rest.len());
        let order = take_order(&mut rest, bounded.then_some(count)?)?;
        let known = form == FORM_V1 || form == FORM_V2;
        known.then_some(Self {
            form,
            runs,
            before_processing,
            header,
            order,
            rest,
        })
    }
}

/// The bytes of a ledger from its skeleton and the bodies of its transactions.
///
/// # Errors
/// `Parts` or `Malformed` where they are not of one ledger.
pub fn join(skeleton: &[u8], bodies: &[Bytes]) -> Result<Bytes, Fault> {
    let skeleton = Skeleton::parse(skeleton)?;
    let count = skeleton.order.len();
    if bodies.len() != count || !is_order(&skeleton.order) {
        return Err(Fault::Parts("bodies and transactions differ"));
    }
    let parts = bodies.iter().map(|body| split_body(body, skeleton.form));
    let parts = parts.collect::<Result<Vec<(&[u8], &[u8])>, Fault>>()?;
    let len = bodies.iter().map(Bytes::len).sum::<usize>() + skeleton.rest.len();
    let mut out = BytesMut::with_capacity(len);
    let mut rest = skeleton.rest;
    let mut copy = |len: usize, out: &mut BytesMut| {
        let (bytes, after) = rest.split_at_checked(len).ok_or(NO_SKELETON)?;
        rest = after;
        out.put_slice(bytes);
        Ok(())
    };
    let mut order = skeleton.order.iter();
    for &(before, envelopes) in &skeleton.runs {
        copy(before, &mut out)?;
        for tx in order.by_ref().take(envelopes) {
            let (envelope, _) = parts.get(*tx as usize).ok_or(NO_SKELETON)?;
            out.put_slice(envelope);
        }
    }
    copy(skeleton.before_processing, &mut out)?;
    for (_, processing) in parts {
        out.put_slice(processing);
    }
    out.put_slice(rest);
    Ok(out.freeze())
}

/// Envelope and processing of a body.
fn split_body(body: &[u8], form: u8) -> Result<(&[u8], &[u8]), Fault> {
    let (schema, types) = &*WIRE;
    let rest = body.split_first().filter(|&(&own, _)| own == form);
    let (_, rest) = rest.ok_or(Fault::Parts("a body of another ledger"))?;
    let mut reader = Reader::new(rest)?;
    schema.skip(types.envelope, &mut reader)?;
    Ok(rest.split_at(reader.at() as usize))
}

/// The header in a skeleton: XDR of a LedgerHeaderHistoryEntry.
///
/// # Errors
/// `Parts` where it is not a skeleton.
pub fn skeleton_header(skeleton: &Bytes) -> Result<Bytes, Fault> {
    let read = Skeleton::parse(skeleton)?;
    let (start, len) = read.header;
    let end = start.checked_add(len).filter(|&end| end <= read.rest.len());
    let end = end.ok_or(NO_SKELETON)?;
    let base = skeleton.len() - read.rest.len();
    Ok(skeleton.slice(base + start..base + end))
}

/// How many transactions the ledger of a skeleton has.
///
/// # Errors
/// `Parts` where it is not a skeleton.
pub fn skeleton_count(skeleton: &[u8]) -> Result<usize, Fault> {
    Skeleton::parse(skeleton).map(|read| read.order.len())
}
