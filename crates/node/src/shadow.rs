//! The newest blocks above an archive that another process writes: walked into a tail of our own, never
//! archived here. What the writer has published leaves the tail.

use chronolith_finality::joins;

use crate::chain::Chain;
use crate::ingest::{Trouble, report};
use crate::reader::REFRESH_EVERY;
use crate::walk;

/// Blocks that the tail may hold: a writer that is further behind must catch up first.
const BLOCKS_MAX: u64 = 10_000;

/// Follows the head for ever.
pub(crate) async fn run(chain: &Chain) {
    tokio::select! {
        () = chain.source.listen() => {}
        () = rounds(chain) => {}
    }
}

async fn rounds(chain: &Chain) {
    let mut hints = chain.source.hints();
    loop {
        hints.mark_unchanged();
        match round(chain).await {
            Ok(()) => {
                let mut status = chain.status();
                status.good_round = Some(std::time::Instant::now());
                status.trouble = None;
            }
            Err(trouble) => report(chain, &trouble),
        }
        tokio::select! {
            () = tokio::time::sleep(chain.settings.poll.min(REFRESH_EVERY)) => {}
            Ok(()) = hints.changed() => {}
        }
    }
}

async fn round(chain: &Chain) -> Result<(), Trouble> {
    chain.archive.refresh().await?;
    let head = chain.archive.health().head;
    let known = chain.window().tracker.head();
    let is_behind = known.map(|known| known.number) < head.map(|head| head.number);
    // What the writer published may be another fork than ours, or lie above all that we have.
    if is_behind || !joins(head, &chain.tail()) {
        let reset = chain.reset_window();
        reset.map_err(|error| Trouble::Other(error.to_string()))?;
    }
    if let Some(head) = head {
        chain.window().drop_through(head.number);
    }
    let heads = chain.source.heads().await?;
    chain.status().source_head = Some(heads.head);
    let archived = head.map_or(0, |head| head.number);
    let above = heads.head.number.saturating_sub(archived);
    if above > BLOCKS_MAX {
        return Err(Trouble::Unsettled(format!(
            "the archive ends at block {archived}, {above} below the chain's head: its writer must catch up first"
        )));
    }
    walk::to_head(chain, &heads).await
}
