//! Progress is a line that is drawn over on a terminal, and log lines elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::Duration;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::{Bench, DEPTH_5, serve};

/// What a command writes to a terminal that is its standard error.
fn on_a_terminal(bench: &Bench, words: &[&str]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = OsStr::from_bytes(name.as_bytes());
    let end = File::options().read(true).write(true).open(path).unwrap();
    let mut child = bench
        .command(words)
        .stdout(Stdio::null())
        .stderr(end)
        .spawn()
        .unwrap();
    let mut terminal = File::from(terminal);
    let (mut shown, mut part) = (Vec::new(), [0; 4_096]);
    // When nobody has the other end any more, reading is an error.
    while let Ok(len @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..len]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_a_line_and_a_pipe_none() {
    let node = EvmNode::new(EvmSpec::tiny(21), 600);
    let quick = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[quick.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    // Every answer takes longer than it takes to draw a line again.
    let options = RpcOptions {
        delay: Duration::from_millis(110),
        ..RpcOptions::default()
    };
    let slow = serve(&node, options).await;
    bench.change(&quick.url(), &slow.url());
    let words = ["verify", "--against-source"];
    let shown = on_a_terminal(&bench, &words);
    let lines: Vec<&str> = shown.split("\r\u{1b}[2K").collect();
    let drawn = lines
        .iter()
        .filter(|line| line.starts_with("sim: comparing ["));
    let drawn: Vec<_> = drawn.collect();
    assert!(drawn.len() > 1, "{shown:?}");
    assert!(drawn[0].contains("250 of 596 blocks"), "{drawn:?}");
    assert!(
        shown.ends_with("\r\u{1b}[2K"),
        "the line was left: {shown:?}"
    );
    let piped = bench.output(&words);
    let message = String::from_utf8(piped.stderr).unwrap();
    assert!(
        piped.status.success() && !message.contains('\u{1b}'),
        "{message}"
    );
}
