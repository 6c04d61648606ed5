//! Blocks with the statistics of real ones: term skew, lengths, and words that compress alike.
//!
//! Addresses and signatures are computed from their rank instead of being looked up: a formula
//! costs less than a cache miss in a table of a million accounts.

use super::templates::{self, Template, TopicKind, WordKind};
use super::writer::LogWriter;
use super::{domain, word};
use crate::ChainSpec;
use crate::rng::{Octaves, Rng};

/// Logs of a transaction that has any, and how many in a hundred have that many; 3.05 on average
/// once the block's end has cut some short.
const LOGS_OF_TX: [(u8, u64); 10] = [
    (46, 1),
    (16, 2),
    (13, 3),
    (7, 4),
    (4, 5),
    (3, 6),
    (3, 7),
    (5, 10),
    (2, 15),
    (1, 25),
];
/// Transactions that do what one shortly before did, for another sender and with other amounts:
/// mints of one collection, trades along one route.
const ECHO_PERCENT: u32 = 37;
/// How many transactions before are remembered for that.
const ECHO_WINDOW: usize = 6;
/// Expected bytes of a log; only for reserving memory.
const LOG_BYTES: usize = 200;
/// Senders of transactions that are new to the chain.
const FRESH_PERCENT: u32 = 57;
/// Account topics that name one of the transaction's own accounts: its sender and its
/// counterparty turn up again and again in its logs.
const CAST_PERCENT: u32 = 87;
/// Account topics that are zero: mints and burns.
const NOBODY_PERCENT: u32 = 4;
/// Logs of the same sort as the log before in the transaction.
const SAME_TEMPLATE_PERCENT: u32 = 25;
/// Logs from the same emitter as the last log of the transaction that had a like one.
const SAME_EMITTER_PERCENT: u32 = 60;
/// Amounts that the transaction's other logs show as well.
const SAME_AMOUNT_PERCENT: u32 = 55;
/// Amounts that are a round number of some unit.
const ROUND_AMOUNT_PERCENT: u32 = 25;

type Address = [u8; 20];
type Word = [u8; 32];

/// How unevenly the members of a set of emitters emit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Skew {
    /// Tokens: some 65,000, of which the first emits a fifth.
    Tokens,
    /// Collections: some 16,000.
    Collections,
    /// Pools: some 8,000.
    Pools,
    /// The emitters of one protocol: this many octaves, so 1, 3, 7 … 63 of them.
    Protocol(u8),
}

/// What the logs of one transaction share.
struct Cast<'a> {
    /// Decides what happens: sorts of logs, emitters, who is named where. Two transactions with one
    /// plot differ in sender, amounts and hashes only.
    plot: Rng,
    /// Sender and counterparty.
    accounts: [Address; 2],
    amount: u128,
    /// The sort of the log before.
    template: Option<&'a Template>,
    /// The emitter last drawn of each kind of skew: its base and its rank.
    emitters: [(u64, u64); 4],
}

/// The generator and its tables.
#[derive(Debug)]
pub(super) struct Mainnet {
    spec: ChainSpec,
    /// A template for each permille; none stands for the tail.
    head: Vec<Option<Template>>,
    /// By rank.
    tail: Vec<Template>,
    tail_ranks: Octaves,
    logs_of_tx: Vec<u64>,
    tokens: Octaves,
    collections: Octaves,
    pools: Octaves,
    accounts: Octaves,
    numbers: Octaves,
}

