//! A contract behind an upgradeable proxy: it emits an event of each upgrade as ERC-1967 has it, and the
//! events that follow are those of the new version.
//!
//! When upgrades come depends on the number of the block alone, which implementation comes depends
//! on the fork: a reorg may take one upgrade away and put another in its place.

use alloy_primitives::{hex, keccak256};
use chronolith_model::{Log, LogParts};

use super::chain::domain;
use crate::chain::word;
use crate::rng::Rng;

/// The first topic of ERC-1967's `Upgraded(address)`.
pub const UPGRADED_TOPIC: [u8; 32] =
    hex!("bc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b");
/// The proxy emits something in so many of a hundred blocks.
const EVENT_PERCENT: u32 = 25;

/// The proxy of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy {
    pub(super) seed: u64,
    /// Blocks from upgrade to upgrade; never 0.
    pub(super) every: u64,
}

/// A log of the proxy in a block.
pub(super) struct ProxyLog {
    topics: Vec<[u8; 32]>,
    data: Vec<u8>,
}

impl Proxy {
    /// What the proxy emits in a block; `place` stands for the block on its fork.
    pub(super) fn logs(&self, number: u64, place: u64) -> Vec<ProxyLog> {
        let mut rng = Rng::of(&[domain::PROXY, self.seed, place]);
        let mut logs = Vec::new();
        if number > 1 && rng.percent(EVENT_PERCENT) {
            logs.push(ProxyLog {
                topics: vec![event_topic(self.version_before(number))],
                data: rng.vec(32),
            });
        }
        if self.is_upgrade(number) {
            logs.push(ProxyLog {
                topics: vec![UPGRADED_TOPIC, word(rng.bytes::<20>())],
                data: Vec::new(),
            });
        }
        logs
    }

    /// Block 1 deploys the first version.
    fn is_upgrade(&self, number: u64) -> bool {
        number == 1 || (number > 1 && number.is_multiple_of(self.every))
    }

    /// The version that is in place when a block begins.
    fn version_before(&self, number: u64) -> u64 {
        let upgrades = (number - 1) / self.every;
        // Upgrading in every block makes the deployment one of the upgrades.
        upgrades + u64::from(self.every > 1)
    }

    pub(super) fn address(&self) -> [u8; 20] {
        Rng::of(&[domain::PROXY, self.seed]).bytes()
    }

    /// A log as it stands in its block.
    pub(super) fn log(&self, made: &ProxyLog, tx_index: u32, log_index: u32) -> Log {
        let topics: Vec<&[u8]> = made.topics.iter().map(<[u8; 32]>::as_slice).collect();
        let parts = LogParts {
            tx_index,
            log_index,
            emitter: &self.address(),
            topics: &topics,
            data: &made.data,
            ..LogParts::default()
        };
        Log::new(&parts).expect("two topics and one word keep the limits")
    }
}

/// The event of a version: each has one of its own.
fn event_topic(version: u64) -> [u8; 32] {
    keccak256(format!("ValueSetV{version}(uint256)")).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_is_the_hash_of_the_signature() {
        assert_eq!(UPGRADED_TOPIC, keccak256("Upgraded(address)").0);
    }

    #[test]
    fn each_version_has_events_of_its_own_until_the_next_upgrade() {
        let proxy = Proxy { seed: 1, every: 50 };
        let (mut upgrades, mut events) = (0, [0; 4]);
        for number in 1..=200_u64 {
            for log in proxy.logs(number, number * 7) {
                let topic0 = log.topics.first().copied().unwrap();
                if topic0 == UPGRADED_TOPIC {
                    assert!(number == 1 || number % 50 == 0, "{number}");
                    upgrades += 1;
                } else {
                    let version = 1 + (number - 1) / 50;
                    assert_eq!(topic0, event_topic(version), "{number}");
                    events[version as usize - 1] += 1;
                }
            }
        }
        assert_eq!(upgrades, 5);
        assert!(events.iter().all(|count| *count > 3), "{events:?}");
    }

    #[test]
    fn another_fork_has_another_implementation() {
        let proxy = Proxy { seed: 1, every: 10 };
        let implementation = |place| {
            let logs = proxy.logs(20, place);
            logs.last().and_then(|log| log.topics.get(1).copied())
        };
        assert_eq!(implementation(1), implementation(1));
        assert_ne!(implementation(1), implementation(2));
    }
}
