//! How many blocks to ask for at once: less after a refusal, more again after a while.

use std::sync::{Mutex, PoisonError};

/// Asked for at first.
const FIRST: u64 = 10_000;
/// Halved down to this on refusals, and below only by hints or one by one.
const FLOOR: u64 = 256;
/// Answers in a row after which the span doubles.
const GROW_AFTER: u32 = 4;

/// The span of one endpoint.
#[derive(Debug)]
pub(crate) struct Spans {
    inner: Mutex<Inner>,
    most: u64,
}

#[derive(Debug)]
struct Inner {
    span: u64,
    good: u32,
}

impl Spans {
    pub(crate) fn new(most: u64) -> Self {
        let most = most.max(1);
        Self {
            inner: Mutex::new(Inner {
                span: FIRST.min(most),
                good: 0,
            }),
            most,
        }
    }

    /// How many blocks to ask for now.
    pub(crate) fn span(&self) -> u64 {
        self.lock().span
    }

    /// A range of this many blocks was answered.
    pub(crate) fn answered(&self, blocks: u64) {
        let mut inner = self.lock();
        if blocks < inner.span {
            return;
        }
        inner.good += 1;
        if inner.good >= GROW_AFTER {
            inner.good = 0;
            inner.span = inner.span.saturating_mul(2).min(self.most);
        }
    }

    /// A range of this many blocks was refused, perhaps with the number that would work. Returns
    /// how many to try next: always fewer, so that a hint that repeats what failed cannot loop;
    /// none where a single block was refused.
    pub(crate) fn refused(&self, blocks: u64, hint: Option<u64>) -> Option<u64> {
        let halved = if blocks > FLOOR {
            (blocks / 2).max(FLOOR)
        } else {
            blocks / 2
        };
        let next = hint
            .filter(|hint| *hint < blocks && *hint > 0)
            .unwrap_or(halved);
        let mut inner = self.lock();
        inner.good = 0;
        inner.span = inner.span.min(next.max(1));
        (next > 0).then_some(next)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_shrink_to_one_and_answers_grow_back() {
        let spans = Spans::new(10_000);
        let mut blocks = spans.span();
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
        for _ in 0..GROW_AFTER {
            assert_eq!(spans.span(), 1);
            spans.answered(1);
        }
        assert_eq!(spans.span(), 2);
    }

    #[test]
    fn a_hint_is_followed_only_if_it_is_smaller() {
        let spans = Spans::new(10_000);
        assert_eq!(spans.refused(5_000, Some(2_000)), Some(2_000));
        assert_eq!(
            spans.refused(2_000, Some(2_000)),
            Some(1_000),
            "the same range again"
        );
        assert_eq!(spans.refused(1_000, Some(9_999)), Some(500));
        assert_eq!(spans.refused(10, Some(0)), Some(5));
        assert_eq!(spans.span(), 5);
    }
}
