//! What the pages for operators and readers tell people to type and to look at exists.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;

const README: &str = include_str!("../../../README.md");
const DEPLOYMENT: &str = include_str!("../../../docs/deployment.md");
const SCHEMA: &str = include_str!("../../../docs/schema.md");
const DOCKERFILE: &str = include_str!("../../../Dockerfile");
const UNIT: &str = include_str!("../../../ops/systemd/chronolith.service");
const RUNBOOKS: &str = include_str!("../../../docs/runbooks.md");
const CREDENTIALS: &str = include_str!("../../../docs/credentials.md");
const METRICS: &str = include_str!("../../../docs/metrics.md");
const OPERATIONS: &str = include_str!("../../../ops/README.md");

/// Lines of the README.
const README_LINES_MAX: usize = 150;

/// Every command of a page: lines in fences, and words in backticks.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in page.lines() {
        let fenced = line.trim_start().strip_prefix("chronolith ");
        let quoted = line.split('`').skip(1).step_by(2);
        let quoted = quoted.filter_map(|word| word.strip_prefix("chronolith "));
        found.extend(fenced.into_iter().chain(quoted).map(str::to_owned));
    }
    found
}

fn help(words: &[&str]) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let output = command.args(words).arg("--help").output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(message)
}

/// Why a command of a page cannot be typed.
fn wrong(command: &str) -> Option<String> {
    // What stands between quotes is people's own words.
    let unquoted: String = command.split('"').step_by(2).collect();
    let words: Vec<&str> = unquoted.split_whitespace().collect();
    let values = [
        "--address",
        "--admin-url",
        "--chain",
        "--config",
        "--data-dir",
        "--from",
        "--implementation",
        "--limit",
        "--metrics-port",
        "--month",
        "--port",
        "--reason",
        "--to",
        "--type",
        "--version",
    ];
    let mut verbs: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_value = at > 0 && values.contains(&words[at - 1]);
        let is_number = word.bytes().all(|sign| sign.is_ascii_digit());
        if !word.starts_with(['-', '/']) && !is_value && !is_number {
            verbs.push(word);
        }
    }
    let Some(help) = help(&verbs) else {
        return Some(format!("there is no command {verbs:?}"));
    };
    // A command group shows itself where a name below it is wrong.
    let used = format!("Usage: chronolith {}", verbs.join(" "));
    if !help.contains(&used) {
        return Some(format!("no `{used}` in its help"));
    }
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let mut unknown = flags.filter(|flag| !help.contains(**flag));
    unknown.next().map(|flag| format!("there is no {flag}"))
}

/// The image is on the first screen of who opens the repository: below the heading and one paragraph.
#[test]
fn the_readme_is_short_and_shows_the_console_first() {
    let third = README.split("\n\n").nth(2).unwrap();
    assert!(third.starts_with("[![The console"), "{third}");
    assert!(third.contains("(docs/images/console.png)"), "{third}");
    let lines = README.lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines");
}

/// Each file of settings in the folder of examples can be copied and checked as it is.
#[test]
fn every_example_is_accepted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut checked = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
        let command = command.args(["config", "check", "--config"]).arg(&path);
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {message}", path.display());
        checked.insert(path.file_name().unwrap().to_owned());
    }
    let names = ["adfs.json", "chronolith.json", "chronolith.toml"];
    assert_eq!(checked, BTreeSet::from(names.map(OsString::from)));
}

#[test]
fn every_command_of_the_runbooks_can_be_typed() {
    let commands = [RUNBOOKS, CREDENTIALS].map(commands).concat();
    assert!(commands.len() > 12, "{commands:?}");
    for command in &commands {
        assert_eq!(wrong(command), None, "chronolith {command}");
    }
    for bad in [
        "mend --chain base",
        "gc --hard",
        "config mend",
        "rewind --until 5",
    ] {
        assert!(wrong(bad).is_some(), "chronolith {bad} was let through");
    }
}

#[test]
fn every_metric_of_the_runbooks_is_listed() {
    let words = [RUNBOOKS, CREDENTIALS].map(|page| page.split('`').skip(1).step_by(2));
    let named: Vec<&str> = words
        .into_iter()
        .flatten()
        .filter(|word| word.starts_with("chronolith_") || word.starts_with("adfs_indexer_"))
        .collect();
    assert!(named.len() > 12, "{named:?}");
    for name in named {
        let row = format!("| `{name}` |");
        assert!(
            METRICS.contains(&row) || OPERATIONS.contains(&row),
            "{name}"
        );
    }
}

/// Commands of the page, of the unit and of the container; those that run inside one too.
#[test]
fn every_command_of_a_deployment_can_be_typed() {
    let of_page = DEPLOYMENT.replace("docker exec chronolith ", "");
    let mut commands = commands(&of_page);
    assert!(commands.len() > 12, "{commands:?}");
    let started = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let started = started.unwrap().split_once("/chronolith ").unwrap().1;
    let quoted = |line: &str| {
        let words = line.split('"').skip(1).step_by(2);
        words.collect::<Vec<_>>().join(" ")
    };
    let by_default = DOCKERFILE.lines().find(|line| line.starts_with("CMD "));
    commands.extend([started.to_owned(), quoted(by_default.unwrap())]);
    for command in &commands {
        assert_eq!(wrong(command), None, "chronolith {command}");
    }
    assert!(commands.iter().filter(|one| one.starts_with("run")).count() > 2);
}

