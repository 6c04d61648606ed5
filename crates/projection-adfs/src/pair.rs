//! Which call of a transaction emitted which event.
//!
//! A transaction may update feeds several times, and some of its calls may have failed without an event.
//! Calls and events with the same block number belong together, in order, where there are as many of the one
//! as of the other. What is left is taken in order where there is a call for each event and no other: else
//! one that failed could be taken for one that did not.

use std::collections::{HashMap, VecDeque};

/// The call that an event is of, as its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairing {
    /// Both say the same block number.
    ByNumber(usize),
    /// At least one of them says none.
    ByOrder(usize),
    /// The next in order says another block number, which the contract would have emitted: it is not the
    /// event's, and whatever it holds is not what was stored.
    Disagreeing,
    /// There is no call for it, or it is unknown which.
    Alone,
}

/// Pairs events with calls: an answer for each event, in order. Both lists are in the order of execution,
/// and are block numbers where there are any. No call is given twice.
#[must_use]
pub fn pair(calls: &[Option<u64>], events: &[Option<u64>]) -> Vec<Pairing> {
    let mut by_number: HashMap<u64, VecDeque<usize>> = HashMap::new();
    for (at, number) in calls.iter().enumerate() {
        if let Some(number) = number {
            by_number.entry(*number).or_default().push_back(at);
        }
    }
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for number in events.iter().flatten() {
        *counts.entry(*number).or_default() += 1;
    }
    by_number.retain(|number, calls| counts.get(number) == Some(&calls.len()));
    let mut same_number = |number: &Option<u64>| by_number.get_mut(&(*number)?)?.pop_front();
    let matched: Vec<Option<usize>> = events.iter().map(&mut same_number).collect();
    let mut free = vec![true; calls.len()];
    for at in matched.iter().flatten() {
        if let Some(free) = free.get_mut(*at) {
            *free = false;
        }
    }
    let left = calls.iter().enumerate().zip(free);
    let left: Vec<_> = left
        .filter(|(_, free)| *free)
        .map(|(call, _)| call)
        .collect();
    let open = matched.iter().filter(|matched| matched.is_none()).count();
    let certain = left.len() == open;
    let mut left = left.into_iter().filter(|_| certain);
    let mut in_order = |event: &Option<u64>| match left.next() {
        None => Pairing::Alone,
        Some((_, call)) if call.is_some() && call == event => Pairing::Alone,
        Some((_, call)) if call.is_some() && event.is_some() => Pairing::Disagreeing,
        Some((at, _)) => Pairing::ByOrder(at),
    };
    let pairs = events.iter().zip(matched);
    pairs
        .map(|(event, matched)| matched.map_or_else(|| in_order(event), Pairing::ByNumber))
        .collect()
}

/// The block number in the data of `DataFeedsUpdated(uint256)`; `None` where it is no number of 64 bits.
#[must_use]
pub fn event_block_number(data: &[u8]) -> Option<u64> {
    let (high, low) = data.split_last_chunk()?;
    let fits = high.len() == 24 && high.iter().all(|byte| *byte == 0);
    fits.then_some(u64::from_be_bytes(*low))
}

#[cfg(test)]
mod tests {
    use super::Pairing::{Alone, ByNumber, ByOrder, Disagreeing};
    use super::*;

    #[test]
    fn events_find_their_calls() {
        let check = |calls: &[Option<u64>], events: &[Option<u64>], expected: &[Pairing]| {
            assert_eq!(pair(calls, events), expected, "{calls:?} {events:?}");
        };
        let (one, two, six) = (Some(1), Some(2), Some(6));
        check(&[], &[], &[]);
        check(&[one], &[one], &[ByNumber(0)]);
        check(&[], &[one, None], &[Alone, Alone]);
        // The first call failed inside and left no event.
        check(&[one, two], &[two], &[ByNumber(1)]);
        check(&[one, two], &[two, one], &[ByNumber(1), ByNumber(0)]);
        // The same number twice: one after the other.
        check(&[one, one], &[one, one], &[ByNumber(0), ByNumber(1)]);
        // More calls say it than events do, or fewer: it is unknown which of them it is.
        check(&[one, one], &[one], &[Alone]);
        check(&[one, one, two], &[one, two], &[Alone, ByNumber(2)]);
        check(&[one], &[one, one], &[Alone, Alone]);
        check(&[one, one], &[one, two], &[Alone, Disagreeing]);
        // Calldata without a block number.
        check(&[None, None], &[one, two], &[ByOrder(0), ByOrder(1)]);
        check(&[None, one], &[one, two], &[ByNumber(1), ByOrder(0)]);
        check(&[one, two], &[None, None], &[ByOrder(0), ByOrder(1)]);
        // A number that no call has is in the event, and takes no call from another event.
        check(&[one, two], &[six, one], &[Disagreeing, ByNumber(0)]);
        check(&[one], &[six], &[Disagreeing]);
        // More calls than events, or fewer: it is unknown which failed.
        check(&[one], &[six, two], &[Alone, Alone]);
        check(&[None, None], &[one], &[Alone]);
        check(&[None, one, None], &[one, two], &[ByNumber(1), Alone]);
    }

    #[test]
    fn the_number_of_an_event_is_a_word() {
        let mut word = [0; 32];
        word[24..].copy_from_slice(&7_u64.to_be_bytes());
        assert_eq!(event_block_number(&word), Some(7));
        assert_eq!(event_block_number(&word[1..]), None);
        assert_eq!(event_block_number(&[]), None);
        let longer = [&word[..], &[0]].concat();
        assert_eq!(event_block_number(&longer), None);
        word[23] = 1;
        assert_eq!(event_block_number(&word), None);
    }
}
