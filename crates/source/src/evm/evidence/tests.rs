//! Evidence by itself, and what a source makes of it. No endpoint is asked.

use super::*;
use crate::evm::{Checks, EvmSettings, RangeSettings, Strategy, Tags};
use crate::jsonrpc::settings::EndpointSettings;

const A: Hash32 = Hash32([0xa; 32]);
const C: Hash32 = Hash32([0xc; 32]);

fn names() -> [Arc<str>; 2] {
    ["one".into(), "two".into()]
}

/// A failure of the receipts root, with nothing that followed it.
fn failure(endpoint: &Arc<str>, number: u64, computed: Hash32) -> Failure<'_> {
    Failure {
        endpoint,
        number,
        rule: Rule::ReceiptsRoot,
        computed,
        held: 0,
    }
}

async fn wait(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_fail_alike_speak_against_the_rule() {
    let both = names();
    let [one, two] = &both;
    let evidence = Evidence::default();
    assert!(!evidence.note(&failure(one, 7, A), &both));
    assert!(!evidence.note(&failure(one, 7, A), &both));
    assert!(evidence.note(&failure(two, 7, A), &both));
    // It stands for that block, and for no other one.
    assert!(evidence.speaks_against((7, Rule::ReceiptsRoot), &both));
    assert!(!evidence.speaks_against((7, Rule::Bloom), &both));
    assert!(!evidence.speaks_against((8, Rule::ReceiptsRoot), &both));
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_fail_differently_speak_against_one_of_them() {
    let both = names();
    let [one, two] = &both;
    let evidence = Evidence::default();
    assert!(!evidence.note(&failure(one, 7, A), &both));
    assert!(!evidence.note(&failure(two, 7, C), &both));
    assert!(!evidence.note(&failure(one, 7, A), &both));
    wait(1_000).await;
    assert!(!evidence.note(&failure(one, 7, A), &both));
    // Another block is another question.
    assert!(!evidence.note(&failure(one, 8, A), &both));
    assert!(evidence.note(&failure(two, 8, A), &both));
}

#[tokio::test(start_paused = true)]
async fn a_lone_endpoint_is_queried_again_for_a_while() {
    let [one, _] = names();
    let alone = [one.clone()];
    let evidence = Evidence::default();
    for _ in 0..5 {
        assert!(!evidence.note(&failure(&one, 7, A), &alone));
    }
    tokio::time::advance(LONE_WHILE).await;
    assert!(evidence.note(&failure(&one, 7, A), &alone));
    // What changes from answer to answer is the endpoint's fault.
    let evidence = Evidence::default();
    for answer in 0..9 {
        tokio::time::advance(LONE_WHILE).await;
        let failure = failure(&one, 7, Hash32([answer; 32]));
        assert!(!evidence.note(&failure, &alone));
    }
}

/// Parts of history fail at their own first blocks: each took the evidence of the others away.
#[tokio::test(start_paused = true)]
async fn parts_of_history_that_fail_together_do_not_hide_each_other() {
    let [one, _] = names();
    let alone = [one.clone()];
    let evidence = Evidence::default();
    let mut dropped = None;
    for second in 0..60 {
        for part in 0..5 {
            // Other blocks follow the rule all the while, so that only what is shown again counts.
            let failure = Failure {
                held: second * 5 + part,
                ..failure(&one, part * 100, A)
            };
            if evidence.note(&failure, &alone) {
                dropped = dropped.or(Some(second));
            }
        }
        wait(1).await;
    }
    assert_eq!(dropped, Some(LONE_WHILE.as_secs()));
}

/// A chain that makes a block every second shows none of them twice.
#[tokio::test(start_paused = true)]
async fn heads_that_move_on_count_together() {
    let both = names();
    for attempt in [&both[..1], &both] {
        let evidence = Evidence::default();
        let dropped = async {
            for second in 0..60_u64 {
                let name = &attempt[second as usize % attempt.len()];
                let computed = Hash32([second as u8; 32]);
                if evidence.note(&failure(name, 1_000 + second, computed), attempt) {
                    return Some(second);
                }
                wait(1).await;
            }
            None
        };
        assert_eq!(dropped.await, Some(LONE_WHILE.as_secs()));
    }
    // A node that is sometimes wrong is wrong: others of its blocks follow the rule.
    let [one, _] = names();
    let evidence = Evidence::default();
    for second in 0..600_u64 {
        let failure = Failure {
            held: second / 10,
            ..failure(&one, 1_000 + second, A)
        };
        assert!(!evidence.note(&failure, std::slice::from_ref(&one)));
        wait(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_endpoint_is_waited_for_and_not_for_ever() {
    let both = names();
    let evidence = Evidence::default();
    let mut dropped = None;
    for minute in 0..10 {
        if evidence.note(&failure(&both[0], 7, A), &both) {
            dropped = dropped.or(Some(minute));
        }
        wait(60).await;
    }
    assert_eq!(dropped, Some(SILENT_WHILE.as_secs() / 60));
}

#[tokio::test(start_paused = true)]
async fn failures_are_kept_of_so_many_blocks() {
    let both = names();
    let [one, two] = &both;
    let evidence = Evidence::default();
    for number in 0..10 * BLOCKS_MAX as u64 {
        evidence.note(&failure(one, number, A), &both);
        wait(1).await;
        // Asked again, it stays.
        evidence.note(&failure(one, 0, A), &both);
        assert!(evidence.known.lock().blocks.len() <= BLOCKS_MAX);
    }
    assert!(evidence.note(&failure(two, 0, A), &both));
}

fn source(endpoints: usize) -> EvmSource {
    let endpoint = |at| EndpointSettings::new(&format!("http://node{at}.invalid"));
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: (0..endpoints).map(endpoint).collect(),
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks: Checks::ALL,
        ranges: RangeSettings::default(),
    })
    .unwrap()
}

/// How many seconds of failures at the first endpoint it takes until the rule is dropped.
async fn seconds_until_dropped(source: &EvmSource, rule: Rule) -> u64 {
    let endpoint = source.pool.endpoints()[0].clone();
    for second in 0..1_000 {
        let error = Error::RuleFailed {
            endpoint: endpoint.name.to_string(),
            number: 7,
            rule,
            what: "a, not b".to_owned(),
            computed: A,
        };
        source.note(&endpoint, &error);
        if source.verifier.is_dropped(rule) {
            return second;
        }
        wait(1).await;
    }
    panic!("never");
}

/// An endpoint without receipts can never fail their root: the chain stood still forever, and the only
/// endpoint that shows receipts was called a liar.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_cannot_be_queried_holds_no_rule_up() {
    let both = source(2);
    let [strong, weak] = both.pool.endpoints() else {
        panic!("two endpoints");
    };
    weak.is_missing(GET_RECEIPTS);
    let lone = LONE_WHILE.as_secs();
    assert_eq!(seconds_until_dropped(&both, Rule::ReceiptsRoot).await, lone);
    assert_eq!(strong.report().inconsistencies, 0);
    // About other rules it could be asked, and is waited for.
    let silent = SILENT_WHILE.as_secs();
    assert_eq!(seconds_until_dropped(&both, Rule::HeaderHash).await, silent);
    assert!(strong.report().inconsistencies > 0);
    assert!(strong.usable_at().is_none(), "forgiven");
    assert_eq!(
        seconds_until_dropped(&source(1), Rule::HeaderHash).await,
        lone
    );
}
