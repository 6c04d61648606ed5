//! How many blocks to request at once: as many as the endpoint gives, and as are worth holding.
//!
//! Limits of endpoints are on blocks, on logs, or on both, and few say which. A refusal shrinks the
//! limit that was nearer; answers let it grow back, the more slowly the more often that failed.

use parking_lot::Mutex;

/// Answers in a row after which a limit grows, at first and at last.
const GROW_AFTER_FIRST: u32 = 4;
const GROW_AFTER_MAX: u32 = 1_024;
/// Logs worth requesting at once: an answer of a few megabytes.
const LOGS_MAX: f64 = 10_000.0;
/// About what a log takes on its way, and the least worth requesting at once.
const LOG_BYTES: f64 = 800.0;
const LOGS_LEAST: f64 = 500.0;
/// How much of the limit on logs is requested: blocks differ.
const MARGIN: f64 = 0.95;
/// How much of what was known before the last answer counts.
const MEMORY: f64 = 0.8;
/// Blocks whose receipts are requested before it is known how heavy they are.
const RECEIPTS_FIRST: u64 = 25;
/// Bytes of receipts worth requesting at once, at most and at least.
const RECEIPT_BYTES: f64 = 8e6;
const RECEIPT_BYTES_LEAST: f64 = 250e3;

/// How much history is requested at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeSettings {
    /// Blocks that one call for logs spans at first.
    pub first: u64,
    /// Halved down to this on refusals, and below only by hints or one by one.
    pub least: u64,
    /// Blocks that it may span.
    pub most: u64,
    /// Bytes of history that may be on their way together, about.
    pub hold_bytes: u64,
}

impl Default for RangeSettings {
    fn default() -> Self {
        Self {
            first: 10_000,
            least: 256,
            most: 10_000,
            hold_bytes: 128 << 20,
        }
    }
}

/// What one endpoint gives at once.
#[derive(Debug)]
pub(crate) struct Spans {
    inner: Mutex<Inner>,
    settings: RangeSettings,
    logs_max: f64,
    receipt_bytes: f64,
}

#[derive(Debug)]
struct Inner {
    /// Blocks that one call for logs may span.
    blocks: u64,
    /// Logs that one call may find.
    logs: f64,
    good: u32,
    grow_after: u32,
    found: Density,
    receipt_bytes: Density,
}

/// How much there is in a block, mostly of late.
#[derive(Clone, Copy, Default, Debug)]
struct Density {
    amount: f64,
    blocks: f64,
}

impl Density {
    fn add(&mut self, blocks: u64, amount: f64) {
        self.amount = self.amount * MEMORY + amount;
        self.blocks = self.blocks * MEMORY + blocks as f64;
    }

    fn a_block(&self) -> Option<f64> {
        (self.blocks > 0.0).then(|| self.amount / self.blocks)
    }

    /// Blocks that hold about this much; none as long as nothing is known.
    fn blocks_of(&self, amount: f64) -> Option<u64> {
        // Of empty blocks an infinite number, which becomes the largest one.
        Some(((amount / self.a_block()?) as u64).max(1))
    }
}

impl Spans {
    /// For an endpoint that gets this many requests for parts at the same time.
    pub(crate) fn new(settings: RangeSettings, parts: usize) -> Self {
        let part_bytes = settings.hold_bytes as f64 / parts.max(1) as f64;
        let logs_max = (part_bytes / LOG_BYTES).clamp(LOGS_LEAST, LOGS_MAX);
        Self {
            inner: Mutex::new(Inner {
                blocks: settings.first.min(settings.most).max(1),
                logs: logs_max,
                good: 0,
                grow_after: GROW_AFTER_FIRST,
                found: Density::default(),
                receipt_bytes: Density::default(),
            }),
            settings,
            logs_max,
            receipt_bytes: part_bytes.clamp(RECEIPT_BYTES_LEAST, RECEIPT_BYTES),
        }
    }

    /// How many blocks to request the logs of.
    pub(crate) fn for_logs(&self) -> u64 {
        let inner = self.inner.lock();
        let held = inner.found.blocks_of(inner.logs * MARGIN);
        inner.blocks.min(held.unwrap_or(u64::MAX))
    }

    /// How many blocks to request the receipts of.
    pub(crate) fn for_receipts(&self) -> u64 {
        let density = self.inner.lock().receipt_bytes;
        density
            .blocks_of(self.receipt_bytes)
            .unwrap_or(RECEIPTS_FIRST)
    }

    /// Whether there was an answer yet: before, it is a guess.
    pub(crate) fn is_known(&self) -> bool {
        self.inner.lock().found.a_block().is_some()
    }

    /// Receipts of this many blocks came, of about this many bytes.
    pub(crate) fn received(&self, blocks: u64, bytes: usize) {
        self.inner.lock().receipt_bytes.add(blocks, bytes as f64);
    }

