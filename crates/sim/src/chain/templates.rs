//! What sorts of logs a mainnet block is made of, and how often each comes.
//!
//! The head of the table follows Ethereum blocks around 15,000,000 row by row; the tail stands for
//! some two thousand rarer signatures. Nothing here depends on the seed: seeds change the bytes,
//! not the statistics.

use super::mainnet::Skew;
use crate::rng::by_share;

/// How a topic behind the first is filled.
#[derive(Clone, Copy, Debug)]
pub(super) enum TopicKind {
    /// An address of an account, left-padded.
    Account,
    /// A small number: a token or order id.
    Number,
    Random,
}

/// How a 32-byte word of data is filled.
#[derive(Clone, Copy, Debug)]
pub(super) enum WordKind {
    /// All zero.
    Zero,
    /// One or two bytes: flags, offsets, ids.
    Small,
    /// Some 4 to 11 significant bytes.
    Amount,
    /// An amount below zero, in two's complement.
    Negative,
    /// An address of an account, left-padded.
    Account,
    Random,
}

/// Who emits logs of a sort: a rank drawn from `skew`, counted from `base`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emitters {
    pub(super) base: u64,
    pub(super) skew: Skew,
}

/// One sort of log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    /// Number of the first topic.
    pub(super) signature: u64,
    pub(super) emitters: Emitters,
    /// How the topics behind the first are filled.
    pub(super) topics: &'static [TopicKind],
    /// How many words of data.
    pub(super) words: usize,
    /// How the words are filled; begins again at its end.
    pub(super) columns: &'static [WordKind],
}

/// Signatures of the tail are ranks from four up: four of 0.6 %, eight of 0.3 %, sixteen of …
pub(super) const TAIL_FIRST_OCTAVE: u8 = 2;
/// One weight an octave of the tail: ranks 4 to 2,047.
pub(super) const TAIL_WEIGHTS: [u8; 9] = [1; 9];
/// Numbers of the tail's signatures begin here.
const TAIL_SIGNATURES: u64 = 64;
/// So many signatures of the tail belong to one protocol, which has emitters of its own.
const PROTOCOL_SIGNATURES: u64 = 3;
/// Room for the emitters of one protocol.
const PROTOCOL_ROOM: u64 = 64;

const TOKENS: Emitters = emitters(0, Skew::Tokens);
/// The most used token, which also wraps the chain's own coin.
const WRAPPED: Emitters = emitters(0, Skew::Protocol(1));
const COLLECTIONS: Emitters = emitters(0x1_0000, Skew::Collections);
const PAIRS: Emitters = emitters(0x2_0000, Skew::Pools);
const POOLS: Emitters = emitters(0x3_0000, Skew::Pools);
const PROTOCOLS: u64 = 0x4_0000;

const fn emitters(base: u64, skew: Skew) -> Emitters {
    Emitters { base, skew }
}

const fn market(place: u64) -> Emitters {
    emitters(PROTOCOLS - PROTOCOL_ROOM * (place + 1), Skew::Protocol(1))
}

use TopicKind::{Account as A, Number as N, Random as H};
use WordKind::{Account, Amount, Negative, Random, Small, Zero};

const ORDER: &[WordKind] = &[
    Random, Account, Small, Small, Small, Zero, Account, Small, Amount, Small, Small, Zero, Account,
];

/// Permille of all logs, signature, emitters, topics, words, columns.
type HeadRow = (
    u32,
    u64,
    Emitters,
    &'static [TopicKind],
    usize,
    &'static [WordKind],
);

/// The frequent sorts; what is missing to 1,000 is the tail.
const HEAD: [HeadRow; 15] = [
    (340, 0, TOKENS, &[A, A], 1, &[Amount]), // transfer of a token
    (110, 0, COLLECTIONS, &[A, A, N], 0, &[]), // transfer of a collectible
    (70, 1, TOKENS, &[A, A], 1, &[Amount]),  // approval
    (30, 1, COLLECTIONS, &[A, A, N], 0, &[]),
    (40, 2, COLLECTIONS, &[A, A], 1, &[Small]), // approval for all
    (
        36,
        3,
        POOLS,
        &[A, A],
        5,
        &[Negative, Amount, Random, Amount, Small],
    ), // swap
    (30, 4, WRAPPED, &[A], 1, &[Amount]),       // deposit
    (26, 5, PAIRS, &[], 2, &[Amount]),          // sync
    (26, 6, PAIRS, &[A, A], 4, &[Zero, Amount, Amount, Zero]), // swap of a pair
    (19, 7, WRAPPED, &[A], 1, &[Amount]),       // withdrawal
    (15, 8, market(0), &[A, A], 25, ORDER),     // order, long
    (10, 8, market(0), &[A, A], 20, ORDER),     // order, short
    (13, 9, market(1), &[A, A], 1, &[Amount]),
    (11, 10, market(2), &[A, N, A], 3, &[Amount, Amount, Small]),
    (7, 11, COLLECTIONS, &[A, A, A], 2, &[Small, Small]), // transfer of one of many
];

/// Topics of a tail signature behind the first: none to three, each in percent of the tail's logs.
const TAIL_TOPICS: [(u64, &[&[TopicKind]]); 4] = [
    (20, &[&[]]),
    (28, &[&[A], &[A], &[A], &[N], &[A], &[H]]),
    (32, &[&[A, A], &[A, N], &[A, A], &[H, A], &[N, A], &[A, A]]),
    (20, &[&[A, A, N], &[A, A, A], &[H, A, A], &[A, N, A]]),
];

/// Words of a tail signature, in percent of the tail's logs.
const TAIL_WORDS: [(u64, usize); 10] = [
    (13, 1),
    (5, 0),
    (17, 2),
    (21, 3),
    (11, 4),
    (14, 5),
    (6, 6),
    (9, 7),
    (3, 10),
    (1, 40),
];

static TAIL_COLUMNS: [WordKind; 16] = [
    Amount, Account, Small, Amount, Random, Zero, Amount, Amount, Small, Amount, Small, Zero,
    Account, Amount, Small, Zero,
];

/// The head's templates, each with its permille.
pub(super) fn head() -> impl Iterator<Item = (u32, Template)> {
    HEAD.into_iter()
        .map(|(permille, signature, emitters, topics, words, columns)| {
            let template = Template {
                signature,
                emitters,
                topics,
                words,
                columns,
            };
            (permille, template)
        })
}

/// The template of the tail's signature of this rank.
pub(super) fn tail(rank: u64) -> Template {
    // Golden-ratio steps spread the properties evenly over every octave, so that no seed and no
    // run of ranks leans to one side.
    let spread = |salt: u64, bound: u64| {
        let phase = (rank + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (salt << 40));
        ((u128::from(phase) * u128::from(bound)) >> 64) as u64
    };
    let variants = by_share(&TAIL_TOPICS, spread(1, 100)).unwrap_or_default();
    let variant = spread(2, variants.len() as u64) as usize;
    let column = spread(3, TAIL_COLUMNS.len() as u64) as usize;
    let protocol = rank / PROTOCOL_SIGNATURES;
    Template {
        signature: TAIL_SIGNATURES + rank,
        emitters: emitters(
            PROTOCOLS + protocol * PROTOCOL_ROOM,
            Skew::Protocol(1 + (protocol % 6) as u8),
        ),
        topics: variants.get(variant).copied().unwrap_or_default(),
        words: by_share(&TAIL_WORDS, spread(4, 100)).unwrap_or_default(),
        columns: TAIL_COLUMNS.get(column..).unwrap_or_default(),
    }
}
