//! The commands of `chronolith-sim` and their document agree.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::process::Command;

const DOCUMENT: &str = include_str!("../../../docs/cli.md");

fn help(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith-sim"));
    let output = command.args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_is_in_the_document_with_an_example_that_it_takes() {
    let shown = help(&[]);
    let (_, list) = shown.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut commands: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    let headings = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("### `chronolith-sim "));
    let mut documented: Vec<&str> = headings.map(|name| name.trim_end_matches('`')).collect();
    commands.sort_unstable();
    documented.sort_unstable();
    assert_eq!(commands, documented);
    for name in commands {
        let start = format!("\nchronolith-sim {name} ");
        let at = DOCUMENT.find(&start).unwrap();
        let example = DOCUMENT[at + 1..].lines().next().unwrap();
        let shown = help(&[name]);
        // What stellar-core takes is in the text of its help.
        for flag in example
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            assert!(shown.contains(flag), "{name} has no {flag}");
        }
    }
}
