//! An oracle contract of the ADFS kind behind a proxy: updates of feeds in calldata, an event for each
//! of them, upgrades from one version to the other, and the rows that a projection must end with.
//!
//! A transaction does not belong to a fork: after a reorg the same one may stand in another block, as on
//! real chains. Which version an update is of depends on the upgrade before it, which depends on the fork.

pub mod encode;

use alloy_primitives::{Address, hex};
use chronolith_model::{BlockMeta, Hash32, Log, LogParts};

use super::chain::domain;
use super::proxy::UPGRADED_TOPIC;
use crate::chain::word;
use crate::rng::{self, Rng};
use encode::{Row, Value, accumulated, calldata, numbered};

/// First topic of `DataFeedsUpdated(uint256)`, the event of version 1.
pub const UPDATED_TOPIC: [u8; 32] =
    hex!("e64378c8d8a289137204264780c7669f3860a703795c6f0574d925d473a4a2a7");
/// First topic of `DataFeedsUpdated(uint256,address)`, the event of version 2.
pub const UPDATED_2_TOPIC: [u8; 32] =
    hex!("18c59a580901679ceb4ee20344521bd114ce1554efea9c4a9d3cabfb0431c0cc");

/// An update is in one of this many blocks, and which one depends on the fork.
const GROUP_BLOCKS: u64 = 3;
/// Different feeds, and how many of them an update has at most.
const FEEDS: u64 = 40;
const FEEDS_MAX: u64 = 3;
/// Places of a ring.
const RING: u64 = 8_192;

/// The contract of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdfsSpec {
    /// Blocks from upgrade to upgrade; the first is in block 1. Not 0.
    pub upgrade_every: u64,
}

impl AdfsSpec {
    /// The proxy's address.
    pub const PROXY: [u8; 20] = [0xad; 20];
    /// Implementations, of version 1 and of version 2.
    pub const IMPLEMENTATIONS: [[u8; 20]; 2] = [[0xa1; 20], [0xa2; 20]];
}

/// Where a row comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AdfsPlace {
    pub block_number: u64,
    /// Position of the log in the block.
    pub log_index: u32,
    pub block_hash: Hash32,
    pub tx_hash: Hash32,
}

/// An event of the contract, and the rows it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdfsEvent {
    /// Where it is.
    pub place: AdfsPlace,
    /// The version in force, or the one that an upgrade brings.
    pub version: u32,
    pub what: AdfsWhat,
}

/// What an event stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdfsWhat {
    Upgraded([u8; 20]),
    Updated {
        /// What the transaction was sent with.
        calldata: Vec<u8>,
        /// The values, each feed once.
        feeds: Vec<Value>,
        /// The rows of the table, each once.
        rows: Vec<Row>,
    },
}

/// A transaction to the contract; it has one log.
#[derive(Clone, Debug)]
pub(super) struct AdfsTx {
    /// Keeps it apart from others; the same on every fork that has it.
    pub(super) id: Hash32,
    /// Keccak of its bytes, once the chain has made them.
    pub(super) hash: Hash32,
    version: u32,
    number: u64,
    what: AdfsWhat,
}

impl AdfsTx {
    pub(super) fn to(&self) -> Address {
        Address::new(AdfsSpec::PROXY)
    }

    pub(super) fn input(&self) -> Vec<u8> {
        match &self.what {
            AdfsWhat::Upgraded(to) => [&[0, 0, 0, 1], &to[..]].concat(),
            AdfsWhat::Updated { calldata, .. } => calldata.clone(),
        }
    }

    /// Its log as it stands in its block.
    pub(super) fn log(&self, tx_index: u32, log_index: u32) -> Log {
        let (topics, data) = match (&self.what, self.version) {
            (AdfsWhat::Upgraded(to), _) => (vec![UPGRADED_TOPIC, word(*to)], Vec::new()),
            (AdfsWhat::Updated { .. }, version) => {
                let topic = if version == 1 {
                    UPDATED_TOPIC
                } else {
                    UPDATED_2_TOPIC
                };
                (vec![topic], word(self.number.to_be_bytes()).to_vec())
            }
        };
        let topics: Vec<&[u8]> = topics.iter().map(<[u8; 32]>::as_slice).collect();
        let parts = LogParts {
            tx_index,
            log_index,
            emitter: &AdfsSpec::PROXY,
            topics: &topics,
            data: &data,
            ..LogParts::default()
        };
        Log::new(&parts).expect("two topics and one word keep the limits")
    }

    pub(super) fn event(&self, block: &BlockMeta, log_index: u32) -> AdfsEvent {
        AdfsEvent {
            place: AdfsPlace {
                block_number: block.number,
                log_index,
                block_hash: block.hash,
                tx_hash: self.hash,
            },
            version: self.version,
            what: self.what.clone(),
        }
    }
}

/// The contract on a fork: `place` stands for a block there.
pub(super) struct Adfs<'a> {
    pub(super) seed: u64,
    pub(super) spec: AdfsSpec,
    pub(super) place: &'a dyn Fn(u64) -> u64,
}

