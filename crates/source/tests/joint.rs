//! A Portal beside endpoints: history continues while the Portal keeps it waiting.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod canned;

use std::time::Duration;

use alloy_primitives::{B256, U256, keccak256};
use canned::{Canned, Piece, calls, head, replies, whole};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope, ScopeEntry, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::{EndpointSettings, Fetched, JointSource, Source, Want};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A Portal that wishes to be left alone for five minutes was waited for six times over, while the
/// endpoints had all of it.
#[tokio::test(start_paused = true)]
async fn a_portal_that_asks_to_wait_is_not_waited_for() {
    let node = EvmNode::new(EvmSpec::tiny(1), 60);
    let server = RpcServer::start(node.clone(), RpcOptions::default());
    let server = server.await.unwrap();
    let busy = Canned::start(|_| {
        let mut answer = head("503 Service Unavailable");
        answer.extend_from_slice(b"Retry-After: 300\r\nContent-Length: 0\r\n\r\n");
        vec![Piece::now(answer)]
    });
    let busy = busy.await;
    let endpoints = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let portal = PortalSource::new(PortalSettings::new(&busy.url(), 31_337)).unwrap();
    let joint = JointSource::new(portal, endpoints);
    let want = Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::LINKED,
    };
    let (began, anchor) = (Instant::now(), Some(node.head()));
    // Those that wait together are not kept waiting one after the other.
    let fetches = (0..4).map(|at| {
        let range = BlockRange::new(10 * at, 10 * at + 10);
        joint.fetch(range, &want, anchor)
    });
    for fetched in futures::future::join_all(fetches).await {
        assert_eq!(fetched.unwrap().len(), 10);
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(busy.asked().len(), 1);
}

/// A Portal left out logs, made some up and moved others, each with a bloom that fits: its own bloom
/// was all that the logs were compared with, and the blocks were stored as proven by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_forgery_that_fits_its_own_bloom_does_not_fit_the_hashed_header() {
    let node = EvmNode::new(EvmSpec::tiny(5), 120);
    let server = RpcServer::start(node.clone(), RpcOptions::default());
    let server = server.await.unwrap();
    let range = BlockRange::new(0, 100);
    let lies = PortalFault::BYZANTINE.map(|(lie, _)| Some(lie));
    for lie in lies.into_iter().chain([None]) {
        for scope in [Scope::All, first_emitter(&node)] {
            let faults = PortalFaults::new(1);
            if let Some(lie) = lie {
                faults.set(lie, 100_000);
            }
            let portal = serve_portal(&node, &faults).await;
            let joint = joint(&portal, &server);
            let want = Want {
                scope: scope.clone(),
                ..want()
            };
            let fetched = joint.fetch(range, &want, Some(node.head())).await.unwrap();
            assert_eq!(fetched.len(), 100);
            for one in &fetched {
                let mut whole = node.block(one.block.clock.number).unwrap().to_model();
                whole
                    .logs
                    .retain(|log| scope.admits(log.emitter(), log.topic(0)));
                assert_eq!(one.block.logs, whole.logs, "{lie:?}");
                assert_eq!(one.block.txs, whole.txs, "{lie:?}");
                let least = match scope {
                    Scope::All => Verification::Bloom,
                    Scope::Only(_) => Verification::Linked,
                };
                assert!(one.proof.logs() >= least, "{lie:?}: {:?}", one.proof);
            }
            let reports = joint.endpoints();
            let reported = reports.last().unwrap();
            let from_portal = |one: &&Fetched| one.endpoint.starts_with("Portal");
            let by_portal = fetched.iter().filter(from_portal).count();
            if lie.is_none() {
                assert_eq!(reported.inconsistencies, 0);
                assert!(by_portal > 0, "the Portal delivered nothing");
            } else if scope == Scope::All {
                assert!(
                    reported.inconsistencies > 0 && reported.backing_off,
                    "{lie:?}: {reported:?}"
                );
                assert_eq!(by_portal, 0);
            }
        }
    }
}

