//! A source against servers that answer what no proper node would: pages, floods, drips, echoes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod canned;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use canned::{Canned, Piece, calls, chain, head, replies, whole};
use chronolith_model::{
    BlockRange, BlockRef, Dataset, DatasetSet, ErrorKind, Hash32, Proof, Scope,
};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::stellar::{LakePlace, LakeSettings, LakeSource};
use chronolith_source::{EndpointSettings, FailureClass, Source, Want};
use chronolith_stellar::Network;
use tokio::sync::Notify;
use tokio::time::Instant;

fn source(servers: &[&Canned]) -> EvmSource {
    let endpoint = |server: &&Canned| EndpointSettings::new(&server.url());
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: servers.iter().map(endpoint).collect(),
        heads: Vec::new(),
        tags: Tags::ALL,
        strategy: Strategy::Logs,
        checks: Checks::NONE,
        ranges: RangeSettings::default(),
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

fn want() -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        scope: Scope::All,
        proof: Proof::CLAIMED,
    }
}

/// A server of the small chain that is well.
async fn well() -> Canned {
    Canned::start(|request| whole(&replies(request, chain))).await
}

/// An answer that never ends and never pauses for long.
fn drip(piece: &str) -> Vec<Piece> {
    let mut first = head("200 OK");
    first.extend_from_slice(b"\r\n");
    let drop = Piece::after(Duration::from_secs(10), piece);
    let mut pieces = vec![Piece::now(first)];
    pieces.extend(std::iter::repeat_n(drop, 1_000));
    pieces
}

/// Only pauses between pieces were limited: a byte now and then held a request for hours.
#[tokio::test(start_paused = true)]
async fn heads_that_drip_are_requested_elsewhere() {
    let (slow, well) = (Canned::start(|_| drip(" ")).await, well().await);
    let source = source(&[&slow, &well]);
    let began = Instant::now();
    assert_eq!(source.heads().await.unwrap().head.number, 9);
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    assert!(!slow.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn logs_that_drip_are_requested_elsewhere() {
    let slow = Canned::start(|request| {
        if request.contains("eth_getLogs") {
            drip(" ")
        } else {
            whole(&replies(request, chain))
        }
    });
    let (slow, well) = (slow.await, well().await);
    let source = source(&[&slow, &well]);
    let began = Instant::now();
    let fetched = source.fetch(BlockRange::new(0, 9), &want(), None).await;
    assert_eq!(fetched.unwrap().len(), 9);
    assert!(
        began.elapsed() < Duration::from_secs(100),
        "{:?}",
        began.elapsed()
    );
    assert!(
        slow.asked()
            .iter()
            .any(|request| request.contains("eth_getLogs"))
    );
}

/// Every answer could have 128 MiB, also that to a call whose answer has a hundred bytes.
#[tokio::test(flavor = "multi_thread")]
async fn long_answers_are_received_only_where_answers_may_be_long() {
    const LONG: usize = 2 << 20;
    let server = |method: &'static str| {
        Canned::start(move |request| {
            let mut body = replies(request, chain);
            if request.contains(method) {
                body.push_str(&" ".repeat(LONG));
            }
            whole(&body)
        })
    };
    let (ids, logs) = (server("eth_chainId").await, server("eth_getLogs").await);
    let error = source(&[&ids]).check_chain().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::TooLarge, "{error}");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let source = source(&[&logs]);
    source.check_chain().await.unwrap();
    let fetched = source.fetch(BlockRange::new(0, 9), &want(), None).await;
    assert_eq!(fetched.unwrap().len(), 9);
    let asked = logs.asked();
    assert!(asked.iter().any(|request| request.contains("eth_getLogs")));
}

/// An object of a lake held a round forever: a byte came before each pause was over.
#[tokio::test(start_paused = true)]
async fn an_object_that_drips_is_given_up() {
    let server = Canned::start(|_| drip(" ")).await;
    let began = Instant::now();
    let lake = LakeSource::open(LakeSettings {
        place: LakePlace::Http(server.url()),
        layout: None,
        network: Network::new("Sim"),
        first_ledger: 2,
        at_once: 1,
        hold_bytes: 1 << 20,
    });
    let error = lake.await.unwrap_err().to_string();
    assert!(error.contains("it came too slowly"), "{error}");
    assert!(error.contains(".config.json"), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(400),
        "{:?}",
        began.elapsed()
    );
}

