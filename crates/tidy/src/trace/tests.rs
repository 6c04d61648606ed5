//! Made-up tables and requirements, each with one thing wrong.

use super::*;

const HEAD: &str = "# Table\n\n```text\nitems: 1=2 1b=1\n2.1=1\n```\n\n| item | asks | where | test \
    | status | why |\n|---|---|---|---|---|---|\n";
const OPEN: &str = "| 1-1 | a | open | open | open | |\n| 1-2 | b | open | open | open | |\n\
    | 1b-1 | c | open | open | open | |\n| 2.1-1 | d | open | open | open | |\n";

fn load(path: &str) -> Option<String> {
    match path {
        "crates/a/tests/b.rs" => Some("#[test]\nfn shows() {}\n// fn hides()\n".to_owned()),
        "crates/a/src/c/d.rs" => Some("async fn waits() {}\n".to_owned()),
        "crates/a/tests/s.sh" => Some(String::new()),
        _ => None,
    }
}

fn findings(rows: &str) -> Vec<String> {
    let file = TextFile::new("docs/dev/requirements/a.md", &format!("{HEAD}{rows}"));
    check(&file, &load)
        .into_iter()
        .map(|found| found.what)
        .collect()
}

#[track_caller]
fn refused(rows: &str, what: &str) {
    let found = findings(rows);
    assert!(
        found.iter().any(|found| found.contains(what)),
        "{what}: {found:?}"
    );
}

fn with_first(row: &str) -> String {
    OPEN.replace("| 1-1 | a | open | open | open | |", row)
}

#[test]
fn a_whole_table_passes() {
    assert_eq!(findings(OPEN), Vec::<String>::new());
    let extra = format!("{OPEN}| 2.1-text | prose | open | open | open | |\n");
    assert_eq!(findings(&extra), Vec::<String>::new());
}

#[test]
fn missing_double_and_unknown_items_are_refused() {
    refused(
        &OPEN.replace("| 1b-1 | c | open | open | open | |\n", ""),
        "1b-1 has no row",
    );
    refused(&format!("{OPEN}{OPEN}"), "1-1 stands here twice");
    refused(
        &format!("{OPEN}| 9-1 | x | open | open | open | |\n"),
        "9-1 is not among",
    );
    let unlisted = TextFile::new("a.md", OPEN);
    assert!(
        check(&unlisted, &load)
            .iter()
            .any(|found| found.what == "lists no items")
    );
}

#[test]
fn rows_of_the_wrong_shape_are_refused() {
    refused(&with_first("| 1-1 | a | open | open | |"), "columns");
    refused(
        &with_first("| 1-1 | a | open | open | soon | |"),
        "status `soon`",
    );
    refused(
        &with_first("| 1-1 | | open | open | open | |"),
        "says not what is asked",
    );
    refused(
        &with_first("| 1-1 | a | – | – | outside | |"),
        "nothing says why",
    );
}

#[test]
fn done_needs_a_place_and_tests_that_exist() {
    let done =
        |place: &str, tests: &str| with_first(&format!("| 1-1 | a | {place} | {tests} | done | |"));
    for test in [
        "`crates/a/tests/b.rs::shows`",
        "`a::b::shows`",
        "`chronolith-a::c::d::waits` `crates/a/tests/s.sh`",
    ] {
        assert_eq!(findings(&done("`x`", test)), Vec::<String>::new(), "{test}");
    }
    refused(&done("open", "`a::b::shows`"), "nothing says where");
    refused(&done("`x`", ""), "no test shows it");
    refused(
        &done("`x`", "`crates/a/tests/b.rs::gone`"),
        "no test `crates/a/tests/b.rs::gone`",
    );
    refused(&done("`x`", "`crates/a/tests/b.rs::show`"), "no test");
    refused(&done("`x`", "`crates/a/tests/b.rs::hides`"), "no test");
    refused(&done("`x`", "`crates/a/tests/gone.rs::shows`"), "no test");
    refused(&done("`x`", "`crates/a/tests/b.rs`"), "no test");
}

#[test]
fn a_requirement_is_read_by_section_and_list() {
    let text = "## 1. One\n\n1. a\n2. b\n\n### In\n\n1. c\n\n### 2.1 Two\ntext\n1. d\n   - e\n\
        ```\n1. f\n```\n";
    let expected = ["1-1", "1-2", "1b-1", "2.1-1"].map(str::to_owned);
    assert_eq!(required_items(text), BTreeSet::from(expected.clone()));
    let file = TextFile::new("a.md", &format!("{HEAD}{OPEN}"));
    assert_eq!(listed_items(&file), BTreeSet::from(expected));
}
