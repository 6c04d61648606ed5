//! When a chain counts as ready: not before its first good round, and then until none has ended well
//! for a while. One failed round is nothing to take a node out of service for.

use std::time::Duration;

/// A chain stays ready for this many polls without a good round, and at least this long.
const PATIENCE_POLLS: u32 = 3;
const PATIENCE_MIN: Duration = Duration::from_secs(30);

/// What readiness depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// Why the archive is halted, where it is.
    pub(crate) halt: Option<&'a str>,
    /// How long ago a round ended well; none before the first.
    pub(crate) since_good: Option<Duration>,
    /// How often the chain is looked at.
    pub(crate) poll: Duration,
    /// What went wrong last.
    pub(crate) error: Option<&'a str>,
}

/// Why the chain is not ready; none where it is.
pub(crate) fn why_not_ready(facts: &Facts<'_>) -> Option<String> {
    if let Some(halt) = facts.halt {
        return Some(format!("halted: {halt}"));
    }
    let what = match facts.since_good {
        None => "no round has ended well since the start".to_owned(),
        Some(since) if since > patience(facts.poll) => {
            format!("no round has ended well for {} s", since.as_secs())
        }
        Some(_) => return None,
    };
    Some(match facts.error {
        Some(error) => format!("{what}: {error}"),
        None => format!("{what}: catching up"),
    })
}

fn patience(poll: Duration) -> Duration {
    poll.saturating_mul(PATIENCE_POLLS).max(PATIENCE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_ready_until_no_round_ended_well_for_a_while() {
        let seconds = Duration::from_secs;
        for (halt, since_good, poll, expected) in [
            (None, None, 1, Some("since the start: it broke")),
            (None, Some(0), 1, None),
            (None, Some(30), 1, None),
            (None, Some(31), 1, Some("for 31 s: it broke")),
            (None, Some(31), 60, None),
            (None, Some(180), 60, None),
            (None, Some(181), 60, Some("for 181 s: it broke")),
            (Some("replaced"), Some(0), 1, Some("halted: replaced")),
        ] {
            let reason = why_not_ready(&Facts {
                halt,
                since_good: since_good.map(seconds),
                poll: seconds(poll),
                error: Some("it broke"),
            });
            let as_expected = match (&reason, expected) {
                (Some(reason), Some(expected)) => reason.contains(expected),
                (reason, expected) => reason.is_none() && expected.is_none(),
            };
            assert!(as_expected, "{reason:?} instead of {expected:?}");
        }
    }

    #[test]
    fn a_long_round_without_errors_is_reported_as_catching_up() {
        let reason = why_not_ready(&Facts {
            halt: None,
            since_good: None,
            poll: PATIENCE_MIN,
            error: None,
        });
        assert!(reason.is_some_and(|reason| reason.ends_with("catching up")));
    }
}
