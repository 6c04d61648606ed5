//! The rules of `eth_getLogs` that concern the archive, case by case, on a hand-made chain: the
//! expected answers are written down here, not computed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod handmade;
mod support;

use bytes::Bytes;
use chronolith_archive::{Error, Provenance, Settings, TimeSide};
use chronolith_model::{
    BlockRange, ChainProfile, Clause, Dataset, DatasetSet, LogFilter, Order, Scope, ScopeEntry,
    Select, TopicArity,
};
use chronolith_sim::{ChainSpec, Oracle, Shape, SimChain};
use handmade::{A, B, C, NOBODY, X, Y, Z, chain, filter, forms, hash, one_of, places, settings};
use support::Stores;

/// The rule, the emitters, the topics, and what must be found.
type Case = (&'static str, Clause, Vec<Clause>, &'static [(u64, u32)]);

const EVERYTHING: &[(u64, u32)] = &[
    (0, 0),
    (0, 1),
    (0, 2),
    (2, 0),
    (2, 1),
    (2, 2),
    (3, 0),
    (3, 1),
    (4, 0),
    (5, 0),
];

#[rustfmt::skip] // A table, one case a line.
fn cases() -> Vec<Case> {
    use Clause::Any;
    let x = || one_of(&[&X]);
    let y = || one_of(&[&Y]);
    vec![
        ("8: one position", Any, vec![x()], &[(0, 0), (0, 1), (2, 1), (3, 0), (3, 1)]),
        ("8: a wildcard needs its topic", Any, vec![x(), Any], &[(0, 1), (2, 1), (3, 0)]),
        ("8: wildcards alone", Any, vec![Any, Any, Any], &[(2, 1), (3, 0)]),
        ("8: four of them", Any, vec![Any, Any, Any, Any], &[(2, 1)]),
        ("9: nothing asked is everything", Any, vec![], EVERYTHING),
        ("9: a wildcard before a value", Any, vec![Any, y()], &[(0, 1), (3, 0), (4, 0)]),
        ("10: by position, not anywhere", Any, vec![y()], &[(2, 0)]),
        ("10: the second position", Any, vec![Any, x()], &[(2, 0), (2, 1)]),
        ("10: address and topic", one_of(&[&B]), vec![x()], &[(3, 0), (3, 1)]),
        ("10: or inside a position", Any, vec![one_of(&[&Y, &Z])], &[(2, 0), (4, 0), (5, 0)]),
        ("10: or and and", one_of(&[&B, &C]), vec![Any, y()], &[(3, 0), (4, 0)]),
        ("10: an address is no topic", Any, vec![one_of(&[&A])], &[]),
        ("10: a topic is no address", one_of(&[&X]), vec![], &[]),
        ("10: no such combination", one_of(&[&C]), vec![x()], &[]),
        ("10: nobody", one_of(&[&NOBODY]), vec![], &[]),
        ("10: a prefix is not the value", one_of(&[&A[..19]]), vec![], &[]),
        ("24: twice in a list", one_of(&[&C, &C, &C]), vec![one_of(&[&Z, &Z])], &[(4, 0)]),
        ("an empty list matches nothing", Clause::OneOf(vec![]), vec![], &[]),
        ("nor in a position", Any, vec![Any, Clause::OneOf(vec![])], &[]),
    ]
}

#[tokio::test]
async fn filters_find_what_the_rules_say() {
    for start in [0, 1_000_001] {
        for (form, archive) in forms(start, &settings()).await {
            for (rule, emitters, topics, expected) in cases() {
                let mut filter = filter(start, emitters, &topics);
                let found = places(&archive, &filter, start).await;
                assert_eq!(found, expected, "{rule} ({form}, from {start})");
                filter.order = Order::Descending;
                let mut found = places(&archive, &filter, start).await;
                found.reverse();
                assert_eq!(
                    found, expected,
                    "{rule}, newest first ({form}, from {start})"
                );
            }
        }
    }
}

