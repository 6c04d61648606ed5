//! Every path that a document names exists.
//!
//! It reads markdown links, and backticks that look like a path. It skips figures in code fences,
//! patterns with a star or a placeholder, and paths beside the repository.

use std::path::Path;

use crate::{Finding, TextFile};

/// Folders at the root that documents name.
const TOP_FOLDERS: &[&str] = &["crates/", "docs/", ".ci/", "ops/", "scripts/", "fuzz/"];

/// Endings that make a word in backticks a file.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh", ".lock"];

/// Refuses dead paths in one document. `exists` is asked with paths from the root.
#[must_use]
pub fn check(file: &TextFile, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in file.lines() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence {
            continue;
        }
        let quoted =
            backticked(line).filter_map(|word| quoted_path(word).map(|path| (path, false)));
        let linked = links(line).filter_map(|link| linked_path(link).map(|path| (path, true)));
        for (path, is_link) in quoted.chain(linked) {
            let beside = normalize(&folder.join(path));
            let dead = match beside.as_deref() {
                Some(beside) if exists(beside) => false,
                // A link is followed from where it stands; words in backticks also from the root.
                _ => is_link || !exists(path.trim_end_matches('/')),
            };
            if dead {
                let what = format!("`{path}` does not exist");
                findings.push(Finding::line(&file.path, at, what));
            }
        }
    }
    findings
}

/// The path in a word in backticks, if it looks like one.
fn quoted_path(word: &str) -> Option<&str> {
    let path = word.split("::").next().unwrap_or(word);
    let path = path.split(':').next().unwrap_or(path);
    let is_pattern = path.contains(|c: char| c.is_whitespace() || "*<>{}$…()|".contains(c));
    if is_pattern || path.starts_with("../shared") || path.contains("://") {
        return None;
    }
    let is_file = |ending: &&str| path.len() > ending.len() && path.ends_with(*ending);
    let looks = TOP_FOLDERS.iter().any(|top| path.starts_with(top)) || ENDINGS.iter().any(is_file);
    looks.then_some(path)
}

/// The path in a link's target, if it stays in the repository.
fn linked_path(target: &str) -> Option<&str> {
    let path = target.split('#').next().unwrap_or(target);
    let outside = path.contains("://") || path.starts_with("mailto:");
    (!path.is_empty() && !outside).then_some(path)
}

/// What stands between backticks on a line.
pub fn backticked(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// The path with `.` and `..` resolved; none where it leaves the root.
fn normalize(path: &Path) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.to_string_lossy().split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part.to_owned()),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(path: &str, text: &str) -> usize {
        let there = [
            "README.md",
            "docs/glossary.md",
            "docs",
            "crates/a",
            "crates/a/src/b.rs",
        ];
        check(&TextFile::new(path, text), &|path| there.contains(&path)).len()
    }

    #[test]
    fn dead_paths_in_backticks_are_refused() {
        assert_eq!(
            dead("README.md", "see `crates/a/src/b.rs` and `crates/a/`"),
            0
        );
        assert_eq!(
            dead("docs/x.md", "see `crates/a/src/b.rs:12` and `glossary.md`"),
            0
        );
        assert_eq!(dead("README.md", "see `crates/a/src/b.rs::name`"), 0);
        assert_eq!(
            dead("README.md", "see `crates/a/src/c.rs` and `gone.md`"),
            2
        );
        assert_eq!(dead("README.md", "see `crates/gone`"), 1);
        assert_eq!(
            dead(
                "README.md",
                "`cargo test`, `a/b`, `crates/*/src`, `docs/<x>.md`"
            ),
            0
        );
        assert_eq!(dead("README.md", "`../shared/gone.md`"), 0);
        assert_eq!(
            dead("README.md", "```\n`crates/gone`\n```\n`crates/gone`"),
            1
        );
    }

    #[test]
    fn dead_links_are_refused() {
        assert_eq!(
            dead(
                "README.md",
                "[words](docs/glossary.md#log), [web](https://a.b/c)"
            ),
            0
        );
        assert_eq!(
            dead(
                "docs/x.md",
                "[up](../README.md) [here](glossary.md) [in](#a)"
            ),
            0
        );
        assert_eq!(dead("docs/x.md", "[wrong](docs/glossary.md)"), 1);
        assert_eq!(
            dead("README.md", "[gone](docs/gone.md) [out](../../x.md)"),
            2
        );
    }
}
