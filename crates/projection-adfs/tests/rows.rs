//! ADFS updates, from blocks to tables: versions, reorgs across upgrades, guards, newest values.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use chronolith_model::{Block, Proof};
use chronolith_projection::{Database, Following, Projector, jobs};
use chronolith_projection_adfs::{AdfsVersion, LanePolicy, add_version, list_versions};
use support::adfs::encode::{Row, Value, calldata, numbered};
use support::adfs::{
    Act, FIRST, PROXY, SECOND, STRANGER, Sent, Update, Way, direct, expected, projector, settings,
    stored, update, value,
};
use support::{GENESIS_TIME, TestChain, database, number};

async fn work_all(projector: &Projector) {
    while projector.work().await.unwrap() {}
}

/// Blocks of the chain as it is, with the status that they must have.
fn on_chain(chain: &TestChain) -> Vec<(Block, &'static str)> {
    let head = chain.archive.health().head.map(|head| head.number);
    let blocks = chain.blocks.lock().unwrap().clone();
    let status = |block: &Block| match head.is_some_and(|head| block.clock.number <= head) {
        true => "confirmed",
        false => "pending",
    };
    let with_status = |block: Block| {
        let status = status(&block);
        (block, status)
    };
    blocks.into_iter().map(with_status).collect()
}

