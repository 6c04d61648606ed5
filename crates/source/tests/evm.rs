//! A source against simulated nodes: what it fetches is what the chain has, whatever they say.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::time::Duration;

use bytes::Bytes;
use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, ErrorKind, Log, Payload, Proof, Scope, ScopeEntry,
    Verification,
};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, FaultSizes, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Error, Fetched, Source, Subscription, Want};

const BLOCKS: u64 = 120;

fn want() -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::LINKED,
    }
}

fn source(servers: &[&RpcServer], strategy: Strategy) -> EvmSource {
    source_with(servers, strategy, Checks::ALL)
}

fn source_with(servers: &[&RpcServer], strategy: Strategy, checks: Checks) -> EvmSource {
    let endpoint = |server: &&RpcServer| EndpointSettings {
        batch: 16,
        ..EndpointSettings::new(&server.url())
    };
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: servers.iter().map(endpoint).collect(),
        heads: servers.iter().map(|server| server.ws_url()).collect(),
        tags: Tags::ALL,
        strategy,
        checks,
        ranges: RangeSettings::default(),
    })
    .unwrap()
}

async fn serve(node: &EvmNode, options: RpcOptions) -> RpcServer {
    RpcServer::start(node.clone(), options).await.unwrap()
}

/// The blocks of the chain as they should come.
fn expected(node: &EvmNode, range: BlockRange) -> Vec<Block> {
    let block = |number| Block {
        payload: Payload::default(),
        ..node.block(number).unwrap().to_model()
    };
    (range.start..range.end).map(block).collect()
}

