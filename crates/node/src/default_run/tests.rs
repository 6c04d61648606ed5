//! Directories that a run without a settings file may go on in, and those that it may not.

use std::path::PathBuf;

use chronolith_archive::Provenance;
use chronolith_model::{Block, BlockMeta, Hash32, Payload};
use chronolith_source::CHAINS;
use clap::Parser as _;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::cli::Cli;

/// Settings of a run without a settings file, into a directory.
fn known_chains(dir: &Path) -> Settings {
    let chains = CHAINS.iter();
    let chains = chains.map(|chain| json!({ "name": chain.name, "datasets": ["clock"] }));
    let text = json!({ "chains": chains.collect::<Vec<_>>() }).to_string();
    let mut settings = Settings::parse(&text, false).unwrap();
    settings.data_dir = dir.to_owned();
    settings.origin = Origin::KnownChains;
    settings
}

/// The same out of a file.
fn of_file(dir: &Path) -> Settings {
    Settings {
        origin: Origin::File(PathBuf::from("chronolith.json")),
        ..known_chains(dir)
    }
}

#[track_caller]
fn assert_refused(done: Result<()>, words: &str) {
    let error = format!("{:#}", done.unwrap_err());
    assert!(error.starts_with("no settings file is here"), "{error}");
    assert!(error.contains(words), "{error} without {words}");
    assert!(error.contains("--config"), "{error}");
}

#[tokio::test]
async fn a_run_without_a_file_goes_on_in_its_own_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new").join("data");
    let settings = known_chains(&data);
    // Nothing is there yet that a command could be about.
    for what in [Use::Archives, Use::Change] {
        assert_refused(admit(what, &settings).await, "no archive is in");
        assert!(!data.exists(), "{what:?}");
    }
    admit(Use::Run, &settings).await.unwrap();
    assert!(data.join(FILE).exists());
    for what in [Use::Run, Use::Archives, Use::Change] {
        admit(what, &settings).await.unwrap();
    }
    assert_refused(admit(Use::Projections, &settings).await, "projects nothing");
    // A restore of one of its chains was interrupted.
    for name in ["143", "8453.restoring"] {
        fs::create_dir_all(data.join("chains").join(name)).unwrap();
    }
    admit(Use::Run, &settings).await.unwrap();
    fs::create_dir_all(data.join("chains/31337")).unwrap();
    for what in [Use::Run, Use::Archives, Use::Change] {
        assert_refused(admit(what, &settings).await, "(chains 31337)");
    }
    fs::remove_dir(data.join("chains/31337")).unwrap();
    // A chain that became known later is new there.
    let mut earlier = Note::of(&settings);
    earlier.chains.remove(&1);
    earlier.write(&data).unwrap();
    admit(Use::Run, &settings).await.unwrap();
    assert_eq!(Note::read(&data).unwrap(), Some(Note::of(&settings)));
    let other = Note {
        datasets: vec!["clock".to_owned(), "logs".to_owned()],
        ..Note::of(&settings)
    };
    other.write(&data).unwrap();
    assert_refused(admit(Use::Run, &settings).await, "(it keeps clock, logs)");
    fs::write(data.join(FILE), "{").unwrap();
    let error = format!("{:#}", admit(Use::Run, &settings).await.unwrap_err());
    assert!(error.contains("is damaged"), "{error}");
}

#[tokio::test]
async fn whatever_changes_archives_by_a_file_takes_the_note_away() {
    for (what, stays) in [
        (Use::Run, false),
        (Use::Change, false),
        (Use::Archives, true),
        (Use::Projections, true),
        (Use::Other, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (default, file) = (known_chains(dir.path()), of_file(dir.path()));
        // Where there is none, nothing is missing.
        admit(what, &file).await.unwrap();
        assert!(!dir.path().join(FILE).exists());
        admit(Use::Run, &default).await.unwrap();
        fs::create_dir_all(dir.path().join("chains/143")).unwrap();
        admit(what, &file).await.unwrap();
        assert_eq!(dir.path().join(FILE).exists(), stays, "{what:?}");
        let again = admit(Use::Run, &default).await;
        match stays {
            true => again.unwrap(),
            false => assert_refused(again, "(chains 143)"),
        }
    }
}

/// With `archiveUrl`, the data directory has notes of every chain and no archive.
#[tokio::test]
async fn notes_of_archives_elsewhere_are_not_taken_for_empty_archives() {
    let dir = tempfile::tempdir().unwrap();
    for chain in CHAINS {
        let id = chain.chain_id.to_string();
        let notes = dir.path().join("chains").join(id);
        fs::create_dir_all(&notes).unwrap();
        fs::write(notes.join("run"), "{}").unwrap();
    }
    let settings = known_chains(dir.path());
    assert_refused(admit(Use::Run, &settings).await, "is elsewhere)");
    assert!(!dir.path().join(FILE).exists());
}

/// How one archive of a directory differs from those of a run without a settings file.
struct Made {
    first: u64,
    proof: Proof,
    datasets: DatasetSet,
    scope: Scope,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            first: 0,
            proof: Proof::CLAIMED,
            datasets: DatasetSet::CLOCK,
            scope: Scope::All,
        }
    }
}

