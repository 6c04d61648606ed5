//! A Portal beside endpoints: history goes on while the Portal keeps it waiting.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod canned;

use std::time::Duration;

use canned::{Canned, Piece, head};
use chronolith_model::{BlockRange, Dataset, DatasetSet, Proof, Scope};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::{EndpointSettings, JointSource, Source, Want};
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
