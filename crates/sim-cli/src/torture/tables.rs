//! Tables after the test: those of a clean replay of the chain, and those that follow from the
//! simulator's own chain.

use std::collections::BTreeMap;

use anyhow::Result;
use chronolith_model::{BlockRange, Hash32};
use chronolith_sim::evm::EvmNode;
use chronolith_sim::evm::adfs::{AdfsEvent, AdfsWhat};

use super::rows::Rows;

/// What readers see, without dropped rows and without times of writing.
const ORDINARY: [&str; 11] = [
    "SELECT (to_jsonb(t) - 'created_at')::text FROM fee_events t WHERE status <> 'dropped'",
    "SELECT to_jsonb(t)::text FROM adfs_events t WHERE status <> 'dropped'",
    "SELECT to_jsonb(t)::text FROM tx_inputs t WHERE status <> 'dropped'",
    "SELECT to_jsonb(t)::text FROM feed_updates t WHERE status <> 'dropped'",
    "SELECT to_jsonb(t)::text FROM ring_buffer_updates t WHERE status <> 'dropped'",
    "SELECT to_jsonb(t)::text FROM feed_latest t",
    "SELECT to_jsonb(t)::text FROM proxy_versions t",
    "SELECT to_jsonb(t)::text FROM pending_blocks t",
    "SELECT to_jsonb(t)::text FROM complete_through t",
    "SELECT (to_jsonb(t) - 'dropped_bits')::text FROM processing_state t",
    "SELECT to_jsonb(q)::text FROM quarantine q WHERE NOT EXISTS (SELECT FROM dropped_blocks d \
     WHERE d.chain_id = q.chain_id AND d.block_hash = q.block_hash)",
];
const FEES: &str = "SELECT concat_ws(' ', block_number, block_hash, tx_hash, log_index, token, integrator, \
    integrator_fee, lifi_fee, status) FROM fee_events \
    WHERE event = 'FeesCollected' AND status <> 'dropped'";
const FEEDS: &str = "SELECT concat_ws(' ', block_number, block_hash, tx_hash, log_index, version, feed_id, \
    rb_index, data, status) FROM feed_updates WHERE status <> 'dropped'";
const RING: &str = "SELECT concat_ws(' ', block_number, block_hash, tx_hash, log_index, version, \
    table_index, data, status) FROM ring_buffer_updates WHERE status <> 'dropped'";
const LATEST: &str = "SELECT concat_ws(' ', block_number, block_hash, tx_hash, log_index, version, feed_id, \
    rb_index, data) FROM feed_latest";
const VERSIONS: &str =
    "SELECT concat_ws(' ', activated_block, version, implementation) FROM proxy_versions";
/// Differences of which some are shown.
const SHOWN: usize = 5;

/// What was compared, and what differs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) fees: u64,
    pub(super) feeds: u64,
    pub(super) latest: u64,
    pub(super) versions: u64,
    pub(super) dropped: i64,
    /// How often the writer changed, and how often it was the second node.
    pub(super) epochs: i64,
    pub(super) by_second: i64,
    /// Writes that need a lease, each of which was by its holder.
    pub(super) writes: i64,
    /// Rows that the chain has and the tables do not, and the other way round.
    pub(super) missing: u64,
    pub(super) made_up: u64,
    /// Rows that are not those of a clean replay.
    pub(super) apart: u64,
}

impl Compared {
    pub(super) fn is_equal(&self) -> bool {
        (self.missing, self.made_up, self.apart) == (0, 0, 0)
    }
}

/// Compares tables with the chain, whose blocks through `last` are final, and with a replay.
pub(super) async fn compare(
    ours: &Rows,
    replayed: &Rows,
    node: &EvmNode,
    last: u64,
) -> Result<Compared> {
    let mut compared = Compared {
        dropped: ours.dropped().await?,
        epochs: ours.epochs().await?,
        ..Compared::default()
    };
    let expected = Expected::of(node, last);
    for (statement, wanted) in [
        (FEES, &expected.fees),
        (FEEDS, &expected.feeds),
        (RING, &expected.ring),
        (LATEST, &expected.latest),
        (VERSIONS, &expected.versions),
    ] {
        let found = ours.texts(statement).await?;
        let (missing, made_up) = differences(wanted, &found);
        print_rows("missing", &missing);
        print_rows("made up", &made_up);
        compared.missing += missing.len() as u64;
        compared.made_up += made_up.len() as u64;
    }
    for statement in ORDINARY {
        let ours = ours.texts(statement).await?;
        let theirs = replayed.texts(statement).await?;
        let (missing, odd) = differences(&theirs, &ours);
        print_rows("only in the replay", &missing);
        print_rows("not in the replay", &odd);
        compared.apart += (missing.len() + odd.len()) as u64;
    }
    compared.fees = expected.fees.len() as u64;
    compared.feeds = expected.feeds.len() as u64;
    compared.latest = expected.latest.len() as u64;
    compared.versions = expected.versions.len() as u64;
    Ok(compared)
}

