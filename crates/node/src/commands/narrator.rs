//! Looks at chains while they are followed and says what is worth seeing, a line for each event.
//!
//! It sees what every client can: the source's head, the blocks in memory and the archive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chronolith_finality::TailSnapshot;
use chronolith_follower::chain::Chain;
use chronolith_model::{BlockRef, Hash32, Log};
use chronolith_sim::evm::UPGRADED_TOPIC;

/// How often the progress of history is printed.
const HISTORY_EVERY: Duration = Duration::from_secs(2);

/// What was seen of one chain.
pub(super) struct Narrator {
    began: Instant,
    name: String,
    /// Hashes of the blocks in memory when it last looked.
    waiting: BTreeMap<u64, Hash32>,
    /// Upgrades that may still go: their block, and what was upgraded to.
    upgrades: Vec<(BlockRef, String)>,
    history_printed: Option<Instant>,
    caught_up: bool,
    reorgs: u64,
}

impl Narrator {
    pub(super) fn new(name: &str, began: Instant) -> Self {
        Self {
            began,
            name: name.to_owned(),
            waiting: BTreeMap::new(),
            upgrades: Vec::new(),
            history_printed: None,
            caught_up: false,
            reorgs: 0,
        }
    }

    /// Whether all history was archived.
    pub(super) fn caught_up(&self) -> bool {
        self.caught_up
    }

    /// Says what happened since it last looked; `head` is the newest block there is.
    pub(super) fn look(&mut self, chain: &Chain, head: u64) {
        // The memory first: what leaves it meanwhile is archived already.
        let tail = chain.tail();
        let archived = chain.archive.health().head.map_or(0, |head| head.number);
        if !self.caught_up {
            self.print_history(chain, head, tail.len() as u64);
        }
        let now = hashes(&tail);
        let replaced = replaced(&self.waiting, &now, archived);
        if let Some((first, count)) = replaced {
            self.reorgs += 1;
            let last = first + count - 1;
            let which = if count == 1 {
                format!("{first}")
            } else {
                format!("{first} to {last}")
            };
            self.print(&format!(
                "reorg: {} replaced ({which}), nothing of it was archived",
                counted(count, "block")
            ));
        }
        self.print_upgrades(&tail, archived);
        self.waiting = now;
    }

    fn print_history(&mut self, chain: &Chain, head: u64, waiting: u64) {
        let report = chain.archive.health();
        let archived = report.head.map_or(0, |head| head.number + 1);
        let (logs, mib) = (
            grouped(report.logs),
            report.stored_bytes as f64 / f64::from(1 << 20),
        );
        if archived > 0 && archived + waiting > head.saturating_sub(2) {
            self.caught_up = true;
            let seconds = self.began.elapsed().as_secs_f64();
            self.print(&format!(
                "history: all {} final blocks are proven and archived: {logs} logs, {mib:.1} MiB, {seconds:.1} s",
                grouped(archived)
            ));
            return;
        }
        let blocks = grouped(head + 1);
        let what = match self.history_printed {
            None => format!("history: fetching {blocks} blocks"),
            Some(shown) if archived > 0 && shown.elapsed() >= HISTORY_EVERY => {
                format!(
                    "history: {} of {blocks} blocks, {logs} logs",
                    grouped(archived)
                )
            }
            Some(_) => return,
        };
        self.history_printed = Some(Instant::now());
        self.print(&what);
    }

    /// New upgrades among the blocks in memory, and those that have become final or are gone.
    fn print_upgrades(&mut self, tail: &TailSnapshot, archived: u64) {
        let known = std::mem::take(&mut self.upgrades);
        for (block, to) in known {
            let number = block.number;
            if number <= archived {
                self.print(&format!(
                    "upgrade: block {number} is archived, {to} is final"
                ));
            } else if tail.find_block(&block.hash).is_some() {
                self.upgrades.push((block, to));
            } else {
                self.print(&format!(
                    "upgrade: block {number} is gone, and {to} with it"
                ));
            }
        }
        for number in tail.range().start..tail.range().end {
            let Some(block) = tail.get(number) else {
                continue;
            };
            if self.waiting.get(&number) == Some(&block.clock.hash) {
                continue;
            }
            if let Some((proxy, to)) = block.logs.iter().find_map(upgrade) {
                self.print(&format!(
                    "upgrade: contract {proxy} runs {to} since block {number}, not final yet"
                ));
                self.upgrades.push((block.clock.block_ref(), to));
            }
        }
    }