impl Adfs<'_> {
    /// The transactions of a block, in order.
    pub(super) fn txs(&self, number: u64) -> Vec<AdfsTx> {
        let mut txs = Vec::new();
        if number == 0 {
            return txs;
        }
        let upgrade = self.is_upgrade(number).then(|| self.upgrade(number));
        // Some updates come before the upgrade of their block, and so are of the version before it.
        let first = number == 1 || (self.place)(number).is_multiple_of(2);
        let before = match &upgrade {
            Some(upgrade) if first => upgrade.version,
            _ => self.version_before(number),
        };
        txs.extend(self.update(number, before));
        match upgrade {
            Some(upgrade) if first => txs.insert(0, upgrade),
            Some(upgrade) => txs.push(upgrade),
            None => {}
        }
        txs
    }

    fn is_upgrade(&self, number: u64) -> bool {
        number == 1 || number.is_multiple_of(self.spec.upgrade_every.max(1))
    }

    /// The version that is in force when a block begins, which is not the first.
    fn version_before(&self, number: u64) -> u32 {
        let every = self.spec.upgrade_every.max(1);
        let last = number.saturating_sub(1) / every * every;
        self.implementation(last.max(1)).0
    }

    /// What an upgrade brings.
    fn implementation(&self, number: u64) -> (u32, [u8; 20]) {
        let [first, second] = AdfsSpec::IMPLEMENTATIONS;
        match rng::key(&[domain::ADFS, 1, (self.place)(number)]).is_multiple_of(2) {
            true => (1, first),
            false => (2, second),
        }
    }

    fn upgrade(&self, number: u64) -> AdfsTx {
        let (version, to) = self.implementation(number);
        AdfsTx {
            id: rng::hash(&[domain::ADFS, 2, self.seed, number, version.into()]),
            hash: Hash32::ZERO,
            version,
            number,
            what: AdfsWhat::Upgraded(to),
        }
    }

    /// The update that may stand here on one fork and in a block nearby on another.
    fn update(&self, number: u64, version: u32) -> Option<AdfsTx> {
        let group = number / GROUP_BLOCKS;
        let first = group * GROUP_BLOCKS;
        let here = rng::key(&[domain::ADFS, 3, (self.place)(first)]) % GROUP_BLOCKS;
        if first + here != number {
            return None;
        }
        let mut rng = Rng::of(&[domain::ADFS, 4, self.seed, group]);
        let index = (group % RING) as u16;
        let begin = rng.below(FEEDS);
        let feeds: Vec<Value> = (0..=rng.below(FEEDS_MAX))
            .map(|at| Value::new(u128::from(begin + at), index, &rng.bytes::<32>()))
            .collect();
        let rows = rows_of(&feeds);
        let header = match version {
            1 => numbered(group),
            _ => accumulated(group as u8, (group as u8).wrapping_add(1)),
        };
        Some(AdfsTx {
            id: rng::hash(&[domain::ADFS, 5, self.seed, group, version.into()]),
            hash: Hash32::ZERO,
            version,
            number: group,
            what: AdfsWhat::Updated {
                calldata: calldata(header, &feeds, &rows),
                feeds,
                rows,
            },
        })
    }
}

/// The rows of the table that feeds of stride 0 stand in; they agree with them.
fn rows_of(feeds: &[Value]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for feed in feeds {
        let (table_index, lane) = (feed.feed_id / 16, (feed.feed_id % 16) as usize);
        if rows.last().is_none_or(|row| row.table_index != table_index) {
            rows.push(Row {
                table_index,
                lanes: [0; 16],
            });
        }
        if let Some(lane) = rows.last_mut().and_then(|row| row.lanes.get_mut(lane)) {
            *lane = feed.rb_index;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn the_topics_are_the_hashes_of_the_signatures() {
        for (topic, signature) in [
            (UPDATED_TOPIC, "DataFeedsUpdated(uint256)"),
            (UPDATED_2_TOPIC, "DataFeedsUpdated(uint256,address)"),
        ] {
            assert_eq!(topic, keccak256(signature).0, "{signature}");
        }
    }

    /// On every fork each group of blocks has its update once, of the version that the upgrade before it
    /// brought; between forks some of them move.
    #[test]
    fn an_update_is_on_every_fork_once_and_of_the_version_in_force() {
        let spec = AdfsSpec { upgrade_every: 50 };
        let mut where_it_is: Vec<Vec<(u64, Hash32)>> = Vec::new();
        for fork in 1..4_u64 {
            let place = move |number: u64| rng::key(&[fork, number]);
            let adfs = Adfs {
                seed: 7,
                spec,
                place: &place,
            };
            let (mut version, mut versions, mut found) = (0, [0; 2], Vec::new());
            for number in 0..600 {
                for tx in adfs.txs(number) {
                    match &tx.what {
                        AdfsWhat::Upgraded(_) => version = tx.version,
                        AdfsWhat::Updated { .. } => {
                            assert_eq!(tx.version, version, "block {number}");
                            versions[version as usize - 1] += 1;
                            found.push((number, tx.id));
                        }
                    }
                }
            }
            assert!(found.len() >= 199 && versions.iter().all(|count| *count > 20));
            let numbers: Vec<u64> = found.iter().map(|(number, _)| number / 3).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "twice");
            where_it_is.push(found);
        }
        let moved = |(number, hash): &&(u64, Hash32)| {
            let other = where_it_is[1].iter().find(|(_, other)| other == hash);
            other.is_some_and(|(other, _)| other != number)
        };
        assert!(where_it_is[0].iter().filter(moved).count() > 20);
    }
}
