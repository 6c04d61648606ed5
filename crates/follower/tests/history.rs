//! History that is missing: bounded backfills, gaps below the head, and what each mode fetches of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::AuditEntry;
use chronolith_follower::chain::Chain;
use chronolith_follower::preflight::streaming;
use chronolith_follower::settings::{Finality, Mode};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof};
use chronolith_sim::evm::EvmNode;
use support::log::Log;
use support::{
    Ground, MemorySource, archived, assert_archived, catch_up, following, node, until_archived,
    wait,
};

const DEPTH_5: Finality = Finality::Depth(5);

/// A chain that is started again and again.
struct Bench {
    node: EvmNode,
    source: MemorySource,
    ground: Ground,
}

impl Bench {
    fn new(seed: u64, blocks: u64) -> Self {
        let node = node(seed, blocks);
        Self {
            source: MemorySource::new(&[&node]),
            ground: Ground::new(DEPTH_5),
            node,
        }
    }

    async fn caught_up(&self) -> Chain {
        let chain = self.ground.open(&self.source).await;
        catch_up(&chain).await.unwrap();
        chain
    }

    /// Archives these blocks, the last one included, and returns how many were missing.
    async fn backfill(&mut self, from: u64, to: u64) -> u64 {
        self.ground.settings.start_block = from;
        self.ground.settings.mode = Mode::Backfill { end_block: to };
        let chain = self.ground.open(&self.source).await;
        let missing = chain.missing_below(to + 1);
        catch_up(&chain).await.unwrap();
        assert_eq!(chain.missing_below(to + 1), []);
        missing.iter().map(BlockRange::len).sum()
    }

    fn keep(&mut self, datasets: &[Dataset]) {
        self.ground.settings.datasets = DatasetSet::of(datasets);
    }

    /// Blocks that were fetched since so many fetches, each once, in order.
    fn fetched_since(&self, count: usize) -> Vec<u64> {
        let mut fetched = self.source.fetched()[count..].to_vec();
        fetched.sort_unstable();
        fetched.dedup();
        fetched
    }
}

fn covered(chain: &Chain) -> Vec<(BlockRange, Proof)> {
    chain.archive.coverage(DatasetSet::CLOCK, None)
}

#[tokio::test(start_paused = true)]
async fn a_backfill_is_bounded_and_ends() {
    let mut bench = Bench::new(41, 900);
    assert_eq!(bench.backfill(100, 700).await, 601);
    // There is nothing left to do.
    assert_eq!(bench.backfill(100, 700).await, 0);
    let chain = bench.ground.open(&bench.source).await;
    assert_eq!(covered(&chain)[0].0, BlockRange::new(100, 701));
    assert_eq!(archived(&chain), Some(700));
    drop(chain);
    // The last final block has no final successor yet, and is taken all the same; no more is.
    bench.backfill(100, 894).await;
    bench.ground.settings.mode = Mode::Backfill { end_block: 905 };
    let chain = bench.ground.open(&bench.source).await;
    assert_eq!(archived(&chain), Some(894));
    // A block that is not final yet is waited for.
    let ending = catch_up(&chain);
    let growing = async {
        until_archived(&chain, 895).await;
        bench.node.mine(50);
    };
    let (ended, ()) = tokio::join!(ending, growing);
    ended.unwrap();
    assert_eq!(archived(&chain), Some(905));
    assert_archived(&chain.archive, &bench.node, BlockRange::new(100, 906)).await;
}

