//! The scripted life of an archive that the crash matrix disturbs: a list of steps, each with what
//! the archive must show before and after it.
#![allow(unreachable_pub, reason = "the face of a test's module")]

use std::sync::Arc;

use chronolith_model::BlockRange;
use chronolith_sim::{ChainSpec, SimChain};

use crate::crash::Reference;

pub const SEED: u64 = 41;

/// What is done in a step.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Append(BlockRange),
    Maintain,
    Fill(BlockRange),
    Collect,
    Violate,
    Resume,
    Rewind(u64),
    TakeOver,
    Ask,
}

/// A step: done again after a fault, it must come to the same.
#[derive(Debug)]
pub struct Step {
    pub act: Act,
    pub chain: SimChain,
    /// What the archive shows before it, and after.
    pub before: Arc<Reference>,
    pub after: Arc<Reference>,
}

/// Where the script begins, and what it fills below that.
const START: u64 = 80;
const FILLED: BlockRange = BlockRange { start: 48, end: 80 };
/// Block behind which the chain is rewound to go another way.
const REWOUND: u64 = 118;

fn acts() -> Vec<Act> {
    let append = |start, end| Act::Append(BlockRange::new(start, end));
    vec![
        append(80, 83),
        append(83, 84),
        append(82, 90),
        append(90, 97),
        Act::Maintain,
        Act::Ask,
        append(97, 110),
        append(110, 111),
        append(111, 113),
        Act::Maintain,
        Act::Collect,
        Act::Fill(FILLED),
        Act::Maintain,
        append(112, 126),
        Act::Violate,
        Act::Ask,
        Act::Resume,
        append(126, 131),
        Act::Maintain,
        Act::Collect,
        Act::TakeOver,
        append(131, 140),
        Act::Maintain,
        Act::Rewind(REWOUND),
        append(119, 124),
        append(124, 130),
        Act::Maintain,
        Act::Ask,
        Act::Collect,
    ]
}

pub fn script() -> Vec<Step> {
    let mut chain = SimChain::new(ChainSpec {
        logs_per_block: 5,
        ..ChainSpec::tiny(SEED)
    });
    let (mut live, mut filled) = (None, None);
    let mut state = Arc::new(Reference::default());
    let mut steps = Vec::new();
    for act in acts() {
        let mut after = (*state).clone();
        match act {
            Act::Append(range) => live = Some(BlockRange::new(START, range.end)),
            Act::Fill(range) => filled = Some(range),
            Act::Rewind(to) => live = Some(BlockRange::new(START, to + 1)),
            Act::Violate => after.halted = true,
            Act::Resume => after.halted = false,
            Act::Maintain | Act::Collect | Act::TakeOver | Act::Ask => {}
        }
        if matches!(act, Act::Append(_) | Act::Fill(_) | Act::Rewind(_)) {
            let range = live.expect("the script begins with an append");
            after = Reference::of(&chain, filled, range);
        }
        let after = Arc::new(after);
        steps.push(Step {
            act,
            chain: chain.clone(),
            before: std::mem::replace(&mut state, after.clone()),
            after,
        });
        if let Act::Rewind(to) = act {
            chain = chain.fork(to + 1, 1);
        }
    }
    steps
}
