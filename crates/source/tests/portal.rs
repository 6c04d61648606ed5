//! A source against a simulated Portal: what it fetches is what the chain has, wherever streams end
//! and whatever statuses come between.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::time::Duration;

use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, ErrorKind, Proof, Scope, ScopeEntry, Verification,
};
use chronolith_sim::evm::{EvmNode, EvmSpec, RateLimit};
use chronolith_sim::portal::{
    PortalEncoding, PortalFault, PortalFaults, PortalOptions, PortalServer,
};
use chronolith_source::evm::Checks;
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::{Error, Fetched, Source, Want};
use tokio::time::Instant;

const BLOCKS: u64 = 300;
const LOGS: &[Dataset] = &[Dataset::Logs];
const ALL: &[Dataset] = &[Dataset::Logs, Dataset::TxHashes];

fn want(datasets: &[Dataset]) -> Want {
    Want {
        datasets: DatasetSet::of(datasets),
        scope: Scope::All,
        proof: Proof::CLAIMED,
    }
}

fn node(seed: u64) -> EvmNode {
    EvmNode::new(EvmSpec::tiny(seed), BLOCKS)
}

async fn serve(node: &EvmNode, options: PortalOptions) -> PortalServer {
    PortalServer::start(node.clone(), options).await.unwrap()
}

async fn serve_with(node: &EvmNode, faults: &PortalFaults) -> PortalServer {
    let faults = faults.clone();
    let options = PortalOptions {
        faults,
        ..PortalOptions::default()
    };
    serve(node, options).await
}

fn settings(server: &PortalServer) -> PortalSettings {
    PortalSettings {
        requests_per_10s: 0,
        ..PortalSettings::new(&server.url(), 31_337)
    }
}

fn source(server: &PortalServer) -> PortalSource {
    PortalSource::new(settings(server)).unwrap()
}

/// The block as it should come: what was not asked for is not there.
fn expected(node: &EvmNode, number: u64, want: &Want) -> Block {
    let mut block = node.block(number).unwrap().to_model();
    let wanted = |log: &chronolith_model::Log| want.scope.admits(log.emitter(), log.topic(0));
    block.logs.retain(wanted);
    if !want.datasets.contains(Dataset::Logs) {
        block.logs.clear();
    }
    if !want.datasets.contains(Dataset::TxHashes) {
        let named = |index| block.logs.iter().any(|log| log.tx_index() == index);
        block.txs.retain(|tx| named(tx.index));
    }
    block
}

#[track_caller]
fn assert_blocks(fetched: &[Fetched], node: &EvmNode, range: BlockRange, want: &Want) {
    assert_eq!(fetched.len() as u64, range.len());
    for (one, number) in fetched.iter().zip(range.start..) {
        assert_eq!(one.block, expected(node, number, want), "block {number}");
    }
    let logs: usize = fetched.iter().map(|one| one.block.logs.len()).sum();
    let wanted = want.datasets.contains(Dataset::Logs);
    assert_eq!(logs > 0, wanted, "{logs} logs");
}

