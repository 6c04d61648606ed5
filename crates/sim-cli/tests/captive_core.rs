//! Ledgers from a core: a process that the source runs, here a stand-in that writes real frames and fails as its
//! settings say. And from a lake first, then from core. The clock is the real one, because core is a process.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod pond;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chronolith_follower::chain::Chain;
use chronolith_follower::ingest;
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::settings::{Finality, FollowSettings, Mode, StellarSettings};
use chronolith_model::{BlockRange, Dataset, DatasetSet, ErrorKind, Proof, Scope, Verification};
use chronolith_sim::files::{FileFaults, FileServer};
use chronolith_source::stellar::{
    CoreSettings, CoreSource, LakeAndCore, LakePlace, LakeSettings, LakeSource,
};
use chronolith_source::{Fetched, Source, Want};
use chronolith_stellar::{Network, join};
use pond::Pond;

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
    CoreSource::new(pond.core_settings(dir, more, patience)).unwrap()
}

fn work_dir(pond: &Pond, dir: &str) -> PathBuf {
    pond.dir.path().join(dir)
}

/// The process that core is, by the file that names it.
fn process(dir: &Path) -> Option<u32> {
    let noted = std::fs::read_to_string(dir.join("core.pid")).ok()?;
    noted.trim().parse().ok().filter(|&id| is_alive(id))
}

/// A process that ended and was not waited for is gone too.
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
        // Each is requested before core has ended that brought the one before it.
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
        // The last of them once more, as the walk to the head requests it.
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

