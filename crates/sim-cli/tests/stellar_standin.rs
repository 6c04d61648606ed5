//! `chronolith-sim stellar-core` and `chronolith-sim stellar-lake` as other programs see them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output};

use chronolith_sim::stellar::{Lake, LakeLayout, LakeSuffix, StellarChain, StellarSettings};
use serde_json::Value;
use tempfile::TempDir;

const CONF: &str = "DATABASE = \"sqlite3://stellar.db\"\nseed = 3\nhead = 25\nledgerMs = 1\n";

/// A working directory of the stand-in.
struct Place(TempDir);

impl Place {
    fn new(conf: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path().join("core.toml"), conf).unwrap();
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith-sim"));
        command.args(["stellar-core", "--conf", "core.toml", "--console"]);
        command.args(words).current_dir(self.path());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn lcl(&self) -> (u64, String) {
        let info: Value = serde_json::from_str(&self.done(&["offline-info"])).unwrap();
        let ledger = &info["info"]["ledger"];
        let hash = ledger["hash"].as_str().unwrap().to_owned();
        (ledger["num"].as_u64().unwrap(), hash)
    }

    /// Starts a command that writes into a pipe, and opens the other end.
    fn stream(&self, words: &[&str]) -> (Child, File) {
        let pipe = self.path().join("pipe");
        if !pipe.exists() {
            let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
            assert!(made.success());
        }
        let mut command = self.command(words);
        command.args(["--metadata-output-stream", pipe.to_str().unwrap()]);
        let child = command.spawn().unwrap();
        (child, File::open(&pipe).unwrap())
    }
}

/// The next frame; none at the end of the stream.
fn frame(stream: &mut File) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mark = u32::from_be_bytes(mark);
    assert_ne!(mark >> 31, 0, "a whole record in each frame");
    let mut frame = vec![0; (mark & 0x7fff_ffff) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn chain() -> StellarChain {
    StellarChain::new(StellarSettings::new(3))
}

#[test]
fn the_stand_in_catches_up_and_then_follows() {
    let place = Place::new(CONF);
    let version = place.done(&["version"]);
    assert!(version.contains("ledger protocol version: 23"), "{version}");
    assert!(!place.output(&["offline-info"]).status.success());
    place.done(&["new-db"]);
    assert_eq!(place.lcl().0, 1);

    let chain = chain();
    let (mut child, mut stream) = place.stream(&["catchup", "20/5"]);
    for sequence in 16..=20 {
        assert_eq!(frame(&mut stream).unwrap(), chain.ledger(sequence).raw);
    }
    assert_eq!(frame(&mut stream), None);
    // A pipe that anybody still reads is not broken for whoever writes it next.
    drop(stream);
    assert!(child.wait().unwrap().success());
    let hash = chain.ledger(20).hash.to_string();
    assert_eq!(place.lcl(), (20, hash.trim_start_matches("0x").to_owned()));

    // Up to the head at once, then one after another, for as long as somebody reads.
    let (mut child, mut stream) = place.stream(&["run"]);
    for sequence in 21..=30 {
        assert_eq!(frame(&mut stream).unwrap(), chain.ledger(sequence).raw);
    }
    drop(stream);
    assert!(!child.wait().unwrap().success(), "nobody reads it");
    assert!(place.lcl().0 >= 29);

    // Without a replay the next one is the first that is written.
    place.done(&["new-db"]);
    place.done(&["catchup", "40/0"]);
    let (mut child, mut stream) = place.stream(&["run"]);
    assert_eq!(frame(&mut stream).unwrap(), chain.ledger(41).raw);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_descriptor_is_as_good_as_a_pipe() {
    let place = Place::new(CONF);
    place.done(&["new-db"]);
    let program = env!("CARGO_BIN_EXE_chronolith-sim");
    let words = "stellar-core catchup 9/3 --metadata-output-stream fd:3 --conf core.toml";
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec '{program}' {words} 3>frames")]);
    let done = shell.current_dir(place.path()).status().unwrap();
    assert!(done.success());
    let mut frames = File::open(place.path().join("frames")).unwrap();
    for sequence in 7..=9 {
        assert_eq!(frame(&mut frames).unwrap(), chain().ledger(sequence).raw);
    }
    assert_eq!(frame(&mut frames), None);
}

#[test]
fn a_fault_strikes_as_often_as_it_should() {
    let fault = "[[faults]]\nkind = \"half_frame\"\nafterFrames = 2\ncommand = \"run\"\n";
    let place = Place::new(&format!("{CONF}{fault}"));
    place.done(&["new-db"]);
    let (mut child, mut stream) = place.stream(&["run"]);
    let chain = chain();
    for sequence in 2..=3 {
        assert_eq!(frame(&mut stream).unwrap(), chain.ledger(sequence).raw);
    }
    assert_eq!(frame(&mut stream), None, "half of it is no frame");
    assert!(!child.wait().unwrap().success());
    assert_eq!(place.lcl().0, 3);
    let (mut child, mut stream) = place.stream(&["run"]);
    for sequence in 4..=9 {
        assert_eq!(frame(&mut stream).unwrap(), chain.ledger(sequence).raw);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_not_understood_is_refused_with_a_reason() {
    let place = Place::new("sead = 3\n");
    for (words, reason) in [
        (&["new-db"][..], "sead"),
        (&["catchup", "40"], "TO/COUNT"),
        (&["dance"], "dance"),
    ] {
        let output = place.output(words);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && message.contains(reason),
            "{message}"
        );
    }
}

#[test]
fn a_lake_and_core_show_one_chain() {
    let place = Place::new(CONF);
    let lake = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith-sim"));
        command.args(["stellar-lake", "--out", "lake"]).args(words);
        let output = command.current_dir(place.path()).output().unwrap();
        let message = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(message).unwrap())
    };
    let words = [
        "--conf",
        "core.toml",
        "--ledgers",
        "2..30",
        "--ledgers-per-file",
        "8",
    ];
    let more = ["--files-per-partition", "2", "--suffix", "zstd"];
    let (done, message) = lake(&[&words[..], &more].concat());
    assert!(done && message.contains("ledgers   2..32"), "{message}");
    let layout = LakeLayout {
        ledgers_per_file: 8,
        files_per_partition: 2,
        suffix: LakeSuffix::Zstd,
    };
    let expected = tempfile::tempdir().unwrap();
    let expected = Lake::new(expected.path(), layout);
    expected.write(&chain(), 2..30).unwrap();
    for sequence in [2, 8, 16, 31] {
        let written = place.path().join("lake").join(layout.key(sequence));
        let file = std::fs::read(expected.path(sequence)).unwrap();
        assert_eq!(std::fs::read(written).unwrap(), file);
    }
    let manifest = std::fs::read_to_string(place.path().join("lake/.config.json")).unwrap();
    assert_eq!(manifest, layout.manifest(&chain().settings().passphrase));
    for (words, reason) in [
        (["--ledgers", "9..9"], "no ledgers"),
        (["--ledgers", "all"], "A..B"),
    ] {
        let (done, message) = lake(&words);
        assert!(!done && message.contains(reason), "{message}");
    }
}