/// Headers are asked for in batches: one request for a hundred blocks, whatever they hold.
#[tokio::test(flavor = "multi_thread")]
async fn headers_for_a_portal_cost_one_request_a_hundred_blocks() {
    let node = EvmNode::new(EvmSpec::tiny(6), 1_100);
    let server = RpcServer::start(node.clone(), RpcOptions::default());
    let server = server.await.unwrap();
    let portal = serve_portal(&node, &PortalFaults::new(1)).await;
    let joint = joint(&portal, &server);
    let range = BlockRange::new(0, 1_000);
    let fetched = joint
        .fetch(range, &want(), Some(node.head()))
        .await
        .unwrap();
    let bloom = Proof::of_logs(Verification::Bloom);
    assert!(fetched.iter().all(|one| one.proof == bloom));
    let stats = server.stats();
    assert!(!stats.calls.contains_key("eth_getBlockReceipts"));
    // Ten for headers; chain id, anchor and the like beside them.
    assert!((10..15).contains(&stats.http_requests), "{stats:?}");
}

/// A Portal alone proves nothing, and says what to do where more is wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_alone_is_only_claimed() {
    let node = EvmNode::new(EvmSpec::tiny(7), 50);
    let portal = serve_portal(&node, &PortalFaults::new(1)).await;
    let alone = PortalSource::new(PortalSettings::new(&portal.url(), 31_337)).unwrap();
    let range = BlockRange::new(0, 40);
    let fetched = alone.fetch(range, &want(), None).await.unwrap();
    assert!(fetched.iter().all(|one| one.proof == Proof::CLAIMED));
    let more = Want {
        proof: Proof::of_logs(Verification::Bloom),
        ..want()
    };
    let error = alone.fetch(range, &more, None).await.unwrap_err();
    assert!(error.to_string().contains("add rpcHttp"), "{error}");
}

fn want() -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::CLAIMED,
    }
}

async fn serve_portal(node: &EvmNode, faults: &PortalFaults) -> PortalServer {
    let options = PortalOptions {
        faults: faults.clone(),
        ..PortalOptions::default()
    };
    PortalServer::start(node.clone(), options).await.unwrap()
}

fn joint(portal: &PortalServer, server: &RpcServer) -> JointSource {
    let endpoints = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let portal = PortalSource::new(PortalSettings::new(&portal.url(), 31_337)).unwrap();
    JointSource::new(portal, endpoints)
}

/// A scope of one emitter of the chain.
fn first_emitter(node: &EvmNode) -> Scope {
    let blocks = (0..100).map(|number| node.block(number).unwrap().to_model());
    let log = blocks.flat_map(|block| block.logs).next().unwrap();
    Scope::only(vec![ScopeEntry {
        emitter: Some(log.emitter().to_vec().into()),
        topic0: None,
    }])
}

