//! When a bounded part of history is given up: what is wrong stays as it is until somebody else acts, and
//! everything that does not wait for it is done.
//!
//! An object that a lake lacks below its newest one, or that is not what its name says, is such: nobody but
//! the lake can bring it. Objects may be put there out of order, so it is asked for a few times more. A lake
//! that ends too early is none: it may grow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Error, Result};
use chronolith_source::Error as SourceError;

use crate::backfill::bounded::Hopeless;
use crate::chain::Chain;
use crate::ingest::Trouble;

/// Tries without one step forward. With the pauses between them, about eight seconds.
const TRIES_MAX: u32 = 6;

/// Why something was given up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GivenUp(String);

/// Tries that failed, and where.
#[derive(Default, Debug)]
pub struct Patience {
    place: Option<u64>,
    tries: u32,
}

impl Patience {
    /// Fails where all trouble at a place is such that no later try ends well either. Places are numbers that
    /// change with every step forward.
    pub fn check(
        &mut self,
        chain: &Chain,
        troubles: &[Trouble],
        (place, hopeless): (u64, Hopeless),
    ) -> Result<(), GivenUp> {
        let is_stellar = chain.settings.stellar.is_some();
        let lasting = troubles
            .iter()
            .map(|one| lasting(one, is_stellar, hopeless));
        if !self.is_spent(lasting, place) {
            return Ok(());
        }
        let mut said: Vec<String> = troubles.iter().map(Trouble::to_string).collect();
        said.dedup();
        Err(GivenUp(said.join("; ")))
    }

    /// Takes note of a try, by how long each trouble in it lasts.
    fn is_spent(&mut self, lasting: impl Iterator<Item = Lasting>, place: u64) -> bool {
        match lasting.min() {
            None | Some(Lasting::Passing) => {
                *self = Self::default();
                return false;
            }
            Some(Lasting::Stubborn) => {}
            Some(Lasting::Final) => return true,
        }
        if self.place != Some(place) {
            *self = Self {
                place: Some(place),
                tries: 0,
            };
        }
        self.tries += 1;
        self.tries >= TRIES_MAX
    }
}

/// For how long something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lasting {
    /// Asked again, it may be well.
    Passing,
    /// It will not be well by itself, unless it is just being made.
    Stubborn,
    Final,
}

fn lasting(trouble: &Trouble, is_stellar: bool, hopeless: Hopeless) -> Lasting {
    match trouble {
        // Whoever runs for long tries again: a core may be mended beside it.
        Trouble::Source(SourceError::Stuck { .. }) if hopeless == Hopeless::GiveUp => {
            Lasting::Final
        }
        Trouble::Source(SourceError::Inconsistent { .. }) if is_stellar => Lasting::Stubborn,
        _ => Lasting::Passing,
    }
}

/// One of the two that work beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Ingest,
    Fills,
}

/// What was given up so far.
#[derive(Default)]
pub struct Left(Mutex<Vec<(Part, String)>>);

impl Left {
    /// Takes note where a part of the work was given up, so that the other goes on. Any other error ends both.
    pub fn note(&self, chain: &Chain, part: Part, done: Result<()>) -> Result<()> {
        let given_up = match done.map_err(Error::downcast::<GivenUp>) {
            Ok(()) => return Ok(()),
            Err(Err(error)) => return Err(error),
            Err(Ok(given_up)) => given_up,
        };
        let (name, cause) = (&chain.settings.name, given_up.to_string());
        tracing::error!(chain = %name, %cause, "given up until somebody acts, what else is wanted is fetched");
        self.lock().push((part, cause));
        Ok(())
    }

    pub fn has(&self, part: Part) -> bool {
        self.lock().iter().any(|(given_up, _)| *given_up == part)
    }

    /// Waits until nothing but what was given up is left: ingest has no end while blocks below it are lacking.
    pub async fn is_all(&self, chain: &Chain) {
        let mut moves = chain.moves();
        while !(self.has(Part::Fills) && chain.is_at_end()) {
            let _ = tokio::time::timeout(chain.settings.poll, moves.changed()).await;
        }
    }

    /// Why, each cause once.
    pub fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = self.lock().iter().map(|(_, cause)| cause.clone()).collect();
        causes.dedup();
        causes
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Part, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lied() -> Trouble {
        Trouble::Source(SourceError::Inconsistent {
            endpoint: "lake".to_owned(),
            number: 30,
            what: "object x is missing".to_owned(),
        })
    }

    fn missing() -> Trouble {
        Trouble::Source(SourceError::Missing {
            endpoint: "lake".to_owned(),
            number: 30,
        })
    }

    /// How many tries of the same it takes; none where it is tried for ever.
    fn tries(trouble: &Trouble, is_stellar: bool, hopeless: Hopeless) -> Option<u32> {
        let mut patience = Patience::default();
        let lasting = lasting(trouble, is_stellar, hopeless);
        (1..100).find(|_| patience.is_spent([lasting].into_iter(), 30))
    }

    #[test]
    fn what_cannot_come_is_given_up_and_what_may_come_is_not() {
        let stuck = Trouble::Source(SourceError::Stuck {
            endpoint: "core".to_owned(),
            reason: "held".to_owned(),
        });
        let (try_again, give_up) = (Hopeless::TryAgain, Hopeless::GiveUp);
        assert_eq!(tries(&lied(), true, give_up), Some(TRIES_MAX));
        assert_eq!(tries(&lied(), true, try_again), Some(TRIES_MAX));
        assert_eq!(tries(&stuck, true, give_up), Some(1));
        assert_eq!(tries(&stuck, true, try_again), None);
        // A lake that is behind may grow, and another endpoint may have the right block.
        assert_eq!(tries(&missing(), true, give_up), None);
        assert_eq!(tries(&lied(), false, give_up), None);
    }

    #[test]
    fn a_step_forward_or_other_trouble_begins_anew() {
        let mut patience = Patience::default();
        let mut spent = |troubles: &[Trouble], place| {
            let of = |trouble| lasting(trouble, true, Hopeless::GiveUp);
            patience.is_spent(troubles.iter().map(of), place)
        };
        assert!((0..50).all(|place| !spent(&[lied()], place)));
        for _ in 0..10 {
            assert!((1..TRIES_MAX).all(|_| !spent(&[lied()], 7)));
            // One of several may still move.
            assert!(!spent(&[lied(), missing()], 7));
        }
        assert!((1..TRIES_MAX).all(|_| !spent(&[lied(), lied()], 7)));
        assert!(spent(&[lied()], 7));
    }
}