#[track_caller]
fn assert_blocks(fetched: Vec<Fetched>, node: &EvmNode, range: BlockRange, level: Verification) {
    assert!(
        fetched.iter().all(|one| one.proof.logs() == level),
        "not all at {level:?}"
    );
    let blocks: Vec<Block> = fetched.into_iter().map(|one| one.block).collect();
    let expected = expected(node, range);
    assert!(
        expected.iter().any(|block| !block.logs.is_empty()),
        "no logs at all"
    );
    assert_eq!(blocks.len(), expected.len());
    for (ours, theirs) in blocks.iter().zip(&expected) {
        assert_eq!(ours, theirs, "block {}", theirs.clock.number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_give_the_chain_and_say_how_far_it_is_proven() {
    let node = EvmNode::new(EvmSpec::tiny(1), BLOCKS);
    let server = serve(&node, RpcOptions::default()).await;
    let range = BlockRange::new(0, BLOCKS + 1);
    for (strategy, level) in [
        (Strategy::Receipts, Verification::Roots),
        (Strategy::Logs, Verification::Bloom),
    ] {
        let source = source(&[&server], strategy);
        let identity = source.identity().await.unwrap();
        assert_eq!(identity.chain_id, 31_337);
        assert_eq!(
            identity.genesis,
            node.block(0).map(|block| block.block_ref().hash)
        );
        let heads = source.heads().await.unwrap();
        assert_eq!(heads.head, node.head());
        assert_eq!(
            (heads.finalized, heads.safe),
            (Some(node.finalized()), Some(node.safe()))
        );
        let fetched = source.fetch(range, &want(), None).await.unwrap();
        assert_blocks(fetched, &node, range, level);
        assert_eq!(source.clock(BLOCKS + 1).await.unwrap(), None);
        let clock = source.clock(7).await.unwrap().unwrap();
        assert_eq!(clock, node.block(7).unwrap().to_model().clock);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_receipts_is_queried_for_logs() {
    let node = EvmNode::new(EvmSpec::tiny(2), BLOCKS);
    for code in [-32601, -32004] {
        let missing = MissingMethod {
            name: "eth_getBlockReceipts".into(),
            code,
        };
        let options = RpcOptions {
            missing_methods: vec![missing],
            ..RpcOptions::default()
        };
        let server = serve(&node, options).await;
        let source = source(&[&server], Strategy::Receipts);
        let range = BlockRange::new(3, 60);
        let fetched = source.fetch(range, &want(), None).await.unwrap();
        assert_blocks(fetched, &node, range, Verification::Bloom);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_node_are_found_and_kept() {
    let node = EvmNode::new(EvmSpec::tiny(3), BLOCKS);
    for (blocks, results) in [(Some(7), None), (None, Some(9)), (Some(1), Some(3))] {
        let options = RpcOptions {
            max_block_range: blocks,
            max_results: results,
            ..RpcOptions::default()
        };
        let server = serve(&node, options).await;
        let source = source(&[&server], Strategy::Logs);
        let range = BlockRange::new(0, BLOCKS + 1);
        let fetched = source.fetch(range, &want(), None).await.unwrap();
        assert_blocks(fetched, &node, range, Verification::Bloom);
    }
}

/// Fetches the logs of a scope: exactly those that the chain has.
async fn assert_scoped(source: &EvmSource, node: &EvmNode, scope: &Scope) {
    let range = BlockRange::new(0, BLOCKS + 1);
    let want = Want {
        scope: scope.clone(),
        ..want()
    };
    let fetched = source.fetch(range, &want, None).await.unwrap();
    let all = expected(node, range);
    assert_eq!(fetched.len(), all.len());
    let mut kept = 0;
    for (one, whole) in fetched.iter().zip(&all) {
        let logs = whole.logs.iter();
        let wanted = logs.filter(|log| scope.admits(log.emitter(), log.topic(0)));
        let number = whole.clock.number;
        assert!(one.block.logs.iter().eq(wanted), "block {number}");
        kept += one.block.logs.len();
    }
    assert!(kept > 0);
}

fn entry(emitter: Option<&[u8]>, topic0: Option<&[u8]>) -> ScopeEntry {
    ScopeEntry {
        emitter: emitter.map(Bytes::copy_from_slice),
        topic0: topic0.map(Bytes::copy_from_slice),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_keeps_its_logs_and_no_others() {
    let node = EvmNode::new(EvmSpec::tiny(4), BLOCKS);
    let server = serve(&node, RpcOptions::default()).await;
    let source = source(&[&server], Strategy::Receipts);
    let all = expected(&node, BlockRange::new(0, BLOCKS + 1));
    let logs: Vec<_> = all.iter().flat_map(|block| &block.logs).collect();
    let log = *logs.iter().find(|log| log.topic_count() > 0).unwrap();
    let (emitter, topic0) = (Some(log.emitter()), log.topic(0));
    for (emitter, topic0) in [(emitter, topic0), (emitter, None), (None, topic0)] {
        assert_scoped(&source, &node, &Scope::only(vec![entry(emitter, topic0)])).await;
    }
    // Two pairs: a node is asked for either emitter and either topic, and answers with more.
    let other = logs.iter().find(|other| {
        let crossed = (Some(log.emitter()), other.topic(0));
        let differs = other.emitter() != log.emitter() && other.topic(0) != topic0;
        let has = |log: &&&Log| (Some(log.emitter()), log.topic(0)) == crossed;
        other.topic_count() > 0 && differs && logs.iter().any(|log| has(&log))
    });
    let other = other.expect("no two logs whose crossing exists");
    let pairs = vec![
        entry(emitter, topic0),
        entry(Some(other.emitter()), other.topic(0)),
    ];
    assert_scoped(&source, &node, &Scope::only(pairs)).await;
}

/// Every way in which a node can be wrong about a block, with an honest one behind it: the answer
/// is the chain's, and the liar is named.
#[tokio::test(flavor = "multi_thread")]
async fn an_inconsistent_endpoint_is_found_and_skipped() {
    use RpcFault::{BloomZero, EmptyLogs, HashChange, MissingLog, WrongBlockHashInLogs};
    let node = EvmNode::new(EvmSpec::tiny(5), BLOCKS);
    let range = BlockRange::new(10, 60);
    for (fault, strategy) in [
        (MissingLog, Strategy::Receipts),
        (MissingLog, Strategy::Logs),
        (EmptyLogs, Strategy::Logs),
        (WrongBlockHashInLogs, Strategy::Receipts),
        (WrongBlockHashInLogs, Strategy::Logs),
        (BloomZero, Strategy::Receipts),
        (BloomZero, Strategy::Logs),
        (HashChange, Strategy::Receipts),
    ] {
        let faults = Faults::new(9);
        faults.always(fault);
        let liar = serve(
            &node,
            RpcOptions {
                faults: faults.clone(),
                ..RpcOptions::default()
            },
        )
        .await;
        let honest = serve(&node, RpcOptions::default()).await;
        let source = source(&[&liar, &honest], strategy);
        let fetched = source.fetch(range, &want(), None).await.unwrap();
        assert!(
            fetched
                .iter()
                .all(|one| honest.url().contains(&*one.endpoint)),
            "{fault:?}"
        );
        let level = match strategy {
            Strategy::Receipts => Verification::Roots,
            Strategy::Logs => Verification::Bloom,
        };
        assert_blocks(fetched, &node, range, level);
        assert!(
            faults.injected()[fault.name()] > 0,
            "{fault:?} was never injected"
        );
        let reports = source.endpoints();
        let race = matches!(fault, HashChange | WrongBlockHashInLogs);
        assert!(
            reports[0].inconsistencies > 0 || (race && reports[0].failures > 0),
            "{fault:?}: {reports:?}"
        );
        assert_eq!(reports[1].inconsistencies, 0);
    }
}

/// A single node that lies is refused: nothing is made up, nothing left out.
#[tokio::test(start_paused = true)]
async fn one_inconsistent_endpoint_alone_is_an_error_that_names_it() {
    let node = EvmNode::new(EvmSpec::tiny(6), BLOCKS);
    let faults = Faults::new(1);
    faults.always(RpcFault::MissingLog);
    let liar = serve(
        &node,
        RpcOptions {
            faults,
            ..RpcOptions::default()
        },
    )
    .await;
    let source = source(&[&liar], Strategy::Receipts);
    let error = source
        .fetch(BlockRange::new(10, 60), &want(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disagreement, "{error}");
    let name = liar.url();
    let host = name.trim_start_matches("http://").trim_end_matches('/');
    assert!(error.to_string().contains(host), "{error}");
}

/// Trouble that passes: tried again until it is over.
#[tokio::test(start_paused = true)]
async fn transport_errors_are_retried() {
    let node = EvmNode::new(EvmSpec::tiny(7), BLOCKS);
    let range = BlockRange::new(0, 50);
    for fault in [
        RpcFault::RpcError,
        RpcFault::Http500,
        RpcFault::Http429RetryAfter,
        RpcFault::Http429Bare,
        RpcFault::NullBlock,
        RpcFault::NullReceipts,
        RpcFault::TruncatedBody,
        RpcFault::BatchOutOfOrder,
        RpcFault::MissingBlockTimestamp,
        RpcFault::RangeError,
    ] {
        let faults = Faults::new(4);
        // Logs are asked for seldom, so what goes wrong with them must go wrong often.
        let often = fault == RpcFault::RangeError;
        faults.set(fault, if often { 700_000 } else { 150_000 });
        let options = |faults: &Faults| RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        let servers = [
            serve(&node, options(&faults)).await,
            serve(&node, options(&faults)).await,
        ];
        for strategy in [Strategy::Receipts, Strategy::Logs] {
            let source = source(&[&servers[0], &servers[1]], strategy);
            let mut tries = 0;
            let fetched = loop {
                match source.fetch(range, &want(), None).await {
                    Ok(fetched) => break fetched,
                    Err(error) => {
                        tries += 1;
                        assert!(tries < 50, "{fault:?}: {error}");
                    }
                }
            };
            let level = fetched[0].proof.logs();
            assert_blocks(fetched, &node, range, level);
        }
        assert!(
            faults.injected()[fault.name()] > 0,
            "{fault:?} was never injected"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_cut_off() {
    let node = EvmNode::new(EvmSpec::tiny(8), 10);
    let faults = Faults::new(1);
    faults.always(RpcFault::HugeBody);
    faults.set_sizes(FaultSizes {
        huge_body_bytes: 4 << 20,
        ..faults.sizes()
    });
    let server = serve(
        &node,
        RpcOptions {
            faults,
            ..RpcOptions::default()
        },
    )
    .await;
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings {
            answer_bytes_max: 1 << 20,
            ..EndpointSettings::new(&server.url())
        }],
        heads: Vec::new(),
        tags: Tags::ALL,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings {
            most: 10,
            ..RangeSettings::default()
        },
    })
    .unwrap();
    let error = source
        .fetch(BlockRange::new(0, 5), &want(), None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_chain_is_refused() {
    let node = EvmNode::new(
        EvmSpec {
            chain_id: 5,
            ..EvmSpec::tiny(9)
        },
        3,
    );
    let server = serve(&node, RpcOptions::default()).await;
    let error = source(&[&server], Strategy::Receipts)
        .check_chain()
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::WrongChain {
                expected: 31_337,
                got: 5,
                ..
            }
        ),
        "{error}"
    );
}

/// One endpoint that serves another chain, or says so once, must not keep a node with good ones from
/// starting: it is named, passed over, and nothing is taken from it.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_of_another_chain_is_passed_over_where_others_are_right() {
    let (right, other) = (EvmSpec::tiny(9), EvmSpec::tiny(8));
    let node = EvmNode::new(right, 30);
    let wrong = EvmSpec {
        chain_id: 5,
        ..other
    };
    let wrong = EvmNode::new(wrong, 30);
    let wrong = serve(&wrong, RpcOptions::default()).await;
    let good = serve(&node, RpcOptions::default()).await;
    let source = source(&[&wrong, &good], Strategy::Receipts);
    source.check_chain().await.unwrap();
    let fetched = source.fetch(BlockRange::new(0, 20), &want(), None).await;
    for (number, one) in fetched.unwrap().iter().enumerate() {
        assert_eq!(
            one.block.clock.hash,
            node.block(number as u64).unwrap().hash
        );
    }
    let report = source.endpoints();
    let lies: Vec<u64> = report
        .iter()
        .map(|endpoint| endpoint.inconsistencies)
        .collect();
    assert_eq!(lies, [1, 0], "{report:?}");
    let message = report[0].last_error.as_deref().unwrap_or_default();
    assert!(message.contains("wrong chain"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_proven_as_wanted_is_refused() {
    let node = EvmNode::new(EvmSpec::tiny(10), 20);
    let server = serve(&node, RpcOptions::default()).await;
    let source = source(&[&server], Strategy::Logs);
    let strict = Want {
        proof: Proof::of_logs(Verification::Receipts),
        ..want()
    };
    let error = source
        .fetch(BlockRange::new(0, 5), &strict, None)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot be proven as far as is wanted"),
        "{error}"
    );
}

/// Latency is hidden by asking for several things at once.
#[tokio::test(flavor = "multi_thread")]
async fn slow_nodes_are_queried_in_parallel() {
    let node = EvmNode::new(EvmSpec::tiny(11), BLOCKS);
    let delay = Duration::from_millis(200);
    let server = serve(
        &node,
        RpcOptions {
            delay,
            ..RpcOptions::default()
        },
    )
    .await;
    let headers_only = Checks::ALL.up_to(Verification::Receipts);
    let source = source_with(&[&server], Strategy::Logs, headers_only);
    let range = BlockRange::new(0, BLOCKS);
    let fetched = source.fetch(range, &want(), None).await.unwrap();
    assert_blocks(fetched, &node, range, Verification::Bloom);
    // What is sent while an answer is waited for: several requests, and no more than may be.
    let at_once = server.stats().http_at_once_max;
    assert!((4..=8).contains(&at_once), "{at_once} at once");
}

/// Heads wake whoever waits, and a connection that drops is made again.
#[tokio::test(flavor = "multi_thread")]
async fn new_heads_are_reported_through_lost_connections() {
    let node = EvmNode::new(EvmSpec::tiny(12), 10);
    let faults = Faults::new(3);
    let server = serve(
        &node,
        RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        },
    )
    .await;
    let source = source(&[&server], Strategy::Receipts);
    let mut hints = source.hints();
    let reported = async {
        // The subscription itself is the first hint.
        hints.changed().await.unwrap();
        assert_eq!(source.subscription(), Subscription::Connected);
        for round in 0..6 {
            if round == 2 {
                faults.set(RpcFault::WsDrop, 500_000);
            }
            hints.mark_unchanged();
            node.mine(1);
            // A head that is lost with its connection is made good by the next subscription.
            hints.changed().await.unwrap();
        }
    };
    let both = async {
        tokio::select! {
            () = source.listen() => unreachable!(),
            () = reported => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .unwrap();
    assert!(
        faults.injected()["ws_drop"] > 0,
        "no connection was dropped"
    );
}

/// An endpoint that answers everything with an error of its own is passed over, also for heads.
#[tokio::test(flavor = "multi_thread")]
async fn errors_inside_an_answer_lead_to_the_next_endpoint() {
    let node = EvmNode::new(EvmSpec::tiny(13), 60);
    let faults = Faults::new(1);
    faults.always(RpcFault::RpcError);
    let spent = serve(
        &node,
        RpcOptions {
            faults,
            ..RpcOptions::default()
        },
    )
    .await;
    let well = serve(&node, RpcOptions::default()).await;
    let source = source(&[&spent, &well], Strategy::Receipts);
    assert_eq!(source.heads().await.unwrap().head, node.head());
    let range = BlockRange::new(0, 40);
    let fetched = source.fetch(range, &want(), None).await.unwrap();
    assert_blocks(fetched, &node, range, Verification::Roots);
    assert!(source.endpoints()[0].failures > 0);
}

/// Two URLs on one host are two endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn two_keys_of_one_host_are_distinguished() {
    let node = EvmNode::new(EvmSpec::tiny(14), 10);
    let server = serve(&node, RpcOptions::default()).await;
    let urls = [
        format!("{}?one", server.url()),
        format!("{}?two", server.url()),
    ];
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: urls.iter().map(|url| EndpointSettings::new(url)).collect(),
        heads: Vec::new(),
        tags: Tags::ALL,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings {
            most: 10,
            ..RangeSettings::default()
        },
    })
    .unwrap();
    let names: Vec<String> = source.endpoints().into_iter().map(|one| one.name).collect();
    assert_ne!(names[0], names[1]);
    source.report_bad(&names[0], node.head(), "test");
    assert_eq!(source.heads().await.unwrap().head, node.head());
    assert!(source.endpoints()[1].requests > 0);
}

/// Only whoever has the anchor may deliver what lies below it.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_on_another_fork_delivers_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(15), 60);
    let other = EvmNode::new(EvmSpec::tiny(16), 60);
    let stale = serve(&other, RpcOptions::default()).await;
    let right = serve(&node, RpcOptions::default()).await;
    let source = source(&[&stale, &right], Strategy::Receipts);
    let range = BlockRange::new(0, 40);
    let fetched = source
        .fetch(range, &want(), Some(node.head()))
        .await
        .unwrap();
    assert_blocks(fetched, &node, range, Verification::Roots);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_come_without_logs_where_none_are_wanted() {
    let node = EvmNode::new(EvmSpec::tiny(17), 30);
    let server = serve(&node, RpcOptions::default()).await;
    let source = source(&[&server], Strategy::Receipts);
    for datasets in [
        DatasetSet::CLOCK,
        DatasetSet::of(&[Dataset::Headers, Dataset::TxHashes]),
    ] {
        let want = Want { datasets, ..want() };
        let fetched = source
            .fetch(BlockRange::new(0, 31), &want, None)
            .await
            .unwrap();
        assert_eq!(fetched.len(), 31);
        assert!(fetched.iter().all(|one| one.block.logs.is_empty()));
        let headers = fetched.iter().all(|one| one.block.payload.header.is_some());
        assert_eq!(headers, datasets.contains(Dataset::Headers));
        assert_eq!(source.endpoints()[0].inconsistencies, 0);
    }
}

/// A node that is behind leaves logs out without a word. The header's bloom tells that some may be
/// missing, and the receipts which.
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_scope_loses_nothing_to_a_node_that_answers_short() {
    let node = EvmNode::new(EvmSpec::tiny(18), BLOCKS);
    let faults = Faults::new(1);
    faults.always(RpcFault::EmptyLogs);
    let short = serve(
        &node,
        RpcOptions {
            faults: faults.clone(),
            ..RpcOptions::default()
        },
    )
    .await;
    let source = source(&[&short], Strategy::Logs);
    let all = expected(&node, BlockRange::new(0, BLOCKS + 1));
    let log = all.iter().flat_map(|block| &block.logs).next().unwrap();
    let scope = Scope::only(vec![entry(Some(log.emitter()), None)]);
    assert_scoped(&source, &node, &scope).await;
    assert!(faults.injected()["empty_logs"] > 0);
}