/// Rules 14 and 15: indexes are those of the whole block, order is by block and index, pages of
/// one log meet without a seam in every form.
#[tokio::test]
async fn log_indexes_are_of_the_whole_block_and_pages_have_no_seam() {
    let start = 77;
    for (form, archive) in forms(start, &settings()).await {
        let mut filter = filter(start, Clause::Any, &[]);
        filter.limit = Some(1);
        let mut found = Vec::new();
        loop {
            let page = archive.query_finalized(&filter).await.unwrap();
            let record = page.logs.first().expect("a page holds a log");
            assert_eq!(record.log.data()[0] as u64 + start, record.block.number);
            found.push((record.block.number - start, record.log.log_index()));
            assert_eq!(page.has_more, page.next.is_some());
            let Some(next) = page.next else { break };
            filter.cursor = Some(next);
        }
        assert_eq!(found, EVERYTHING, "{form}");
    }
    let entry = ScopeEntry {
        emitter: Some(Bytes::copy_from_slice(&B)),
        topic0: None,
    };
    let narrow = Settings {
        scope: Scope::only(vec![entry]),
        ..settings()
    };
    for (form, archive) in forms(start, &narrow).await {
        let only_b = filter(start, one_of(&[&B]), &[]);
        let found = places(&archive, &only_b, start).await;
        assert_eq!(found, [(0, 2), (2, 0), (3, 0), (3, 1)], "{form}");
        let wide = archive
            .query_finalized(&filter(start, Clause::Any, &[]))
            .await;
        assert!(
            matches!(wide, Err(Error::NotCovered { .. })),
            "{form}: {wide:?}"
        );
    }
}