/// Archives of all known chains without a note, with blocks in the first of them.
async fn unnoted(made: &Made) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let settings = known_chains(dir.path());
    for (at, chain) in settings.chains.iter().enumerate() {
        let mut follow = chain.follow.clone();
        if at == 0 {
            follow.start_block = made.first;
            follow.datasets = made.datasets;
            follow.scope = made.scope.clone();
        }
        let opened = Chain::open(follow, &settings.place(chain)).await.unwrap();
        if at == 0 {
            let provenance = Provenance {
                proof: made.proof,
                ..Provenance::default()
            };
            let blocks: Vec<Block> = (made.first..made.first + 3).map(block).collect();
            let ingested = opened.archive.ingest_finalized_blocks(blocks, &provenance);
            ingested.await.unwrap();
        }
    }
    dir
}

fn block(number: u64) -> Block {
    let hash = |number: u64| Hash32([u8::try_from(number).unwrap() + 1; 32]);
    Block {
        clock: BlockMeta {
            number,
            hash: hash(number),
            parent_hash: number.checked_sub(1).map(hash).unwrap_or_default(),
            timestamp: 1_700_000_000 + number,
        },
        txs: Vec::new(),
        logs: Vec::new(),
        payload: Payload::default(),
    }
}

/// Earlier versions left no note; what they made goes on where the archives can be of nothing else.
#[tokio::test]
async fn archives_without_a_note_are_told_by_what_they_have() {
    let dir = unnoted(&Made::default()).await;
    let settings = known_chains(dir.path());
    admit(Use::Archives, &settings).await.unwrap();
    assert!(!dir.path().join(FILE).exists(), "it was only looked at");
    admit(Use::Run, &settings).await.unwrap();
    assert!(dir.path().join(FILE).exists());
    // One of the chains is not there: no run without a file leaves that.
    fs::remove_file(dir.path().join(FILE)).unwrap();
    fs::remove_dir_all(dir.path().join("chains/143")).unwrap();
    assert_refused(admit(Use::Run, &settings).await, "(chains 1, 10, ");
    let narrow = Scope::only(vec![chronolith_model::ScopeEntry {
        emitter: Some(bytes::Bytes::from_static(&[7; 20])),
        topic0: None,
    }]);
    let logs = DatasetSet::of(&[Dataset::Logs]);
    for made in [
        Made {
            first: 5,
            ..Made::default()
        },
        Made {
            proof: Proof::LINKED,
            ..Made::default()
        },
        Made {
            datasets: logs,
            ..Made::default()
        },
        Made {
            datasets: logs,
            scope: narrow,
            ..Made::default()
        },
    ] {
        let dir = unnoted(&made).await;
        let settings = known_chains(dir.path());
        for what in [Use::Run, Use::Archives, Use::Change] {
            assert_refused(admit(what, &settings).await, "(chains 1)");
        }
        assert!(!dir.path().join(FILE).exists());
    }
}

/// A command that is forgotten would be about whatever archives are there.
#[test]
fn every_command_is_about_something() {
    for (words, expected) in [
        ("run", Use::Run),
        ("serve", Use::Archives),
        ("state", Use::Archives),
        ("verify", Use::Archives),
        ("rewind --to 5 --reason why", Use::Archives),
        ("gc", Use::Archives),
        ("backup there", Use::Archives),
        ("restore there", Use::Other),
        ("repair", Use::Change),
        ("backfill --from 1 --to 2", Use::Change),
        ("archive rebuild-state", Use::Change),
        ("db status", Use::Other),
        ("work", Use::Projections),
        ("projection state", Use::Projections),
        ("jobs list", Use::Projections),
        ("locks list", Use::Projections),
    ] {
        let words = ["chronolith"].into_iter().chain(words.split(' '));
        let cli = Cli::parse_from(words);
        assert_eq!(Use::of(&cli.command), expected, "{:?}", cli.command);
    }
}
