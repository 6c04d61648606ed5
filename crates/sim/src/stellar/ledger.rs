//! One ledger: transactions, their set, the header that names both, and all of it as one piece of XDR.

use bytes::Bytes;
use chronolith_model::Hash32;
use stellar_xdr::{
    Hash, LedgerCloseMetaExt, LedgerEntry, LedgerEntryChanges, LedgerHeader, LedgerHeaderExt,
    LedgerHeaderExtensionV1, LedgerHeaderExtensionV1Ext, LedgerKey, LedgerUpgrade, ScpHistoryEntry,
    StellarValue, StellarValueExt, TimePoint, UpgradeEntryMeta, UpgradeType, VecM,
};

use super::chain::{Link, StellarSettings};
use super::filler::{self, Filler};
use super::made::{Made, MadeTx};
use super::maker::{Maker, bounded};
use super::set::{self, Set};
use super::transaction::{self, Family, MetaVersion, Parts, Setting};
use super::{sha256, xdr};

/// What the parts of a ledger are drawn from.
const TRANSACTIONS: u64 = 0x5354_0010;
const SURROUNDINGS: u64 = 0x5354_0011;
const FILLINGS: u64 = 0x5354_0012;
/// Of a hundred transactions, so many are Soroban's where there are any.
const SOROBAN_PERCENT: u32 = 45;
/// Seconds from one ledger to the next.
const STEPS: [u64; 6] = [0, 5, 5, 5, 5, 6];

/// Which version of `LedgerCloseMeta` a ledger is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Era {
    V0,
    V1,
    V2,
}

impl Era {
    pub(super) fn of(settings: &StellarSettings, sequence: u32) -> Self {
        if sequence >= settings.v2_from {
            Self::V2
        } else if sequence >= settings.v1_from {
            Self::V1
        } else {
            Self::V0
        }
    }

    pub(super) fn protocol(self) -> u32 {
        match self {
            Self::V0 => 19,
            Self::V1 => 22,
            Self::V2 => 23,
        }
    }

    /// A transaction without the part that ledgers of this version do not have.
    fn trim(self, mut tx: Parts) -> Parts {
        if self != Self::V2 {
            tx.post_fee_processing.clear();
        }
        tx
    }

    /// Old ledgers that were replayed have the newest meta too.
    fn metas(self) -> &'static [MetaVersion] {
        match self {
            Self::V0 => &[
                MetaVersion::V0,
                MetaVersion::V1,
                MetaVersion::V2,
                MetaVersion::V2,
                MetaVersion::V4,
            ],
            Self::V1 => &[MetaVersion::V3, MetaVersion::V3, MetaVersion::V4],
            Self::V2 => &[MetaVersion::V4],
        }
    }
}

/// Makes the ledger with this number on top of another.
pub(super) fn ledger(
    settings: &StellarSettings,
    network_id: [u8; 32],
    sequence: u32,
    previous: &Link,
) -> Made {
    let era = Era::of(settings, sequence);
    let maker = &mut Maker::of(settings.seed, [SURROUNDINGS, sequence.into(), 0]);
    let setting = Setting {
        network_id,
        meta: maker.one_of(era.metas()),
        protocol: era.protocol(),
    };
    let txs = transactions(maker, settings, (sequence, era), setting);
    let set = set::set(maker, era, &previous.hash, &txs);
    let upgrades = upgrades(maker, settings, sequence);
    let results = result_set(&txs);
    let mut header = header(maker, era, (&set, sha256(&[&results])), &upgrades);
    header.ledger_seq = sequence;
    header.previous_ledger_hash = Hash(previous.hash);
    let close_time = previous.close_time + maker.one_of(&STEPS);
    header.scp_value.close_time = TimePoint(close_time);
    let header = xdr(&header);
    let hash = sha256(&[&header]);
    let upgrades: Vec<UpgradeEntryMeta> = upgrades
        .into_iter()
        .map(|upgrade| UpgradeEntryMeta {
            upgrade,
            changes: maker.make::<LedgerEntryChanges>(),
        })
        .collect();
    let tail = tail(maker, era, upgrades);
    let ext = xdr(&maker.make::<LedgerCloseMetaExt>());
    let assembly = Assembly {
        era,
        ext,
        hash,
        header,
        set,
        txs,
        tail,
    };
    let (raw, header, txs) = assembly.join();
    Made {
        sequence,
        hash: Hash32(hash),
        previous_hash: Hash32(previous.hash),
        close_time,
        header,
        raw,
        txs,
    }
}

