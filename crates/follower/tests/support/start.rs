//! Chains opened and run as the program does it, in mode backfill too.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use chronolith_archive::{Archive, DamagedObject};
use chronolith_follower::backfill::bounded;
use chronolith_follower::backfill::retry_policy::OnFatal;
use chronolith_follower::chain::{Chain, open_reader};
use chronolith_follower::ingest;
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::preflight::streaming;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::run_state::RunState;
use chronolith_follower::settings::{FollowSettings, Mode};
use chronolith_model::{BlockRange, ErrorKind};
use chronolith_source::Source;

use super::{Ground, MemorySource};

/// How long a directory may stay locked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens the chain and makes the checks of a start. Without a source in memory, it has the one that the settings
/// name.
pub async fn start(ground: &Ground, source: Option<&MemorySource>) -> Result<Chain> {
    let chain = open(&ground.settings, &ground.place(), source).await;
    match chain.admit().await {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Invalid => bail!("{error}"),
        Err(error) => ingest::report(&chain, &error),
    }
    streaming::check(&chain).await?;
    RunState::note(&chain.settings, ground.place().notes())?;
    Ok(chain)
}

/// Starts a chain that has an end, and runs it until then.
pub async fn run(ground: &Ground, source: Option<&MemorySource>) -> Result<()> {
    let chain = start(ground, source).await?;
    Box::pin(ingest::run(&chain)).await
}

/// Fetches these blocks, the last one included, as `chronolith backfill` does. Returns how many were missing.
pub async fn backfill(
    ground: &Ground,
    source: Option<&MemorySource>,
    from: u64,
    to: u64,
) -> Result<u64> {
    let mut settings = ground.settings.clone();
    settings.start_block = from;
    settings.mode = Mode::Backfill { end_block: to };
    settings.share_among_ranges();
    let chain = open(&settings, &ground.place(), source).await;
    RunState::note(&chain.settings, ground.place().notes())?;
    chain.admit().await?;
    let missing = || {
        let gaps = chain.missing_below(to + 1);
        gaps.iter().map(BlockRange::len).sum::<u64>()
    };
    let before = missing();
    Box::pin(bounded::run(&chain, OnFatal::Exit)).await?;
    let fetched = before - missing();
    chain.archive.release().await?;
    Ok(fetched)
}

/// Opens the archive to write it. A chain that was dropped amid a write keeps the directory until that write is
/// over: a process would have taken it along.
async fn open(
    settings: &FollowSettings,
    place: &ArchiveLocation,
    source: Option<&MemorySource>,
) -> Chain {
    let mut last = None;
    let opening = async {
        loop {
            let opened = match source {
                Some(source) => {
                    let source: Arc<dyn Source> = Arc::new(source.clone());
                    Chain::open_from(settings.clone(), place, Some(source)).await
                }
                None => Chain::open(settings.clone(), place).await,
            };
            match opened {
                Ok(chain) => return chain,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let opened = tokio::time::timeout(PATIENCE, opening).await;
    opened.unwrap_or_else(|_| panic!("it does not open: {last:?}"))
}

/// The archive as another process reads it.
pub async fn stored(ground: &Ground) -> Archive {
    let opened = open_reader(&ground.settings, &ground.place()).await;
    opened.unwrap()
}

/// Ranges as another process reads them.
pub async fn stored_ranges(ground: &Ground) -> Ranges {
    let remembered = RunState::load(&ground.settings, ground.place().notes());
    Ranges::of(&stored(ground).await, &remembered.unwrap()).await
}

/// No object of the archive is damaged.
pub async fn assert_undamaged(archive: &Archive, range: BlockRange) {
    let damaged = archive.inspect(range, &mut |_| {}).await.unwrap();
    let reason = |one: &DamagedObject| format!("{}: {}", one.object.name, one.reason);
    let reasons: Vec<String> = damaged.iter().map(reason).collect();
    assert!(reasons.is_empty(), "{reasons:?}");
}