fn print_rows(what: &str, rows: &[String]) {
    for row in rows.iter().take(SHOWN) {
        eprintln!("{what}: {row}");
    }
}

/// What is only in the first, and what is only in the second; both are sorted, and a row may be there
/// more than once.
fn differences(wanted: &[String], found: &[String]) -> (Vec<String>, Vec<String>) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for row in wanted {
        *counts.entry(row).or_default() += 1;
    }
    for row in found {
        *counts.entry(row).or_default() -= 1;
    }
    let pick = |sign: i64| {
        let picked = counts.iter().filter(move |(_, count)| **count * sign > 0);
        let times = |count: &i64| count.unsigned_abs() as usize;
        let rows = picked.map(|(row, count)| std::iter::repeat_n((*row).to_owned(), times(count)));
        rows.flatten().collect()
    };
    (pick(1), pick(-1))
}

/// What the tables must hold, as text.
#[derive(Default)]
struct Expected {
    fees: Vec<String>,
    feeds: Vec<String>,
    ring: Vec<String>,
    latest: Vec<String>,
    versions: Vec<String>,
}

impl Expected {
    fn of(node: &EvmNode, last: u64) -> Self {
        let mut all = Self::default();
        let everything = BlockRange::new(0, u64::MAX);
        let status = |number: u64| match number <= last {
            true => "confirmed",
            false => "pending",
        };
        for fee in node.fees(everything) {
            let number = fee.block_number;
            let place = place(number, (fee.block_hash, fee.tx_hash), fee.log_index);
            let (token, integrator) = (bytes(&fee.token), bytes(&fee.integrator));
            let (one, two, status) = (fee.integrator_fee, fee.lifi_fee, status(number));
            let row = format!("{place} {token} {integrator} {one} {two} {status}");
            all.fees.push(row);
        }
        let mut latest = BTreeMap::new();
        for event in node.adfs(everything) {
            let number = event.place.block_number;
            all.add(&event, status(number));
            if let (AdfsWhat::Updated { feeds, .. }, true) = (&event.what, number <= last) {
                for feed in feeds {
                    // A later event is newer.
                    latest.insert(feed.feed_id, feed_text(&event, feed));
                }
            }
        }
        all.latest = latest.into_values().collect();
        all
    }

    fn add(&mut self, event: &AdfsEvent, status: &str) {
        let place = place_of(event);
        let version = event.version;
        match &event.what {
            AdfsWhat::Upgraded(to) => {
                let number = event.place.block_number;
                let row = format!("{number} {version} {}", bytes(to));
                self.versions.push(row);
            }
            AdfsWhat::Updated { feeds, rows, .. } => {
                let texts = feeds.iter().map(|feed| feed_text(event, feed));
                self.feeds
                    .extend(texts.map(|text| format!("{text} {status}")));
                for row in rows {
                    let (index, data) = (bytes(&row.table_index.to_be_bytes()), bytes(&row.data()));
                    let row = format!("{place} {version} {index} {data} {status}");
                    self.ring.push(row);
                }
            }
        }
    }
}

fn feed_text(event: &AdfsEvent, feed: &chronolith_sim::evm::adfs::encode::Value) -> String {
    let (place, version) = (place_of(event), event.version);
    let (id, data) = (bytes(&feed.feed_id.to_be_bytes()), bytes(&feed.data));
    format!("{place} {version} {id} {} {data}", feed.rb_index)
}

fn place_of(event: &AdfsEvent) -> String {
    let at = &event.place;
    place(at.block_number, (at.block_hash, at.tx_hash), at.log_index)
}

fn place(number: u64, (block, tx): (Hash32, Hash32), log_index: u32) -> String {
    format!("{number} {} {} {log_index}", bytes(&block.0), bytes(&tx.0))
}

/// As the database writes bytes.
fn bytes(bytes: &[u8]) -> String {
    format!("\\x{}", const_hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_twice_or_not_at_all_are_found() {
        let rows = |all: &[&str]| all.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        let check = |one: &[&str], two: &[&str], missing: &[&str], odd: &[&str]| {
            let found = differences(&rows(one), &rows(two));
            assert_eq!(found, (rows(missing), rows(odd)));
        };
        check(&["a", "b"], &["a", "b"], &[], &[]);
        check(&["a", "b"], &["a"], &["b"], &[]);
        check(&["a"], &["a", "a", "c"], &[], &["a", "c"]);
        check(&["a", "a"], &["a"], &["a"], &[]);
    }
}
