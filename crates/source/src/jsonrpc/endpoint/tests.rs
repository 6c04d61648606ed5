//! Names, texts, batches and pauses of one endpoint. Nothing is sent.

use std::collections::BTreeSet;

use super::*;
use crate::jsonrpc::availability::BACKOFF_FIRST;

fn endpoint() -> Endpoint {
    let url = "http://user:secret@node.example:8545/v3/KEY";
    Endpoint::named_apart(EndpointSettings::new(url), 1, &[]).unwrap()
}

#[test]
fn no_secret_is_in_a_name_or_an_error() {
    let endpoint = endpoint();
    assert_eq!(&*endpoint.name, "node.example:8545");
    let shown = endpoint.unavailable("HTTP 500").to_string();
    let printed = format!("{endpoint:?} {:?}", endpoint.settings);
    for shown in [shown, printed] {
        assert!(
            !shown.contains("KEY") && !shown.contains("secret"),
            "{shown}"
        );
    }
}

/// Names of fields and whole values of an answer were in errors, the log and the report.
#[test]
fn hostile_text_is_cut_where_it_is_kept() {
    let endpoint = endpoint();
    let long = "ü".repeat(100_000);
    for report in [&|| endpoint.report_bad(&long) as (), &|| {
        endpoint.failed(&endpoint.unavailable(long.clone()))
    }] as [&dyn Fn(); 2]
    {
        report();
        let error = endpoint.report().last_error.unwrap();
        assert!(
            error.len() <= 1_000 && error.len() > 900,
            "{} bytes",
            error.len()
        );
    }
    let hostile = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{long}"}}"#);
    let parsed = endpoint.parsed::<u64>(StatusCode::OK, hostile.as_bytes(), 1);
    let error = parsed.unwrap_err().to_string();
    assert!(error.len() < 1_200, "{} bytes", error.len());
}

/// A refusal of one bad hour kept requests small forever.
#[test]
fn batches_grow_again_after_many_good_requests() {
    let endpoint = endpoint();
    assert_eq!(endpoint.batch(), 100);
    endpoint.refused_batch(100);
    endpoint.refused_batch(50);
    for batch in [25, 50, 100, 100] {
        assert_eq!(endpoint.batch(), batch);
        (0..99).for_each(|_| endpoint.succeeded());
        assert_eq!(endpoint.batch(), batch, "too early");
        endpoint.succeeded();
    }
    endpoint.refused_batch(100);
    (0..99).for_each(|_| endpoint.succeeded());
    endpoint.failed(&endpoint.unavailable("HTTP 500"));
    endpoint.succeeded();
    assert_eq!(endpoint.batch(), 50, "not in a row");
}

/// An endpoint that once denied a method counted as one without it until the next start.
#[tokio::test(start_paused = true)]
async fn a_missing_method_is_requested_again_after_a_pause() {
    let endpoint = endpoint();
    assert!(endpoint.has("eth_getBlockReceipts"));
    assert!(endpoint.is_missing("eth_getBlockReceipts"));
    endpoint.refuses_batches();
    for _ in 0..3 {
        assert!(!endpoint.has("eth_getBlockReceipts"));
        assert_eq!(endpoint.batch(), 1);
        tokio::time::advance(LACKS_FOR - Duration::from_secs(1)).await;
        assert!(!endpoint.has("eth_getBlockReceipts"), "too early");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(endpoint.has("eth_getBlockReceipts"));
        assert_eq!(endpoint.batch(), 100);
        assert!(!endpoint.is_missing("eth_getBlockReceipts"), "no news");
        endpoint.refuses_batches();
    }
}

/// The last 27 calls of a range were refused, and requests had 13 calls from then on.
#[test]
fn a_refused_rest_does_not_make_batches_smaller_than_they_must_be() {
    let endpoint = endpoint();
    endpoint.refused_batch(100);
    endpoint.refused_batch(27);
    assert_eq!(endpoint.batch(), 25);
    endpoint.refused_batch(50);
    assert_eq!(endpoint.batch(), 25, "known already");
    endpoint.refused_batch(2);
    endpoint.refused_batch(1);
    assert_eq!(endpoint.batch(), 1);
}

/// Endpoints that fail together must not all be asked again in the same instant.
#[tokio::test(start_paused = true)]
async fn equal_failures_pause_for_different_times() {
    let endpoint = endpoint();
    let pauses = (0..20).map(|_| {
        endpoint.failed(&endpoint.unavailable("HTTP 500"));
        let pause = endpoint.usable_at().unwrap() - Instant::now();
        // The next one is a first failure again.
        endpoint.succeeded();
        pause
    });
    let pauses: BTreeSet<Duration> = pauses.collect();
    assert!(pauses.len() > 1, "{pauses:?}");
    let allowed = BACKOFF_FIRST / 2..=BACKOFF_FIRST;
    assert!(pauses.iter().all(|one| allowed.contains(one)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_pause_longer_each_time_and_a_wish_is_followed() {
    let endpoint = endpoint();
    let mut before = Duration::ZERO;
    for _ in 0..6 {
        for _ in 0..5 {
            // Together they count once.
            endpoint.failed(&endpoint.unavailable("HTTP 500"));
        }
        let pause = endpoint.usable_at().unwrap() - Instant::now();
        assert!(pause >= before, "{pause:?} after {before:?}");
        before = pause;
        tokio::time::sleep(pause).await;
    }
    let endpoint = self::endpoint();
    endpoint.failed(&Error::Unavailable {
        endpoint: "x".to_owned(),
        reason: "HTTP 429".to_owned(),
        class: FailureClass::RateLimited,
        retry_after: Some(Duration::from_secs(7)),
    });
    assert_eq!(
        endpoint.usable_at().unwrap() - Instant::now(),
        Duration::from_secs(7)
    );
    endpoint.succeeded();
    assert!(endpoint.usable_at().is_some(), "a wish outlasts a success");
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(endpoint.usable_at().is_none());
}
