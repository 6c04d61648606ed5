//! Words that do not belong in the tree.
//!
//! Unfinished work, tests that do not run, names that the glossary has retired, the hosts that
//! packages come from, and remarks about how the text came to be. The lists are spelled in pieces
//! so that this file may be checked like any other.

use crate::lexer;
use crate::{Finding, TextFile};

/// Marks of unfinished work; the first is fine with an issue number behind it.
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
    (concat!("db", "g!("), "say it with a trace"),
];

/// Words that the glossary has replaced, refused as parts of identifiers in the archive.
const RETIRED: &[(&str, &str)] = &[
    ("manifest", "state or catalog"),
    ("shard", "segment"),
    ("tip", "head"),
    ("mempool", "tail"),
];

/// Names of other people's functions, which cannot be chosen.
const BORROWED: &[&str] = &[".shards("];

/// Where packages come from is the machine's setting, not ours.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("proxy.golang", ".org"),
    concat!("maven", ".org"),
    concat!("maven.apache", ".org"),
    concat!("deb.debian", ".org"),
    concat!("security.debian", ".org"),
    concat!("docker", ".io"),
];

/// A text speaks of the system, not of its making.
const MAKING: &[&str] = &[
    concat!("cla", "ude"),
    concat!("anthro", "pic"),
    concat!("chat", "gpt"),
    concat!("open", "ai"),
    concat!("co", "pilot"),
    concat!("language ", "model"),
    concat!("ai-", "generated"),
    concat!("sub", "agent"),
    concat!("co-", "authored-by"),
    concat!("c", "eo"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/.library"),
];

/// Checks one file against every list that applies to it.
#[must_use]
pub fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Written by cargo, which names the registry in every entry.
    if file.path == "Cargo.lock" || file.path.ends_with("/Cargo.lock") {
        return findings;
    }
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
        for (code, why) in FORBIDDEN_CODE
            .iter()
            .filter(|(code, _)| is_rust && line.contains(code))
        {
            found(format!("`{code}`: {why}"));
        }
        for host in HOSTS.iter().filter(|host| has_word(line, host)) {
            found(format!("`{host}`: name no package host"));
        }
        for word in MAKING.iter().filter(|word| has_word(line, word)) {
            found(format!("`{word}`: speak of the system, not of its making"));
        }
    }
    if is_rust && file.path.starts_with("crates/archive/src/") {
        findings.extend(retired(file));
    }
    findings
}

fn retired(file: &TextFile) -> Vec<Finding> {
    let code = BORROWED
        .iter()
        .fold(lexer::code_only(&file.text), |code, name| {
            code.replace(name, ".(")
        });
    let mut findings = Vec::new();
    for (at, identifier) in lexer::identifiers(&code) {
        for word in lexer::words(identifier) {
            let singular = word.strip_suffix('s').unwrap_or(&word);
            let hit = RETIRED
                .iter()
                .find(|(old, _)| *old == word || *old == singular);
            if let Some((old, new)) = hit {
                let what = format!("`{identifier}`: the glossary says {new}, not {old}");
                findings.push(Finding::line(&file.path, at, what));
            }
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

fn has_word(line: &str, word: &str) -> bool {
    let lower = line.to_lowercase();
    occurrences(&lower, word).next().is_some()
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

    #[test]
    fn hosts_and_the_making_are_refused_everywhere_but_in_lock_files() {
        for word in HOSTS.iter().chain(MAKING) {
            let text = format!("see {} there", word.to_uppercase());
            assert_eq!(findings("docs/a.md", &text), 1, "{word}");
            assert_eq!(findings("Makefile", &text), 1, "{word}");
            assert_eq!(findings("Cargo.lock", &text), 0, "{word}");
            assert_eq!(findings("clients/a/Cargo.lock", &text), 0, "{word}");
        }
    }

    #[test]
    fn retired_names_are_refused_in_the_archive() {
        let check = |text: &str, expected| {
            assert_eq!(
                findings("crates/archive/src/a.rs", text),
                expected,
                "{text}"
            );
        };
        check("struct ShardMap;", 1);
        check("let tips = 1;", 1);
        check("fn load_manifest() {}", 1);
        check("let multiple = tipping;", 0);
        check("// the manifest of a shard", 0);
        check("env!(\"CARGO_MANIFEST_DIR\")", 0);
        assert_eq!(findings("crates/store/src/a.rs", "let tip = 1;"), 0);
    }
}