/// A head after the last block is not all of the blocks before it.
#[tokio::test(start_paused = true)]
async fn a_backfill_below_what_is_archived_fills_it_in() {
    let mut bench = Bench::new(43, 300);
    bench.backfill(200, 250).await;
    // All of it, or its first blocks, lie below.
    for (end, head) in [(100, 250), (220, 250), (280, 280)] {
        bench.backfill(50, end).await;
        let chain = bench.ground.open(&bench.source).await;
        assert_eq!(archived(&chain), Some(head));
    }
    let chain = bench.ground.open(&bench.source).await;
    let range = BlockRange::new(50, 281);
    assert_eq!(covered(&chain)[0].0, range);
    assert_archived(&chain.archive, &bench.node, range).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_fetched_and_nothing_else() {
    let mut bench = Bench::new(51, 400);
    bench.keep(&[Dataset::Logs]);
    bench.ground.settings.start_block = 150;
    drop(bench.caught_up().await);
    // Below the first block.
    let before = bench.source.fetched().len();
    assert_eq!(bench.backfill(100, 199).await, 50);
    let mut fetched = bench.fetched_since(before);
    // The block after a gap names its last block as its parent, and one settled block is an anchor.
    fetched.retain(|number| ![150, 395].contains(number));
    assert_eq!(fetched, (100..150).collect::<Vec<_>>());
    let before = bench.source.fetched().len();
    assert_eq!(bench.backfill(100, 199).await, 0);
    assert!(
        bench.fetched_since(before).iter().all(|one| *one == 395),
        "the same again fetches nothing"
    );
    assert_eq!(bench.backfill(0, 395).await, 100);
    let chain = bench.ground.open(&bench.source).await;
    assert_archived(&chain.archive, &bench.node, BlockRange::new(0, 396)).await;
    drop(chain);
    // More is kept from now on: it is fetched for what is old, too.
    bench.keep(&[Dataset::Headers, Dataset::Logs, Dataset::TxHashes]);
    assert_eq!(bench.backfill(50, 395).await, 346);
    let chain = bench.ground.open(&bench.source).await;
    for number in [50, 99, 200, 395] {
        let payload = chain.archive.payload(number, Dataset::Headers).await;
        assert!(payload.unwrap().header.is_some());
    }
    assert!(chain.archive.payload(49, Dataset::Headers).await.is_err());
    // A gap: whole segments below a block are removed.
    let audit = AuditEntry {
        at: 0,
        act: "test".to_owned(),
    };
    assert!(chain.archive.prune(120, audit).await.unwrap() > 0);
    drop(chain);
    let filled = bench.backfill(0, 395).await;
    assert!((1..=120).contains(&filled), "{filled}");
    // And it continues above.
    bench.node.mine(30);
    bench.ground.settings.mode = Mode::Auto;
    let chain = bench.caught_up().await;
    let range = BlockRange::new(0, 426);
    assert_archived(&chain.archive, &bench.node, range).await;
    let damaged = chain.archive.inspect(range, &mut |_| {}).await.unwrap();
    assert_eq!(damaged.len(), 0);
}

/// More is kept: blocks that are archived vouch for themselves, up to the newest one.
#[tokio::test(start_paused = true)]
async fn more_datasets_of_archived_blocks_need_no_block_after_them() {
    let mut bench = Bench::new(55, 200);
    bench.keep(&[Dataset::Logs]);
    bench.ground.settings.start_block = 100;
    drop(bench.caught_up().await);
    bench.keep(&[Dataset::Headers, Dataset::Logs]);
    for (from, to, filled) in [(110, 120, 11), (190, 195, 6)] {
        assert_eq!(bench.backfill(from, to).await, filled);
    }
}

/// Ended in the middle of a backfill, what was published up to a checkpoint is there, and is not fetched again.
#[tokio::test(start_paused = true)]
async fn a_backfill_continues_from_its_last_checkpoint() {
    let mut bench = Bench::new(52, 2_000);
    bench.ground.settings.start_block = 1_900;
    drop(bench.caught_up().await);
    bench.ground.settings.start_block = 0;
    bench.ground.settings.mode = Mode::Backfill { end_block: 1_899 };
    // Past the first checkpoint, and before the second one.
    bench.source.stop_after_fetches(30);
    let chain = bench.ground.open(&bench.source).await;
    let log = Log::capture();
    let is_published = || {
        let published = log.events("filled");
        published.iter().any(|line| line["done"] == 1_000)
    };
    let stopped = async {
        bench.source.stuck().await;
        wait("the first checkpoint", is_published).await;
    };
    tokio::select! {
        ended = catch_up(&chain) => panic!("it ended: {ended:?}"),
        () = stopped => {}
    }
    drop(chain);
    bench.source.stop_after_fetches(u64::MAX);
    let chain = bench.ground.open(&bench.source).await;
    assert_eq!(covered(&chain)[0].0, BlockRange::new(0, 1_000));
    drop(chain);
    let before = bench.source.fetched().len();
    assert_eq!(bench.backfill(0, 1_899).await, 900);
    let fetched = bench.fetched_since(before);
    assert!(fetched[0] >= 1_000, "{} was fetched again", fetched[0]);
    let chain = bench.ground.open(&bench.source).await;
    assert_archived(&chain.archive, &bench.node, BlockRange::new(0, 1_996)).await;
}

#[tokio::test(start_paused = true)]
async fn another_chain_fills_nothing() {
    let mut bench = Bench::new(53, 200);
    bench.ground.settings.start_block = 100;
    drop(bench.caught_up().await);
    let other = node(54, 200);
    bench.source.replace(0, &other);
    bench.ground.settings.start_block = 0;
    bench.ground.settings.mode = Mode::Backfill { end_block: 99 };
    let chain = bench.ground.open(&bench.source).await;
    catch_up(&chain).await.unwrap_err();
    assert_eq!(covered(&chain)[0].0.start, 100);
    drop(chain);
    bench.source.replace(0, &bench.node);
    assert_eq!(bench.backfill(0, 99).await, 100);
    let chain = bench.ground.open(&bench.source).await;
    assert_archived(&chain.archive, &bench.node, BlockRange::new(0, 196)).await;
}

#[tokio::test(start_paused = true)]
async fn streaming_begins_with_nothing_but_what_was_fetched_before() {
    let mut bench = Bench::new(42, 300);
    bench.ground.settings.mode = Mode::Streaming;
    let chain = bench.ground.open(&bench.source).await;
    chain.admit().await.unwrap();
    let refused = streaming::check(&chain).await.unwrap_err().to_string();
    for text in [
        "Cannot start streaming mode - the archive is empty",
        "Action required: Run backfill with --start-ledger 0 --end-ledger 295",
    ] {
        assert!(refused.contains(text), "no `{text}` in {refused}");
    }
    assert_eq!(archived(&chain), None, "something was fetched");
    drop(chain);
    // What it says works.
    bench.backfill(0, 295).await;
    bench.node.mine(1_100);
    bench.ground.settings.mode = Mode::Streaming;
    let chain = bench.ground.open(&bench.source).await;
    chain.admit().await.unwrap();
    streaming::check(&chain).await.unwrap();
    following(&chain, until_archived(&chain, 1_395)).await;
}

/// What is missing below the head is fetched, while new blocks are followed and while they are not.
#[tokio::test(start_paused = true)]
async fn mode_auto_fills_gaps_whether_it_follows_or_catches_up() {
    for follows in [true, false] {
        let mut bench = Bench::new(44, 700);
        bench.backfill(500, 600).await;
        bench.backfill(100, 499).await;
        bench.ground.settings.start_block = 10;
        bench.ground.settings.mode = Mode::Auto;
        let chain = bench.ground.open(&bench.source).await;
        bench.node.mine(20);
        let range = BlockRange::new(10, 716);
        if follows {
            let log = Log::capture();
            following(&chain, async {
                wait("everything", || covered(&chain)[0].0 == range).await;
                wait("the end of the gaps", || log.has("gaps_filled")).await;
            })
            .await;
            let what = "90 blocks between 10 and 99 are missing";
            let is_logged = log.has_with("history_has_gaps", "summary", what);
            assert!(is_logged, "{}", log.text());
        } else {
            catch_up(&chain).await.unwrap();
        }
        assert_eq!(covered(&chain)[0].0, range);
        assert_archived(&chain.archive, &bench.node, range).await;
    }
}