/// The transactions in the order of applying.
fn transactions(
    maker: &mut Maker,
    settings: &StellarSettings,
    (sequence, era): (u32, Era),
    setting: Setting,
) -> Vec<Parts> {
    let count = match settings.transactions {
        0 => 0,
        _ if maker.rng.percent(5) => 0,
        mean => maker.between(1, 2 * u64::from(mean) - 1),
    };
    let mut txs: Vec<(bool, u64, Parts)> = (0..count as u64)
        .map(|index| {
            let maker = &mut Maker::of(settings.seed, [TRANSACTIONS, sequence.into(), index]);
            let soroban = era != Era::V0 && maker.rng.percent(SOROBAN_PERCENT);
            let family = if soroban {
                Family::Soroban
            } else {
                Family::Classic
            };
            let place = maker.rng.next();
            let parts = transaction::transaction(maker, family, setting);
            (soroban, place, era.trim(parts))
        })
        .collect();
    let mut weight: usize = txs.iter().map(|(_, _, tx)| filler::weight(tx)).sum();
    if weight < settings.target_bytes {
        let maker = &mut Maker::of(settings.seed, [FILLINGS, sequence.into(), 0]);
        let family = match era {
            Era::V0 => Family::Classic,
            Era::V1 | Era::V2 => Family::Soroban,
        };
        let filler = Filler::new(maker, family, setting);
        while weight < settings.target_bytes {
            let tx = era.trim(filler.transfer(maker));
            weight += filler::weight(&tx);
            txs.push((tx.family == Family::Soroban, maker.rng.next(), tx));
        }
    }
    txs.sort_by_key(|(soroban, place, _)| (*soroban, *place));
    txs.into_iter().map(|(_, _, parts)| parts).collect()
}

/// XDR of the `TransactionResultSet`.
fn result_set(txs: &[Parts]) -> Vec<u8> {
    let mut bytes = count(txs.len()).to_vec();
    for tx in txs {
        bytes.extend_from_slice(&tx.hash);
        bytes.extend_from_slice(&tx.result);
    }
    bytes
}

/// What the validators changed: now and then something, and the protocol where an era begins.
fn upgrades(maker: &mut Maker, settings: &StellarSettings, sequence: u32) -> Vec<LedgerUpgrade> {
    let mut upgrades = Vec::new();
    let era = Era::of(settings, sequence);
    if sequence > settings.first_ledger && Era::of(settings, sequence - 1) != era {
        upgrades.push(LedgerUpgrade::Version(era.protocol()));
    }
    if maker.rng.percent(5) {
        upgrades.push(maker.make());
    }
    upgrades
}

/// A header that names this set and these results. Its place in the chain is left to the caller.
fn header(
    maker: &mut Maker,
    era: Era,
    (set, result_hash): (&Set, [u8; 32]),
    upgrades: &[LedgerUpgrade],
) -> LedgerHeader {
    let upgrades = upgrades.iter().map(|upgrade| {
        let bytes = xdr(upgrade).try_into();
        UpgradeType(bytes.expect("an upgrade is shorter than it may be"))
    });
    let upgrades = bounded(upgrades.collect());
    let ext = match maker.rng.below(3) {
        0 => StellarValueExt::Basic,
        _ => StellarValueExt::Signed(maker.make()),
    };
    LedgerHeader {
        ledger_version: era.protocol(),
        previous_ledger_hash: Hash::default(),
        scp_value: StellarValue {
            tx_set_hash: Hash(set.hash),
            close_time: TimePoint(0),
            upgrades,
            ext,
        },
        tx_set_result_hash: Hash(result_hash),
        bucket_list_hash: maker.make(),
        ledger_seq: 0,
        total_coins: 1_054_439_020_873_472_865,
        fee_pool: maker.make(),
        inflation_seq: maker.make(),
        id_pool: maker.make(),
        base_fee: 100,
        base_reserve: 5_000_000,
        max_tx_set_size: 1_000,
        skip_list: std::array::from_fn(|_| maker.make()),
        ext: match maker.rng.below(4) {
            0 => LedgerHeaderExt::V1(LedgerHeaderExtensionV1 {
                flags: maker.make(),
                ext: LedgerHeaderExtensionV1Ext::V0,
            }),
            _ => LedgerHeaderExt::V0,
        },
    }
}