    /// How the chain stands, for a line about all of them.
    pub(super) fn head(&self, chain: &Chain, head: u64) -> String {
        let archived = chain.archive.health().head.map_or(0, |head| head.number);
        let (name, head) = (&self.name, grouped(head));
        format!("{name} {head} ({} archived)", grouped(archived))
    }

    /// What it comes to in the end.
    pub(super) fn sum(&self, chain: &Chain) -> String {
        let report = chain.archive.health();
        let blocks = report.head.map_or(0, |head| head.number + 1);
        format!(
            "{:<7} {} and {} in {:.1} MiB, {} followed",
            self.name,
            counted(blocks, "block"),
            counted(report.logs, "log"),
            report.stored_bytes as f64 / f64::from(1 << 20),
            counted(self.reorgs, "reorg")
        )
    }

    fn print(&self, what: &str) {
        print(self.began, &self.name, what);
    }
}

/// One line: when, of whom, what.
pub(super) fn print(began: Instant, of: &str, what: &str) {
    let seconds = began.elapsed().as_secs();
    println!("{:>3}:{:02}  {of:<7} {what}", seconds / 60, seconds % 60);
}

fn hashes(tail: &TailSnapshot) -> BTreeMap<u64, Hash32> {
    let range = tail.range();
    let hash = |number| Some((number, tail.get(number)?.clock.hash));
    (range.start..range.end).filter_map(hash).collect()
}

/// The first of the blocks that are no longer there, and how many they are. Those that were archived
/// are elsewhere, not gone.
fn replaced(
    before: &BTreeMap<u64, Hash32>,
    now: &BTreeMap<u64, Hash32>,
    archived: u64,
) -> Option<(u64, u64)> {
    // An empty memory is filled again, whatever was in it.
    if now.is_empty() {
        return None;
    }
    let gone =
        |(number, hash): &(&u64, &Hash32)| **number > archived && now.get(*number) != Some(*hash);
    let mut gone = before.iter().filter(gone).map(|(number, _)| *number);
    let first = gone.next()?;
    Some((first, 1 + gone.count() as u64))
}

/// Which contract runs what from now on, where a log says so.
fn upgrade(log: &Log) -> Option<(String, String)> {
    let mut topics = log.topics();
    let is_upgrade = topics.next() == Some(&UPGRADED_TOPIC[..]);
    let to = topics.next()?.last_chunk::<20>()?;
    is_upgrade.then(|| (short(log.emitter()), short(to)))
}

/// An address that fits in a line.
fn short(address: &[u8]) -> String {
    let digits = const_hex::encode_prefixed(address);
    match (digits.get(..8), digits.get(digits.len() - 4..)) {
        (Some(first), Some(last)) => format!("{first}…{last}"),
        _ => digits,
    }
}

/// A count with its noun in singular or plural.
fn counted(number: u64, one: &str) -> String {
    let more = if number == 1 { "" } else { "s" };
    format!("{} {one}{more}", grouped(number))
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(blocks: &[(u64, u8)]) -> BTreeMap<u64, Hash32> {
        let block = |&(number, fork): &(u64, u8)| (number, Hash32([fork; 32]));
        blocks.iter().map(block).collect()
    }

    #[test]
    fn only_what_is_gone_was_replaced() {
        let before = memory(&[(5, 1), (6, 1), (7, 1)]);
        for (now, archived, expected) in [
            (vec![(5, 1), (6, 1), (7, 1), (8, 1)], 4, None),
            (vec![(6, 1), (7, 1)], 5, None),
            (vec![(5, 1), (6, 2), (7, 2), (8, 2)], 4, Some((6, 2))),
            (vec![(5, 2)], 4, Some((5, 3))),
            (vec![(7, 2), (8, 2)], 6, Some((7, 1))),
            (vec![], 4, None),
        ] {
            let found = replaced(&before, &memory(&now), archived);
            assert_eq!(found, expected, "{now:?}");
        }
    }

    #[test]
    fn numbers_and_addresses_are_easy_to_read() {
        for (number, shown) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), shown);
        }
        assert_eq!(short(&[0xab; 20]), "0xababab…abab");
        for (number, shown) in [(0, "0 reorgs"), (1, "1 reorg"), (1_000, "1,000 reorgs")] {
            assert_eq!(counted(number, "reorg"), shown);
        }
    }
}
