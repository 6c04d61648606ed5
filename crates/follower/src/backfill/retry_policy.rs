//! When a bounded part of history is abandoned: what is wrong stays as it is until an operator acts, and
//! everything that does not wait for it is done.
//!
//! An object that a lake does not have below its newest one, or that is not what its name says, is such:
//! only the lake can bring it. Objects may be written out of order, so it is requested a few times more. A
//! lake that ends too early is not such a case: it may grow.

use chronolith_source::Error as SourceError;

use crate::chain::Chain;
use crate::error::FollowError;

/// Attempts without one step forward. With the pauses between them, about eight seconds.
const ATTEMPTS_MAX: u32 = 6;

/// What happens where no later attempt can succeed until an operator acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFatal {
    /// It is reported and tried again: an operator may act while the program runs.
    Retry,
    Exit,
}

/// Why a part of the work was abandoned.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Abandoned(String);

/// Attempts that failed, and where.
#[derive(Default, Debug)]
pub struct RetryBudget {
    place: Option<u64>,
    attempts: u32,
}

impl RetryBudget {
    /// Counts a failed attempt, and fails where every error of it is such that no later attempt succeeds
    /// either. Places are numbers that change with every step forward.
    pub fn spend(
        &mut self,
        chain: &Chain,
        errors: &[FollowError],
        place: u64,
        on_fatal: OnFatal,
    ) -> Result<(), Abandoned> {
        let is_stellar = chain.settings.stellar.is_some();
        let recovery = |error| recovery(error, is_stellar, on_fatal);
        if !self.is_spent(errors.iter().map(recovery), place) {
            return Ok(());
        }
        let mut causes: Vec<String> = errors.iter().map(FollowError::to_string).collect();
        causes.dedup();
        Err(Abandoned(causes.join("; ")))
    }

    /// Counts an attempt by the best of its errors.
    fn is_spent(&mut self, recoveries: impl Iterator<Item = Recovery>, place: u64) -> bool {
        match recoveries.min() {
            None | Some(Recovery::Likely) => {
                *self = Self::default();
                return false;
            }
            Some(Recovery::Unlikely) => {}
            Some(Recovery::None) => return true,
        }
        if self.place != Some(place) {
            *self = Self {
                place: Some(place),
                attempts: 0,
            };
        }
        self.attempts += 1;
        self.attempts >= ATTEMPTS_MAX
    }
}

/// Whether a later attempt may succeed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Recovery {
    Likely,
    /// Only where the source is just being written.
    Unlikely,
    None,
}

fn recovery(error: &FollowError, is_stellar: bool, on_fatal: OnFatal) -> Recovery {
    match error {
        // A node that keeps running tries again: an operator may repair its core.
        FollowError::Source(SourceError::Stuck { .. }) if on_fatal == OnFatal::Exit => {
            Recovery::None
        }
        FollowError::Source(SourceError::Inconsistent { .. }) if is_stellar => Recovery::Unlikely,
        _ => Recovery::Likely,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inconsistent() -> FollowError {
        FollowError::Source(SourceError::Inconsistent {
            endpoint: "lake".to_owned(),
            number: 30,
            what: "object x is missing".to_owned(),
        })
    }

    fn missing() -> FollowError {
        FollowError::Source(SourceError::Missing {
            endpoint: "lake".to_owned(),
            number: 30,
        })
    }

    /// After how many attempts it is abandoned; none where it is tried forever.
    fn attempts(error: &FollowError, is_stellar: bool, on_fatal: OnFatal) -> Option<u32> {
        let mut budget = RetryBudget::default();
        let recovery = recovery(error, is_stellar, on_fatal);
        (1..100).find(|_| budget.is_spent([recovery].into_iter(), 30))
    }

    #[test]
    fn what_cannot_come_is_abandoned_and_what_may_come_is_not() {
        let stuck = FollowError::Source(SourceError::Stuck {
            endpoint: "core".to_owned(),
            reason: "held".to_owned(),
        });
        let (retry, exit) = (OnFatal::Retry, OnFatal::Exit);
        assert_eq!(attempts(&inconsistent(), true, exit), Some(ATTEMPTS_MAX));
        assert_eq!(attempts(&inconsistent(), true, retry), Some(ATTEMPTS_MAX));
        assert_eq!(attempts(&stuck, true, exit), Some(1));
        assert_eq!(attempts(&stuck, true, retry), None);
        // A lake that lags may grow, and another endpoint may have the right block.
        assert_eq!(attempts(&missing(), true, exit), None);
        assert_eq!(attempts(&inconsistent(), false, exit), None);
    }

    #[test]
    fn a_step_forward_or_another_error_resets_the_budget() {
        let mut budget = RetryBudget::default();
        let mut spent = |errors: &[FollowError], place| {
            let of = |error| recovery(error, true, OnFatal::Exit);
            budget.is_spent(errors.iter().map(of), place)
        };
        assert!((0..50).all(|place| !spent(&[inconsistent()], place)));
        for _ in 0..10 {
            assert!((1..ATTEMPTS_MAX).all(|_| !spent(&[inconsistent()], 7)));
            // One of several may still move.
            assert!(!spent(&[inconsistent(), missing()], 7));
        }
        assert!((1..ATTEMPTS_MAX).all(|_| !spent(&[inconsistent(), inconsistent()], 7)));
        assert!(spent(&[inconsistent()], 7));
    }
}
