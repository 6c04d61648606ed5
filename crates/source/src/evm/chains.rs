//! The chains that are known by name.
//!
//! A name is enough in the settings: the rest can be overridden, and any other chain can be added.

use alloy_primitives::b256;
use chronolith_model::Hash32;

use super::{Checks, Oddity};

/// A chain that is known by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownChain {
    pub name: &'static str,
    pub title: &'static str,
    pub chain_id: u64,
    /// Its dataset at SQD Portal.
    pub portal: &'static str,
    /// Time of its first block.
    pub genesis_timestamp: u64,
    /// Blocks below the head that are final where the chain has no tag for it.
    pub confirmations: u64,
    /// Whether its `finalized` tag is what its users call final.
    pub finalized_tag: bool,
    /// What can be recomputed of its blocks.
    pub checks: Checks,
    /// The chain it settles on.
    pub l1: Option<u64>,
}

/// Name, title, id, dataset, first time, confirmations, finalized tag, checks, L1.
type Row = (
    &'static str,
    &'static str,
    u64,
    &'static str,
    u64,
    u64,
    bool,
    Checks,
    u64,
);

const fn chain(row: Row) -> KnownChain {
    KnownChain {
        name: row.0,
        title: row.1,
        chain_id: row.2,
        portal: row.3,
        genesis_timestamp: row.4,
        confirmations: row.5,
        finalized_tag: row.6,
        checks: row.7,
        l1: if row.8 == 0 { None } else { Some(row.8) },
    }
}

/// Headers, bloom, receipts and transactions by rules that are known, whatever the header's form.
const ROOTS: Checks = Checks::ALL;
/// State-sync transactions of Bor are under no root before Madhugiri.
const BOR: Checks = bor(80_084_800);

const fn bor(rooted_from: u64) -> Checks {
    Checks {
        oddity: Oddity::StateSync { rooted_from },
        ..ROOTS
    }
}

/// Logs of system calls under the block's own hash, and nodes that leave their receipt out.
const CELO: Checks = Checks {
    oddity: Oddity::BlockReceipt,
    ..ROOTS
};
/// The hash of a header covers number, time, parent and transaction hashes: no bloom, no root.
const LINKS: Checks = Checks {
    bloom: false,
    receipts_root: false,
    transactions_root: false,
    ..ROOTS
};
/// Ethereum's rules are tried. Whether blooms are filled is not known before one is seen.
const UNKNOWN: Checks = Checks {
    blooms_filled: false,
    ..ROOTS
};
/// The hash of a header follows from rules that are not known here.
const NOTHING: Checks = Checks::NONE;

