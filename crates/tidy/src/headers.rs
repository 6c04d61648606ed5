//! Every Rust file begins by saying what it is.

use crate::{Finding, TextFile};

/// Refuses a Rust file whose first line is not a `//!` with words on it.
#[must_use]
pub fn check(file: &TextFile) -> Option<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let description = first.strip_prefix("//!");
    let describes = description.is_some_and(|text| text.trim().len() > 3);
    (!describes).then(|| {
        let what = "begin with `//!`: what the file is, what it guarantees, what it does not do";
        Finding::line(&file.path, 1, what.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_refused() {
        let check = |text| check(&TextFile::new("a.rs", text)).is_some();
        assert!(check("use std::fmt;\n"));
        assert!(check(""));
        assert!(check("//!\n//! late\n"));
        assert!(check("//! x\n"));
        assert!(!check("//! What a block is.\n"));
    }
}
