//! Ledgers from a core: a process that the program runs, here a stand-in that writes real frames and goes
//! wrong as it is told. And from a lake first, then from core.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chronolith_model::{BlockRange, DatasetSet, ErrorKind, Proof, Scope};
use chronolith_sim::files::{FileFaults, FileServer};
use chronolith_source::stellar::{
    CoreSettings, CoreSource, LakeAndCore, LakePlace, LakeSettings, LakeSource,
};
use chronolith_source::{Fetched, Source, Want};
use chronolith_stellar::{Network, join};
use support::stellar::{Pond, bench, content_root};

const PATIENCE: Duration = Duration::from_secs(60);

fn want() -> Want {
    Want {
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
        proof: Proof::LINKED,
    }
}

/// A core of the pond's chain in a directory of its own.
fn core_in(pond: &Pond, dir: &str, more: &str) -> CoreSource {
    patient_core(pond, dir, more, Duration::from_secs(20))
}

/// The same, which is abandoned after so long without a ledger.
fn patient_core(pond: &Pond, dir: &str, more: &str, patience: Duration) -> CoreSource {
    let (binary, config) = pond.core(more);
    let settings = CoreSettings {
        binary,
        config,
        work_dir: work_dir(pond, dir),
        network: pond.network(),
        last_ledger: None,
        patience,
    };
    CoreSource::new(settings).unwrap()
}

fn work_dir(pond: &Pond, dir: &str) -> PathBuf {
    pond.dir.path().join(dir)
}

/// The process that core is, by what was written down.
fn process(dir: &Path) -> Option<u32> {
    let noted = std::fs::read_to_string(dir.join("core.pid")).ok()?;
    noted.trim().parse().ok().filter(|&id| is_alive(id))
}

/// One that nobody has waited for is gone too.
fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