/// What follows these words at the beginning of a line of the Dockerfile.
fn instructions(start: &str) -> Vec<&'static str> {
    let lines = DOCKERFILE.lines();
    lines.filter_map(|line| line.strip_prefix(start)).collect()
}

/// The image begins empty, with nothing that could run but the program, which has no demo.
#[test]
fn the_container_has_only_what_the_page_says() {
    assert_eq!(
        instructions("FROM "),
        ["${BUILD_IMAGE} AS build", "scratch"]
    );
    let build = instructions("ARG BUILD_IMAGE=");
    let [build] = build.as_slice() else {
        panic!("one image builds the program, not {build:?}");
    };
    // An exact version, from where the machine gets its images.
    let (name, tag) = build.split_once(':').unwrap();
    let version: Vec<&str> = tag.split('-').next().unwrap().split('.').collect();
    assert!(!name.contains(['.', '/']), "{build}");
    assert_eq!(version.len(), 3, "{build}");
    assert!(DEPLOYMENT.contains(build), "the page pins another image");
    assert!(DOCKERFILE.contains("-p chronolith-node --no-default-features "));
    assert!(DEPLOYMENT.contains("every command except `chronolith demo`"));
    assert!(DEPLOYMENT.contains("no shell, no package manager"));
    // There is no shell that would split words, and `docker exec chronolith chronolith` finds the program.
    let program = r#"["/usr/local/bin/chronolith"]"#;
    assert_eq!(instructions("ENTRYPOINT "), [program]);
    assert_eq!(instructions("ENV PATH="), ["/usr/local/bin"]);
}

/// The image is made in two steps, runs as somebody without rights, and shows the ports of the page.
#[test]
fn the_container_is_as_the_page_says() {
    let words = instructions;
    assert_eq!(words("FROM ").len(), 2);
    let user = words("USER ");
    assert_eq!(user, ["10001:10001"]);
    assert!(DEPLOYMENT.contains("runs as user 10001"));
    assert_eq!(words("ENV DATA_DIR="), words("VOLUME "));
    for port in words("EXPOSE ").iter().flat_map(|ports| ports.split(' ')) {
        assert!(DEPLOYMENT.contains(&format!("| {port} |")), "{port}");
    }
    assert!(UNIT.lines().any(|line| line == "User=chronolith"));
}

/// Tables and views that the migrations make.
fn relations() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../projection/migrations");
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let line = line
                .replace("OR REPLACE ", "")
                .replace("IF NOT EXISTS ", "");
            let kinds = ["CREATE TABLE ", "CREATE VIEW ", "CREATE MATERIALIZED VIEW "];
            let made = kinds.iter().find_map(|kind| line.strip_prefix(kind));
            let name = made.and_then(|rest| rest.split([' ', '(']).next());
            found.extend(name.map(str::to_owned));
        }
    }
    found
}

#[test]
fn the_schema_page_names_every_table_and_view_and_draws_no_other() {
    let relations = relations();
    assert!(relations.len() > 25, "{relations:?}");
    let unnamed = relations
        .iter()
        .filter(|name| !SCHEMA.contains(&format!("`{name}`")));
    assert_eq!(unnamed.collect::<Vec<_>>(), Vec::<&String>::new());
    let drawn = SCHEMA.split("```mermaid\nerDiagram\n").skip(1);
    let drawn = drawn.filter_map(|rest| rest.split("```").next());
    let mut boxes = BTreeSet::new();
    for line in drawn.flat_map(str::lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [one, link, other, ":", ..] if link.contains("--") => boxes.extend([*one, *other]),
            [one, "{"] => drop(boxes.insert(*one)),
            // A column, or the end of a box.
            _ => assert!(line.starts_with("        ") || line.trim() == "}" || line.is_empty()),
        }
    }
    let unknown = boxes.iter().filter(|name| !relations.contains(**name));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(boxes.len() > 25, "{boxes:?}");
}

/// Log lines that the runbooks quote are said somewhere in the program.
#[test]
fn every_quoted_log_line_exists() {
    let sources = [
        include_str!("../../follower/src/ingest.rs"),
        include_str!("../../follower/src/maintenance.rs"),
        include_str!("../../follower/src/walk.rs"),
        include_str!("../../source/src/health.rs"),
        include_str!("../../source/src/error.rs"),
        include_str!("../../archive/src/error.rs"),
        include_str!("../../archive/src/write/append.rs"),
        include_str!("../../finality/src/fault.rs"),
    ];
    let page = RUNBOOKS.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "ingest stopped, still serving",
        "a finalized block was replaced",
        "endpoint contradicts itself or others",
        "ingest failing, retrying",
        "every endpoint failed",
        "no finalized block was reported so far",
        "no recent observation of L1",
        "a reported block is not on our chain",
        "the blocks that wait for finality fill the memory for them: no new block is accepted",
        "too many blocks wait for finality",
        "store failed to",
        "ingest is throttled",
        "garbage was not collected",
        "ingest needs an object that is damaged",
        "stored object is damaged",
    ] {
        assert!(page.contains(line), "the page does not quote: {line}");
        assert!(
            sources.iter().any(|text| text.contains(line)),
            "nobody says: {line}"
        );
    }
}