/// Why a fetch failed.
#[track_caller]
fn failure(fetched: Result<Vec<Fetched>, Error>) -> Error {
    fetched.map(|blocks| blocks.len()).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_streams_give_the_chain_in_both_encodings() {
    let node = node(1);
    let finalized = node.finalized().number;
    for (encoding, name) in [
        (PortalEncoding::Negotiated, "zstd"),
        (PortalEncoding::Gzip, "gzip"),
    ] {
        let options = PortalOptions {
            encoding,
            ..PortalOptions::default()
        };
        let server = serve(&node, options).await;
        for (end, stream) in [(finalized + 1, "finalized-stream"), (BLOCKS + 1, "stream")] {
            let source = source(&server);
            let range = BlockRange::new(0, end);
            let before = server.stats().requests.get(stream).copied();
            for datasets in [&[][..], &[Dataset::TxHashes], LOGS, ALL] {
                let want = want(datasets);
                let fetched = source.fetch(range, &want, None).await.unwrap();
                assert_blocks(&fetched, &node, range, &want);
                assert!(fetched.iter().all(|one| one.proof == Proof::CLAIMED));
                let host = fetched[0].endpoint.strip_prefix("Portal ").unwrap();
                assert!(server.url().contains(host), "{host}");
            }
            let requested = server.stats().requests[stream] - before.unwrap_or_default();
            assert_eq!(requested, 4, "{:?}", server.stats());
        }
        let encodings = server.stats().encodings;
        assert_eq!(encodings, [(name, 8)].into(), "not all bodies were {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_says_who_and_where_it_is() {
    let node = node(2);
    let server = serve(&node, PortalOptions::default()).await;
    let source = source(&server);
    let identity = source.identity().await.unwrap();
    assert_eq!(identity.chain_id, 31_337);
    assert_eq!(identity.genesis, Some(node.block(0).unwrap().hash));
    let heads = source.heads().await.unwrap();
    assert_eq!(heads.head, node.head());
    assert_eq!(
        (heads.finalized, heads.safe),
        (Some(node.finalized()), None)
    );
    for number in [0, 7, BLOCKS] {
        let clock = source.clock(number).await.unwrap().unwrap();
        assert_eq!(clock, node.block(number).unwrap().to_model().clock);
    }
    assert_eq!(source.clock(BLOCKS + 1).await.unwrap(), None);
    let nothing = source.fetch(BlockRange::new(9, 9), &want(ALL), None).await;
    assert!(nothing.unwrap().is_empty());
    assert_eq!(source.endpoints()[0].failures, 0);

    let options = PortalOptions {
        start_block: 5,
        ..PortalOptions::default()
    };
    let late = serve(&node, options).await;
    let identity = self::source(&late).identity().await.unwrap();
    assert_eq!(identity.genesis, None, "its first block is not the chain's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_keeps_its_logs_and_no_others() {
    let node = node(3);
    let server = serve(&node, PortalOptions::default()).await;
    let source = source(&server);
    let range = BlockRange::new(0, BLOCKS + 1);
    let all: Vec<Block> = (0..=BLOCKS)
        .map(|number| node.block(number).unwrap().to_model())
        .collect();
    let logs = || all.iter().flat_map(|block| &block.logs);
    let log = logs().find(|log| log.topic_count() > 0).unwrap();
    let other = logs()
        .find(|one| one.emitter() != log.emitter() && one.topic_count() > 0)
        .unwrap();
    let entry = |emitter: Option<&[u8]>, topic0: Option<&[u8]>| ScopeEntry {
        emitter: emitter.map(bytes::Bytes::copy_from_slice),
        topic0: topic0.map(bytes::Bytes::copy_from_slice),
    };
    for entries in [
        vec![entry(Some(log.emitter()), log.topic(0))],
        vec![entry(Some(log.emitter()), None)],
        vec![entry(None, log.topic(0))],
        vec![
            entry(Some(log.emitter()), None),
            entry(Some(other.emitter()), other.topic(0)),
        ],
    ] {
        for datasets in [LOGS, ALL] {
            let want = Want {
                scope: Scope::only(entries.clone()),
                ..want(datasets)
            };
            let fetched = source.fetch(range, &want, None).await.unwrap();
            assert_blocks(&fetched, &node, range, &want);
            assert!(fetched.iter().all(|one| one.proof == Proof::CLAIMED));
        }
    }
}

/// Streams that end anywhere are continued; on the stream that may change, from the hash of the
/// last block.
#[tokio::test(flavor = "multi_thread")]
async fn short_answers_are_continued_where_they_ended() {
    let node = node(4);
    let options = PortalOptions {
        blocks_max: Some(7),
        ..PortalOptions::default()
    };
    let server = serve(&node, options).await;
    let source = source(&server);
    let final_range = BlockRange::new(0, node.finalized().number + 1);
    let fetched = source.fetch(final_range, &want(ALL), None).await.unwrap();
    assert_blocks(&fetched, &node, final_range, &want(ALL));
    assert_eq!(server.stats().with_parent, 0);
    let range = BlockRange::new(0, BLOCKS + 1);
    let fetched = source.fetch(range, &want(ALL), None).await.unwrap();
    assert_blocks(&fetched, &node, range, &want(ALL));
    let requests = server.stats().requests["stream"];
    // All but the first know what comes before, and the rest of the range is never final.
    assert_eq!(requests, range.len().div_ceil(7));
    assert_eq!(server.stats().with_parent, requests - 1);
}

#[tokio::test(start_paused = true)]
async fn streams_that_break_are_ridden_out() {
    use PortalFault::{BrokenBody, CutLine, EmptyBody, Garbage, OpenEnd, ShortBody, Stall};
    let node = node(5);
    for (fault, per_million) in [
        (ShortBody, 1_000_000),
        (CutLine, 400_000),
        (BrokenBody, 400_000),
        (EmptyBody, 400_000),
        (Stall, 400_000),
        (OpenEnd, 1_000_000),
        (Garbage, 10_000),
    ] {
        for encoding in [PortalEncoding::Negotiated, PortalEncoding::Gzip] {
            for (datasets, end) in [(&[][..], 201), (ALL, BLOCKS + 1)] {
                let faults = PortalFaults::new(4);
                faults.set(fault, per_million);
                let options = PortalOptions {
                    faults: faults.clone(),
                    encoding,
                    blocks_max: Some(20),
                    ..PortalOptions::default()
                };
                let server = serve(&node, options).await;
                let (source, want) = (source(&server), want(datasets));
                let range = BlockRange::new(3, end);
                let fetched = source.fetch(range, &want, None).await;
                let fetched = fetched.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
                assert_blocks(&fetched, &node, range, &want);
                assert!(faults.injected(fault) > 0, "{fault:?} was never injected");
            }
        }
    }
}

/// Whatever gave a block continues at once; what gave none waits, and not forever.
#[tokio::test(start_paused = true)]
async fn only_answers_without_a_block_are_waited_for() {
    use PortalFault::{BrokenBody, CutLine, EmptyBody};
    let node = node(15);
    let range = BlockRange::new(0, BLOCKS + 1);
    for (fault, least, most) in [(EmptyBody, 610, 660), (CutLine, 0, 50), (BrokenBody, 0, 50)] {
        let faults = PortalFaults::new(3);
        let server = serve_with(&node, &faults).await;
        let source = source(&server);
        source.heads().await.unwrap();
        faults.times(fault, 3);
        let began = Instant::now();
        let fetched = source.fetch(range, &want(ALL), None).await.unwrap();
        assert_blocks(&fetched, &node, range, &want(ALL));
        let waited = began.elapsed().as_millis();
        assert!((least..most).contains(&waited), "{fault:?}: {waited} ms");
        assert_eq!(faults.injected(fault), 3, "{fault:?} was never injected");
    }
    let faults = PortalFaults::new(1);
    faults.always(EmptyBody);
    let server = serve_with(&node, &faults).await;
    let error = failure(source(&server).fetch(range, &want(ALL), None).await);
    assert!(matches!(error, Error::Exhausted(_)), "{error}");
    assert_eq!(faults.injected(EmptyBody), 7);
}

/// Each status that passes, for a head and for both streams: waited for as it says, and no longer.
#[tokio::test(start_paused = true)]
async fn statuses_that_pass_are_ridden_out() {
    let node = node(6);
    let bare = [408, 429, 500, 502, 503, 504, 521, 522, 523, 524, 529];
    let bare = bare.map(|status| (PortalFault::Status(status), Duration::from_millis(110)));
    let reported = [429, 503, 529];
    let reported = reported.map(|status| {
        (
            PortalFault::StatusRetryAfter(status),
            Duration::from_secs(2),
        )
    });
    for (fault, pause) in bare.into_iter().chain(reported) {
        let faults = PortalFaults::new(1);
        let server = serve_with(&node, &faults).await;
        let source = source(&server);
        source.heads().await.unwrap();
        for end in [node.finalized().number + 1, BLOCKS + 1] {
            faults.times(fault, 2);
            let (range, began) = (BlockRange::new(200, end), Instant::now());
            let fetched = source.fetch(range, &want(ALL), None).await.unwrap();
            assert_blocks(&fetched, &node, range, &want(ALL));
            let waited = began.elapsed();
            assert!(
                waited >= pause && waited < pause + Duration::from_millis(50),
                "{fault:?}: {waited:?}"
            );
        }
        faults.times(fault, 2);
        assert_eq!(source.heads().await.unwrap().head, node.head());
        assert_eq!(faults.injected(fault), 6, "{fault:?}");
        assert_eq!(source.endpoints()[0].failures, 6);

        faults.always(fault);
        let error = failure(source.fetch(BlockRange::new(0, 9), &want(ALL), None).await);
        assert!(matches!(error, Error::Exhausted(_)), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(faults.injected(fault), 6 + 7, "{fault:?}");
        // The last wish to wait holds for the next request, though nobody waited for it yet.
        let reported = matches!(fault, PortalFault::StatusRetryAfter(_));
        assert_eq!(source.endpoints()[0].backing_off, reported, "{fault:?}");
    }
}

/// While one request was told to wait, no other is sent.
#[tokio::test(start_paused = true)]
async fn a_wish_to_wait_holds_for_all_requests() {
    let node = node(7);
    let faults = PortalFaults::new(1);
    let server = serve_with(&node, &faults).await;
    let source = source(&server);
    source.heads().await.unwrap();
    let began = Instant::now();
    faults.times(PortalFault::StatusRetryAfter(429), 1);
    let first = source.clock(5);
    let second = async {
        while faults.injected(PortalFault::StatusRetryAfter(429)) == 0 {
            tokio::task::yield_now().await;
        }
        // The refusal is on its way; it is here before any time passes.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(source.endpoints()[0].backing_off);
        source.clock(6).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap().unwrap().number, 5);
    assert_eq!(second.unwrap().unwrap().number, 6);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.stats().requests["finalized-stream"], 3);
}

#[tokio::test(start_paused = true)]
async fn permanent_statuses_are_reported_at_once() {
    let node = node(8);
    let range = BlockRange::new(250, BLOCKS + 1);
    for (fault, kind, text) in [
        (PortalFault::Status(204), ErrorKind::NotFound, "block 250"),
        (
            PortalFault::Status(400),
            ErrorKind::Invalid,
            "Bad request: injected fault",
        ),
        (PortalFault::Status(404), ErrorKind::Invalid, "dataset"),
        (
            PortalFault::Conflict,
            ErrorKind::Unavailable,
            "the chain changed below block 250: block 249 is",
        ),
    ] {
        let faults = PortalFaults::new(1);
        let server = serve_with(&node, &faults).await;
        let source = source(&server);
        source.heads().await.unwrap();
        faults.always(fault);
        let error = failure(source.fetch(range, &want(ALL), None).await);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(faults.injected(fault), 1, "{fault:?}");
    }
    // What is final is not replaced: whoever says so is not to be trusted.
    let faults = PortalFaults::new(1);
    faults.always(PortalFault::Conflict);
    let server = serve_with(&node, &faults).await;
    let source = source(&server);
    let error = failure(source.fetch(BlockRange::new(9, 50), &want(ALL), None).await);
    assert_eq!(error.kind(), ErrorKind::Disagreement, "{error}");
    assert_eq!(source.endpoints()[0].inconsistencies, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_missing_and_not_made_up() {
    let node = node(9);
    let server = serve(&node, PortalOptions::default()).await;
    let source = source(&server);
    let ahead = BlockRange::new(BLOCKS - 3, BLOCKS + 5);
    let error = failure(source.fetch(ahead, &want(ALL), None).await);
    assert!(
        matches!(error, Error::Missing { number, .. } if number == BLOCKS + 1),
        "{error}"
    );
    node.mine(4);
    let fetched = source.fetch(ahead, &want(ALL), None).await.unwrap();
    assert_blocks(&fetched, &node, ahead, &want(ALL));

    let url = server.url().replace("/sim", "/none");
    let unknown = PortalSource::new(PortalSettings::new(&url, 31_337)).unwrap();
    let error = unknown.heads().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// The chain changes between two answers of one fetch: the second is refused with 409, and nothing
/// of both is put together.
#[tokio::test(start_paused = true)]
async fn a_reorg_between_two_answers_is_reported() {
    let node = node(10);
    let options = PortalOptions {
        blocks_max: Some(20),
        ..PortalOptions::default()
    };
    let server = serve(&node, options).await;
    // One request in ten seconds leaves the time for it.
    let slow = PortalSettings {
        requests_per_10s: 1,
        ..settings(&server)
    };
    let source = PortalSource::new(slow).unwrap();
    let range = BlockRange::new(250, BLOCKS);
    let reorg = async {
        while !server.stats().requests.contains_key("stream") {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        node.reorg(40)
    };
    let wanted = want(ALL);
    let (fetched, _) = tokio::join!(source.fetch(range, &wanted, None), reorg);
    let error = failure(fetched);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let now = node.block(269).unwrap().hash;
    let text = format!("the chain changed below block 270: block 269 is {now} now");
    assert!(error.to_string().contains(&text), "{error}");
    assert_eq!(server.stats().requests["stream"], 2);
    let fetched = source.fetch(range, &wanted, None).await.unwrap();
    assert_blocks(&fetched, &node, range, &wanted);
}

#[tokio::test(start_paused = true)]
async fn heads_that_are_not_known_yet_are_waited_for() {
    let node = node(11);
    let faults = PortalFaults::new(1);
    let server = serve_with(&node, &faults).await;
    let source = source(&server);
    faults.times(PortalFault::HeadNull, 4);
    let began = Instant::now();
    assert_eq!(source.heads().await.unwrap().head, node.head());
    assert_eq!(faults.injected(PortalFault::HeadNull), 4);
    let waited = began.elapsed().as_millis();
    assert!((3_600..3_700).contains(&waited), "{waited} ms");

    faults.always(PortalFault::HeadNull);
    let before = server.stats().requests["head"];
    let error = source.heads().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("not known yet"), "{error}");
    assert_eq!(server.stats().requests["head"] - before, 5);

    // Without a finalized block, everything may still change.
    let young = self::source(&server);
    let range = BlockRange::new(0, 20);
    let fetched = young.fetch(range, &want(ALL), None).await.unwrap();
    assert_blocks(&fetched, &node, range, &want(ALL));
    assert_eq!(server.stats().requests["stream"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalized_head_never_goes_down() {
    let node = node(12);
    let faults = PortalFaults::new(1);
    let server = serve_with(&node, &faults).await;
    let source = source(&server);
    let highest = node.finalized();
    assert_eq!(source.heads().await.unwrap().finalized, Some(highest));
    faults.always(PortalFault::FinalizedHeadDown);
    for _ in 0..3 {
        assert_eq!(source.heads().await.unwrap().finalized, Some(highest));
    }
    assert_eq!(faults.injected(PortalFault::FinalizedHeadDown), 3);
    node.rollback(100);
    let heads = source.heads().await.unwrap();
    assert_eq!((heads.finalized, heads.head), (Some(highest), highest));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inconsistent_portal_is_found_and_named() {
    use PortalFault::{LongLine, MissingLog, RepeatedBlock, SkippedBlock, WrongParent};
    let node = node(13);
    let range = BlockRange::new(10, 200);
    for (fault, kind, text) in [
        (SkippedBlock, ErrorKind::Disagreement, "is due"),
        (RepeatedBlock, ErrorKind::Disagreement, "is due"),
        (WrongParent, ErrorKind::Disagreement, "parent"),
        (MissingLog, ErrorKind::Disagreement, "bloom"),
        (LongLine, ErrorKind::TooLarge, "longer than 1048576 bytes"),
    ] {
        let faults = PortalFaults::new(1);
        faults.times(fault, 1);
        let server = serve_with(&node, &faults).await;
        let source = PortalSource::new(PortalSettings {
            line_bytes_max: 1 << 20,
            ..settings(&server)
        });
        let source = source.unwrap();
        let error = failure(source.fetch(range, &want(ALL), None).await);
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.to_string().contains(text), "{fault:?}: {error}");
        assert_eq!(faults.injected(fault), 1, "{fault:?} was never injected");
        let lies = u64::from(kind == ErrorKind::Disagreement);
        assert_eq!(source.endpoints()[0].inconsistencies, lies);
        let fetched = source.fetch(range, &want(ALL), None).await.unwrap();
        assert_blocks(&fetched, &node, range, &want(ALL));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_had_or_proven_is_refused() {
    let node = node(14);
    let server = serve(&node, PortalOptions::default()).await;
    let unproven = PortalSettings {
        checks: Checks::NONE,
        ..settings(&server)
    };
    let range = BlockRange::new(0, 5);
    let at = |level| Want {
        proof: Proof::demanded(level),
        ..want(LOGS)
    };
    for (settings, want, text) in [
        (
            settings(&server),
            want(&[Dataset::Headers]),
            "headers: use rpcHttp",
        ),
        (
            settings(&server),
            at(Verification::Receipts),
            "its own word",
        ),
        (unproven, at(Verification::Bloom), "its own word"),
    ] {
        let source = PortalSource::new(settings).unwrap();
        let error = failure(source.fetch(range, &want, None).await);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(server.stats().requests.len(), 0, "asked in vain");
    for url in ["", "ftp://a/b", "mailto:a@b", "portal/sim"] {
        assert!(PortalSource::new(PortalSettings::new(url, 1)).is_err());
    }
}

/// More requests than are allowed are told to wait, wait, and get their blocks all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_requests_is_waited_for() {
    let node = node(40);
    let limit = RateLimit {
        calls_per_second: 2,
        retry_after_seconds: Some(1),
    };
    let options = PortalOptions {
        rate_limit: Some(limit),
        blocks_max: Some(10),
        ..PortalOptions::default()
    };
    let server = serve(&node, options).await;
    let fetched = source(&server)
        .fetch(BlockRange::new(0, 50), &want(&[Dataset::Logs]), None)
        .await
        .unwrap();
    assert_eq!(fetched.len(), 50);
    let requested: u64 = server.stats().requests.values().sum();
    assert!(requested > 6, "nothing was refused: {requested} requests");
}

/// A fetch held its two thousand blocks whatever was in them.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_holds_no_more_logs_than_are_worth_it() {
    let mut spec = EvmSpec::mainnet(21);
    spec.content.logs_per_block = 600;
    let node = EvmNode::new(spec, 120);
    let server = serve(&node, PortalOptions::default()).await;
    let (source, want, range) = (source(&server), want(LOGS), BlockRange::new(0, 121));
    let some = source.fetch_some(range, &want, None).await.unwrap();
    let logs: usize = some.iter().map(|one| one.block.logs.len()).sum();
    let last = some.last().unwrap().block.logs.len();
    assert!(logs >= 50_000 && logs - last < 50_000, "{logs} logs");
    assert!((some.len() as u64) < range.len());
    let fetched = source.fetch(range, &want, None).await.unwrap();
    assert_blocks(&fetched, &node, range, &want);
    assert_eq!(source.endpoints()[0].failures, 0);
}