async fn until<T>(what: &str, mut reached: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = reached().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} was not reached");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[track_caller]
fn assert_made(pond: &Pond, fetched: &[Fetched], from: u64) {
    assert!(!fetched.is_empty());
    for (number, one) in (from..).zip(fetched) {
        let made = pond.chain.ledger(number as u32);
        assert_eq!(one.block.clock.hash, made.hash, "ledger {number}");
        let payload = &one.block.payload;
        let bodies = payload.bodies.as_ref().unwrap();
        let bytes = join(payload.header.as_ref().unwrap(), bodies).unwrap();
        assert_eq!(bytes, made.raw, "ledger {number}");
        assert_eq!(one.proof, Proof::LINKED.with_transactions());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_come_by_catching_up() {
    for more in ["", "fromCheckpoint = true"] {
        let pond = Pond::new(41, 2);
        let core = core_in(&pond, "core", more);
        for range in [
            BlockRange::new(100, 160),
            BlockRange::new(160, 190),
            BlockRange::new(2, 30),
        ] {
            let fetched = core.fetch(range, &want(), None).await.unwrap();
            assert_eq!(fetched.len() as u64, range.len());
            assert_made(&pond, &fetched, range.start);
        }
        // Each is asked for before core has ended that brought the one before it.
        for number in 200..212 {
            let fetched = core.fetch(BlockRange::one(number), &want(), None).await;
            assert_eq!(fetched.unwrap().len(), 1);
        }
        let core_dir = work_dir(&pond, "core");
        drop(core);
        until("core's end", async || {
            process(&core_dir).is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_ledgers_come_as_they_close() {
    let pond = Pond::new(42, 2);
    let core = core_in(&pond, "core", "head = 120\nledgerMs = 5");
    let mut next = 100;
    let mut hints = core.hints();
    while next < 180 {
        core.note_next(next);
        // Nothing has come at first.
        let Ok(heads) = core.heads().await else {
            hints.changed().await.unwrap();
            continue;
        };
        assert_eq!(heads.finalized, Some(heads.head));
        if heads.head.number < next {
            hints.changed().await.unwrap();
            continue;
        }
        let range = BlockRange::new(next, heads.head.number + 1);
        let fetched = core.fetch(range, &want(), None).await.unwrap();
        assert_made(&pond, &fetched, next);
        assert!(fetched.len() <= 20, "{} waited", fetched.len());
        // The last of them once more, as the walk to the head asks for it.
        let last = BlockRange::one(heads.head.number);
        let again = core.fetch(last, &want(), None).await.unwrap();
        assert_made(&pond, &again, heads.head.number);
        next = heads.head.number + 1;
    }
    let core_dir = work_dir(&pond, "core");
    let id = process(&core_dir).expect("it runs");
    // Others are kept out of its directory.
    let second = core_in(&pond, "core", "head = 120\nledgerMs = 5");
    let error = second.heads().await.unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    assert_eq!(process(&core_dir), Some(id), "it was left alone");
    // A far older one: core begins again there, and then follows again.
    let old = BlockRange::new(10, 20);
    assert_made(&pond, &core.fetch(old, &want(), None).await.unwrap(), 10);
    core.note_next(next);
    let head = until("the head", async || {
        let heads = core.heads().await.ok()?;
        (heads.head.number >= next).then_some(heads.head)
    });
    let range = BlockRange::new(next, head.await.number + 1);
    let fetched = core.fetch(range, &want(), None).await.unwrap();
    assert_made(&pond, &fetched, next);
}

/// Each fault, what is said of it, and what it is for the caller. It strikes once: core is started again
/// and all ledgers come.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_core_does_no_ledger_is_left_out() {
    for (kind, expected, error_kind) in [
        ("die", "it ended with", ErrorKind::Unavailable),
        ("half_frame", "inside of a ledger", ErrorKind::Unavailable),
        ("garbage", "not a ledger", ErrorKind::Disagreement),
        ("bad_mark", "in one piece", ErrorKind::Unavailable),
        ("skip", "came in its place", ErrorKind::Disagreement),
        ("stall", "no ledger came for", ErrorKind::Unavailable),
    ] {
        let pond = Pond::new(43, 2);
        let fault =
            format!("[[faults]]\nkind = \"{kind}\"\nafterFrames = 7\ncommand = \"catchup\"");
        let core = patient_core(&pond, "core", &fault, Duration::from_secs(3));
        let (mut next, end, mut told) = (20, 60, Vec::new());
        while next < end {
            let range = BlockRange::new(next, end);
            match core.fetch_some(range, &want(), None).await {
                Ok(fetched) => {
                    assert_made(&pond, &fetched, next);
                    next += fetched.len() as u64;
                }
                Err(error) => {
                    told.push(error);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            assert!(told.len() < 200, "{kind}: {told:?}");
        }
        let first = told
            .first()
            .unwrap_or_else(|| panic!("{kind} never struck"));
        assert_eq!(first.kind(), error_kind, "{kind}: {first}");
        assert!(first.to_string().contains(expected), "{kind}: {first}");
        assert!(first.to_string().contains("core"), "{kind}: {first}");
        // It is not started again at once, and while it is not, the same is said.
        assert!(told.len() > 3, "{kind}: {told:?}");
        assert!(
            told.iter()
                .all(|error| error.to_string() == first.to_string())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_network_and_a_missing_program_are_refused() {
    let pond = Pond::new(44, 2);
    let (binary, config) = pond.core("passphrase = \"Another\"");
    let settings = CoreSettings {
        binary,
        config,
        work_dir: work_dir(&pond, "core"),
        network: pond.network(),
        last_ledger: None,
        patience: PATIENCE,
    };
    let core = CoreSource::new(settings.clone()).unwrap();
    let range = BlockRange::new(20, 40);
    let error = core.fetch(range, &want(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let phrase = pond.network().passphrase().to_owned();
    assert!(error.to_string().contains(&phrase), "{error}");
    // What its settings file says is looked at before it is started.
    let other = CoreSettings {
        network: Network::new("The one that is set"),
        ..settings.clone()
    };
    let error = CoreSource::new(other).unwrap_err();
    assert!(error.to_string().contains("The one that is set"), "{error}");
    for settings in [
        CoreSettings {
            binary: PathBuf::from("/nowhere/stellar-core"),
            ..settings.clone()
        },
        CoreSettings {
            config: PathBuf::from("/nowhere/core.toml"),
            ..settings
        },
    ] {
        let error = CoreSource::new(settings).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }
}

/// Nobody waits for a ledger of a core that shows none, so nobody would find that it stands still.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_falls_silent_while_it_follows_is_started_again() {
    let pond = Pond::new(51, 2);
    // Core begins behind the checkpoint before ledger 100.
    let fault = "[[faults]]\nkind = \"stall\"\nafterFrames = 43\ncommand = \"run\"";
    let more = format!("head = 120\nledgerMs = 5\n{fault}");
    let core = patient_core(&pond, "core", &more, Duration::from_secs(2));
    let (mut next, mut told) = (100, Vec::new());
    until("ledger 150", async || {
        core.note_next(next);
        match core.heads().await {
            Ok(heads) if heads.head.number >= next => {
                let range = BlockRange::new(next, heads.head.number + 1);
                let fetched = core.fetch(range, &want(), None).await.unwrap();
                assert_made(&pond, &fetched, next);
                next = range.end;
            }
            Ok(_) => {}
            Err(error) => told.push(error.to_string()),
        }
        (next > 150).then_some(())
    })
    .await;
    let silent = |said: &String| said.contains("no ledger came for 2 seconds");
    assert!(told.iter().any(silent), "{told:?}");
}

async fn joint(pond: &Pond, core: CoreSource) -> LakeAndCore {
    let place = LakePlace::Directory(pond.lake.directory().to_owned());
    joint_at(pond, place, core).await
}

async fn joint_at(pond: &Pond, place: LakePlace, core: CoreSource) -> LakeAndCore {
    let lake = LakeSettings {
        place,
        layout: None,
        network: pond.network(),
        first_ledger: 2,
        at_once: 4,
        hold_bytes: 16 << 20,
    };
    LakeAndCore::new(LakeSource::open(lake).await.unwrap(), core)
}

/// Everything from the first ledger on, as a node takes it.
async fn follow(source: &LakeAndCore, pond: &Pond, mut next: u64, end: u64) -> Vec<String> {
    let mut from = Vec::new();
    while next < end {
        source.note_next(next);
        let head = until("a newer ledger", async || {
            let heads = source.heads().await.ok()?;
            (heads.head.number >= next).then_some(heads.head.number)
        });
        let range = BlockRange::new(next, head.await + 1);
        let fetched = source.fetch(range, &want(), None).await.unwrap();
        assert_made(pond, &fetched, next);
        from.extend(fetched.iter().map(|one| one.endpoint.to_string()));
        next = range.end;
    }
    from
}

#[tokio::test(flavor = "multi_thread")]
async fn core_goes_on_where_the_lake_ends() {
    let pond = Pond::new(45, 50);
    let core = core_in(&pond, "core", "head = 70\nledgerMs = 5");
    let source = joint(&pond, core).await;
    assert!(process(&work_dir(&pond, "core")).is_none());
    let from = follow(&source, &pond, 2, 100).await;
    let of_lake = from.iter().take_while(|name| *name == "lake").count();
    assert_eq!(of_lake, 48, "all that the lake has comes from it");
    assert!(from[of_lake..].iter().all(|name| name == "core"));
    assert_eq!(source.endpoints().len(), 2);
    // The lake caught up meanwhile: history below comes from it again.
    pond.grow(90);
    let old = BlockRange::new(40, 60);
    source.heads().await.unwrap();
    let fetched = source.fetch(old, &want(), None).await.unwrap();
    assert_made(&pond, &fetched, 40);
    let from: Vec<&str> = fetched.iter().map(|one| &*one.endpoint).collect();
    assert_eq!(from, ["lake"; 20]);
}

/// The lake was asked for its newest ledger before each of core's.
#[tokio::test(flavor = "multi_thread")]
async fn a_lake_is_left_alone_while_core_goes_on() {
    let pond = Pond::new(57, 50);
    let server = FileServer::start(pond.lake.directory(), FileFaults::default());
    let server = server.await.unwrap();
    let core = core_in(&pond, "core", "head = 70\nledgerMs = 5");
    let source = joint_at(&pond, LakePlace::Http(server.url()), core).await;
    let mut next = 2 + follow(&source, &pond, 2, 75).await.len() as u64;
    let asked = || server.stats().requests.values().sum::<u64>();
    let before = asked();
    // Each asks where the chain stands at least once.
    for _ in 0..40 {
        next += follow(&source, &pond, next, next + 1).await.len() as u64;
    }
    let more = asked() - before;
    assert!(more < 40, "{more} requests");
    // What core has passed is asked of the lake, which may have it by now.
    pond.grow(90);
    let old = BlockRange::new(52, 60);
    let fetched = source.fetch(old, &want(), None).await.unwrap();
    assert_made(&pond, &fetched, 52);
    assert!(fetched.iter().all(|one| &*one.endpoint == "lake"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_core_on_another_chain_is_found_at_the_seam() {
    let pond = Pond::new(46, 50);
    let other = Pond::new(47, 2);
    let core = core_in(&other, "core", "head = 70");
    let source = joint(&pond, core).await;
    source.note_next(50);
    until("core", async || {
        let heads = source.heads().await.ok()?;
        (heads.head.number >= 50).then_some(())
    })
    .await;
    let error = source.fetch(BlockRange::new(50, 52), &want(), None).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disagreement, "{error}");
    assert!(
        error.to_string().contains("ledger 49 of the lake"),
        "{error}"
    );
}

/// While it was started once more, a core that had only ever failed looked like one that is catching up.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_never_brings_a_ledger_is_no_core_that_catches_up() {
    let pond = Pond::new(54, 30);
    let fault = "[[faults]]\nkind = \"die\"\ntimes = 1000\ncommand = \"run\"";
    let core = core_in(&pond, "core", &format!("head = 120\n{fault}"));
    let source = joint(&pond, core).await;
    source.note_next(30);
    let first = until("a failure", async || source.heads().await.err()).await;
    assert!(first.to_string().contains("it ended with"), "{first}");
    // Every command of core is another process.
    let dir = work_dir(&pond, "core");
    let noted = || std::fs::read_to_string(dir.join("core.pid")).unwrap_or_default();
    let (mut before, mut started) = (noted(), 0);
    until("core's next start", async || {
        let heads = source.heads().await;
        assert!(heads.is_err(), "{heads:?}");
        assert!(source.is_catching_up());
        started += u32::from(noted() != before);
        before = noted();
        (started >= 3).then_some(())
    })
    .await;
    let reports = source.endpoints();
    let report = reports.iter().find(|report| report.name == "core").unwrap();
    assert!(report.failures > 0 && report.backing_off, "{report:?}");
    assert!(report.last_error.is_some(), "{report:?}");
    // What the lake has comes all the same.
    pond.grow(35);
    assert_eq!(source.heads().await.unwrap().head.number, 34);
}

/// The first ledger may take longer than others, and what is said of it is how long that was.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_says_nothing_is_told_of_with_what_it_printed() {
    let pond = Pond::new(55, 2);
    let fault = "[[faults]]\nkind = \"stall\"\ncommand = \"run\"";
    let more = format!("head = 120\n{fault}");
    let core = patient_core(&pond, "core", &more, Duration::from_secs(1));
    core.note_next(100);
    let told = until("the end of patience", async || {
        let told = core.heads().await.err()?.to_string();
        (!told.contains("catching up: no")).then_some(told)
    });
    let told = told.await;
    assert!(told.contains("no ledger came for 6 seconds"), "{told}");
    assert!(
        told.contains("it said: [Ledger INFO] Changing state"),
        "{told}"
    );
}

/// History was fetched one part at a time as soon as core followed the network.
#[tokio::test(flavor = "multi_thread")]
async fn history_out_of_the_lake_is_planned_as_the_lakes() {
    let pond = Pond::new(56, 50);
    let core = core_in(&pond, "core", "head = 70\nledgerMs = 5");
    let source = joint(&pond, core).await;
    assert_eq!(source.plan_at(100, &want()).at_once, 1, "nobody knows yet");
    follow(&source, &pond, 2, 80).await;
    source.note_next(80);
    assert_eq!(source.plan(&want()).at_once, 1, "core has them in order");
    for (start, expected) in [(2, 4), (49, 4), (50, 1), (60, 1), (80, 1)] {
        let plan = source.plan_at(start, &want());
        assert_eq!(plan.at_once, expected, "from {start}: {plan:?}");
    }
    // A range that ends behind the lake, as a node takes it.
    let range = BlockRange::new(2, 60);
    assert_made(&pond, &source.fetch(range, &want(), None).await.unwrap(), 2);
}

/// The program takes the lake, follows core, is killed at any moment, and loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_goes_from_lake_to_core_through_kills() {
    let pond = Pond::new(48, 60);
    let core = pond.core_field("head = 100\nledgerMs = 20");
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    let chain = pond.network().chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}/core"));
    let mut from_core = 0;
    for step in [1, 6, 24, 3, 40, 12] {
        let before = bench.head();
        bench.crash_at(step, || {});
        // The lake ends with ledger 59.
        from_core += u64::from(bench.head() > before.max(Some(59)));
    }
    assert!(
        from_core >= 2,
        "too few lives archived a ledger of core: this proved nothing"
    );
    let behind = bench.head().unwrap_or(0).max(130);
    let running = bench.start();
    bench.wait("core's ledgers", || bench.head() > Some(behind));
    assert!(process(&dir).is_some(), "core runs");
    running.stop();
    until("core's end", async || process(&dir).is_none().then_some(())).await;
    let head = bench.head().unwrap();
    pond.assert_archived(&bench, 2..head as u32 + 1).await;
    bench.say(&["verify"]);

    // The same out of a lake alone.
    pond.grow(head as u32 + 1);
    let clean = support::stellar::bench(&pond.fields(&pond.lake_field()), "");
    clean.say(&["run", "--until-caught-up"]);
    let range = BlockRange::new(2, head + 1);
    let network = pond.network();
    let root = content_root(&bench, &network, range).await;
    assert_eq!(root, content_root(&clean, &network, range).await);
}

/// A core that writes nothing does not notice that nobody reads: it outlives its program, and holds the
/// directory until the next one ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_outlived_its_program_is_ended_by_the_next() {
    let pond = Pond::new(54, 60);
    let fault = "[[faults]]\nkind = \"stall\"\nafterFrames = 7\ncommand = \"run\"";
    let core = pond.core_field(&format!("head = 100\nledgerMs = 20\n{fault}"));
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    let running = bench.start();
    // Seven frames behind the lake, and no more.
    bench.wait("core's last ledger", || bench.head() >= Some(66));
    let chain = pond.network().chain_id();
    let dir = bench.dir.path().join(format!("data/chains/{chain}/core"));
    let old = process(&dir).expect("core runs");
    running.kill();
    let words = "a core of before still runs: it is ended";
    assert!(!bench.log().contains(words), "{}", bench.log());
    assert!(is_alive(old), "it ended with its program");
    let running = bench.start();
    bench.wait("the old core's end", || !is_alive(old));
    bench.wait("newer ledgers", || bench.head() > Some(66));
    let log = bench.log();
    let told = log.lines().find(|line| line.contains(words));
    let told = told.unwrap_or_else(|| panic!("not told: {log}"));
    assert!(told.contains(&format!("\"pid\":{old}")), "{told}");
    running.stop();
    pond.assert_archived(&bench, 2..bench.head().unwrap() as u32 + 1)
        .await;
}

/// Without a lake, a range of ledgers comes by catching up, through a core that dies now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_comes_from_core_alone() {
    let pond = Pond::new(49, 2);
    let core = pond.core_field("[[faults]]\nkind = \"die\"\nafterFrames = 9\ntimes = 2");
    let bounded = r#", "mode": "backfill", "startBlock": 20, "endBlock": 79"#;
    let bench = bench(&pond.fields(&core), bounded);
    let status = bench.start().wait();
    let log = bench.log();
    assert!(status.success(), "{log}");
    assert_eq!(bench.head(), Some(79));
    pond.assert_archived(&bench, 20..80).await;
    assert!(log.contains("catchup 80/61"), "{log}");
    assert!(log.contains("core ended, it is started again"), "{log}");
    assert!(!log.contains("\"run --metadata"), "it followed: {log}");
    bench.refused(&["serve", "--follow"], "its ledgers come from a core");
}

/// The command waits for the first ledger, and streaming begins with what is archived: a core that has just
/// been started says nothing yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_alone_fills_by_command_and_streams() {
    let pond = Pond::new(52, 2);
    let core = pond.core_field("head = 100\nledgerMs = 20");
    let ranges = r#", "ranges": { "size": 40, "parallel": 3, "checkpoint": 10 }"#;
    let bench = bench(&pond.fields(&core), ranges);
    bench.say(&["backfill", "--start-ledger", "60", "--end-ledger", "90"]);
    assert_eq!(bench.head(), Some(90));
    // It follows the network, and says what is to be done for the rest.
    let running = bench.start();
    bench.wait("new ledgers", || bench.head() > Some(105));
    let mend = "backfill --chain sim --from 2 --to 59`";
    bench.wait("the word of the hole", || bench.log().contains(mend));
    let words = ["backfill", "--from", "2", "--to", "59"];
    bench.refused(&words, "the only core follows the network");
    running.stop();
    bench.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    bench.refused(&["run"], "incomplete ranges detected");
    bench.say(&words);
    let before = bench.head();
    let running = bench.start();
    bench.wait("newer ledgers", || bench.head() > before);
    running.stop();
    pond.assert_archived(&bench, 2..bench.head().unwrap() as u32 + 1)
        .await;
}

/// Where the lake ends is not where the chain stands, nor is the newest of the few ledgers that wait for
/// whoever takes them.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_caught_up_before_core_has_shown_all_its_ledgers() {
    let pond = Pond::new(53, 30);
    // No ledger closes behind these while the test runs.
    let core = pond.core_field("head = 120\nledgerMs = 3600000");
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(120));
    // A range that begins behind the lake comes too.
    let bounded = r#", "mode": "backfill", "startBlock": 40, "endBlock": 79"#;
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = support::stellar::bench(&fields, bounded);
    let status = bench.start().wait();
    assert!(status.success(), "{}", bench.log());
    pond.assert_archived(&bench, 40..80).await;
}
