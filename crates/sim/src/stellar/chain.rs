//! A chain of ledgers out of a seed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use chronolith_model::Hash32;
use parking_lot::Mutex;

use super::made::Made;
use super::{ledger, sha256};

/// Ledgers that are kept as they were made. All others are made again when they are requested.
const KEPT_MAX: usize = 32;
/// When the ledger before the first one closed, unless that is set.
const GENESIS_TIME: u64 = 1_443_640_000;
/// What the ledger before the first one is the hash of.
const GENESIS: &[u8] = b"the ledger before all others";

/// What a chain is made from. Equal settings give equal bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StellarSettings {
    /// Everything that is drawn is drawn from it.
    pub seed: u64,
    /// The network's passphrase, which goes into the hash of every transaction.
    pub passphrase: String,
    /// The first ledger; 2 as on real networks. It names the hash of a made-up ledger before it.
    pub first_ledger: u32,
    /// When the ledger before the first one closed, in seconds since 1970.
    pub genesis_time: u64,
    /// From this ledger on they are `LedgerCloseMetaV1`; those before are V0.
    pub v1_from: u32,
    /// From this ledger on they are `LedgerCloseMetaV2`.
    pub v2_from: u32,
    /// Transactions of a ledger on average. One ledger in twenty has none.
    pub transactions: u32,
    /// A ledger that is smaller is filled up with plain transfers of a contract until it has about so
    /// many bytes; 0 leaves it as it is.
    pub target_bytes: usize,
}

impl StellarSettings {
    /// A network of small ledgers of all versions: V0 at first, V1 from 12, V2 from 22.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            passphrase: "Simulated Chronolith Network ; November 2026".to_owned(),
            first_ledger: 2,
            genesis_time: GENESIS_TIME,
            v1_from: 12,
            v2_from: 22,
            transactions: 5,
            target_bytes: 0,
        }
    }

    /// A busy network: ledgers of the newest version, of about 1.3 MB each.
    #[must_use]
    pub fn large(seed: u64) -> Self {
        Self {
            v1_from: 2,
            v2_from: 2,
            target_bytes: 1_300_000,
            ..Self::new(seed)
        }
    }
}

/// What a ledger needs to know of the one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) hash: [u8; 32],
    pub(super) close_time: u64,
}

/// A chain of ledgers. Clones share what was made.
#[derive(Clone)]
pub struct StellarChain {
    settings: Arc<StellarSettings>,
    network_id: [u8; 32],
    state: Arc<Mutex<State>>,
}

/// What was made so far.
struct State {
    /// The genesis, then each ledger from the first on.
    links: Vec<Link>,
    kept: VecDeque<Arc<Made>>,
}

impl StellarChain {
    /// The chain of these settings. Nothing is made yet.
    #[must_use]
    pub fn new(settings: StellarSettings) -> Self {
        let genesis = Link {
            hash: sha256(&[GENESIS]),
            close_time: settings.genesis_time,
        };
        let network_id = sha256(&[settings.passphrase.as_bytes()]);
        Self {
            settings: Arc::new(settings),
            network_id,
            state: Arc::new(Mutex::new(State {
                links: vec![genesis],
                kept: VecDeque::new(),
            })),
        }
    }

    /// What it is made from.
    #[must_use]
    pub fn settings(&self) -> &StellarSettings {
        &self.settings
    }

    /// The hash of the network's passphrase.
    #[must_use]
    pub fn network_id(&self) -> [u8; 32] {
        self.network_id
    }

    /// The hash that the first ledger names as the one before it.
    #[must_use]
    pub fn genesis_hash(&self) -> Hash32 {
        Hash32(sha256(&[GENESIS]))
    }

    /// The newest protocol that any ledger has.
    #[must_use]
    pub fn protocol() -> u32 {
        ledger::Era::V2.protocol()
    }

    /// The ledger with this number. All ledgers below it are made too, once: a link is the hash of
    /// everything in them.
    ///
    /// # Panics
    /// When the chain begins later.
    #[must_use]
    pub fn ledger(&self, sequence: u32) -> Arc<Made> {
        let first = self.settings.first_ledger;
        assert!(
            sequence >= first,
            "the chain begins at ledger {first}, and has no {sequence}"
        );
        let place = (sequence - first) as usize;
        let mut state = self.state.lock();
        if let Some(kept) = state.kept.iter().find(|made| made.sequence == sequence) {
            return Arc::clone(kept);
        }
        if let (Some(&previous), Some(_)) = (state.links.get(place), state.links.get(place + 1)) {
            drop(state);
            let made = Arc::new(self.make(sequence, &previous));
            let mut state = self.state.lock();
            state.keep(&made);
            return made;
        }
        loop {
            let link = *state.links.last().expect("the genesis is always there");
            let next = first + (state.links.len() - 1) as u32;
            let made = Arc::new(self.make(next, &link));
            state.links.push(Link {
                hash: made.hash.0,
                close_time: made.close_time,
            });
            state.keep(&made);
            if next == sequence {
                return made;
            }
        }
    }

    fn make(&self, sequence: u32, previous: &Link) -> Made {
        ledger::ledger(&self.settings, self.network_id, sequence, previous)
    }
}

impl State {
    fn keep(&mut self, made: &Arc<Made>) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::clone(made));
    }
}

impl fmt::Debug for StellarChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StellarChain")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
