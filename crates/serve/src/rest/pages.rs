//! The logs of a download, page by page: each from a view of its own, of the same blocks.
//!
//! Whatever passes is waited for. What does not, ends the download: its blocks were taken back, or cannot be read.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Error as ArchiveError, after_cursor};
use chronolith_model::{BlockRange, BlockRef, Cursor, Hash32, LogFilter, Order};

use crate::chain::ServedChain;
use crate::error::ApiError;
use crate::fault::{Fault, Retry};
use crate::http::answer_memory::MemoryReservation;
use crate::http::context::Context;
use crate::logs::Page;
use crate::view::View;

/// How often a download that has begun waits for other queries, for slow readers, for the store, and until tail and
/// archive are one chain. Each wait takes seconds.
const RETRIES_MAX: usize = 60;
/// The pause before the next of these: others get their turn.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// After how many damaged objects it ends. One may have been collected, and newer states name others.
const DAMAGED_MAX: usize = 3;

/// Reads the logs of a range, page by page. A page that exceeds the budget of one query is read in smaller parts.
pub(super) struct Pages {
    pub(super) context: Context,
    pub(super) chain: Arc<ServedChain>,
    /// With the cursor of the last page.
    pub(super) filter: LogFilter,
    /// The last block of all that are requested, as it was at the beginning.
    pub(super) last: Option<BlockRef>,
    /// The blocks that are not read yet.
    pub(super) rest: BlockRange,
    /// How many blocks one query may search.
    pub(super) window: u64,
}

pub(super) struct LoadedPage {
    pub(super) page: Page,
    pub(super) held: MemoryReservation,
}

impl Pages {
    /// The logs of the next part, which may be none of them; none at the end. It ends with the first query that fits
    /// its budget: an answer begins soon, also where matching logs are rare.
    pub(super) async fn next(&mut self) -> Result<Option<LoadedPage>, Fault> {
        while !self.rest.is_empty() {
            let window = self.window();
            match self.query(window).await {
                Ok(loaded) => {
                    self.advance(window, loaded.page.next);
                    return Ok(Some(loaded));
                }
                Err(Fault::Archive(ArchiveError::TooLarge {
                    fits: Some(fits), ..
                })) if fits.len() < window.len() => {
                    self.window = fits.len().max(1);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    /// As [`Self::next`], with patience: a download that has begun cannot be answered with "retry".
    pub(super) async fn next_when_free(&mut self) -> Result<Option<LoadedPage>, ApiError> {
        let mut damaged = 0;
        for _ in 0..RETRIES_MAX {
            let fault = match self.next_of_newest(damaged > 0).await {
                Ok(loaded) => return Ok(loaded),
                Err(fault) => fault,
            };
            match fault.retry() {
                Retry::LessBusy | Retry::Later => {}
                Retry::NewerState if damaged < DAMAGED_MAX => damaged += 1,
                Retry::NewerState | Retry::Indexed | Retry::No => return Err(fault.into()),
            }
            tracing::debug!(chain = self.chain.id, %fault, "download waits");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Ok(self.next_of_newest(damaged > 0).await?)
    }

    /// As [`Self::next`], after a look for a newer state of the archive where the known one could not be read.
    async fn next_of_newest(&mut self, refreshes: bool) -> Result<Option<LoadedPage>, Fault> {
        if refreshes {
            self.chain.archive.refresh().await?;
        }
        self.next().await
    }

    /// The blocks that the next query searches.
    fn window(&self) -> BlockRange {
        let blocks = self.window.min(self.rest.len());
        match self.filter.order {
            Order::Ascending => BlockRange::new(self.rest.start, self.rest.start + blocks),
            Order::Descending => BlockRange::new(self.rest.end - blocks, self.rest.end),
        }
    }

    async fn query(&self, window: BlockRange) -> Result<LoadedPage, Fault> {
        let view = View::take(&self.chain).await?;
        self.check_unchanged(&view).await?;
        let (page, held) = self.context.query(&view, window, &self.filter).await?;
        Ok(LoadedPage { page, held })
    }

    /// The requested blocks are those that they were at the beginning: each page has a view of its own, and an operator
    /// can take final blocks back in between, so that none or others are in their place.
    async fn check_unchanged(&self, view: &View<'_>) -> Result<(), Fault> {
        let Some(last) = self.last else {
            return Ok(());
        };
        let clock = match view.is_final(last.number) {
            true => view.clock(last.number).await?,
            false => None,
        };
        let hash = clock.map(|clock| clock.hash);
        if hash == Some(last.hash) {
            return Ok(());
        }
        Err(ArchiveError::CursorConflict {
            cursor: last,
            // Zeros for a block that is not there.
            archived: hash.unwrap_or(Hash32::ZERO),
        }
        .into())
    }

    /// Continues after a page of these blocks.
    fn advance(&mut self, window: BlockRange, next: Option<Cursor>) {
        let order = self.filter.order;
        self.rest = match (&next, order) {
            (Some(cursor), _) => after_cursor(&self.rest, cursor, order),
            (None, Order::Ascending) => BlockRange::new(window.end, self.rest.end),
            (None, Order::Descending) => BlockRange::new(self.rest.start, window.start),
        };
        if next.is_none() {
            self.window = self.window.saturating_mul(2);
        }
        self.filter.cursor = next;
    }
}
