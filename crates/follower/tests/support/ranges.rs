//! What is known of ranges while a chain is followed and after it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chronolith_archive::{LedgerPhase, RangeReport, RangeState, TxCounts, TxHashPhase};
use chronolith_follower::chain::Chain;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::settings::RangePlan;
use chronolith_model::BlockRange;
use chronolith_sim::evm::EvmNode;

use super::Ground;

/// Short ranges, several of which are fetched at a time.
pub const SHORT: RangePlan = RangePlan {
    first: 0,
    size: 40,
    parallel: 2,
    checkpoint: 10,
};

/// How long anything may take by the paused clock.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// The ranges of a chain as they are published.
pub async fn ranges(chain: &Chain) -> Ranges {
    Ranges::of(&chain.archive, &chain.ran).await
}

/// Waits by the paused clock until the published ranges are as wanted.
pub async fn wait_ranges(chain: &Chain, what: &str, wanted: impl Fn(&Ranges) -> bool) -> Ranges {
    let waiting = async {
        loop {
            let now = ranges(chain).await;
            if wanted(&now) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, waiting).await;
    reached.unwrap_or_else(|_| panic!("{what} was not reached"))
}

#[track_caller]
pub fn range(ranges: &Ranges, id: u64) -> &RangeReport {
    let mut all = ranges.all.iter();
    let found = all.find(|range| range.id == id);
    found.unwrap_or_else(|| panic!("no range {id} in {:#?}", ranges.all))
}

/// None where the range is not listed.
pub fn state_of(ranges: &Ranges, id: u64) -> Option<RangeState> {
    let mut all = ranges.all.iter();
    Some(all.find(|range| range.id == id)?.state)
}

pub fn states(ranges: &Ranges) -> Vec<RangeState> {
    ranges.all.iter().map(|range| range.state).collect()
}

/// Where an object of the archive is.
pub fn path_of(ground: &Ground, name: &str) -> PathBuf {
    ground.place().path_of(name).into()
}

/// A range that is complete: all of its blocks, all of its checkpoints, and nothing left of its transition.
#[track_caller]
pub fn assert_complete(ground: &Ground, ranges: &Ranges, id: u64) {
    let found = range(ranges, id);
    let blocks = ranges.geometry.blocks_of(id);
    assert_eq!(found.state, RangeState::Complete, "{found:#?}");
    assert_eq!((found.first, found.last), (blocks.start, blocks.end - 1));
    assert_eq!(found.ledger, Some(LedgerPhase::Immutable), "{found:#?}");
    assert_eq!(found.txhash, Some(TxHashPhase::Complete), "{found:#?}");
    assert_eq!(found.last_committed, Some(blocks.end - 1), "{found:#?}");
    assert_eq!(found.blocks, blocks.len(), "{found:#?}");
    assert_eq!(found.transition_started_at, None, "{found:#?}");
    assert_eq!(found.ledger_status, None, "{found:#?}");
    assert_eq!(found.txhash_status, None, "{found:#?}");
    assert_eq!(found.failure, None, "{found:#?}");
    assert!(found.created_at.is_some(), "{found:#?}");
    assert!(found.completed_at.is_some(), "{found:#?}");
    for name in found.packs.iter().chain(&found.segments) {
        assert!(path_of(ground, name).is_file(), "{name}");
    }
    assert!(!found.segments.is_empty(), "{found:#?}");
    // Its one index of hashes.
    assert_eq!(found.runs.len(), 1, "{found:#?}");
    assert!(path_of(ground, &found.runs[0]).is_file(), "{found:#?}");
}

/// Transactions of blocks by the first digit of their hashes.
pub fn counts(node: &EvmNode, range: BlockRange) -> TxCounts {
    let mut counts = TxCounts([0; 16]);
    for number in range.start..range.end {
        for tx in node.block(number).unwrap().to_model().txs {
            counts.0[usize::from(tx.hash.0[0] >> 4)] += 1;
        }
    }
    counts
}

/// A file or a directory of an archive that cannot be opened, as on a disk that does not answer: its name leads to
/// itself. A missing one would be damage, and fail a range; this is tried again.
pub struct Stuck {
    path: PathBuf,
    aside: PathBuf,
}

impl Stuck {
    pub fn new(ground: &Ground, name: &str) -> Self {
        let path = path_of(ground, name);
        // Outside of the archive, which lists its objects.
        let aside = ground.dir.path().join(name.replace('/', "-"));
        if path.exists() {
            std::fs::rename(&path, &aside).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::create_dir(&aside).unwrap();
        }
        std::os::unix::fs::symlink(&path, &path).unwrap();
        Self { path, aside }
    }

    /// All of these.
    pub fn all(ground: &Ground, names: &[String]) -> Vec<Self> {
        assert!(!names.is_empty(), "there is none");
        names.iter().map(|name| Self::new(ground, name)).collect()
    }

    pub fn release(self) {
        std::fs::remove_file(&self.path).unwrap();
        std::fs::rename(&self.aside, &self.path).unwrap();
    }
}

/// Whether a folder of the archive is there.
pub fn is_folder_of(ground: &Ground, name: &str) -> bool {
    let path = path_of(ground, name);
    path.parent().is_some_and(Path::is_dir)
}
