//! The newest object of a lake: the first of a listing, or searched for where there is no listing.

use super::keys::{Batch, Layout};

/// How far after the last object others are searched for: it may end at a gap.
const AHEAD: [u32; 6] = [2, 3, 5, 9, 17, 33];

/// Looks for the last object that is there, of objects without a gap between them: in steps that double,
/// and then halve. The caller answers whether the object that is [`due`](Search::due) is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    layout: Layout,
    /// Numbers of objects: the highest that is known to be there, and the lowest that is not.
    there: u32,
    absent: Option<u32>,
    step: u32,
}

impl Search {
    /// From an object that is there.
    pub(crate) fn from(layout: Layout, there: Batch) -> Self {
        Self {
            layout,
            there: there.start / layout.ledgers_per_batch(),
            absent: None,
            step: 1,
        }
    }

    /// The object to look for next; none where the last is found.
    pub(crate) fn due(&self) -> Option<Batch> {
        let highest = u32::MAX / self.layout.ledgers_per_batch();
        let number = match self.absent {
            Some(absent) => self.there + (absent - self.there) / 2,
            None => self.there.saturating_add(self.step).min(highest),
        };
        (number > self.there).then(|| self.batch(number))
    }

    /// Whether the object that was due is there.
    pub(crate) fn note(&mut self, batch: Batch, is_there: bool) {
        let number = batch.start / self.layout.ledgers_per_batch();
        if is_there {
            self.there = number;
            self.step = self.step.saturating_mul(2);
        } else {
            self.absent = Some(number)
        }
    }

    /// The last that is there, as far as is known.
    pub(crate) fn last(&self) -> Batch {
        self.batch(self.there)
    }

    /// Objects that are there if the last is followed by a gap, and not if the lake ends with it.
    pub(crate) fn after_gap(&self) -> impl Iterator<Item = Batch> {
        let highest = u32::MAX / self.layout.ledgers_per_batch();
        let ahead = AHEAD.into_iter().map(|step| self.there.checked_add(step));
        let ahead = ahead.flatten().filter(move |number| *number <= highest);
        ahead.map(|number| self.batch(number))
    }

    fn batch(&self, number: u32) -> Batch {
        let ledger = number.saturating_mul(self.layout.ledgers_per_batch());
        self.layout.batch_of(ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ledgers_per_batch: u32, from: u32, last: u32, most: u32) {
        let layout = Layout::new(ledgers_per_batch, 1).unwrap();
        let mut search = Search::from(layout, layout.batch_of(from));
        let mut looked = 0;
        while let Some(due) = search.due() {
            search.note(due, due.start <= last);
            looked += 1;
        }
        assert_eq!(search.last(), layout.batch_of(last));
        assert!(looked <= most, "{looked} looks for {last}");
    }

    #[test]
    fn the_last_is_found_in_few_looks() {
        for last in 2..300 {
            check(1, 2, last, 20);
            check(7, 2, last, 14);
        }
        check(1, 2, 64_190_000, 60);
        check(64, 2, 64_190_000, 48);
        check(1, 2, u32::MAX, 40);
        check(64, 2, u32::MAX, 40);
        // Where it stood still, one look is enough; where it continued by one, three are.
        check(1, 500, 500, 1);
        check(1, 500, 501, 3);
    }

    #[test]
    fn a_few_objects_behind_the_last_are_looked_for() {
        let after = |ledgers_per_batch: u32, last: u32| {
            let layout = Layout::new(ledgers_per_batch, 1).unwrap();
            let search = Search::from(layout, layout.batch_of(last));
            let starts = search.after_gap().map(|batch| batch.start);
            starts.collect::<Vec<_>>()
        };
        assert_eq!(after(1, 100), [102, 103, 105, 109, 117, 133]);
        assert_eq!(after(64, 130), [256, 320, 448, 704, 1_216, 2_240]);
        assert_eq!(after(1, u32::MAX - 3), [u32::MAX - 1, u32::MAX]);
    }
}