/// All of them, by id.
///
/// The checks are what the chain's own headers, receipts and transactions allow. One that turns out not
/// to hold is dropped while the program runs, and the level falls: the chain is not halted for it.
#[rustfmt::skip]
pub const CHAINS: &[KnownChain] = &[
    chain(("ethereum", "Ethereum", 1, "ethereum-mainnet", 1_438_269_988, 64, true, ROOTS, 0)),
    chain(("optimism", "Optimism", 10, "optimism-mainnet", 1_636_665_399, 300, true, ROOTS, 1)),
    chain(("flare", "Flare", 14, "flare-mainnet", 1_657_740_761, 50, false, ROOTS, 0)),
    chain(("bsc", "BNB Smart Chain", 56, "binance-mainnet", 1_587_390_414, 50, true, ROOTS, 0)),
    chain(("gnosis", "Gnosis", 100, "gnosis-mainnet", 1_539_024_185, 64, true, ROOTS, 0)),
    chain(("unichain", "Unichain", 130, "unichain-mainnet", 1_730_748_359, 600, true, ROOTS, 1)),
    chain(("polygon", "Polygon", 137, "polygon-mainnet", 1_590_824_836, 256, true, BOR, 1)),
    chain(("monad", "Monad", 143, "monad-mainnet", 1_747_232_689, 50, true, ROOTS, 0)),
    chain(("sonic", "Sonic", 146, "sonic-mainnet", 1_733_011_200, 50, true, ROOTS, 0)),
    chain(("manta", "Manta Pacific", 169, "manta-pacific", 1_694_223_959, 300, true, ROOTS, 1)),
    chain(("opbnb", "opBNB", 204, "opbnb-mainnet", 1_691_753_723, 600, true, ROOTS, 56)),
    chain(("zksync", "zkSync Era", 324, "zksync-mainnet", 1_676_384_542, 600, true, LINKS, 1)),
    chain(("metis", "Metis", 1_088, "metis-mainnet", 1_637_270_379, 300, false, ROOTS, 1)),
    chain(("core", "Core", 1_116, "core-mainnet", 1_637_052_000, 50, false, ROOTS, 0)),
    chain(("merlin", "Merlin", 4_200, "merlin-mainnet", 1_706_877_604, 300, false, ROOTS, 0)),
    chain(("mantle", "Mantle", 5_000, "mantle-mainnet", 1_688_314_886, 300, true, ROOTS, 1)),
    chain(("base", "Base", 8_453, "base-mainnet", 1_686_789_347, 300, true, ROOTS, 1)),
    chain(("arbitrum", "Arbitrum One", 42_161, "arbitrum-one", 1_622_243_344, 1_200, true, ROOTS, 1)),
    chain(("celo", "Celo", 42_220, "celo-mainnet", 1_587_571_200, 300, true, CELO, 1)),
    chain(("etherlink", "Etherlink", 42_793, "etherlink-mainnet", 1_714_656_294, 50, false, NOTHING, 0)),
    chain(("avalanche", "Avalanche", 43_114, "avalanche-mainnet", 1_600_858_926, 1, true, ROOTS, 0)),
    chain(("ink", "Ink", 57_073, "ink-mainnet", 1_733_498_411, 600, true, ROOTS, 1)),
    chain(("linea", "Linea", 59_144, "linea-mainnet", 1_670_496_243, 300, true, ROOTS, 1)),
    chain(("bob", "BOB", 60_808, "bob-mainnet", 1_712_861_987, 300, true, ROOTS, 1)),
    chain(("berachain", "Berachain", 80_094, "berachain-mainnet", 1_737_381_600, 50, true, ROOTS, 0)),
    chain(("blast", "Blast", 81_457, "blast-l2-mainnet", 1_708_809_815, 300, true, ROOTS, 1)),
    chain(("plume", "Plume", 98_866, "plume", 1_740_047_951, 1_200, true, ROOTS, 1)),
    chain(("taiko", "Taiko", 167_000, "taiko-mainnet", 1_716_620_627, 300, true, ROOTS, 1)),
    chain(("scroll", "Scroll", 534_352, "scroll-mainnet", 1_696_917_600, 300, true, ROOTS, 1)),
    chain(("zora", "Zora", 7_777_777, "zora-mainnet", 1_686_693_839, 300, true, ROOTS, 1)),
];

/// What can be recomputed of the blocks of a chain that is known by its id alone.
#[must_use]
pub fn checks_of(chain_id: u64) -> Checks {
    let known = CHAINS.iter().find(|chain| chain.chain_id == chain_id);
    match chain_id {
        // Test networks of Bor, the first of which ended before Madhugiri, and of Celo's own chain.
        80_001 => bor(u64::MAX),
        80_002 => bor(28_899_616),
        44_787 | 62_320 => CELO,
        _ => known.map_or(UNKNOWN, |chain| chain.checks),
    }
}

