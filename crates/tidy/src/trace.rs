//! Every numbered line of a requirement has a row, and every row that says `done` can show it.
//!
//! A table in `docs/dev/requirements/` has one row an item: what it asks, where it is met, which test
//! shows it, its status, and what we do otherwise and why. The items are listed once more at the
//! top, by section, so that the table can be checked where the requirement itself is absent.

use std::collections::BTreeSet;

use crate::paths::backticked;
use crate::{Finding, TextFile};

/// How far a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// No code shows it yet.
    Open,
    Done,
    /// Not met here, and the last column says why.
    Outside,
}

/// One row of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Section and item, such as `7.1-3`; the second list of a section is `9.1b-1`.
    pub item: String,
    /// Its line in the document.
    pub line: usize,
    /// Where it is met.
    pub place: String,
    pub tests: Vec<String>,
    pub status: Status,
    /// What we do otherwise, and why.
    pub deviation: String,
}

/// Columns of a row.
const COLUMNS: usize = 6;

/// The rows of a document, and what is wrong with their shape.
#[must_use]
pub fn rows(file: &TextFile) -> (Vec<Row>, Vec<Finding>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    for (line, text) in file.lines() {
        let mut found = |what: String| findings.push(Finding::line(&file.path, line, what));
        let Some(cells) = cells(text) else { continue };
        let [item, asked, place, tests, status, deviation] = cells.as_slice() else {
            let count = cells.len();
            found(format!("a row has {COLUMNS} columns, this one {count}"));
            continue;
        };
        let status = match *status {
            "open" => Status::Open,
            "done" => Status::Done,
            "outside" => Status::Outside,
            other => {
                found(format!("status `{other}` is none of open, done, outside"));
                continue;
            }
        };
        if asked.is_empty() {
            found("says not what is asked".to_owned());
        }
        rows.push(Row {
            item: (*item).to_owned(),
            line,
            place: (*place).to_owned(),
            tests: backticked(tests).map(str::to_owned).collect(),
            status,
            deviation: (*deviation).to_owned(),
        });
    }
    (rows, findings)
}

/// The cells of a table's row whose first cell is an item.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let is_item = cells.first().is_some_and(|item| split_item(item).is_some());
    is_item.then_some(cells)
}

/// Section and item of an id such as `7.1-3` or `7.1-text`.
fn split_item(id: &str) -> Option<(&str, &str)> {
    let (section, item) = id.split_once('-')?;
    let mut characters = section.chars();
    let is_section = section.starts_with(|c: char| c.is_ascii_digit())
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '.');
    let is_number = !item.is_empty() && item.chars().all(|c| c.is_ascii_digit());
    (is_section && (is_number || item == "text")).then_some((section, item))
}

/// The items that the document says there are: words such as `9.1b=2` between `items:` and the
/// end of its code fence.
#[must_use]
pub fn listed_items(file: &TextFile) -> BTreeSet<String> {
    let after = file.text.split("\nitems:").nth(1).unwrap_or_default();
    let list = after.split("```").next().unwrap_or_default();
    let counted = list.split_whitespace().filter_map(|word| {
        let (section, count) = word.split_once('=')?;
        Some((section, count.parse::<usize>().ok()?))
    });
    let items = |(section, count)| (1..=count).map(move |item| format!("{section}-{item}"));
    counted.flat_map(items).collect()
}

/// The numbered lines of a requirement, as ids. Sections are its numbered headings; a list that
/// begins again at one inside a section gets the next letter. Lists outside of numbered headings
/// have no ids.
#[must_use]
pub fn required_items(requirement: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let (mut section, mut lists, mut fenced) = (String::new(), 0_u8, false);
    for line in requirement.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        if let Some(heading) = line.strip_prefix('#') {
            let title = heading.trim_start_matches('#').trim();
            let number = title.split(' ').next().unwrap_or_default();
            if number.starts_with(|c: char| c.is_ascii_digit()) {
                (section, lists) = (number.trim_end_matches(['.', ')']).to_owned(), 0);
            }
        } else if let Some(number) = leading_number(line).filter(|_| !section.is_empty()) {
            lists += u8::from(number == 1);
            let letter = match lists {
                0 | 1 => String::new(),
                more => char::from(b'a' + more - 1).to_string(),
            };
            items.insert(format!("{section}{letter}-{number}"));
        }
    }
    items
}

fn leading_number(line: &str) -> Option<usize> {
    line.split_once(". ")?.0.parse().ok()
}

/// Refuses missing, double and unknown items, rows without what their status asks for, and tests
/// that do not exist. `load` gives the text of a file by its path from the root.
#[must_use]
pub fn check(file: &TextFile, load: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let (rows, mut findings) = rows(file);
    let listed = listed_items(file);
    if listed.is_empty() {
        findings.push(Finding::whole(&file.path, "lists no items".to_owned()));
    }
    let mut seen = BTreeSet::new();
    for row in &rows {
        let mut found = |what: String| findings.push(Finding::line(&file.path, row.line, what));
        if !seen.insert(row.item.clone()) {
            found(format!("{} stands here twice", row.item));
        }
        if !row.item.ends_with("-text") && !listed.contains(&row.item) {
            found(format!("{} is not among the listed items", row.item));
        }
        for what in faults_of(row, load) {
            found(what);
        }
    }
    for missing in listed.difference(&seen) {
        findings.push(Finding::whole(&file.path, format!("{missing} has no row")));
    }
    findings
}

fn faults_of(row: &Row, load: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    match row.status {
        Status::Open => Vec::new(),
        Status::Outside if row.deviation.is_empty() => {
            vec![format!("{} is outside, and nothing says why", row.item)]
        }
        Status::Outside => Vec::new(),
        Status::Done => {
            let mut faults = Vec::new();
            if row.place.is_empty() || row.place == "open" {
                faults.push(format!("{} is done, and nothing says where", row.item));
            }
            if row.tests.is_empty() {
                faults.push(format!("{} is done, and no test shows it", row.item));
            }
            let missing = row.tests.iter().filter(|test| !test_exists(test, load));
            faults.extend(missing.map(|test| format!("{}: no test `{test}`", row.item)));
            faults
        }
    }
}

/// Whether a test exists. It is named `crates/x/tests/file.rs::name`, `crates/x/src/a/b.rs::name`
/// or `x::file::name`; a script is named by its path alone.
fn test_exists(test: &str, load: &dyn Fn(&str) -> Option<String>) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else {
        return !test.ends_with(".rs") && load(test).is_some();
    };
    let files = match place.ends_with(".rs") {
        true => vec![place.to_owned()],
        false => candidates(place),
    };
    let mut texts = files.iter().filter_map(|file| load(file));
    texts.any(|text| has_function(&text, name))
}

fn candidates(place: &str) -> Vec<String> {
    let (folder, modules) = place.split_once("::").unwrap_or((place, "lib"));
    let folder = folder
        .trim_start_matches("chronolith-")
        .trim_start_matches("chronolith_");
    let module = modules.replace("::", "/");
    ["tests/{}.rs", "src/{}.rs", "src/{}/tests.rs"]
        .iter()
        .map(|form| format!("crates/{folder}/{}", form.replace("{}", &module)))
        .collect()
}

fn has_function(text: &str, name: &str) -> bool {
    let declaration = format!("fn {name}");
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default();
        code.split_once(&declaration)
            .is_some_and(|(_, after)| after.starts_with(['(', '<']))
    })
}

#[cfg(test)]
mod tests;