impl Mainnet {
    pub(super) fn new(spec: &ChainSpec) -> Self {
        let head = templates::head()
            .flat_map(|(permille, row)| std::iter::repeat_n(Some(row), permille as usize))
            .chain(std::iter::repeat(None))
            .take(1_000);
        let octaves = usize::from(templates::TAIL_FIRST_OCTAVE) + templates::TAIL_WEIGHTS.len();
        let logs_of_tx = LOGS_OF_TX
            .iter()
            .flat_map(|&(percent, logs)| std::iter::repeat_n(logs, percent.into()));
        Self {
            spec: *spec,
            head: head.collect(),
            tail: (0..1 << octaves).map(templates::tail).collect(),
            tail_ranks: Octaves::new(templates::TAIL_FIRST_OCTAVE, &templates::TAIL_WEIGHTS),
            logs_of_tx: logs_of_tx.collect(),
            tokens: Octaves::new(0, &[20, 22, 14, 11, 8, 6, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1]),
            collections: Octaves::new(0, &[9, 9, 9, 10, 10, 10, 8, 7, 6, 5, 5, 4, 4, 4]),
            pools: Octaves::new(0, &[9, 9, 9, 10, 10, 10, 9, 8, 7, 6, 5, 4, 4]),
            accounts: Octaves::new(
                0,
                &[7, 9, 9, 9, 8, 7, 6, 5, 5, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2],
            ),
            numbers: Octaves::new(
                0,
                &[4, 3, 2, 2, 2, 3, 4, 5, 6, 7, 8, 8, 8, 6, 4, 3, 2, 2, 1, 1],
            ),
        }
    }

    /// Writes a block's logs and returns how many transactions it has.
    pub(super) fn write(&self, rng: &mut Rng, writer: &mut LogWriter) -> u32 {
        let mean = u64::from(self.spec.logs_per_block);
        let jitter = mean * u64::from(self.spec.jitter_percent.min(100)) / 100;
        let mut left = mean - jitter + rng.below(2 * jitter + 1);
        writer.reserve(left as usize, LOG_BYTES);
        let mut tx_index = self.silent_txs(rng);
        let mut plots = [0; ECHO_WINDOW];
        for at in 0.. {
            if left == 0 {
                break;
            }
            let plot = Self::plot(rng, plots.get(..at).unwrap_or(&plots));
            if let Some(place) = plots.get_mut(at % ECHO_WINDOW) {
                *place = plot;
            }
            let mut cast = self.cast(plot, rng);
            let wanted = cast.plot.pick(&self.logs_of_tx).copied().unwrap_or(1);
            let logs = wanted.min(left);
            for _ in 0..logs {
                self.write_log(rng, writer, tx_index, &mut cast);
            }
            left -= logs;
            tx_index += 1 + self.silent_txs(rng);
        }
        tx_index
    }

    /// What happens in the next transaction: something new, or what happened shortly before.
    fn plot(rng: &mut Rng, before: &[u64]) -> u64 {
        let fresh = rng.next();
        let echo = rng.percent(ECHO_PERCENT).then(|| rng.pick(before));
        echo.flatten().copied().unwrap_or(fresh)
    }

