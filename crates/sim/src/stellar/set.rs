//! Transaction sets: all envelopes of a ledger, in an order that is not that of applying.

use std::ops::Range;

use super::ledger::{Era, count};
use super::maker::Maker;
use super::transaction::{Family, Parts};
use super::{sha256, xdr};

/// The XDR of a transaction set.
pub(super) struct Set {
    pub(super) bytes: Vec<u8>,
    pub(super) hash: [u8; 32],
    /// Where the envelope of each transaction lies, in the order in which they were given.
    pub(super) envelopes: Vec<Range<usize>>,
}

/// Puts these transactions into a set: a list in V0, phases of components in V1, and in V2 Soroban's phase in
/// stages of clusters.
pub(super) fn set(maker: &mut Maker, era: Era, previous: &[u8; 32], txs: &[Parts]) -> Set {
    let mut writer = Writer {
        bytes: Vec::new(),
        envelopes: vec![0..0; txs.len()],
        txs,
    };
    if era == Era::V0 {
        writer.bytes.extend_from_slice(previous);
        writer.envelopes(&sorted(txs, |_| true));
        // The count of the transactions is no part of what is hashed.
        let envelopes = writer.bytes.get(previous.len() + 4..).unwrap_or_default();
        let hash = sha256(&[previous, envelopes]);
        return writer.finish(hash);
    }
    writer.number(1);
    writer.bytes.extend_from_slice(previous);
    writer.number(2);
    let of = |family| sorted(txs, |tx: &Parts| tx.family == family);
    writer.components(maker, &of(Family::Classic));
    match era {
        Era::V2 => writer.stages(maker, &of(Family::Soroban)),
        Era::V0 | Era::V1 => writer.components(maker, &of(Family::Soroban)),
    }
    let hash = sha256(&[&writer.bytes]);
    writer.finish(hash)
}

/// Places of those that are wanted, by the hash of their whole envelopes.
fn sorted(txs: &[Parts], wanted: impl Fn(&Parts) -> bool) -> Vec<usize> {
    let places = txs.iter().enumerate().filter(|(_, tx)| wanted(tx));
    let mut places: Vec<_> = places
        .map(|(place, tx)| (sha256(&[&tx.envelope]), place))
        .collect();
    places.sort_unstable();
    places.into_iter().map(|(_, place)| place).collect()
}

struct Writer<'a> {
    bytes: Vec<u8>,
    envelopes: Vec<Range<usize>>,
    txs: &'a [Parts],
}

impl Writer<'_> {
    fn number(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn count(&mut self, len: usize) {
        self.bytes.extend_from_slice(&count(len));
    }

    /// A list of envelopes.
    fn envelopes(&mut self, places: &[usize]) {
        self.count(places.len());
        for &place in places {
            let start = self.bytes.len();
            if let Some(tx) = self.txs.get(place) {
                self.bytes.extend_from_slice(&tx.envelope);
            }
            if let Some(range) = self.envelopes.get_mut(place) {
                *range = start..self.bytes.len();
            }
        }
    }

    fn base_fee(&mut self, maker: &mut Maker) {
        let fee: Option<i64> = maker.rng.percent(60).then(|| maker.make());
        self.bytes.extend_from_slice(&xdr(&fee));
    }

    /// A phase of components: those of one fee stand together.
    fn components(&mut self, maker: &mut Maker, places: &[usize]) {
        self.number(0);
        let pieces = pieces(maker, places);
        self.count(pieces.len());
        for piece in pieces {
            self.number(0);
            self.base_fee(maker);
            self.envelopes(piece);
        }
    }

    /// A phase of stages, one after another, of clusters that may be run beside each other.
    fn stages(&mut self, maker: &mut Maker, places: &[usize]) {
        self.number(1);
        self.base_fee(maker);
        let stages = pieces(maker, places);
        self.count(stages.len());
        for stage in stages {
            let clusters = pieces(maker, stage);
            self.count(clusters.len());
            for cluster in clusters {
                self.envelopes(cluster);
            }
        }
    }

    fn finish(self, hash: [u8; 32]) -> Set {
        Set {
            bytes: self.bytes,
            hash,
            envelopes: self.envelopes,
        }
    }
}

/// Cuts places into one to three pieces, none of them empty.
fn pieces<'a>(maker: &mut Maker, places: &'a [usize]) -> Vec<&'a [usize]> {
    let count = maker.between(1, 3);
    places.chunks(places.len().div_ceil(count).max(1)).collect()
}