/// Rule 20: block 0 is a block like any other, by number, by hash and as a range.
#[tokio::test]
async fn block_zero_is_a_block() {
    for (form, archive) in forms(0, &settings()).await {
        let mut one = filter(0, Clause::Any, &[]);
        for select in [Select::Range(BlockRange::one(0)), Select::Block(hash(0, 7))] {
            one.select = select;
            assert_eq!(
                places(&archive, &one, 0).await,
                [(0, 0), (0, 1), (0, 2)],
                "{form}"
            );
        }
        one.select = Select::Block(hash(1, 7));
        assert_eq!(
            places(&archive, &one, 0).await,
            [],
            "{form}: a block without logs"
        );
        assert_eq!(archive.block_by_number(0).await.unwrap(), chain(0)[0].clock);
        assert_eq!(archive.block(0).await.unwrap(), chain(0)[0]);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_what_is_missing_is_named() {
    for start in [0, 50] {
        for (form, archive) in forms(start, &settings()).await {
            let ask = async |filter: LogFilter| archive.query_finalized(&filter).await;
            let five = filter(start, Clause::Any, &[const { Clause::Any }; 5]);
            let answer = ask(five).await;
            assert!(
                matches!(answer, Err(Error::Invalid(_))),
                "{form}: {answer:?}"
            );
            let mut none = filter(start, Clause::Any, &[]);
            none.limit = Some(0);
            let answer = ask(none).await;
            assert!(
                matches!(answer, Err(Error::Invalid(_))),
                "{form}: {answer:?}"
            );
            let mut unknown = filter(start, Clause::Any, &[]);
            unknown.select = Select::Block(hash(3, 8));
            let answer = ask(unknown).await;
            assert!(
                matches!(answer, Err(Error::UnknownBlock { hash: h }) if h == hash(3, 8)),
                "{form}: {answer:?}"
            );
            // Nothing can match an empty list, yet a range that is not covered is not answered.
            let mut beyond = filter(start, Clause::OneOf(vec![]), &[]);
            beyond.select = Select::Range(BlockRange::new(start, start + 7));
            let answer = ask(beyond).await;
            let end = start + 6;
            assert!(
                matches!(answer, Err(Error::NotCovered { missing, .. }) if missing == BlockRange::one(end)),
                "{form}: {answer:?}"
            );
            let missing = archive.block_by_number(end).await;
            assert!(
                matches!(missing, Err(Error::NotCovered { .. })),
                "{form}: {missing:?}"
            );
        }
    }
}

/// Rule 11: lists of up to 1,000 by default; one more is refused, a repeated value counts once.
#[tokio::test]
async fn lists_have_a_limit() {
    let (_, archive) = forms(0, &settings()).await.remove(2);
    let values = |count: u64| -> Vec<Bytes> {
        let value = |n: u64| Bytes::from([&n.to_be_bytes()[..], &[1; 24]].concat());
        let mut values: Vec<Bytes> = (1..count).map(value).collect();
        values.push(Bytes::copy_from_slice(&Z));
        values
    };
    let most = filter(0, Clause::Any, &[Clause::OneOf(values(1_000))]);
    assert_eq!(places(&archive, &most, 0).await, [(4, 0), (5, 0)]);
    let more = filter(0, Clause::Any, &[Clause::OneOf(values(1_001))]);
    let answer = archive.query_finalized(&more).await;
    let expected = (1_001, 1_000);
    assert!(
        matches!(answer, Err(Error::TooBroad { actual, max }) if (actual, max) == expected),
        "{answer:?}"
    );
    let repeated = vec![Bytes::copy_from_slice(&Z); 5_000];
    let repeated = filter(0, Clause::Any, &[Clause::OneOf(repeated)]);
    assert_eq!(places(&archive, &repeated, 0).await, [(4, 0), (5, 0)]);
}

/// A filter that counts exactly and has N positions matches logs with exactly N topics.
#[tokio::test]
async fn filters_may_count_topics_exactly() {
    let mut exact = settings();
    exact.profile = ChainProfile::STELLAR;
    for (form, archive) in forms(9, &exact).await {
        let exactly = |topics: &[Clause]| LogFilter {
            arity: TopicArity::Exact,
            ..filter(9, Clause::Any, topics)
        };
        let any = |count: usize| exactly(&vec![Clause::Any; count]);
        let expected: [&[(u64, u32)]; 5] = [
            &[(0, 2), (2, 2)],
            &[(0, 0), (3, 1), (5, 0)],
            &[(0, 1), (2, 0), (4, 0)],
            &[(3, 0)],
            &[(2, 1)],
        ];
        for (count, expected) in expected.into_iter().enumerate() {
            assert_eq!(
                places(&archive, &any(count), 9).await,
                expected,
                "{count} ({form})"
            );
        }
        let x = exactly(&[one_of(&[&X])]);
        assert_eq!(places(&archive, &x, 9).await, [(0, 0), (3, 1)], "{form}");
        let padded = exactly(&[one_of(&[&X]), Clause::Any]);
        assert_eq!(places(&archive, &padded, 9).await, [(0, 1)], "{form}");
    }
}

/// The same against the naive scan, with emitters, topics and suffixes of any length.
#[tokio::test]
async fn terms_of_any_length_are_distinguished() {
    let spec = ChainSpec {
        shape: Shape::TinyVaried,
        ..ChainSpec::tiny(41)
    };
    let chain = SimChain::new(spec);
    let range = BlockRange::new(0, 120);
    let mut settings = support::tiny_settings();
    settings.profile = ChainProfile::STELLAR;
    settings.limits.results_max = 1_000_000;
    let archive = Stores::memory().writer(&settings).await;
    support::ingest(&archive, &chain, range, &[9]).await;
    let oracle: Oracle = support::oracle_of(&chain, range);
    let mut hits = 0;
    for log in chain.blocks(range).flat_map(|block| block.logs).step_by(7) {
        let mut filter = LogFilter::over(range);
        filter.emitters = one_of(&[log.emitter()]);
        filter.topics = log.topics().map(|topic| one_of(&[topic])).collect();
        filter.arity = TopicArity::Exact;
        let page = archive.query_finalized(&filter).await.unwrap();
        support::assert_answers(&page, &oracle, &filter);
        assert!(page.logs.iter().any(|record| record.log == log));
        hits += page.logs.len();
    }
    assert!(hits > 100, "{hits}");
}

/// Equal times: the last of them is at or before, the first of them is at or after, and a time
/// whose other side is not archived has no answer.
#[tokio::test]
async fn equal_timestamps_have_a_first_and_a_last_block() {
    use TimeSide::{AtOrAfter, AtOrBefore};
    let clocks = Settings {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        ..settings()
    };
    for start in [0, 300] {
        for (form, archive) in forms(start, &clocks).await {
            let check = async |time: u64, side: TimeSide, expected: Option<Option<u64>>| {
                let answer = archive.block_at(time, side).await;
                let context = format!("{side:?} {time} ({form}, from {start}): {answer:?}");
                match expected {
                    None => assert!(matches!(answer, Err(Error::NotCovered { .. })), "{context}"),
                    Some(offset) => {
                        let found = answer.unwrap().map(|clock| clock.number);
                        assert_eq!(found, offset.map(|offset| start + offset), "{context}");
                    }
                }
            };
            let at_first = (start == 0).then_some(Some(0));
            check(99, AtOrBefore, (start == 0).then_some(None)).await;
            check(99, AtOrAfter, at_first).await;
            check(100, AtOrBefore, Some(Some(1))).await;
            check(100, AtOrAfter, at_first).await;
            check(105, AtOrBefore, Some(Some(1))).await;
            check(105, AtOrAfter, Some(Some(2))).await;
            check(110, AtOrBefore, Some(Some(4))).await;
            check(110, AtOrAfter, Some(Some(2))).await;
            check(119, AtOrBefore, Some(Some(4))).await;
            check(120, AtOrAfter, Some(Some(5))).await;
            check(120, AtOrBefore, None).await;
            check(121, AtOrAfter, None).await;
        }
    }
}

/// A hole in the middle is never bridged: not by a filter that nothing matches, not by time.
#[tokio::test]
async fn a_gap_in_the_middle_is_named() {
    let start = 40;
    let archive = Stores::memory().writer(&settings()).await;
    for (from, to) in [(0, 2), (4, 6)] {
        let mut fill = archive
            .fill(BlockRange::new(start + from, start + to))
            .unwrap();
        let blocks = chain(start)[from as usize..to as usize].to_vec();
        fill.push(blocks, &Provenance::default()).await.unwrap();
        fill.finish().await.unwrap();
    }
    assert_eq!(archive.indexed_finalized_head(), Some(start + 1));
    let hole = BlockRange::new(start + 2, start + 4);
    for emitters in [Clause::Any, Clause::OneOf(vec![]), one_of(&[&NOBODY])] {
        let answer = archive.query_finalized(&filter(start, emitters, &[])).await;
        assert!(
            matches!(answer, Err(Error::NotCovered { missing, .. }) if missing == hole),
            "{answer:?}"
        );
    }
    // Blocks 1 and 4 have their neighbours on one side only.
    for (time, side, expected) in [
        (100, TimeSide::AtOrBefore, None),
        (105, TimeSide::AtOrBefore, None),
        (105, TimeSide::AtOrAfter, None),
        (110, TimeSide::AtOrAfter, None),
        (110, TimeSide::AtOrBefore, Some(start + 4)),
        (115, TimeSide::AtOrAfter, Some(start + 5)),
    ] {
        let answer = archive.block_at(time, side).await;
        let found = answer
            .as_ref()
            .ok()
            .and_then(|found| found.map(|clock| clock.number));
        assert_eq!(found, expected, "{side:?} {time}: {answer:?}");
        let named = matches!(answer, Err(Error::NotCovered { missing, .. }) if missing == hole);
        assert_eq!(named, expected.is_none(), "{side:?} {time}: {answer:?}");
    }
}
