//! `chronolith demo` as a newcomer sees it: what happens is told, and what it suggests works as
//! pasted, while it runs and after it ended.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long all of it may take to have been seen.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a pasted line answers.
fn paste(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn everything_worth_seeing_is_seen_and_the_questions_have_answers() {
    let dir = tempfile::tempdir().unwrap();
    // A space in the path: pasted lines must survive it.
    let data = dir.path().join("my data");
    let mut child = Command::new(env!("CARGO_BIN_EXE_chronolith"))
        .arg("demo")
        .arg("--data-dir")
        .arg(&data)
        .env_remove("DATA_DIR")
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut message, mut answers) = (Vec::new(), Vec::new());
    let wanted = [
        "steady  history: all",
        "hasty   history: all",
        "reorg: ",
        "upgrade: contract ",
        " is final",
        "heads   steady ",
    ];
    let all = |message: &[String]| {
        let seen = |what: &&str| message.iter().any(|line| line.contains(*what));
        wanted.iter().all(seen)
    };
    while !all(&message) || answers.len() < 4 {
        assert!(began.elapsed() < PATIENCE, "not seen: {message:#?}");
        let line = lines.next().unwrap().unwrap();
        if line.contains(" -c ") && !line.contains("psql") {
            answers.push((line.clone(), paste(&line)));
        }
        message.push(line);
    }
    assert!(
        answers[0].1.contains("5 logs in blocks 0 to"),
        "{answers:?}"
    );
    assert!(answers[1].1.contains("1000"), "{answers:?}");
    assert!(answers[2].1.contains("fees "), "{answers:?}");
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "noise");
    let rest = rest.join("\n");
    assert!(
        rest.contains("The archives are kept") && rest.contains(" followed"),
        "{rest}"
    );
    // The rows' database is gone, and it was said so.
    assert!(
        rest.contains("rows confirmed") && rest.contains("goes away"),
        "{rest}"
    );
    let kept = answers
        .iter()
        .filter(|(line, _)| !line.contains(" projection "));
    for (line, _) in kept {
        paste(line);
    }
}