/// Empty lines are no blocks, however steadily they come.
#[tokio::test(start_paused = true)]
async fn a_stream_of_empty_lines_is_given_up() {
    let hash = format!("0x{:064x}", 1);
    let server = Canned::start(move |request| {
        if request.starts_with("GET ") {
            whole(&format!(r#"{{"number":100,"hash":"{hash}"}}"#))
        } else {
            drip("\n")
        }
    });
    let server = server.await;
    let portal = PortalSource::new(PortalSettings::new(&server.url(), 31_337)).unwrap();
    let began = Instant::now();
    let fetched = portal.fetch(BlockRange::new(0, 9), &want(), None).await;
    let error = fetched.unwrap_err();
    assert_eq!(error.class(), FailureClass::TimedOut, "{error}");
    let error = error.to_string();
    assert!(error.contains("too slow"), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(1_000),
        "{:?}",
        began.elapsed()
    );
}

/// A page in place of an answer was shown as `request failed`, and a refused key as `settings do not fit`.
#[tokio::test(start_paused = true)]
async fn everybody_reads_what_kind_of_answer_a_portal_gave() {
    for (status, expected) in [
        ("200 OK", FailureClass::Unreadable),
        ("401 Unauthorized", FailureClass::Http(401)),
        ("403 Forbidden", FailureClass::Http(403)),
        ("422 Unprocessable Entity", FailureClass::Http(422)),
        ("404 Not Found", FailureClass::InvalidSettings),
    ] {
        let server = Canned::start(move |_| {
            let page = "<html>no</html>";
            let mut answer = head(status);
            let length = format!("Content-Length: {}\r\n\r\n{page}", page.len());
            answer.extend_from_slice(length.as_bytes());
            vec![Piece::now(answer)]
        });
        let server = server.await;
        let portal = PortalSource::new(PortalSettings::new(&server.url(), 31_337)).unwrap();
        let error = portal.heads().await.unwrap_err();
        assert_eq!(error.class(), expected, "{status}: {error}");
        // What is refused is not requested again at once; a page may be one of a proxy.
        let kind = match expected {
            FailureClass::Unreadable => ErrorKind::Unavailable,
            _ => ErrorKind::Invalid,
        };
        assert_eq!(error.kind(), kind, "{status}: {error}");
        assert_eq!(portal.endpoints()[0].last_failure, Some(expected));
    }
}

/// A line that is no block, in the middle of a stream: it is fetched again, and shown as what it is.
#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_block_is_an_unreadable_answer() {
    let hash = format!("0x{:064x}", 1);
    let server = Canned::start(move |request| {
        if request.starts_with("GET ") {
            whole(&format!(r#"{{"number":100,"hash":"{hash}"}}"#))
        } else {
            whole("upstream connect error\n")
        }
    });
    let server = server.await;
    let portal = PortalSource::new(PortalSettings::new(&server.url(), 31_337)).unwrap();
    let fetched = portal.fetch(BlockRange::new(0, 9), &want(), None).await;
    let error = fetched.unwrap_err();
    assert_eq!(error.class(), FailureClass::Unreadable, "{error}");
}

/// A pause that another request earned kept a fetch waiting for minutes beside a good endpoint.
#[tokio::test(start_paused = true)]
async fn a_long_pause_is_not_waited_for_beside_a_good_endpoint() {
    let asked = Arc::new(Notify::new());
    let reported = asked.clone();
    let broken = Canned::start(move |request| {
        if request.contains("eth_chainId") {
            return whole(&replies(request, chain));
        }
        reported.notify_one();
        let mut answer = head("500 Internal Server Error");
        answer.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        vec![Piece::after(Duration::from_secs(1), answer)]
    });
    let (broken, well) = (broken.await, well().await);
    let source = source(&[&broken, &well]);
    let name = source.endpoints()[0].name.clone();
    let block = BlockRef {
        number: 1,
        hash: Hash32([1; 32]),
    };
    let began = Instant::now();
    let blamed = async {
        asked.notified().await;
        source.report_bad(&name, block, "another request found it out");
    };
    let want = want();
    let fetched = source.fetch(BlockRange::new(0, 9), &want, None);
    let (fetched, ()) = tokio::join!(fetched, blamed);
    assert_eq!(fetched.unwrap().len(), 9);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

/// A redirect would hand the key in the path, and all that is asked, to another host.
#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    let other = well().await;
    let to = other.url();
    let moved = Canned::start(move |_| {
        let mut answer = head("307 Temporary Redirect");
        answer.extend_from_slice(format!("Location: {to}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        vec![Piece::now(answer)]
    });
    let moved = moved.await;
    source(&[&moved]).check_chain().await.unwrap_err();
    let settings = PortalSettings::new(&moved.url(), 31_337);
    let portal = PortalSource::new(settings).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(2), portal.heads());
    assert!(!matches!(asked.await, Ok(Ok(_))));
    assert!(!moved.asked().is_empty());
    assert_eq!(other.asked(), Vec::<String>::new());
}

/// Some repeat in an error what they were asked with, key and all.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_echoed_is_not_printed() {
    let text = "no plan for SECRET-KEY: see http://x/v3/SECRET-KEY?u=SECRET-KEY";
    let refusal = format!(r#"{{"id":0,"error":{{"code":-32000,"message":"{text}"}}}}"#);
    let server = Canned::start(move |request| {
        if request.contains("eth_chainId") {
            whole(&replies(request, chain))
        } else {
            whole(&refusal)
        }
    });
    let server = server.await;
    let source = source(&[&server]);
    let name = source.endpoints()[0].name.clone();
    let error = source.syncing(&name).await.unwrap_err().to_string();
    assert!(error.contains("no plan for"), "{error}");
    assert!(!error.contains("SECRET"), "{error}");
    let page = Canned::start(|_| {
        let text = "\"SECRET-KEY\"";
        let mut answer = head("400 Bad Request");
        answer
            .extend_from_slice(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
        vec![Piece::now(answer)]
    });
    let page = page.await;
    let source = self::source(&[&page]);
    let portal = PortalSource::new(PortalSettings::new(&page.url(), 31_337)).unwrap();
    let errors = [
        source.check_chain().await.unwrap_err().to_string(),
        portal.heads().await.unwrap_err().to_string(),
        format!("{:?} {:?}", source.endpoints(), portal.endpoints()),
    ];
    for error in errors {
        assert!(!error.contains("SECRET"), "{error}");
    }
}
