//! How many calls an endpoint takes in one request, as far as it is known.

/// Good requests in a row after which larger batches are tried again.
const GROWS_AFTER: u32 = 100;

/// What was learned of an endpoint's batches: the configured size is halved where one was refused, and
/// doubled again after many good requests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Batches {
    halvings: u32,
    good_in_a_row: u32,
}

impl Batches {
    /// Calls of one request, of as many as are configured.
    pub(crate) fn size(self, configured: usize) -> usize {
        configured.checked_shr(self.halvings).unwrap_or(0).max(1)
    }

    /// Notes that this many calls were too many. The rest of a range may be a little more than half a
    /// batch: half of that rest would be less than what the endpoint takes.
    pub(crate) fn refused(&mut self, configured: usize, calls: usize) {
        while self.size(configured) >= calls.max(2) {
            self.halvings += 1;
        }
        self.good_in_a_row = 0;
    }

    pub(crate) fn succeeded(&mut self) {
        self.good_in_a_row += 1;
        if self.good_in_a_row >= GROWS_AFTER {
            self.good_in_a_row = 0;
            self.halvings = self.halvings.saturating_sub(1);
        }
    }

    pub(crate) fn failed(&mut self) {
        self.good_in_a_row = 0;
    }
}