/// Every sort of update, before, at and behind an upgrade.
fn fill(chain: &TestChain) {
    let many = |seed, acts: Vec<Act>| Sent {
        seed,
        way: Way::Many,
        acts,
    };
    chain.send(0, &[]);
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 10, &[(0, 1), (17, 5)]))]);
    // The same feed and index twice, and a row twice: the last counts.
    let Act::Update(mut twice) = update(1, 11, &[(0, 2), (0, 2), (3, 9)]) else {
        panic!()
    };
    let lanes = [7; 16];
    twice.rows.insert(
        0,
        Row {
            table_index: 0,
            lanes,
        },
    );
    chain.send(0, &[direct(3, Act::Update(twice))]);
    // The ring begins again, in one update: 0 is newer than 8191.
    chain.send(0, &[direct(4, update(1, 12, &[(40, 8_191), (40, 0)]))]);
    chain.send(
        0,
        &[Sent {
            seed: 5,
            way: Way::Safe,
            acts: vec![update(1, 13, &[(0, 3)])],
        }],
    );
    // Two events of one transaction, and a stride of its own.
    let mut wide = value(5, 2, 9);
    wide.stride = 2;
    wide.data = vec![0xcc; 100];
    let wide = Act::Update(Update {
        version: 1,
        number: 15,
        feeds: vec![wide],
        rows: vec![],
    });
    chain.send(0, &[many(6, vec![update(1, 14, &[(0, 4)]), wide])]);
    // An upgrade in the middle of a block, and of a transaction.
    chain.send(
        0,
        &[
            direct(7, update(1, 16, &[(0, 5)])),
            direct(8, Act::Upgrade(SECOND)),
            direct(9, update(2, 17, &[(0, 6)])),
        ],
    );
    chain.send(0, &[direct(10, update(2, 18, &[(0, 7), (1, 1)]))]);
    // Nothing is updated, and it is an event all the same; and back to the first version.
    chain.send(0, &[direct(11, update(2, 19, &[]))]);
    chain.send(0, &[direct(12, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(13, update(1, 20, &[(0, 8)]))]);
    chain.send(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_become_rows_and_the_newest_values_follow() {
    let (_server, database) = database().await;
    let chain = TestChain::new(1).await;
    fill(&chain);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    let all = stored(&database, 1).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert!(all.latest.is_empty() && all.feeds.len() > 12, "{all:?}");
    assert_eq!(
        number(&database, "SELECT count(*) FROM quarantine").await,
        0
    );
    for through in [3, 6, 7, 11] {
        chain.finalize(through).await;
        one.follow(&mut following).await.unwrap();
        let all = stored(&database, 1).await;
        assert_eq!(
            all,
            expected(&chain, &on_chain(&chain)),
            "through {through}"
        );
    }
    // Any replay leaves everything as it is.
    let before = stored(&database, 1).await;
    assert_eq!(before.latest.len(), 6, "{:?}", before.latest);
    // The last one is of old blocks alone: the newest values do not go back to them.
    for range in [(0, 11), (2, 3)] {
        jobs::enqueue(&database, (1, "adfs"), range, 4)
            .await
            .unwrap();
        work_all(&one).await;
        assert_eq!(stored(&database, 1).await, before, "{range:?}");
    }
    let wrapped = "SELECT count(*) FROM adfs_events WHERE extra->>'wrapper' = 'execTransaction' \
        AND extra->>'offset' = '356'";
    assert_eq!(number(&database, wrapped).await, 1);
    let accumulators = "SELECT count(*) FROM feed_updates WHERE version = 2 \
        AND length(extra->>'sourceAccumulator') = 66 AND length(extra->>'destinationAccumulator') = 66";
    assert_eq!(number(&database, accumulators).await, 3);
    // Where the same index is twice in calldata the place in it decides, and gaps are known.
    let wrap = "SELECT rb_index::bigint FROM feed_latest WHERE feed_id = hex_to_bytea16('28')";
    assert_eq!(number(&database, wrap).await, 0);
    // The older of two values is not where the table points to, which is as it should be.
    let odd = "SELECT count(*) FROM feed_updates WHERE jsonb_exists(extra, 'tableLane')";
    assert_eq!(number(&database, odd).await, 0);
    let gaps = "SELECT count(*) FROM feed_ring_gaps";
    assert_eq!(number(&database, gaps).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_from_the_archive_is_the_same_as_what_was_followed() {
    let (_server, database) = database().await;
    let chain = TestChain::new(2).await;
    fill(&chain);
    chain.finalize(12).await;
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    assert!(stored(&database, 2).await.feeds.is_empty());
    // Jobs of three blocks: upgrades are in other jobs than the updates behind them.
    work_all(&one).await;
    let all = stored(&database, 2).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert_eq!(all.latest.len(), 6);
    assert_eq!(
        jobs::audit_gaps(&database, Some(2)).await.unwrap(),
        Vec::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorg_across_an_upgrade_takes_the_upgrade_back() {
    let (_server, database) = database().await;
    let chain = TestChain::new(3).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 1)]))]);
    chain.send(0, &[direct(3, Act::Upgrade(SECOND))]);
    chain.send(0, &[direct(4, update(2, 2, &[(0, 2)]))]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    assert_eq!(
        stored(&database, 3).await,
        expected(&chain, &on_chain(&chain))
    );
    let mut gone = on_chain(&chain).split_off(2);
    gone.iter_mut().for_each(|(_, status)| *status = "dropped");
    chain.roll_back(2);
    // The same height is of the first version now, and a transaction of the old fork comes again later.
    chain.send(1, &[direct(5, update(1, 3, &[(0, 2)]))]);
    chain.send(1, &[direct(6, update(1, 4, &[(0, 3)]))]);
    chain.send(1, &[direct(3, Act::Upgrade(SECOND))]);
    chain.send(1, &[direct(4, update(2, 2, &[(0, 4)]))]);
    one.follow(&mut following).await.unwrap();
    let all = |gone: &[(Block, &'static str)]| [gone.to_vec(), on_chain(&chain)].concat();
    assert_eq!(stored(&database, 3).await, expected(&chain, &all(&gone)));
    chain.finalize(5).await;
    one.follow(&mut following).await.unwrap();
    let stored_now = stored(&database, 3).await;
    assert_eq!(stored_now, expected(&chain, &all(&gone)));
    assert_eq!(stored_now.upgrades.len(), 2);
    let kept = "SELECT count(*) FROM proxy_version_rows";
    assert_eq!(number(&database, kept).await, 3);
}

/// What stands where the first version has its number is an accumulator in the second: one that reads like
/// the number of a later update took that update's event, and both updates were lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_accumulator_that_reads_like_a_number_takes_no_event_from_another_update() {
    let (_server, database) = database().await;
    let chain = TestChain::new(10).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let like = 0x0101_0101_0101_0101;
    let acts = vec![
        update(1, 7, &[(0, 1)]),
        Act::Upgrade(SECOND),
        update(2, 1, &[(0, 2)]),
        Act::Upgrade(FIRST),
        update(1, like, &[(0, 3)]),
    ];
    let way = Way::Many;
    chain.send(0, &[Sent { seed: 2, way, acts }]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    let all = stored(&database, 10).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert_eq!(all.feeds.len(), 3);
}

const PAUSED: &str = "SELECT count(*) FROM projections WHERE projection = 'adfs' \
    AND paused_reason = 'unknownImplementation'";

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_implementation_stops_everything_behind_it_until_it_is_named() {
    let (_server, database) = database().await;
    let chain = TestChain::new(4).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 1)]))]);
    chain.send(0, &[direct(3, Act::Upgrade(STRANGER))]);
    chain.send(0, &[direct(4, update(1, 2, &[(0, 2)]))]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    assert_eq!(number(&database, PAUSED).await, 1);
    let below: Vec<_> = on_chain(&chain).into_iter().take(2).collect();
    assert_eq!(stored(&database, 4).await, expected(&chain, &below));
    // Final blocks do not help, and jobs stop at the same block.
    chain.finalize(3).await;
    one.follow(&mut following).await.unwrap();
    work_all(&one).await;
    let below: Vec<_> = on_chain(&chain).into_iter().take(2).collect();
    assert_eq!(stored(&database, 4).await, expected(&chain, &below));
    assert_eq!(number(&database, PAUSED).await, 1);
    // What makes no sense is refused, and changes nothing.
    for (implementation, version, expected) in [
        (STRANGER, 7, "the settings say nothing"),
        (FIRST, 2, "the settings say version 1"),
    ] {
        let pair = (&implementation, version);
        let refused = add_version(&database, 4, &settings(), pair, "me").await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(number(&database, PAUSED).await, 1);
    let (known, named) = (settings(), (&STRANGER, 1));
    let add = || add_version(&database, 4, &known, named, "me");
    assert!(add().await.unwrap());
    assert!(!add().await.unwrap());
    assert_eq!(number(&database, PAUSED).await, 0);
    // The same projector continues, without being started again.
    work_all(&one).await;
    let all = stored(&database, 4).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert_eq!(all.latest.len(), 1);
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'versions add' AND operator = 'me' \
        AND detail->>'version' = '1'";
    assert_eq!(number(&database, acts).await, 2);
    let listed = list_versions(&database, Some(4)).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.version, one.activated_block, one.operator.as_deref()))
        .collect();
    assert_eq!(listed, [(1, Some(0), None), (1, Some(2), Some("me"))]);
    // Somebody else says the same or is refused: the settings cannot say otherwise.
    for (version, fits) in [(1, true), (2, false)] {
        let mut other = settings();
        other.implementations.insert(STRANGER, version);
        let started = projector(&database, &chain, other, "two");
        let registered = started.register(GENESIS_TIME).await;
        assert_eq!(registered.is_ok(), fits, "{registered:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_implementation_that_is_reorganised_away_stops_nothing() {
    let (_server, database) = database().await;
    let chain = TestChain::new(5).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, Act::Upgrade(STRANGER))]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    assert_eq!(number(&database, PAUSED).await, 1);
    chain.roll_back(1);
    chain.send(1, &[direct(3, update(1, 1, &[(0, 1)]))]);
    one.follow(&mut following).await.unwrap();
    assert_eq!(number(&database, PAUSED).await, 0);
    assert_eq!(
        stored(&database, 5).await,
        expected(&chain, &on_chain(&chain))
    );
    // A new start with settings that name it continues as well, and keeps what there is.
    chain.send(1, &[direct(4, Act::Upgrade(STRANGER))]);
    chain.send(1, &[direct(5, update(2, 2, &[(0, 2)]))]);
    one.follow(&mut following).await.unwrap();
    assert_eq!(number(&database, PAUSED).await, 1);
    one.release(&mut following).await.unwrap();
    let mut named = settings();
    named.implementations.insert(STRANGER, 2);
    let two = projector(&database, &chain, named, "two");
    two.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    two.follow(&mut following).await.unwrap();
    assert_eq!(number(&database, PAUSED).await, 0);
    let feeds = stored(&database, 5).await.feeds;
    assert_eq!(feeds, expected(&chain, &on_chain(&chain)).feeds);
    assert_eq!(feeds.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_before_the_first_upgrade_is_of_the_only_version_or_stops() {
    let (_server, database) = database().await;
    for (id, versions, paused) in [(6, 1, 0), (7, 2, 1)] {
        let chain = TestChain::new(id).await;
        chain.send(0, &[direct(1, update(1, 1, &[(0, 1)]))]);
        let mut settings = settings();
        settings.versions.retain(|version, _| *version <= versions);
        settings
            .implementations
            .retain(|_, version| *version <= versions);
        let one = projector(&database, &chain, settings, "one");
        one.register(GENESIS_TIME).await.unwrap();
        one.follow(&mut Following::default()).await.unwrap();
        let stands = format!(
            "SELECT count(*) FROM projections WHERE chain_id = {id} AND paused_reason = 'noImplementation'"
        );
        assert_eq!(number(&database, &stands).await, paused);
        let rows = stored(&database, id).await.events.len() as i64;
        assert_eq!(rows, 1 - paused);
    }
}

/// Everything that a guard refuses, and its reason; each beside an update that is projected.
fn refused() -> Vec<(Act, &'static str)> {
    let one = |feeds: &[Value], rows: &[Row]| calldata(numbered(7), feeds, rows);
    let lanes = |lane| Row {
        table_index: 0,
        lanes: [lane; 16],
    };
    let large = Value {
        data: vec![1; 4_096],
        ..value(1, 1, 1)
    };
    let feeds: Vec<Value> = (0..6).map(|feed| value(feed, 1, 1)).collect();
    let cut = one(&feeds[..1], &[]);
    vec![
        (Act::Odd(one(&feeds, &[]), 1, 7), "feedsLength"),
        (Act::Odd(one(&[large], &[]), 1, 7), "calldataSize"),
        (Act::Odd(one(&[], &[lanes(8_192)]), 1, 7), "rbIndex"),
        (Act::Odd(cut[..cut.len() - 1].to_vec(), 1, 7), "malformed"),
        (Act::Odd(one(&[], &[]), 2, 7), "otherVersion"),
        (Act::Odd(one(&feeds[..1], &[]), 1, 8), "blockNumber"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_guard_refuses_is_written_down_once_and_stops_nothing() {
    let (_server, database) = database().await;
    let chain = TestChain::new(8).await;
    let mut settings = settings();
    let first = settings.versions.get_mut(&1).unwrap();
    first.feeds_max = 5;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let mut wanted = vec!["noCalldata".to_owned()];
    for (at, (act, reason)) in refused().into_iter().enumerate() {
        let seed = 10 * (at as u64 + 1);
        let good = direct(seed + 1, update(1, seed, &[(0, at as u16 + 1)]));
        chain.send(0, &[direct(seed, act), good]);
        wanted.push(reason.to_owned());
    }
    let hidden = Sent {
        seed: 900,
        way: Way::Hidden,
        acts: vec![update(1, 900, &[(0, 99)])],
    };
    chain.send(0, &[hidden]);
    wanted.sort();
    let one = projector(&database, &chain, settings.clone(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    let quarantined = || async {
        let client = database.client().await.unwrap();
        let read = "SELECT reason FROM quarantine WHERE projection = 'adfs' ORDER BY 1";
        let rows = client.query(read, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    assert_eq!(quarantined().await, wanted);
    let all = stored(&database, 8).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert_eq!(all.events.len(), 6);
    // Neither finality nor a replay brings it back, and nothing goes round in circles.
    chain.finalize(7).await;
    one.follow(&mut following).await.unwrap();
    jobs::enqueue(&database, (8, "adfs"), (0, 7), 8)
        .await
        .unwrap();
    work_all(&one).await;
    assert_eq!(quarantined().await, wanted);
    assert_eq!(
        stored(&database, 8).await,
        expected(&chain, &on_chain(&chain))
    );
    assert_eq!(number(&database, "SELECT count(*) FROM jobs").await, 0);
    // Under a wider guard the one that was too long is a row, and nothing else changes.
    one.release(&mut following).await.unwrap();
    settings.versions.get_mut(&1).unwrap().feeds_max = 6;
    let two = projector(&database, &chain, settings, "two");
    two.register(GENESIS_TIME).await.unwrap();
    work_all(&two).await;
    wanted.retain(|reason| reason != "feedsLength");
    assert_eq!(quarantined().await, wanted);
    let now = stored(&database, 8).await;
    assert_eq!((now.events.len(), now.feeds.len()), (7, 6 + 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_updates_are_projected_and_say_so() {
    let (_server, database) = database().await;
    let chain = TestChain::new(9).await;
    let mut settings = settings();
    let masking = AdfsVersion {
        lanes: LanePolicy::Mask,
        ..settings.versions[&1].clone()
    };
    settings.versions.insert(1, masking);
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    // The lane of feed 1 has a high bit, and that of feed 0 is not where its value is.
    let mut lanes = [0; 16];
    (lanes[0], lanes[1]) = (4, 8_192 + 6);
    let row = Row {
        table_index: 0,
        lanes,
    };
    let bytes = calldata(numbered(5), &[value(0, 3, 1), value(1, 6, 2)], &[row]);
    chain.send(0, &[direct(2, Act::Odd(bytes, 1, 5))]);
    let one = projector(&database, &chain, settings, "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    for (counted, sql) in [
        (0, "SELECT count(*) FROM quarantine"),
        (2, "SELECT count(*) FROM feed_updates"),
        (
            1,
            "SELECT count(*) FROM feed_updates WHERE extra->>'tableLane' = '4' AND rb_index = 3",
        ),
        (
            1,
            "SELECT count(*) FROM ring_buffer_updates WHERE length(extra->>'sent') = 66 \
             AND encode(data, 'hex') LIKE '00040006%'",
        ),
        (
            1,
            "SELECT count(*) FROM adfs_events WHERE jsonb_array_length(extra->'disagreements') = 1 \
             AND extra->'highLanes'->0->>'value' = '8198'",
        ),
    ] {
        assert_eq!(number(&database, sql).await, counted, "{sql}");
    }
}

/// What calldata is proven by is said by every row that was made of it: nothing told a row of proven bytes
/// from one of a provider's JSON.
#[tokio::test(flavor = "multi_thread")]
async fn rows_say_whether_calldata_is_under_the_transactions_root() {
    let (_server, database) = database().await;
    let mut id = 0;
    for proof in [Proof::ROOTS, Proof::LINKED] {
        // From the tail, from an archive of everything, and from one of these transactions alone.
        for (is_narrow, is_final) in [(false, false), (false, true), (true, true)] {
            id += 1;
            let chain = match is_narrow {
                true => TestChain::narrow(id, &PROXY).await,
                false => TestChain::new(id).await,
            };
            *chain.proof.lock().unwrap() = proof;
            chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
            chain.send_in_bytes(0, &[direct(2, update(1, 10, &[(0, 1)]))]);
            chain.send(0, &[direct(3, update(1, 11, &[(0, 2)]))]);
            if is_final {
                chain.finalize(2).await;
            }
            let one = projector(&database, &chain, settings(), "one");
            one.register(GENESIS_TIME).await.unwrap();
            one.follow(&mut Following::default()).await.unwrap();
            work_all(&one).await;
            let levels = match proof == Proof::ROOTS {
                true => ["roots", "claimed"],
                false => ["claimed", "claimed"],
            };
            let what = format!("{proof:?} narrow {is_narrow} final {is_final}");
            for table in ["adfs_events", "tx_inputs"] {
                let sql = format!(
                    "SELECT string_agg(calldata_level, ' ' ORDER BY decode_order) FROM \
                     (SELECT t.calldata_level, r.block_number AS decode_order FROM {table} t \
                      JOIN adfs_event_rows r USING (chain_id, tx_hash) WHERE chain_id = {id}) found"
                );
                assert_eq!(
                    text(&database, &sql).await,
                    levels.join(" "),
                    "{table} {what}"
                );
            }
            for table in ["feed_updates", "ring_buffer_updates"] {
                let sql = format!(
                    "SELECT string_agg(coalesce(extra->>'calldataLevel', 'roots'), ' ' \
                     ORDER BY block_number) FROM {table} WHERE chain_id = {id}"
                );
                assert_eq!(
                    text(&database, &sql).await,
                    levels.join(" "),
                    "{table} {what}"
                );
            }
        }
    }
}

/// An archive that keeps the contract's logs and transactions alone gives the same rows.
#[tokio::test(flavor = "multi_thread")]
async fn the_transactions_of_the_contract_are_enough() {
    let (_server, database) = database().await;
    let chain = TestChain::narrow(1, &PROXY).await;
    fill(&chain);
    // A transaction that has nothing to do with the contract.
    chain.extend(0, &[79]);
    chain.finalize(chain.head().unwrap().number).await;
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    work_all(&one).await;
    let all = stored(&database, 1).await;
    assert_eq!(all, expected(&chain, &on_chain(&chain)));
    assert!(all.feeds.len() > 12, "{all:?}");
    let quarantined = "SELECT count(*) FROM quarantine";
    assert_eq!(number(&database, quarantined).await, 0);
}

async fn text(database: &Database, sql: &str) -> String {
    let client = database.client().await.unwrap();
    client.query_one(sql, &[]).await.unwrap().get(0)
}