    /// Who takes part in it. Only the counterparty follows from the plot.
    fn cast(&self, plot: u64, rng: &mut Rng) -> Cast<'_> {
        let mut plot = Rng::of(&[plot]);
        Cast {
            accounts: [self.sender(rng), self.regular(&mut plot)],
            amount: amount(rng),
            template: None,
            emitters: [(u64::MAX, 0); 4],
            plot,
        }
    }

    /// How many transactions without logs come next.
    fn silent_txs(&self, rng: &mut Rng) -> u32 {
        let percent = self.spec.silent_txs_percent.min(99);
        let mut silent = 0;
        while rng.percent(percent) {
            silent += 1;
        }
        silent
    }

    #[inline]
    fn write_log<'a>(
        &'a self,
        rng: &mut Rng,
        writer: &mut LogWriter,
        tx_index: u32,
        cast: &mut Cast<'a>,
    ) {
        let Some(template) = self.template(cast) else {
            return;
        };
        let emitter = self.emitter(template, cast);
        writer.begin(tx_index, 0, &emitter);
        let signature = [domain::SIGNATURE, self.spec.seed, template.signature];
        writer.topic(&Rng::of(&signature).bytes::<32>());
        for &kind in template.topics {
            writer.topic(&self.topic(kind, rng, cast));
        }
        for &kind in template.columns.iter().cycle().take(template.words) {
            writer.data(&self.word(kind, rng, cast));
        }
    }

    /// The sort of the next log. Repeating the one before keeps all frequencies as they are.
    #[inline]
    fn template<'a>(&'a self, cast: &mut Cast<'a>) -> Option<&'a Template> {
        let rng = &mut cast.plot;
        let before = cast.template.filter(|_| rng.percent(SAME_TEMPLATE_PERCENT));
        cast.template = match before {
            Some(template) => Some(template),
            None => match rng.pick(&self.head)? {
                Some(template) => Some(template),
                None => self.tail.get(self.tail_ranks.draw(rng) as usize),
            },
        };
        cast.template
    }

    #[inline]
    fn emitter(&self, template: &Template, cast: &mut Cast<'_>) -> Address {
        let rng = &mut cast.plot;
        let base = template.emitters.base;
        let [tokens, collections, pools, protocols] = &mut cast.emitters;
        let last = match template.emitters.skew {
            Skew::Tokens => tokens,
            Skew::Collections => collections,
            Skew::Pools => pools,
            Skew::Protocol(_) => protocols,
        };
        if last.0 != base || !rng.percent(SAME_EMITTER_PERCENT) {
            *last = (base, self.rank(template.emitters.skew, rng));
        }
        Rng::of(&[domain::EMITTER, self.spec.seed, base + last.1]).bytes()
    }

    #[inline]
    fn rank(&self, skew: Skew, rng: &mut Rng) -> u64 {
        match skew {
            Skew::Tokens => self.tokens.draw(rng),
            Skew::Collections => self.collections.draw(rng),
            Skew::Pools => self.pools.draw(rng),
            Skew::Protocol(octaves) => {
                let size = 1 << rng.below(octaves.into());
                size + rng.below(size)
            }
        }
    }

    fn topic(&self, kind: TopicKind, rng: &mut Rng, cast: &mut Cast<'_>) -> Word {
        match kind {
            TopicKind::Account if cast.plot.percent(NOBODY_PERCENT) => [0; 32],
            TopicKind::Account => self.account(cast),
            TopicKind::Number => number(u128::from(self.numbers.draw(rng) - 1)),
            TopicKind::Random => rng.bytes(),
        }
    }

    fn word(&self, kind: WordKind, rng: &mut Rng, cast: &mut Cast<'_>) -> Word {
        match kind {
            WordKind::Zero => [0; 32],
            WordKind::Small => number(u128::from(cast.plot.next() & 0x1ff)),
            WordKind::Amount if cast.plot.percent(SAME_AMOUNT_PERCENT) => number(cast.amount),
            WordKind::Amount => number(amount(rng)),
            WordKind::Negative => number(amount(rng)).map(|byte| !byte),
            WordKind::Account => self.account(cast),
            WordKind::Random => rng.bytes(),
        }
    }

    fn account(&self, cast: &mut Cast<'_>) -> Word {
        let rng = &mut cast.plot;
        let known = rng.percent(CAST_PERCENT).then(|| rng.pick(&cast.accounts));
        match known.flatten() {
            Some(address) => word(*address),
            None => word(self.regular(rng)),
        }
    }

    /// The sender of a transaction: new to the chain, or a regular.
    fn sender(&self, rng: &mut Rng) -> Address {
        if rng.percent(FRESH_PERCENT) {
            rng.bytes()
        } else {
            self.regular(rng)
        }
    }

    /// One of a million accounts, the first of them the busiest.
    fn regular(&self, rng: &mut Rng) -> Address {
        Rng::of(&[domain::ACCOUNT, self.spec.seed, self.accounts.draw(rng)]).bytes()
    }
}

/// An amount of 4 to 11 significant bytes, or a round one.
fn amount(rng: &mut Rng) -> u128 {
    if rng.percent(ROUND_AMOUNT_PERCENT) {
        let unit = 10_u128.pow(6 + 3 * rng.below(5) as u32);
        return u128::from(1 + rng.below(1_000)) * unit;
    }
    let bits = 32 + 8 * rng.below(8);
    let wide = (u128::from(rng.next()) << 64) | u128::from(rng.next());
    wide >> (128 - bits)
}

fn number(value: u128) -> Word {
    word(value.to_be_bytes())
}