/// Who is blamed goes by the name: a Portal and an endpoint of one provider were one and the same.
#[test]
fn a_portal_and_an_endpoint_of_one_host_have_names_of_their_own() {
    let endpoints = EvmSource::new(EvmSettings {
        chain_id: 1,
        endpoints: vec![EndpointSettings::new("https://rpc.provider.example")],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let portal = PortalSettings::new("https://portal.provider.example/datasets/x", 1);
    let joint = JointSource::new(PortalSource::new(portal).unwrap(), endpoints);
    let names: Vec<String> = joint.endpoints().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["…provider.example", "Portal …provider.example"]);
}

/// The hash of an empty block of zkSync Era on its parent: it covers neither bloom nor roots.
fn zksync_hash(number: u64) -> B256 {
    let parent = number.checked_sub(1).map(zksync_hash);
    let words = [U256::from(number), U256::from(1)].map(B256::from);
    keccak256([words[0], words[1], parent.unwrap_or_default(), B256::ZERO].concat())
}

fn zksync_parent(number: u64) -> B256 {
    number.checked_sub(1).map(zksync_hash).unwrap_or_default()
}

fn zksync_block(params: &Value) -> Value {
    let number = params[0].as_str().unwrap().trim_start_matches("0x");
    let number = u64::from_str_radix(number, 16).unwrap_or(9);
    json!({
        "hash": zksync_hash(number), "parentHash": zksync_parent(number), "transactions": [],
        "number": format!("{number:#x}"), "timestamp": "0x1",
    })
}

/// A line of a Portal that calls block 4 by another name, where it lies.
fn zksync_line(number: u64, lies: bool) -> String {
    let name = |number: u64, hash: B256| {
        if lies && number == 4 {
            B256::repeat_byte(0xee)
        } else {
            hash
        }
    };
    let parent = name(number.wrapping_sub(1), zksync_parent(number));
    let hash = name(number, zksync_hash(number));
    let header = json!({"number": number, "hash": hash, "parentHash": parent, "timestamp": 1});
    format!("{}\n", json!({ "header": header }))
}

async fn zksync_portal(lies: bool) -> Canned {
    Canned::start(move |request| {
        if request.contains("head HTTP") {
            return whole(&json!({"number": 8, "hash": zksync_hash(8)}).to_string());
        }
        if !request.contains("finalized-stream") {
            return whole(r#"{"start_block": 0}"#);
        }
        let asked = calls(request);
        let from = asked["fromBlock"].as_u64().unwrap();
        let to = asked["toBlock"].as_u64().unwrap();
        let lines: String = (from..=to)
            .map(|number| zksync_line(number, lies))
            .collect();
        whole(&lines)
    })
    .await
}

/// Where hashes cover no bloom, or are not known at all, a Portal's blocks were taken as they came:
/// another hash than the endpoint's at the same height, and `claimed` where the endpoint alone gives
/// `linked`.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_is_compared_where_hashes_cover_no_content_or_are_not_known() {
    let rpc = Canned::start(|request| {
        whole(&replies(request, |method, params| match method {
            "eth_chainId" => "0x7a69".into(),
            "eth_getBlockByNumber" => zksync_block(params),
            method => panic!("{method} is asked for"),
        }))
    });
    let rpc = rpc.await;
    let links = Checks {
        bloom: false,
        receipts_root: false,
        transactions_root: false,
        ..Checks::ALL
    };
    for (checks, proof) in [(links, Proof::LINKED), (Checks::NONE, Proof::CLAIMED)] {
        for lies in [false, true] {
            let portal = zksync_portal(lies).await;
            let endpoints = EvmSource::new(EvmSettings {
                chain_id: 31_337,
                endpoints: vec![EndpointSettings::new(&rpc.url())],
                heads: Vec::new(),
                tags: Tags::NONE,
                strategy: Strategy::Receipts,
                checks,
                ranges: RangeSettings::default(),
            });
            let portal = PortalSource::new(PortalSettings {
                checks,
                ..PortalSettings::new(&portal.url(), 31_337)
            });
            let joint = JointSource::new(portal.unwrap(), endpoints.unwrap());
            let want = Want {
                datasets: DatasetSet::of(&[Dataset::TxHashes]),
                proof,
                ..want()
            };
            let anchor = zksync_hash(9).0;
            let anchor = chronolith_model::BlockRef {
                number: 9,
                hash: chronolith_model::Hash32(anchor),
            };
            let range = BlockRange::new(1, 8);
            let fetched = joint.fetch(range, &want, Some(anchor)).await.unwrap();
            assert_eq!(fetched.len(), 7);
            for one in &fetched {
                let clock = &one.block.clock;
                assert_eq!(
                    clock.hash.0,
                    zksync_hash(clock.number).0,
                    "{}",
                    clock.number
                );
                assert_eq!(one.proof, proof);
                let reports = joint.endpoints();
                let by_portal = one.endpoint.starts_with("Portal");
                assert_eq!(by_portal, !lies, "{reports:?}");
            }
            let reported = joint.endpoints().pop().unwrap().inconsistencies;
            assert_eq!(reported, u64::from(lies));
        }
    }
}
