//! No default hides a broken invariant where bytes are written or read.
//!
//! An archive that never answers with less must not take a missing value for an empty one. In the folders below,
//! `unwrap_or_default()` needs a comment in the lines above it that begins with `Default:` and says why nothing is lost.
//! Otherwise use an error, or `expect` with the reason.

use crate::{Finding, TextFile};

/// Where bytes of the archive and of ledgers are made and read.
const FOLDERS: &[&str] = &[
    "crates/archive/src/format/",
    "crates/archive/src/maintenance/",
    "crates/archive/src/read/",
    "crates/archive/src/write/",
    "crates/stellar/src/",
];

const DEFAULT: &str = ".unwrap_or_default()";
const REASON: &str = "// Default: ";
/// How far above the call its reason may be: a statement of rustfmt has a line for each call.
const REASON_LINES: usize = 4;

/// Refuses defaults without a reason. Tests may use them.
#[must_use]
pub fn check(file: &TextFile) -> Vec<Finding> {
    let is_checked = FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    if !is_checked || file.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let end = lines.iter().position(|line| *line == "#[cfg(test)]");
    let lines = lines.get(..end.unwrap_or(lines.len())).unwrap_or(&lines);
    let is_silent = |(at, line): &(usize, &&str)| {
        let above = lines.iter().take(*at).rev().take(REASON_LINES);
        line.contains(DEFAULT) && !above.into_iter().any(|line| line.contains(REASON))
    };
    let silent = lines.iter().enumerate().filter(is_silent);
    let what = "a default may hide a broken invariant: use an error or `expect`, or say why not after `Default:`";
    silent
        .map(|(at, _)| Finding::line(&file.path, at + 1, what.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_needs_a_reason_where_bytes_are_made() {
        let check = |path: &str, text: &str, expected| {
            assert_eq!(
                check(&TextFile::new(path, text)).len(),
                expected,
                "{path}: {text}"
            );
        };
        let silent = format!("let a = b{DEFAULT};");
        let reason = format!("{REASON}none is empty.\n");
        check("crates/archive/src/format/a.rs", &silent, 1);
        check("crates/stellar/src/a.rs", &silent, 1);
        check(
            "crates/archive/src/format/a.rs",
            &format!("{reason}{silent}"),
            0,
        );
        check(
            "crates/archive/src/format/a.rs",
            &format!("{reason}\n\n\n\n{silent}"),
            1,
        );
        check(
            "crates/archive/src/format/a.rs",
            &format!("#[cfg(test)]\n{silent}"),
            0,
        );
        check("crates/archive/src/health.rs", &silent, 0);
    }
}
