//! A data lake as a source: every layout, every place, every way in which an object can be wrong.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar;

use std::time::Duration;

use chronolith_model::{BlockRange, BlockRef, ErrorKind, Hash32};
use chronolith_sim::files::{FileFault, FileFaults, FileServer};
use chronolith_sim::stellar::{LakeLayout, LakeSuffix};
use chronolith_source::Source;
use chronolith_source::stellar::{LakePlace, LakeSettings, LakeSource, Layout};
use chronolith_stellar::{Ledger, Network};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use stellar::{Pond, SMALL, all, chain, message, pack_batch};

fn layouts() -> Vec<LakeLayout> {
    let mut layouts = Vec::new();
    for (ledgers_per_file, files_per_partition) in [(1, 1), (1, 7), (8, 1), (8, 3)] {
        for suffix in [LakeSuffix::Zst, LakeSuffix::Zstd] {
            layouts.push(LakeLayout {
                ledgers_per_file,
                files_per_partition,
                suffix,
            });
        }
    }
    layouts
}

/// All ledgers through the head, by fetches of several sizes, and none behind it.
async fn assert_whole(pond: &Pond, settings: LakeSettings, head: u64) {
    let lake = LakeSource::open(settings).await.unwrap();
    let heads = lake.heads().await.unwrap();
    let made = pond.chain.ledger(head as u32);
    let expected = BlockRef {
        number: head,
        hash: made.hash,
    };
    assert_eq!((heads.head, heads.finalized), (expected, Some(expected)));
    let whole = BlockRange::new(2, head + 1);
    let fetched = lake.fetch(whole, &all(), Some(expected)).await.unwrap();
    pond.assert_is(&fetched, whole);
    for start in [2, 5, 9, head] {
        let range = BlockRange::new(start, (start + 3).min(head + 1));
        pond.assert_is(&lake.fetch(range, &all(), None).await.unwrap(), range);
    }
    let behind = message(&lake, head + 1).await;
    assert!(behind.contains("is not there"), "{behind}");
    assert!(message(&lake, 1).await.contains("is not there"));
    assert_eq!(lake.clock(head + 1).await.unwrap(), None);
    let genesis = lake.identity().await.unwrap().genesis;
    assert_eq!(genesis, Some(pond.chain.genesis_hash()));
    let other = BlockRef {
        number: 9,
        hash: Hash32([7; 32]),
    };
    let refused = lake.fetch(BlockRange::one(3), &all(), Some(other)).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("another ledger 9")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_layout_comes_whole_from_a_directory_and_over_http() {
    for layout in layouts() {
        let pond = Pond::new(5, layout, 40);
        // Whole objects of eight continue to 39 as well.
        assert_whole(&pond, pond.here(), 39).await;
        let server = FileServer::start(pond.lake.directory(), FileFaults::default());
        let server = server.await.unwrap();
        let over_http = || pond.settings(LakePlace::Http(server.url()));
        assert_whole(&pond, over_http(), 39).await;
        let by_settings = pond.forget_manifest();
        for settings in [pond.here(), over_http()] {
            let layout = Some(by_settings);
            assert_whole(&pond, LakeSettings { layout, ..settings }, 39).await;
        }
        let unsaid = LakeSource::open(pond.here()).await.unwrap_err();
        assert_eq!(unsaid.kind(), ErrorKind::Invalid, "{unsaid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_ledgers_are_proven() {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/fixtures/stellar"
    );
    if !std::path::Path::new(fixtures).exists() {
        let required = std::env::var_os("CHRONOLITH_REQUIRE_FIXTURES").is_some();
        assert!(!required, "no fixtures (path={fixtures})");
        println!("skipped: no fixtures (path={fixtures})");
        return;
    }
    let open = |network: &str, dir: String, first_ledger: u32| {
        LakeSource::open(LakeSettings {
            place: LakePlace::Directory(dir.into()),
            layout: Some(Layout::new(1, 1).unwrap()),
            network: Network::new(network),
            first_ledger,
            at_once: 2,
            hold_bytes: 16 << 20,
        })
    };
    let public = open(Network::PUBNET, fixtures.to_owned(), 53_312_000).await;
    let public = public.unwrap();
    let head = public.heads().await.unwrap().head.number;
    assert_eq!(head, 53_312_000);
    let ledger = public.fetch(BlockRange::one(head), &all(), None).await;
    assert!(!ledger.unwrap()[0].block.txs.is_empty());
    let test = open(Network::TESTNET, fixtures.to_owned(), 53_312_000).await;
    let error = test.unwrap().heads().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    assert!(message.contains("FCD285FF--53312000.xdr.zst"), "{message}");
    assert!(message.contains(Network::TESTNET), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_ledger_moves_on_and_is_found_in_few_requests() {
    let pond = Pond::new(6, SMALL, 30);
    let faults = FileFaults::default();
    let server = FileServer::start(pond.lake.directory(), faults.clone());
    let server = server.await.unwrap();
    let settings = pond.settings(LakePlace::Http(server.url()));
    let (there, listed) = (LakeSource::open(settings).await.unwrap(), pond.open().await);
    let mut requested = 0;
    for end in [30, 31, 33, 33, 80, 81] {
        pond.grow(end);
        for lake in [&there as &dyn Source, &listed] {
            let head = lake.heads().await.unwrap().head.number;
            assert_eq!(head, u64::from(end) - 1);
        }
        let requests = server.stats().requests.values().sum::<u64>();
        assert!(
            requests - requested < 40,
            "{} requests",
            requests - requested
        );
        requested = requests;
    }
    // An object that is there but not shown yet is no newer ledger.
    pond.grow(82);
    faults.plan(FileFault::NotFound, "--81.xdr.zst", 1);
    assert_eq!(there.heads().await.unwrap().head.number, 80);
    assert_eq!(there.heads().await.unwrap().head.number, 81);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_without_objects_says_so() {
    let pond = Pond::new(6, SMALL, 2);
    let server = FileServer::start(pond.lake.directory(), FileFaults::default());
    let server = server.await.unwrap();
    for settings in [pond.here(), pond.settings(LakePlace::Http(server.url()))] {
        let lake = LakeSource::open(settings).await.unwrap();
        let error = lake.heads().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("there is no object"), "{error}");
        pond.grow(3);
        assert_eq!(lake.heads().await.unwrap().head.number, 2);
        std::fs::remove_dir_all(pond.lake.path(2).parent().unwrap()).unwrap();
    }
    let nowhere = LakePlace::Directory(pond.dir.path().join("nowhere"));
    let layout = Some(Layout::new(1, 1).unwrap());
    let settings = LakeSettings {
        layout,
        ..pond.settings(nowhere)
    };
    let error = LakeSource::open(settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    assert!(
        message.contains("no directory") && message.contains("/nowhere"),
        "{message}"
    );
    // One folder too deep.
    pond.grow(3);
    let inside = LakePlace::Directory(pond.lake.path(2).parent().unwrap().to_owned());
    let error = LakeSource::open(pond.settings(inside)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("first folder?"), "{error}");
}

/// Nothing ever comes below a lake's first ledger, so nobody is told to wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lake_over_http_that_begins_later_asks_for_another_first_ledger() {
    let pond = Pond::new(6, SMALL, 30);
    for ledger in 2..20 {
        std::fs::remove_file(pond.lake.path(ledger)).unwrap();
    }
    let server = FileServer::start(pond.lake.directory(), FileFaults::default());
    let server = server.await.unwrap();
    let from = |first_ledger: u32| {
        LakeSource::open(LakeSettings {
            first_ledger,
            ..pond.settings(LakePlace::Http(server.url()))
        })
    };
    let error = from(12).await.unwrap().heads().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let message = error.to_string();
    let (key, _) = pond.object(12);
    assert!(
        message.contains(&key) && message.contains("startBlock=12"),
        "{message}"
    );
    assert!(!message.contains("yet"), "{message}");
    let lake = from(20).await.unwrap();
    assert_eq!(lake.heads().await.unwrap().head.number, 29);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_named_until_it_is_filled() {
    let pond = Pond::new(7, SMALL, 40);
    let lake = pond.open().await;
    let (key, path) = pond.object(20);
    std::fs::remove_file(&path).unwrap();
    let before = BlockRange::new(15, 25);
    // What comes before it comes.
    let some = lake.fetch_some(before, &all(), None).await.unwrap();
    pond.assert_is(&some, BlockRange::new(15, 20));
    let reported = lake.fetch(before, &all(), None).await.unwrap_err();
    assert_eq!(reported.kind(), ErrorKind::Disagreement);
    let reported = reported.to_string();
    assert!(
        reported.contains(&key) && reported.contains("continues to ledger 39"),
        "{reported}"
    );
    assert!(
        lake.endpoints()[0].last_error.is_none(),
        "it was asked for, no more"
    );
    pond.grow(40);
    pond.assert_is(&lake.fetch(before, &all(), None).await.unwrap(), before);
}

/// Where nothing is listed, the object before a hole looked like the newest, and the chain like one that
/// stands still.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_over_http_is_not_the_end_of_the_lake() {
    let pond = Pond::new(7, SMALL, 40);
    // One that the search for the newest comes upon.
    let (key, path) = pond.object(33);
    std::fs::remove_file(&path).unwrap();
    let server = FileServer::start(pond.lake.directory(), FileFaults::default());
    let server = server.await.unwrap();
    let settings = pond.settings(LakePlace::Http(server.url()));
    let lake = LakeSource::open(settings).await.unwrap();
    assert_eq!(lake.heads().await.unwrap().head.number, 39);
    let reported = message(&lake, 33).await;
    assert!(
        reported.contains(&key) && reported.contains("continues to ledger 39"),
        "{reported}"
    );
    assert!(reported.contains("Disagreement"), "{reported}");
    pond.grow(40);
    assert_eq!(message(&lake, 33).await, "1 ledgers came");
}

/// What stands in place of the object of ledger 20, and what is said of it.
fn wrong_objects(pond: &Pond) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let whole = std::fs::read(pond.lake.path(20)).unwrap();
    let made = pond.chain.ledger(20);
    let (this, next) = (made.raw.clone(), pond.chain.ledger(21).raw.clone());
    let other = chain(9).ledger(20).raw.clone();
    // The hash of the ledger before, in the header: nothing but the header's own hash tells.
    let mut bent = this.to_vec();
    let mut places = bent.windows(32);
    let at = places.position(|part| part == &made.header[..32]);
    bent[at.unwrap() + 32 + 4] ^= 1;
    let zeros = vec![0_u8; 300 << 20];
    let one = (20, 20, 1);
    vec![
        ("cut", whole[..whole.len() / 2].to_vec(), "unpacked"),
        ("empty", Vec::new(), "zstd"),
        ("text", b"<html></html>".to_vec(), "zstd"),
        (
            "a bomb that says so",
            zstd::bulk::compress(&zeros, 1).unwrap(),
            "unpacks to more than",
        ),
        (
            "a bomb that does not",
            zstd::encode_all(&*zeros, 1).unwrap(),
            "unpacks to more than",
        ),
        (
            "another ledger",
            pack_batch(one, &[&next]),
            "ledger 21 is in its place",
        ),
        (
            "other bounds",
            pack_batch((21, 21, 1), &[&next]),
            "21 to 21, not 20 to 20",
        ),
        (
            "two ledgers",
            pack_batch((20, 20, 2), &[&this, &next]),
            "it holds 2 ledgers",
        ),
        (
            "no ledger",
            pack_batch((20, 20, 0), &[]),
            "it holds 0 ledgers",
        ),
        (
            "bytes behind it",
            pack_batch(one, &[&this, &[0; 8]]),
            "not a ledger",
        ),
        (
            "cut inside",
            pack_batch(one, &[&this[..100]]),
            "not a ledger",
        ),
        ("bent", pack_batch(one, &[&bent]), "header hash"),
        (
            "another chain's",
            pack_batch(one, &[&other]),
            "does not name the ledger before",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_an_object_is_named() {
    let pond = Pond::new(8, SMALL, 40);
    let (key, path) = pond.object(20);
    let whole = std::fs::read(&path).unwrap();
    for (name, object, expected) in wrong_objects(&pond) {
        std::fs::write(&path, object).unwrap();
        let lake = pond.open().await;
        let range = BlockRange::new(19, 22);
        let reported = match lake.fetch_some(range, &all(), None).await {
            // What came before it is as good as ever.
            Ok(fetched) => {
                pond.assert_is(&fetched, BlockRange::one(19));
                let alone = lake.fetch_some(BlockRange::new(20, 22), &all(), None).await;
                alone.expect_err(name)
            }
            Err(error) => error,
        };
        assert_eq!(
            reported.kind(),
            ErrorKind::Disagreement,
            "{name}: {reported}"
        );
        let reported = reported.to_string();
        assert!(reported.contains("endpoint=lake"), "{name}: {reported}");
        assert!(reported.contains(expected), "{name}: {reported}");
        // A ledger that is right in itself may be wrong by the one behind it.
        let is_named = reported.contains(&key) || reported.contains(&pond.object(21).0);
        assert!(is_named, "{name}: {reported}");
        std::fs::write(&path, &whole).unwrap();
        pond.assert_is(&lake.fetch(range, &all(), None).await.unwrap(), range);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_batch_is_named() {
    let layout = LakeLayout {
        ledgers_per_file: 8,
        ..SMALL
    };
    let pond = Pond::new(8, layout, 40);
    let (key, path) = pond.object(20);
    let ledgers: Vec<_> = (16..24)
        .map(|at| pond.chain.ledger(at).raw.clone())
        .collect();
    let refs: Vec<&[u8]> = ledgers.iter().map(|raw| &raw[..]).collect();
    std::fs::write(&path, pack_batch((16, 22, 7), &refs[..7])).unwrap();
    let lake = pond.open().await;
    let reported = message(&lake, 17).await;
    assert!(
        reported.contains(&key) && reported.contains("16 to 22, not 16 to 23"),
        "{reported}"
    );
    std::fs::write(&path, pack_batch((16, 23, 7), &refs[..7])).unwrap();
    let reported = message(&lake, 17).await;
    assert!(
        reported.contains("it holds 7 ledgers for 16 to 23"),
        "{reported}"
    );
    let mut swapped = refs.clone();
    swapped.swap(2, 3);
    std::fs::write(&path, pack_batch((16, 23, 8), &swapped)).unwrap();
    let reported = message(&lake, 17).await;
    assert!(
        reported.contains(&key) && reported.contains("ledger 19 is in its place"),
        "{reported}"
    );
    std::fs::write(&path, pack_batch((16, 23, 8), &refs)).unwrap();
    assert_eq!(message(&lake, 17).await, "1 ledgers came");
}

/// Objects carry a checksum, so no bit of a ledger is ever another without being found. A few bits of an
/// object are no part of any ledger: they pad it.
#[tokio::test(flavor = "multi_thread")]
async fn every_flipped_bit_is_found() {
    const FLIPS: u32 = 400;
    let pond = Pond::new(10, SMALL, 32);
    let mut rng = StdRng::seed_from_u64(11);
    let mut harmless = 0;
    for _ in 0..FLIPS {
        let ledger = rng.random_range(2..32);
        let (key, path) = pond.object(ledger);
        let whole = std::fs::read(&path).unwrap();
        let mut bent = whole.clone();
        let bit = rng.random_range(0..bent.len() * 8);
        bent[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bent).unwrap();
        // A lake that has not read it before.
        let (lake, range) = (pond.open().await, BlockRange::one(u64::from(ledger)));
        match lake.fetch(range, &all(), None).await {
            Ok(fetched) => {
                pond.assert_is(&fetched, range);
                harmless += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Disagreement, "{error}");
                assert!(error.to_string().contains(&key), "bit {bit}: {error}");
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(harmless < FLIPS / 50, "{harmless} flips changed nothing");
}

/// The same behind the checksum: objects without one, packed again from ledgers with a flipped bit, so that the
/// hashes of the ledger decide and not those of the packing.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_without_a_checksum_is_found_by_proof() {
    const FLIPS: u32 = 200;
    let pond = Pond::new(14, SMALL, 32);
    let mut rng = StdRng::seed_from_u64(15);
    let mut by_hash = 0;
    for _ in 0..FLIPS {
        // Ledgers of all three versions.
        let number = rng.random_range(2..32);
        let (key, path) = pond.object(number);
        let whole = std::fs::read(&path).unwrap();
        let mut raw = pond.chain.ledger(number).raw.to_vec();
        let pack = |raw: &[u8]| pack_batch((number, number, 1), &[raw]);
        std::fs::write(&path, pack(&raw)).unwrap();
        let taken = message(&pond.open().await, number.into()).await;
        assert_eq!(taken, "1 ledgers came", "an object needs no checksum");
        let ledger = Ledger::walk(raw.clone().into()).unwrap();
        let bytes: Vec<usize> = ledger.hashed().flatten().collect();
        let at = bytes[rng.random_range(0..bytes.len())];
        raw[at] ^= 1 << rng.random_range(0..8);
        std::fs::write(&path, pack(&raw)).unwrap();
        let reported = message(&pond.open().await, number.into()).await;
        let is_found = reported.contains(&key) && reported.contains("Disagreement");
        assert!(is_found, "byte {at} of ledger {number}: {reported}");
        by_hash += u32::from(reported.contains("hash does not fit its content"));
        std::fs::write(&path, &whole).unwrap();
    }
    // The others are no ledgers any more, or other ones.
    assert!(by_hash > FLIPS / 2, "{by_hash} were found by a hash");
}

#[tokio::test(flavor = "multi_thread")]
async fn transport_errors_are_retried_and_forgeries_are_not() {
    let pond = Pond::new(12, SMALL, 30);
    let faults = FileFaults::default();
    let server = FileServer::start(pond.lake.directory(), faults.clone());
    let server = server.await.unwrap();
    let settings = pond.settings(LakePlace::Http(server.url()));
    let lake = LakeSource::open(settings).await.unwrap();
    lake.heads().await.unwrap();
    let slow = FileFault::Slow(Duration::from_millis(50));
    for (ledger, fault) in [
        (5, FileFault::Status(500)),
        (6, FileFault::Status(429)),
        (7, FileFault::CutShort),
        (8, slow),
    ] {
        faults.plan(fault, &format!("--{ledger}.xdr"), 1);
        let reported = message(&lake, ledger).await;
        assert_eq!(reported, "1 ledgers came", "{fault:?}");
        assert_eq!(faults.hits(fault), 1, "{fault:?} never happened");
    }
    for (ledger, fault, expected) in [
        (10, FileFault::Half, "unpacked"),
        (11, FileFault::WrongByte, "object"),
    ] {
        faults.plan(fault, &format!("--{ledger}.xdr"), 1);
        let reported = message(&lake, ledger).await;
        let (key, _) = pond.object(ledger as u32);
        assert!(
            reported.contains(&key) && reported.contains(expected),
            "{reported}"
        );
        assert!(reported.contains("Disagreement"), "{reported}");
        assert_eq!(message(&lake, ledger).await, "1 ledgers came");
    }
    // Gone for longer than is waited.
    faults.plan(FileFault::Status(503), "--15.xdr", 100);
    let reported = message(&lake, 15).await;
    assert!(
        reported.contains("Unavailable") && reported.contains("--15.xdr.zst"),
        "{reported}"
    );
    assert!(lake.endpoints()[0].backing_off);
    faults.clear();
    assert_eq!(message(&lake, 15).await, "1 ledgers came");
    assert!(!lake.endpoints()[0].backing_off);
    let port = server.url();
    assert!(!format!("{lake:?}").contains(&port), "the URL is shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_held_than_may_be() {
    let pond = Pond::new(13, SMALL, 40);
    let hold_bytes = 128 << 10;
    let lake = LakeSource::open(LakeSettings {
        hold_bytes,
        ..pond.here()
    });
    let lake = lake.await.unwrap();
    let (mut next, mut parts) = (2, 0);
    let room = hold_bytes / 2 / 4;
    while next < 40 {
        let some = lake
            .fetch_some(BlockRange::new(next, 40), &all(), None)
            .await;
        let some = some.unwrap();
        pond.assert_is(&some, BlockRange::new(next, next + some.len() as u64));
        // The last of them may be what is too much.
        let before = some.iter().rev().skip(1);
        let numbers = before.map(|one| one.block.clock.number as u32);
        let held: usize = numbers.map(|at| pond.chain.ledger(at).raw.len()).sum();
        assert!((held as u64) < room, "{held} bytes and one more");
        next += some.len() as u64;
        parts += 1;
    }
    assert!(parts > 5, "everything came in {parts} parts");
    let plan = lake.plan(&all());
    let ledger = pond.chain.ledger(39).raw.len() as u64;
    let held = plan.blocks * plan.at_once as u64 * ledger;
    assert!(held <= hold_bytes, "{plan:?} of {ledger} bytes each");
}
