//! A fee collector: a contract that emits an event for every fee it takes, and the rows that a projection
//! of that event must end with.
//!
//! Beside `FeesCollected` it emits the other events of its kind, and a contract with nearly the same
//! address emits `FeesCollected` as well: a client that filters by half of the filter gets wrong rows. The
//! rows come from what was drawn, never from decoding a log, so that a decoder can be held to them.

use alloy_primitives::{U256, hex};
use chronolith_model::{BlockMeta, Hash32, Log, LogParts};
use serde_json::json;

use super::chain::domain;
use crate::chain::word;
use crate::rng::Rng;

/// First topic of `FeesCollected(address,address,uint256,uint256)`.
pub const FEES_COLLECTED_TOPIC: [u8; 32] =
    hex!("28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea");
/// First topic of `FeesWithdrawn(address,address,uint256)`.
pub const FEES_WITHDRAWN_TOPIC: [u8; 32] =
    hex!("5e110f8bc8a20b65dcc87f224bdf1cc039346e267118bae2739847f07321ffa8");
/// First topic of `LiFiFeesWithdrawn(address,address,uint256)`.
pub const LIFI_FEES_WITHDRAWN_TOPIC: [u8; 32] =
    hex!("e0ac2a6b74759312758ae3b784411c8e2f3b8bd81fecff40b906d69030af4bfc");

const PER_THOUSAND: u64 = 1_000;
/// So many of a hundred fees are followed by a withdrawal, and so many by a log of the impostor.
const WITHDRAWAL_PERCENT: u32 = 8;
const IMPOSTOR_PERCENT: u32 = 8;
/// So many of a hundred logs stand in the transaction of the log before.
const SAME_TX_PERCENT: u32 = 25;
/// Different tokens; the first is the native one, which has address zero.
const TOKENS: u64 = 12;
const INTEGRATORS: u64 = 100;
/// Fees of nothing, of more than 128 bits, and of all bits: in so many of a thousand amounts each.
const ODD_PER_THOUSAND: u64 = 15;

/// The fee collector of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeesSpec {
    /// Its address.
    pub contract: [u8; 20],
    /// How many `FeesCollected` a thousand blocks have, on average. They fall as they like: some
    /// blocks have several.
    pub per_thousand_blocks: u32,
}

impl FeesSpec {
    /// The address that the contract has on Polygon.
    pub const CONTRACT: [u8; 20] = hex!("bd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9");

    /// So many fees in a thousand blocks, from [`Self::CONTRACT`].
    #[must_use]
    pub const fn per_thousand_blocks(fees: u32) -> Self {
        Self {
            contract: Self::CONTRACT,
            per_thousand_blocks: fees,
        }
    }
}

/// The row that one `FeesCollected` of the contract stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FeeRow {
    pub chain_id: u64,
    pub block_number: u64,
    /// Position in the block.
    pub log_index: u32,
    pub block_hash: Hash32,
    /// Time of the block in seconds.
    pub block_timestamp: u64,
    pub tx_hash: Hash32,
    /// In what the fee was paid; zero is the native token.
    pub token: [u8; 20],
    /// Whose integration took it.
    pub integrator: [u8; 20],
    pub integrator_fee: U256,
    pub lifi_fee: U256,
}

impl FeeRow {
    /// One line of JSON. Names are those of columns, fees are decimal.
    #[must_use]
    pub fn to_json(&self) -> String {
        let row = json!({
            "chain_id": self.chain_id,
            "block_number": self.block_number,
            "block_hash": hex::encode_prefixed(self.block_hash.0),
            "block_timestamp": self.block_timestamp,
            "tx_hash": hex::encode_prefixed(self.tx_hash.0),
            "log_index": self.log_index,
            "token": hex::encode_prefixed(self.token),
            "integrator": hex::encode_prefixed(self.integrator),
            "integrator_fee": self.integrator_fee.to_string(),
            "lifi_fee": self.lifi_fee.to_string(),
        });
        row.to_string()
    }
}

/// A fee as it was drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fee {
    token: [u8; 20],
    integrator: [u8; 20],
    integrator_fee: U256,
    lifi_fee: U256,
}

