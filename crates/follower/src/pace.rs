//! How long a chain waits until it looks for new blocks again.

use std::time::Duration;

use crate::settings::FollowSettings;

/// Whether a chain is far behind its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pace {
    /// It is not known to be near yet.
    #[default]
    Far,
    Near,
}

impl Pace {
    /// The pause after a round that began with this many blocks to fetch.
    pub(crate) fn pause_after(&mut self, settings: &FollowSettings, behind: u64) -> Duration {
        let Some(catching_up) = settings.catching_up else {
            return settings.poll;
        };
        if behind <= catching_up.near_blocks {
            *self = Self::Near;
        } else if behind >= catching_up.far_blocks {
            *self = Self::Far;
        }
        match self {
            Self::Far => settings.poll_far(),
            Self::Near => settings.poll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CatchingUp;

    const FAR: Duration = Duration::from_secs(5);
    const NEAR: Duration = Duration::from_secs(60);

    #[test]
    fn a_chain_is_near_until_it_is_far_behind_again() {
        let mut settings = FollowSettings::of_endpoints(1, "one", Vec::new());
        settings.poll = NEAR;
        let pauses = |settings: &FollowSettings, behind: &[u64]| {
            let mut pace = Pace::default();
            let pauses = behind
                .iter()
                .map(|blocks| pace.pause_after(settings, *blocks));
            pauses.collect::<Vec<_>>()
        };
        assert_eq!(pauses(&settings, &[0, 1_000]), [NEAR, NEAR]);
        settings.catching_up = Some(CatchingUp {
            poll: FAR,
            near_blocks: 10,
            far_blocks: 50,
        });
        let behind = [49, 11, 10, 11, 49, 50, 49, 0];
        let expected = [FAR, FAR, NEAR, NEAR, NEAR, FAR, FAR, NEAR];
        assert_eq!(pauses(&settings, &behind), expected);
    }
}