/// What comes after the transactions.
fn tail(maker: &mut Maker, era: Era, upgrades: Vec<UpgradeEntryMeta>) -> Vec<u8> {
    let mut bytes = xdr(&bounded::<_, { u32::MAX }>(upgrades));
    let messages = usize::from(maker.rng.percent(10));
    bytes.extend(xdr(&maker.list::<ScpHistoryEntry, { u32::MAX }>(messages)));
    if era == Era::V0 {
        return bytes;
    }
    bytes.extend_from_slice(&maker.make::<u64>().to_be_bytes());
    let evicted = maker.one_of(&[0, 0, 0, 1, 3]);
    bytes.extend(xdr(&maker.list::<LedgerKey, { u32::MAX }>(evicted)));
    if era == Era::V1 {
        // Real ledgers leave this list empty; the type does not.
        let unused = usize::from(maker.rng.percent(4));
        let unused: VecM<LedgerEntry> = maker.list(unused);
        bytes.extend(xdr(&unused));
    }
    bytes
}

/// The parts of a ledger, each as XDR.
struct Assembly {
    era: Era,
    ext: Vec<u8>,
    hash: [u8; 32],
    header: Vec<u8>,
    set: Set,
    txs: Vec<Parts>,
    tail: Vec<u8>,
}

impl Assembly {
    /// The whole ledger, and where its header and the parts of its transactions lie in it.
    fn join(self) -> (Bytes, Bytes, Vec<MadeTx>) {
        let mut raw = Vec::new();
        raw.extend_from_slice(&(self.era as u32).to_be_bytes());
        if self.era != Era::V0 {
            raw.extend(self.ext);
        }
        raw.extend_from_slice(&self.hash);
        let header = append(&mut raw, &self.header);
        // The extension of the history entry around the header.
        raw.extend_from_slice(&[0; 4]);
        let set = append(&mut raw, &self.set.bytes).start;
        raw.extend_from_slice(&count(self.txs.len()));
        let mut places = Vec::with_capacity(self.txs.len());
        for tx in &self.txs {
            if self.era == Era::V2 {
                raw.extend_from_slice(&[0; 4]);
            }
            raw.extend_from_slice(&tx.hash);
            let post = &tx.post_fee_processing;
            let parts = [&tx.result, &tx.fee_processing, &tx.meta, post];
            places.push(parts.map(|part| append(&mut raw, part)));
        }
        raw.extend(self.tail);
        let raw = Bytes::from(raw);
        let txs = self.txs.iter().zip(places).zip(self.set.envelopes);
        let txs = txs.map(|((tx, [result, fee, meta, post]), envelope)| MadeTx {
            hash: Hash32(tx.hash),
            inner_hash: tx.inner_hash.map(Hash32),
            success: tx.success,
            envelope: raw.slice(set + envelope.start..set + envelope.end),
            result: raw.slice(result),
            fee_processing: raw.slice(fee),
            meta: raw.slice(meta),
            post_fee_processing: raw.slice(post),
        });
        let txs = txs.collect();
        (raw.clone(), raw.slice(header), txs)
    }
}

/// Appends a part, and says where it lies.
fn append(raw: &mut Vec<u8>, part: &[u8]) -> std::ops::Range<usize> {
    let start = raw.len();
    raw.extend_from_slice(part);
    start..raw.len()
}

/// The length of a list.
pub(super) fn count(len: usize) -> [u8; 4] {
    let len = u32::try_from(len).expect("a ledger has fewer transactions");
    len.to_be_bytes()
}