impl Fee {
    /// The row of this fee, in a log of a block.
    pub(super) fn row(&self, chain_id: u64, block: &BlockMeta, at: Place) -> FeeRow {
        FeeRow {
            chain_id,
            block_number: block.number,
            log_index: at.log_index,
            block_hash: block.hash,
            block_timestamp: block.timestamp,
            tx_hash: at.tx_hash,
            token: self.token,
            integrator: self.integrator,
            integrator_fee: self.integrator_fee,
            lifi_fee: self.lifi_fee,
        }
    }
}

/// Where in its block a log stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) tx_hash: Hash32,
    pub(super) log_index: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Collected,
    /// The same event, from another contract.
    Impostor,
    Withdrawn,
    LifiWithdrawn,
}

/// A log of the collector, or of its impostor, in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeeLog {
    /// Which of the collector's transactions in the block, from 0.
    pub(super) tx: u32,
    event: Event,
    fee: Fee,
}

impl FeeLog {
    /// The fee, where the contract itself collected one.
    pub(super) fn collected(&self) -> Option<&Fee> {
        (self.event == Event::Collected).then_some(&self.fee)
    }

    /// The log as it stands in its block.
    pub(super) fn log(&self, contract: [u8; 20], tx_index: u32, log_index: u32) -> Log {
        let fee = &self.fee;
        let (emitter, topic) = match self.event {
            Event::Collected => (contract, FEES_COLLECTED_TOPIC),
            Event::Impostor => (impostor_of(contract), FEES_COLLECTED_TOPIC),
            Event::Withdrawn => (contract, FEES_WITHDRAWN_TOPIC),
            Event::LifiWithdrawn => (contract, LIFI_FEES_WITHDRAWN_TOPIC),
        };
        let mut data = fee.integrator_fee.to_be_bytes::<32>().to_vec();
        if topic == FEES_COLLECTED_TOPIC {
            data.extend_from_slice(&fee.lifi_fee.to_be_bytes::<32>());
        }
        let parts = LogParts {
            tx_index,
            log_index,
            emitter: &emitter,
            topics: &[&topic, &word(fee.token), &word(fee.integrator)],
            data: &data,
            ..LogParts::default()
        };
        Log::new(&parts).expect("three topics and two words keep the limits")
    }
}

/// An address that differs in its last byte alone.
fn impostor_of(mut contract: [u8; 20]) -> [u8; 20] {
    if let Some(last) = contract.last_mut() {
        *last ^= 1;
    }
    contract
}

/// What the collector emits in a block; `place` stands for the block on its fork.
pub(super) fn logs(spec: &FeesSpec, seed: u64, place: u64) -> Vec<FeeLog> {
    let mut draw = Draw {
        rng: Rng::of(&[domain::FEES, seed, place]),
        seed,
        logs: Vec::new(),
    };
    let rate = u64::from(spec.per_thousand_blocks);
    // Twice as many chances as fees: often as many as the mean, sometimes several, sometimes none.
    let chances = 2 * rate.div_ceil(PER_THOUSAND);
    for _ in 0..chances {
        if draw.rng.below(chances * PER_THOUSAND) < rate {
            draw.fee();
        }
    }
    draw.logs
}

struct Draw {
    rng: Rng,
    seed: u64,
    logs: Vec<FeeLog>,
}

impl Draw {
    /// A fee, and what now and then follows one.
    fn fee(&mut self) {
        let fee = self.amounts();
        self.push(Event::Collected, fee);
        if self.rng.percent(IMPOSTOR_PERCENT) {
            let fee = self.amounts();
            self.push(Event::Impostor, fee);
        }
        if self.rng.percent(WITHDRAWAL_PERCENT) {
            let fee = self.amounts();
            let event = match self.rng.percent(50) {
                true => Event::LifiWithdrawn,
                false => Event::Withdrawn,
            };
            self.push(event, fee);
        }
    }

    fn push(&mut self, event: Event, fee: Fee) {
        let same = self.rng.percent(SAME_TX_PERCENT);
        let before = self.logs.last().map(|log| log.tx);
        let tx = before.map_or(0, |tx| tx + u32::from(!same));
        self.logs.push(FeeLog { tx, event, fee });
    }

