//! Samples of a chain over the last day, for charts: every 10 s within the last hour, every 5 min before.
//!
//! It is in memory and begins with the process. It reads no clock: the node calls [`History::note`] with the time.
//! Samples are in order of time, and there are at most [`SAMPLES_MAX`].

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

/// Seconds between two samples of the last hour.
pub const STEP: u64 = 10;
/// For how long all of them are kept.
const FINE: u64 = 3_600;
/// Seconds between two samples that are older.
const COARSE_STEP: u64 = 300;
/// For how long those are kept.
const KEPT: u64 = 24 * 3_600;
/// Samples of a chain: those of the last hour, those before, and one at either end.
pub const SAMPLES_MAX: usize = (FINE / STEP + (KEPT - FINE) / COARSE_STEP + 2) as usize;

/// A chain at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When, in seconds since 1970.
    pub at: u64,
    /// The newest block that was served.
    pub head: u64,
    /// The newest final block; null where there was none.
    pub finalized: Option<u64>,
    /// The newest archived block; null where there was none.
    pub archived: Option<u64>,
    /// Seconds between the time of the head and `at`; null where that time was not known.
    pub lag_seconds: Option<u64>,
    /// Blocks that were ingested since the start of the process.
    pub blocks: u64,
}

/// The samples of a chain.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// One of each 5 minutes.
    coarse: VecDeque<Sample>,
    /// All of the last hour.
    fine: VecDeque<Sample>,
}

impl History {
    /// Notes a sample. One that comes less than a step after the last is not kept. Where the clock went back,
    /// samples from what is now the future go.
    pub fn note(&mut self, sample: Sample) {
        let now = sample.at;
        for part in [&mut self.coarse, &mut self.fine] {
            while part.back().is_some_and(|last| last.at > now) {
                part.pop_back();
            }
        }
        let last = self.fine.back();
        if last.is_some_and(|last| now.saturating_sub(last.at) < STEP) {
            return;
        }
        self.fine.push_back(sample);
        while let Some(old) = pop_older(&mut self.fine, now, FINE) {
            let place = |sample: &Sample| sample.at / COARSE_STEP;
            if self.coarse.back().map(place) != Some(place(&old)) {
                self.coarse.push_back(old);
            }
        }
        while pop_older(&mut self.coarse, now, KEPT).is_some() {}
    }

    /// Oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.coarse.iter().chain(&self.fine).copied().collect()
    }
}

/// Takes the first sample if it is older than this.
fn pop_older(samples: &mut VecDeque<Sample>, now: u64, age: u64) -> Option<Sample> {
    let first = samples.front()?;
    (now.saturating_sub(first.at) > age)
        .then(|| samples.pop_front())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000;

    fn sample(at: u64) -> Sample {
        Sample {
            at,
            head: at,
            finalized: None,
            archived: None,
            lag_seconds: None,
            blocks: 0,
        }
    }

    /// The times of all samples, after these were noted.
    fn noted(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut history = History::default();
        times.into_iter().for_each(|at| history.note(sample(at)));
        let times: Vec<u64> = history.samples().iter().map(|one| one.at).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        assert!(times.len() <= SAMPLES_MAX, "{}", times.len());
        times
    }

    #[test]
    fn the_last_hour_is_kept_whole_and_the_day_before_in_steps() {
        let end = START + 3 * 24 * 3_600;
        let times = noted((START..=end).step_by(STEP as usize));
        let (old, new): (Vec<u64>, Vec<u64>) = times.iter().partition(|at| end - **at > FINE);
        assert_eq!(new, (end - FINE..=end).step_by(10).collect::<Vec<_>>());
        assert!(
            old.windows(2).all(|two| two[1] - two[0] == COARSE_STEP),
            "{old:?}"
        );
        assert_eq!(old.len(), 276);
        assert!(end - old[0] <= KEPT && end - old[0] > KEPT - COARSE_STEP);
    }

    /// A timer is late, by a second or by an hour.
    #[test]
    fn times_that_are_not_a_step_apart_are_thinned_too() {
        let mut at = START;
        let late = (0..20_000_u64).map(|turn| {
            at += 10 + turn % 3 + if turn % 1_000 == 0 { 4_000 } else { 0 };
            at
        });
        let times = noted(late);
        let end = times[times.len() - 1];
        let places: Vec<u64> = times
            .iter()
            .filter(|at| end - **at > FINE)
            .map(|at| at / COARSE_STEP)
            .collect();
        assert!(
            places.is_sorted_by(|a, b| a < b),
            "two of one step: {places:?}"
        );
        assert!(end - times[0] <= KEPT);
    }

    #[test]
    fn a_sample_too_early_is_not_kept_and_a_clock_that_goes_back_keeps_the_order() {
        for (times, kept) in [
            (vec![START, START + 9, START + 10], vec![START, START + 10]),
            (vec![START, START], vec![START]),
            // It goes back by less than a step, and by more.
            (vec![START, START + 10, START + 5], vec![START]),
            (
                vec![START, START + 10, START + 20, START - 100],
                vec![START - 100],
            ),
            // Back across what was thinned.
            (
                vec![START, START + 9_000, START + 1_000],
                vec![START, START + 1_000],
            ),
            // Hours without a sample, as where the machine slept.
            (vec![START, START + 90_000], vec![START + 90_000]),
        ] {
            assert_eq!(noted(times.clone()), kept, "{times:?}");
        }
    }
}