/// Each fault, its message, and what it is for the caller. It happens once: core is started again and all ledgers
/// come.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_core_leaves_a_ledger_out() {
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
        let (mut next, end, mut errors) = (20, 60, Vec::new());
        while next < end {
            let range = BlockRange::new(next, end);
            match core.fetch_some(range, &want(), None).await {
                Ok(fetched) => {
                    assert_made(&pond, &fetched, next);
                    next += fetched.len() as u64;
                }
                Err(error) => {
                    errors.push(error);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            assert!(errors.len() < 200, "{kind}: {errors:?}");
        }
        let first = errors
            .first()
            .unwrap_or_else(|| panic!("{kind} never happened"));
        assert_eq!(first.kind(), error_kind, "{kind}: {first}");
        assert!(first.to_string().contains(expected), "{kind}: {first}");
        assert!(first.to_string().contains("core"), "{kind}: {first}");
        // It is not started again at once, and while it is not, the message is the same.
        assert!(errors.len() > 3, "{kind}: {errors:?}");
        assert!(
            errors
                .iter()
                .all(|error| error.to_string() == first.to_string())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_network_and_a_missing_program_are_refused() {
    let pond = Pond::new(44, 2);
    let settings = pond.core_settings("core", "passphrase = \"Another\"", PATIENCE);
    let core = CoreSource::new(settings.clone()).unwrap();
    let range = BlockRange::new(20, 40);
    let error = core.fetch(range, &want(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let phrase = pond.network().passphrase().to_owned();
    assert!(error.to_string().contains(&phrase), "{error}");
    // Its settings file is checked before it is started.
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

/// No caller waits for a ledger of a core that shows none, so no caller would notice that it stands still.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_falls_silent_while_it_follows_is_started_again() {
    let pond = Pond::new(51, 2);
    // Core begins after the checkpoint before ledger 100.
    let fault = "[[faults]]\nkind = \"stall\"\nafterFrames = 43\ncommand = \"run\"";
    let more = format!("head = 120\nledgerMs = 5\n{fault}");
    let core = patient_core(&pond, "core", &more, Duration::from_secs(2));
    let (mut next, mut errors) = (100, Vec::new());
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
            Err(error) => errors.push(error.to_string()),
        }
        (next > 150).then_some(())
    })
    .await;
    let is_silent = |error: &String| error.contains("no ledger came for 2 seconds");
    assert!(errors.iter().any(is_silent), "{errors:?}");
}

async fn joint(pond: &Pond, core: CoreSource) -> LakeAndCore {
    joint_at(pond, pond.lake_settings().place, core).await
}

async fn joint_at(pond: &Pond, place: LakePlace, core: CoreSource) -> LakeAndCore {
    let lake = LakeSettings {
        place,
        ..pond.lake_settings()
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
async fn core_continues_where_the_lake_ends() {
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

/// The lake received a request for its newest ledger before each ledger of core.
#[tokio::test(flavor = "multi_thread")]
async fn a_lake_receives_few_requests_while_core_continues() {
    let pond = Pond::new(57, 50);
    let server = FileServer::start(pond.lake.directory(), FileFaults::default());
    let server = server.await.unwrap();
    let core = core_in(&pond, "core", "head = 70\nledgerMs = 5");
    let source = joint_at(&pond, LakePlace::Http(server.url()), core).await;
    let mut next = 2 + follow(&source, &pond, 2, 75).await.len() as u64;
    let requests = || server.stats().requests.values().sum::<u64>();
    let before = requests();
    // Each requests the head of the chain at least once.
    for _ in 0..40 {
        next += follow(&source, &pond, next, next + 1).await.len() as u64;
    }
    let more = requests() - before;
    assert!(more < 40, "{more} requests");
    // What core has passed is requested from the lake, which may have it by now.
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

/// The first ledger may take longer than others, and the error says how long that was.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_core_is_reported_with_its_output() {
    let pond = Pond::new(55, 2);
    let fault = "[[faults]]\nkind = \"stall\"\ncommand = \"run\"";
    let more = format!("head = 120\n{fault}");
    let core = patient_core(&pond, "core", &more, Duration::from_secs(1));
    core.note_next(100);
    let error = until("the end of patience", async || {
        let error = core.heads().await.err()?.to_string();
        (!error.contains("catching up: no")).then_some(error)
    });
    let error = error.await;
    assert!(error.contains("no ledger came for 6 seconds"), "{error}");
    let output = "it said: [Ledger INFO] Changing state";
    assert!(error.contains(output), "{error}");
}

/// History was fetched one part at a time as soon as core followed the network.
#[tokio::test(flavor = "multi_thread")]
async fn history_of_the_lake_is_fetched_in_several_parts_at_once() {
    let pond = Pond::new(56, 50);
    let core = core_in(&pond, "core", "head = 70\nledgerMs = 5");
    let source = joint(&pond, core).await;
    assert_eq!(
        source.plan_at(100, &want()).at_once,
        1,
        "it is not known yet"
    );
    follow(&source, &pond, 2, 80).await;
    source.note_next(80);
    assert_eq!(source.plan(&want()).at_once, 1, "core has them in order");
    for (start, expected) in [(2, 4), (49, 4), (50, 1), (60, 1), (80, 1)] {
        let plan = source.plan_at(start, &want());
        assert_eq!(plan.at_once, expected, "from {start}: {plan:?}");
    }
    // A range that ends above the lake, as a node takes it.
    let range = BlockRange::new(2, 60);
    assert_made(&pond, &source.fetch(range, &want(), None).await.unwrap(), 2);
}

/// Without a lake, a range of ledgers comes by catching up, through a core that dies now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_comes_from_core_alone() {
    let pond = Pond::new(49, 2);
    let faults = "[[faults]]\nkind = \"die\"\nafterFrames = 9\ntimes = 2";
    let mut core = pond.core_settings("core", faults, Duration::from_secs(20));
    core.last_ledger = Some(79);
    let chain_id = pond.network().chain_id();
    let mut settings = FollowSettings::of_endpoints(chain_id, "sim", Vec::new());
    settings.start_block = 20;
    settings.mode = Mode::Backfill { end_block: 79 };
    settings.ranges.first = 2;
    settings.finality = Finality::Finalized;
    settings.level = Verification::Linked;
    settings.datasets = settings.datasets.with(Dataset::Transactions);
    settings.stellar = Some(StellarSettings {
        network: pond.network(),
        network_name: "sim".to_owned(),
        lake: None,
        core: Some(core),
    });
    let place = ArchiveLocation::Directory(pond.dir.path().join("archive"));
    let chain = Chain::open(settings.clone(), &place).await.unwrap();
    Box::pin(ingest::run(&chain)).await.unwrap();
    let archive = &chain.archive;
    assert_eq!(archive.health().head.map(|head| head.number), Some(79));
    for number in 20..80 {
        let made = pond.chain.ledger(number);
        let number = u64::from(number);
        let header = archive.payload(number, Dataset::Headers).await.unwrap();
        let bodies = archive.payload(number, Dataset::Transactions);
        let bodies = bodies.await.unwrap().bodies.unwrap();
        let bytes = join(&header.header.unwrap(), &bodies).unwrap();
        assert_eq!(bytes, made.raw, "ledger {number}");
        let clock = archive.block_by_number(number).await.unwrap();
        assert_eq!(clock.hash, made.hash, "ledger {number}");
    }
    let calls = pond.core_calls();
    let is_catchup = |call: &&String| call.contains(" catchup ");
    assert!(
        calls.iter().any(|call| call.contains("catchup 80/61")),
        "{calls:?}"
    );
    // It died twice, and was started again each time.
    assert!(calls.iter().filter(is_catchup).count() >= 3, "{calls:?}");
    let follows = |call: &String| call.contains(" run ");
    assert!(!calls.iter().any(follows), "it followed: {calls:?}");
    // A replica would need a core of its own.
    let replica = Chain::open_replica(settings, &place).await;
    let error = replica.err().unwrap().to_string();
    assert!(error.contains("its ledgers come from a core"), "{error}");
}