    /// A call for the logs of this many blocks was answered with this many logs.
    pub(crate) fn answered(&self, blocks: u64, logs: usize) {
        let full = self.for_logs();
        let mut inner = self.inner.lock();
        inner.found.add(blocks, logs as f64);
        if blocks < full {
            return;
        }
        inner.good += 1;
        if inner.good >= inner.grow_after {
            inner.good = 0;
            let most = self.settings.most.max(1);
            inner.blocks = inner.blocks.saturating_mul(2).min(most);
            inner.logs = (inner.logs * 2.0).min(self.logs_max);
        }
    }

    /// A call for this many blocks was refused, perhaps with the number that would work. Returns how
    /// many to try next: always fewer, so that a hint that repeats what failed cannot loop; none
    /// where a single block was refused.
    pub(crate) fn refused(&self, blocks: u64, hint: Option<u64>) -> Option<u64> {
        let least = self.settings.least;
        let halved = if blocks > least {
            (blocks / 2).max(least)
        } else {
            blocks / 2
        };
        let hint = hint.filter(|hint| (1..blocks).contains(hint));
        let next = hint.unwrap_or(halved);
        let mut inner = self.inner.lock();
        inner.good = 0;
        inner.grow_after = (inner.grow_after * 2).min(GROW_AFTER_MAX);
        let logs = |blocks: u64| inner.found.a_block().map(|logs| logs * blocks as f64);
        match logs(blocks).zip(logs(next)) {
            Some((refused, fits)) if refused > inner.logs / 2.0 => {
                inner.logs = inner.logs.min(fits.max(1.0));
            }
            _ => inner.blocks = inner.blocks.min(next.max(1)),
        }
        (next > 0).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_shrink_to_one_and_answers_grow_back() {
        let spans = Spans::new(RangeSettings::default(), 8);
        let mut blocks = spans.for_logs();
        let mut tried = vec![blocks];
        while let Some(next) = spans.refused(blocks, None) {
            assert!(next < blocks);
            blocks = next;
            tried.push(blocks);
        }
        assert_eq!(
            tried,
            [
                10_000, 5_000, 2_500, 1_250, 625, 312, 256, 128, 64, 32, 16, 8, 4, 2, 1
            ]
        );
        let mut answers = 0;
        while spans.for_logs() < 10_000 {
            spans.answered(spans.for_logs(), 0);
            answers += 1;
        }
        assert_eq!(answers, 14 * GROW_AFTER_MAX);
    }

    #[test]
    fn a_hint_is_followed_only_if_it_is_smaller() {
        let spans = Spans::new(RangeSettings::default(), 8);
        assert_eq!(spans.refused(5_000, Some(2_000)), Some(2_000));
        assert_eq!(
            spans.refused(2_000, Some(2_000)),
            Some(1_000),
            "the same range again"
        );
        assert_eq!(spans.refused(1_000, Some(9_999)), Some(500));
        assert_eq!(spans.refused(10, Some(0)), Some(5));
        assert_eq!(spans.for_logs(), 5);
    }

    /// Requests that are needed for these blocks, where each has this many logs, under both limits.
    fn requests(blocks: u64, logs_a_block: u64, (blocks_max, logs_max): (u64, u64)) -> u64 {
        let spans = Spans::new(RangeSettings::default(), 8);
        let (mut at, mut sent) = (0, 0);
        while at < blocks {
            let mut span = spans.for_logs().min(blocks - at);
            loop {
                sent += 1;
                if span <= blocks_max && span * logs_a_block <= logs_max {
                    break;
                }
                span = spans.refused(span, None).unwrap();
            }
            spans.answered(span, (span * logs_a_block) as usize);
            at += span;
        }
        sent
    }

    #[test]
    fn few_more_requests_are_sent_than_limits_need() {
        for (limits, logs_a_block, least) in [
            ((10_000, 10_000), 0, 100),
            ((10_000, 10_000), 50, 5_000),
            ((2_000, 10_000), 0, 500),
            ((10_000, 1_000), 50, 50_000),
        ] {
            let sent = requests(1_000_000, logs_a_block, limits);
            // Without hints a limit is found by halving: up to twice the least.
            assert!(sent >= least && sent < 2 * least + 50, "{limits:?}: {sent}");
        }
        let known = requests(1_000_000, 50, (10_000, 10_000));
        assert!(known as f64 <= 5_000.0 * 1.1, "{known}");
    }

    #[test]
    fn heavy_receipts_are_requested_a_few_at_a_time() {
        let spans = Spans::new(RangeSettings::default(), 8);
        spans.received(10, 10 * 400_000);
        assert_eq!(spans.for_receipts(), 20);
        spans.received(20, 0);
        assert!(spans.for_receipts() > 20);
    }
}
