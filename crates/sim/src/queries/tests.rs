//! Each class is what its name says, on a short chain, with the oracle as the judge.

use chronolith_model::Select;

use super::*;
use crate::{ChainSpec, Oracle};

const EXTENT: BlockRange = BlockRange {
    start: 50,
    end: 110,
};

fn mix(spec: ChainSpec, seed: u64) -> (Oracle, QueryMix) {
    let chain = SimChain::new(spec);
    let mut oracle = Oracle::new();
    chain.blocks(EXTENT).for_each(|block| oracle.push(block));
    (oracle, QueryMix::new(&chain, EXTENT, seed))
}

#[test]
fn the_same_seed_asks_the_same() {
    let (_, mut first) = mix(ChainSpec::tiny(1), 5);
    let (_, mut second) = mix(ChainSpec::tiny(1), 5);
    for class in QueryClass::ALL.into_iter().cycle().take(100) {
        assert_eq!(first.next(class), second.next(class), "{}", class.name());
    }
}

#[test]
fn classes_find_what_they_are_named_after() {
    let (oracle, mut mix) = mix(ChainSpec::mainnet(1), 5);
    let total = oracle.blocks().map(|block| block.logs.len()).sum::<usize>();
    for class in QueryClass::ALL {
        for _ in 0..4 {
            let filter = mix.next(class);
            let Select::Range(range) = filter.select else {
                panic!("no range: {filter:?}");
            };
            assert!(EXTENT.covers(&range), "{filter:?}");
            let unlimited = LogFilter {
                limit: None,
                ..filter
            };
            let found = oracle.query(&unlimited).0.len();
            let permille = found * 1_000 / total;
            let fits = match class {
                QueryClass::Absent => found == 0,
                QueryClass::Rare => found == 1,
                QueryClass::DenseTopic0 => (420..480).contains(&permille),
                QueryClass::Sparse03Percent => (2..=4).contains(&permille),
                QueryClass::Or256Uniform => permille >= 20,
                QueryClass::Or256Frequent => permille >= 400,
                QueryClass::Mixed => true,
                QueryClass::Narrow | QueryClass::Topic1Topic2 | QueryClass::AddressTopic3 => {
                    found > 0
                }
            };
            assert!(fits, "{}: {found} of {total}", class.name());
        }
    }
}

#[test]
fn narrow_windows_lie_inside_long_extents() {
    let chain = SimChain::new(ChainSpec::tiny(1));
    let extent = BlockRange::new(7, 25_000);
    let mut mix = QueryMix::new(&chain, extent, 1);
    for _ in 0..200 {
        let filter = mix.next(QueryClass::Narrow);
        let Select::Range(range) = filter.select else {
            panic!("no range: {filter:?}");
        };
        assert!(
            extent.covers(&range) && range.len() == NARROW_BLOCKS,
            "{range}"
        );
    }
}

#[test]
fn an_extent_without_logs_asks_for_what_is_absent() {
    let chain = SimChain::new(ChainSpec::tiny(1));
    let mut mix = QueryMix::new(&chain, BlockRange::new(3, 3), 1);
    for class in QueryClass::ALL {
        let filter = mix.next(class);
        assert!(filter.emitters != Clause::Any || !filter.topics.is_empty());
    }
}
