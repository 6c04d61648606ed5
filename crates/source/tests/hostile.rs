//! A source against servers that answer what no proper node would: pages, floods, drips, echoes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod canned;

use std::sync::atomic::{AtomicBool, Ordering};

use canned::{Canned, calls, chain, replies, whole};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, Strategy, Tags};
use chronolith_source::{EndpointSettings, Source};

fn source(servers: &[&Canned]) -> EvmSource {
    let endpoint = |server: &&Canned| EndpointSettings::new(&server.url());
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: servers.iter().map(endpoint).collect(),
        heads: Vec::new(),
        tags: Tags::ALL,
        strategy: Strategy::Logs,
        checks: Checks::NONE,
        span_max: 10_000,
    })
    .unwrap()
}

/// One page of a proxy switched batches off for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_place_of_an_answer_does_not_end_batches() {
    let shown = AtomicBool::new(false);
    let server = Canned::start(move |request| {
        if calls(request).is_array() && !shown.swap(true, Ordering::Relaxed) {
            return whole("<html>one moment</html>");
        }
        whole(&replies(request, chain))
    })
    .await;
    let source = source(&[&server]);
    // The chain's id, the page, and each of the tags alone; then all tags at once.
    for requests in [5, 6, 7] {
        let heads = source.heads().await.unwrap();
        assert_eq!(heads.head.number, 9);
        assert_eq!(heads.finalized.unwrap().number, 3);
        assert_eq!(server.asked().len(), requests);
    }
}