    fn amounts(&mut self) -> Fee {
        let token = self.rng.below(TOKENS);
        // Few integrators have most of the fees.
        let bound = 1 + self.rng.below(INTEGRATORS);
        let rank = self.rng.below(bound);
        let address = |kind, rank| Rng::of(&[domain::FEES, self.seed, kind, rank]).bytes();
        Fee {
            token: match token {
                0 => [0; 20],
                token => address(1, token),
            },
            integrator: address(2, rank),
            integrator_fee: amount(&mut self.rng),
            lifi_fee: amount(&mut self.rng),
        }
    }
}

fn amount(rng: &mut Rng) -> U256 {
    match rng.below(PER_THOUSAND) / ODD_PER_THOUSAND {
        0 => U256::ZERO,
        1 => U256::MAX,
        2 => U256::from_be_bytes(rng.bytes::<32>()),
        // Up to about a thousand of a token with eighteen decimals.
        _ => U256::from(rng.below(1_000_000)) * U256::from(1 + rng.below(1_000_000_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn the_topics_are_the_hashes_of_the_signatures() {
        for (topic, signature) in [
            (
                FEES_COLLECTED_TOPIC,
                "FeesCollected(address,address,uint256,uint256)",
            ),
            (
                FEES_WITHDRAWN_TOPIC,
                "FeesWithdrawn(address,address,uint256)",
            ),
            (
                LIFI_FEES_WITHDRAWN_TOPIC,
                "LiFiFeesWithdrawn(address,address,uint256)",
            ),
        ] {
            assert_eq!(topic, keccak256(signature).0, "{signature}");
        }
    }

    /// Sparse, dense, and far more than one a block: the mean is what was requested.
    #[test]
    fn a_thousand_blocks_have_about_as_many_as_was_requested() {
        for rate in [0_u32, 120, 904, 1_000, 100_000] {
            let spec = FeesSpec::per_thousand_blocks(rate);
            let blocks = 20_000_000 / u64::from(rate.max(1_000));
            let counts: Vec<u64> = (0..blocks)
                .map(|place| {
                    let logs = logs(&spec, 7, place);
                    logs.iter().filter(|log| log.collected().is_some()).count() as u64
                })
                .collect();
            let mean = counts.iter().sum::<u64>() as f64 * 1_000.0 / blocks as f64;
            assert!((mean - f64::from(rate)).abs() <= f64::from(rate) * 0.05);
            let most = counts.iter().max().copied().unwrap_or(0);
            let mean_of_block = f64::from(rate) / 1_000.0;
            assert!(rate == 0 || most as f64 > mean_of_block, "{rate}: {most}");
        }
    }

    #[test]
    fn the_impostor_is_not_the_contract() {
        let impostor = impostor_of(FeesSpec::CONTRACT);
        assert_ne!(impostor, FeesSpec::CONTRACT);
        assert_eq!(impostor[..19], FeesSpec::CONTRACT[..19]);
    }

    #[test]
    fn amounts_have_every_odd_case() {
        let mut rng = Rng::of(&[1]);
        let amounts: Vec<U256> = (0..2_000).map(|_| amount(&mut rng)).collect();
        for odd in [U256::ZERO, U256::MAX] {
            assert!(amounts.contains(&odd));
        }
        let wide = |amount: &&U256| amount.bit_len() > 128 && **amount != U256::MAX;
        assert!(amounts.iter().any(|amount| wide(&amount)));
    }

    #[test]
    fn a_row_is_one_line_with_decimal_fees() {
        let fee = Fee {
            token: [0; 20],
            integrator: [0xab; 20],
            integrator_fee: U256::MAX,
            lifi_fee: U256::ZERO,
        };
        let block = BlockMeta {
            number: 5,
            hash: Hash32([1; 32]),
            parent_hash: Hash32::ZERO,
            timestamp: 60,
        };
        let at = Place {
            tx_hash: Hash32([2; 32]),
            log_index: 3,
        };
        let line = fee.row(137, &block, at).to_json();
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let all_bits =
            "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(
            read,
            json!({
                "chain_id": 137, "block_number": 5, "log_index": 3, "block_timestamp": 60,
                "block_hash": format!("0x{}", "01".repeat(32)), "tx_hash": format!("0x{}", "02".repeat(32)),
                "token": format!("0x{}", "00".repeat(20)), "integrator": format!("0x{}", "ab".repeat(20)),
                "integrator_fee": all_bits, "lifi_fee": "0",
            })
        );
        assert!(!line.contains('\n'));
    }
}
