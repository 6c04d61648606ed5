//! No file grows too long to read.
//!
//! Production lines are those outside inline test modules. Test files, and files with their tests,
//! have a wider limit of their own: tests are read one case at a time.

use crate::{Finding, TextFile};

/// Above this many production lines a file is worth a second look.
pub const SOFT_LINES_MAX: usize = 400;
/// Above this many production lines a file is refused.
pub const HARD_LINES_MAX: usize = 600;
/// Above this many lines a test file, or a file with its tests, is refused.
pub const TEST_LINES_MAX: usize = 1_500;

/// Files that may be longer, each with the reason.
pub const EXEMPT: &[(&str, &str)] = &[];

/// How a file's length is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Fine,
    /// Production lines above the soft limit.
    Long(usize),
    /// Lines above the hard limit, and that limit.
    TooLong(usize, usize),
}

/// Judges one Rust file.
#[must_use]
pub fn judge(file: &TextFile) -> Verdict {
    let all_lines = file.text.lines().count();
    if all_lines > TEST_LINES_MAX {
        return Verdict::TooLong(all_lines, TEST_LINES_MAX);
    }
    match production_lines(&file.text) {
        _ if is_test(&file.path) => Verdict::Fine,
        lines if lines > HARD_LINES_MAX => Verdict::TooLong(lines, HARD_LINES_MAX),
        lines if lines > SOFT_LINES_MAX => Verdict::Long(lines),
        _ => Verdict::Fine,
    }
}

/// Refuses files above their limit, and exemptions that nothing needs any more.
#[must_use]
pub fn check(files: &[&TextFile], exempt: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let is_exempt = exempt.iter().any(|(path, _)| *path == file.path);
        if let Verdict::TooLong(lines, max) = judge(file)
            && !is_exempt
        {
            let what = format!("{lines} lines, at most {max}: split it where the idea changes");
            findings.push(Finding::whole(&file.path, what));
        }
    }
    for (path, reason) in exempt {
        let is_long = |file: &&TextFile| matches!(judge(file), Verdict::TooLong(..));
        let needed = files.iter().any(|file| file.path == *path && is_long(file));
        if !needed || reason.is_empty() {
            let what = "exempt from the length limit without need or reason".to_owned();
            findings.push(Finding::whole(path, what));
        }
    }
    findings
}

/// Whether the file holds only tests, benchmarks or examples.
fn is_test(path: &str) -> bool {
    let in_src = path.contains("/src/");
    !in_src || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Lines outside inline test modules. A test module in a file of its own hides nothing.
fn production_lines(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let (mut count, mut inside) = (0, false);
    while let Some(line) = lines.next() {
        let opens = line == "#[cfg(test)]" && lines.peek().is_some_and(|item| is_module(item));
        inside |= opens;
        count += usize::from(!inside);
        // Formatted code closes a module with a brace in the first column.
        inside &= line != "}";
    }
    count
}

fn is_module(item: &str) -> bool {
    item.contains("mod ") && item.ends_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize, end: &str) -> TextFile {
        TextFile::new(path, &format!("{}{end}", "x();\n".repeat(lines)))
    }

    #[test]
    fn long_files_are_refused() {
        let check = |path, lines, end, expected| {
            assert_eq!(judge(&file(path, lines, end)), expected, "{path} {lines}");
        };
        let inline = "#[cfg(test)]\nmod tests {\nfn a() {}\n}\n";
        let sibling = "#[cfg(test)]\nmod tests;\nfn more() {}\n";
        check("crates/a/src/b.rs", 400, inline, Verdict::Fine);
        check("crates/a/src/b.rs", 401, inline, Verdict::Long(401));
        check("crates/a/src/b.rs", 600, inline, Verdict::Long(600));
        check("crates/a/src/b.rs", 601, inline, Verdict::TooLong(601, 600));
        check(
            "crates/a/src/b.rs",
            598,
            sibling,
            Verdict::TooLong(601, 600),
        );
        let behind = format!("{inline}{}", "y();\n".repeat(200));
        check(
            "crates/a/src/b.rs",
            401,
            &behind,
            Verdict::TooLong(601, 600),
        );
        let tests = inline.replace("fn a() {}\n", &"    a();\n".repeat(1_500));
        check(
            "crates/a/src/b.rs",
            1,
            &tests,
            Verdict::TooLong(1_504, 1_500),
        );
        check("crates/a/src/b/tests.rs", 1_500, "", Verdict::Fine);
        check(
            "crates/a/tests/c.rs",
            1_501,
            "",
            Verdict::TooLong(1_501, 1_500),
        );
    }

    #[test]
    fn exemptions_need_a_file_and_a_reason() {
        let (long, short) = (file("src/a/src/b.rs", 700, ""), file("a/src/c.rs", 7, ""));
        let check = |exempt: &[(&str, &str)]| check(&[&long, &short], exempt).len();
        assert_eq!(check(&[]), 1);
        assert_eq!(check(&[(&long.path, "a table")]), 0);
        assert_eq!(check(&[(&long.path, "")]), 1);
        assert_eq!(check(&[(&long.path, "a table"), (&short.path, "why")]), 1);
        assert_eq!(check(&[(&long.path, "a table"), ("gone.rs", "why")]), 1);
    }
}
