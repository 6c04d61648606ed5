//! The newest blocks above an archive that another process writes: walked into a tail of our own, never
//! archived here. What the writer has published leaves the tail.

use std::time::{Duration, Instant};

use chronolith_finality::{Observation, ReportedBlock};

use crate::chain::Chain;
use crate::clock::now;
use crate::error::FollowError;
use crate::ingest::report;
use crate::{maintenance, walk};

/// How often a reader looks for a newer state: within a second it must be seen.
pub const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// Blocks that the tail may hold: a writer that lags more must catch up first.
const BLOCKS_MAX: u64 = 10_000;

/// Follows the head forever.
pub async fn run(chain: &Chain) {
    tokio::select! {
        () = chain.source.listen() => {}
        () = rounds(chain) => {}
        // Beside the rounds: a source that hangs must not keep the archive from being looked at.
        () = refresh(chain) => {}
    }
}

async fn refresh(chain: &Chain) {
    loop {
        if let Err(error) = align(chain).await {
            report(chain, &error);
        }
        maintenance::look(chain).await;
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}

/// Takes the archive's newest state, and lets the tail stand on it.
pub async fn align(chain: &Chain) -> Result<(), FollowError> {
    chain.archive.refresh().await?;
    let Some(head) = chain.archive.health().head else {
        return Ok(());
    };
    let is_ours = {
        let window = chain.window();
        window.tracker.finalized() == Some(head)
            || window.tracker.hash_at(head.number) == Some(head.hash)
    };
    if !is_ours {
        // The writer continued without us, took blocks back, or is on another fork than our tail.
        return chain.reset_window();
    }
    let mut window = chain.window();
    window.tracker.observe(&Observation {
        finalized: Some(ReportedBlock::from(head)),
        ..Observation::at(now())
    });
    window.tail.drop_through(head.number);
    Ok(())
}

async fn rounds(chain: &Chain) {
    let mut hints = chain.source.hints();
    loop {
        hints.mark_unchanged();
        match round(chain).await {
            Ok(()) => {
                let mut status = chain.status();
                status.last_success = Some(Instant::now());
                status.set_error(None);
            }
            Err(error) => report(chain, &error),
        }
        tokio::select! {
            () = tokio::time::sleep(chain.settings.poll) => {}
            Ok(()) = hints.changed() => {}
        }
    }
}

async fn round(chain: &Chain) -> Result<(), FollowError> {
    align(chain).await?;
    let heads = chain.heads().await?;
    chain.note_source_head(heads.head);
    let head = chain.archive.health().head;
    let archived = head.map_or(0, |head| head.number);
    let above = heads.head.number.saturating_sub(archived);
    if above > BLOCKS_MAX {
        return Err(FollowError::Unsettled(format!(
            "the archive ends at block {archived}, {above} below the chain's head: its writer must catch up first"
        )));
    }
    walk::to_head(chain, &heads).await
}
