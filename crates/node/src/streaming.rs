//! Mode streaming: nothing is followed over a gap.

use anyhow::{Context as _, Result, ensure};

use crate::chain::Chain;
use crate::ingest;
use crate::settings::Mode;

/// As many final blocks may have passed while the program was started again.
const RESTART_BLOCKS: u64 = 1_024;

/// Refuses to start where final blocks are missing between what is archived and the chain's head.
pub(crate) async fn check(chain: &Chain) -> Result<()> {
    if chain.settings.mode != Mode::Streaming {
        return Ok(());
    }
    chain.source.note_next(chain.archive_next());
    let heads = chain.source.heads().await;
    let heads = heads.context("cannot ask where the chain stands")?;
    let Some((settled, _)) = ingest::settled(chain, &heads) else {
        return Ok(());
    };
    let next = chain.archive_next();
    let missing = settled.saturating_add(1).saturating_sub(next);
    let allowed = match chain.archive.health().head {
        Some(_) => RESTART_BLOCKS,
        None => 0,
    };
    ensure!(
        missing <= allowed,
        "cannot start in mode streaming, {missing} final blocks are missing: {next} to {settled}\n  action required: fetch them first, with `\"mode\": \"backfill\", \"startBlock\": {}, \"endBlock\": {settled}` for this chain and `chronolith run`, or use mode auto",
        chain.settings.start_block
    );
    Ok(())
}