/// The hash of a chain's first block, where it is beyond doubt.
#[must_use]
pub fn known_genesis(chain_id: u64) -> Option<Hash32> {
    let hash = match chain_id {
        1 => b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"),
        10 => b256!("7ca38a1916c42007829c55e69d3e9a73265554b586a499015373241b8a3fa48b"),
        56 => b256!("0d21840abff46b96c84b2ac9e10e4f5cdaeb5693cb665db62a2f3b02d2d57b5b"),
        100 => b256!("4f1dd23188aab3a76b463e4af801b52b1248ef073c648cbdc4c9333d3da79756"),
        137 => b256!("a9c28ce2141b56c474f1dc504bee9b01eb1bd7d1a507580d5519d4437a97de1b"),
        8_453 => b256!("f712aa9241cc24369b143cf6dce85f0902a9731e70d66818a3a5845b296c73dd"),
        _ => return None,
    };
    Some(Hash32(hash.0))
}

/// A chain by its name or its title, in any case.
#[must_use]
pub fn known_chain(name: &str) -> Option<&'static KnownChain> {
    CHAINS.iter().find(|chain| {
        chain.name.eq_ignore_ascii_case(name) || chain.title.eq_ignore_ascii_case(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, display name and genesis time of the thirty chains of the requirement of block times, as the service
    /// that it describes lists them.
    const REQUIRED: [(u64, &str, u64); 30] = [
        (1, "Ethereum", 1_438_269_988),
        (10, "Optimism", 1_636_665_399),
        (14, "Flare", 1_657_740_761),
        (56, "BNB Smart Chain", 1_587_390_414),
        (100, "Gnosis", 1_539_024_185),
        (130, "Unichain", 1_730_748_359),
        (137, "Polygon", 1_590_824_836),
        (143, "Monad", 1_747_232_689),
        (146, "Sonic", 1_733_011_200),
        (169, "Manta Pacific", 1_694_223_959),
        (204, "opBNB", 1_691_753_723),
        (324, "zkSync Era", 1_676_384_542),
        (1_088, "Metis", 1_637_270_379),
        (1_116, "Core", 1_637_052_000),
        (4_200, "Merlin", 1_706_877_604),
        (5_000, "Mantle", 1_688_314_886),
        (8_453, "Base", 1_686_789_347),
        (42_161, "Arbitrum One", 1_622_243_344),
        (42_220, "Celo", 1_587_571_200),
        (42_793, "Etherlink", 1_714_656_294),
        (43_114, "Avalanche", 1_600_858_926),
        (57_073, "Ink", 1_733_498_411),
        (59_144, "Linea", 1_670_496_243),
        (60_808, "BOB", 1_712_861_987),
        (80_094, "Berachain", 1_737_381_600),
        (81_457, "Blast", 1_708_809_815),
        (98_866, "Plume", 1_740_047_951),
        (167_000, "Taiko", 1_716_620_627),
        (534_352, "Scroll", 1_696_917_600),
        (7_777_777, "Zora", 1_686_693_839),
    ];

    /// Clients show these names, and begin at these times.
    #[test]
    fn the_chains_are_those_of_the_requirement() {
        let known = CHAINS
            .iter()
            .map(|chain| (chain.chain_id, chain.title, chain.genesis_timestamp));
        assert_eq!(known.collect::<Vec<_>>(), REQUIRED);
    }

    #[test]
    fn thirty_chains_each_once() {
        assert_eq!(CHAINS.len(), 30);
        assert!(
            CHAINS.is_sorted_by(|a, b| a.chain_id < b.chain_id),
            "ids rise"
        );
        for chain in CHAINS {
            assert_eq!(known_chain(chain.name), Some(chain));
            assert_eq!(known_chain(chain.title), Some(chain));
            assert_eq!(
                CHAINS
                    .iter()
                    .filter(|other| other.portal == chain.portal)
                    .count(),
                1
            );
        }
        assert_eq!(known_chain("BASE").map(|chain| chain.chain_id), Some(8_453));
        assert_eq!(known_chain("nowhere"), None);
        for id in [1, 10, 56, 100, 137, 8_453] {
            assert!(CHAINS.iter().any(|chain| chain.chain_id == id));
            assert!(known_genesis(id).is_some());
        }
        assert_eq!(known_genesis(31_337), None);
    }
}
