//! Marks of unfinished work, and code that must not be committed.
//!
//! The lists are spelled in pieces so that this file may be checked like any other.

use crate::{Finding, TextFile};

/// Marks of unfinished work; the first is allowed with an issue number after it.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Code that must not be there.
const FORBIDDEN_CODE: &[(&str, &str)] = &[
    (
        concat!("#[ig", "nore"),
        "a test that does not run proves nothing",
    ),
    (
        concat!(", ig", "nore)]"),
        "a test that does not run proves nothing",
    ),
    (
        concat!("```ig", "nore"),
        "examples compile; use `no_run` where they cannot run",
    ),
    (concat!("unimpl", "emented!"), "write it or leave it out"),
    (concat!("to", "do!("), "write it or leave it out"),
    (concat!("db", "g!("), "use `tracing`"),
];

/// Checks one file against every list that applies to it.
#[must_use]
pub fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_rust = file.has_extension("rs");
    let mut fenced = false;
    for (at, line) in file.lines() {
        let mut found = |what: String| findings.push(Finding::line(&file.path, at, what));
        fenced ^= line.trim_start().starts_with("```");
        // Prose may name a mark in backticks to speak about it.
        let prose = if file.has_extension("md") {
            outside_backticks(if fenced { "" } else { line })
        } else {
            line.to_owned()
        };
        for mark in UNFINISHED.iter().filter(|mark| is_unfinished(&prose, mark)) {
            found(format!(
                "`{mark}`: finish it, or name the issue as `(#12)` where that is allowed"
            ));
        }
        let is_forbidden = |(code, _): &&(&str, &str)| is_rust && line.contains(code);
        for (code, why) in FORBIDDEN_CODE.iter().filter(is_forbidden) {
            found(format!("`{code}`: {why}"));
        }
    }
    findings
}

fn is_unfinished(line: &str, mark: &str) -> bool {
    let first = UNFINISHED.first() == Some(&mark);
    occurrences(line, mark).any(|after| {
        let number = after.trim_start_matches([' ', '(']).strip_prefix('#');
        let named = number.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        !(first && named)
    })
}

/// What follows each place where `word` stands by itself.
fn occurrences<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word).filter_map(move |(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.get(word.len()..)?;
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        (!before.ends_with(joins) && !after.starts_with(joins)).then_some(after)
    })
}

fn outside_backticks(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&TextFile::new(path, text)).len()
    }

    #[test]
    fn unfinished_work_is_refused() {
        let [later, broken, worse] = UNFINISHED else {
            panic!("three marks");
        };
        let check = |path: &str, text: String, expected| {
            assert_eq!(findings(path, &text), expected, "{path} {text}");
        };
        check("a.rs", format!("// {later}: later"), 1);
        check("a.rs", format!("// {later}(#12): later"), 0);
        check("a.rs", format!("// {later} #12: later"), 0);
        check("a.rs", format!("// {later}(me): later"), 1);
        check("a.rs", format!("// {broken}(#12)"), 1);
        check("Makefile", format!("# {worse}"), 1);
        check("a.rs", format!("let {later}S = 1;"), 0);
        check("a.md", format!("`{later}` needs a number"), 0);
        check("a.md", format!("{later} write this"), 1);
    }

    #[test]
    fn forbidden_code_is_refused_in_code() {
        for (code, _) in FORBIDDEN_CODE {
            assert_eq!(findings("crates/a/src/b.rs", code), 1, "{code}");
            assert_eq!(findings("STYLE.md", &format!("no `{code}`")), 0, "{code}");
        }
    }
}
