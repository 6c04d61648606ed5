//! Object names, bounds of ranges, lengths: what every backend refuses in the same way.
//!
//! A name that passes here is safe as a relative path and as an object key: it cannot leave the
//! directory it is joined to.

use std::ops::Range;

use crate::{Error, Result};

/// The longest name, in bytes. Every backend takes names of this length.
pub const NAME_BYTES_MAX: usize = 512;

/// The longest part of a name: what file systems take.
pub const NAME_PART_BYTES_MAX: usize = 255;

/// Refuses a name that is not made of `a-z 0-9 - _ . /`, is empty or too long, or has a part that
/// is empty, `.`, `..` or too long.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return refuse(name, "longer than 512 bytes");
    }
    if !name.bytes().all(is_name_byte) {
        return refuse(name, "made of other characters than a-z 0-9 - _ . /");
    }
    for part in name.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return refuse(name, "with a part that is empty, `.` or `..`");
        }
        if part.len() > NAME_PART_BYTES_MAX {
            return refuse(name, "with a part longer than 255 bytes");
        }
    }
    Ok(())
}

/// Refuses a range that is backwards or reaches beyond `len`, and returns its length.
pub(crate) fn check_range(name: &str, len: u64, range: &Range<u64>) -> Result<usize> {
    let &Range { start, end } = range;
    let wanted = end.checked_sub(start);
    match wanted.and_then(|wanted| usize::try_from(wanted).ok()) {
        Some(wanted) if end <= len => Ok(wanted),
        _ => Err(Error::corrupt(format!(
            "range outside of the object (name={name}, start={start}, end={end}, len={len})"
        ))),
    }
}

/// Refuses to finish an object of which other than the announced number of bytes arrived.
pub(crate) fn check_len(name: &str, arrived: u64, expected: u64) -> Result<()> {
    if arrived == expected {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "object has another length than announced (name={name}, arrived={arrived}, expected={expected})"
    )))
}

/// Refuses to continue an object in which there may be a gap.
pub(crate) fn earlier_write_failed(name: &str) -> Error {
    Error::conflict(format!(
        "an earlier write of this object failed (name={name})"
    ))
}

fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/')
}

fn refuse(name: &str, why: &str) -> Result<()> {
    let cut: String = name.chars().take(64).collect();
    Err(Error::conflict(format!("object name {why} (name={cut:?})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in [
            "a",
            "a/b",
            "a-b_c.d/0",
            ".hidden",
            "a..b",
            "...",
            &"x".repeat(255),
        ] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = format!(
            "{}/{}/{}",
            "x".repeat(200),
            "x".repeat(200),
            "x".repeat(200)
        );
        let part = "x".repeat(256);
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "A", "a b", "a\\b",
            "a\0", "ä", "a%2f", "a:b", &long, &part,
        ] {
            let refused = check_name(bad);
            assert!(matches!(refused, Err(Error::Conflict { .. })), "{bad:?}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(check_range("a", 10, &(2..10)).unwrap(), 8);
        assert_eq!(check_range("a", 10, &(10..10)).unwrap(), 0);
        assert!(check_range("a", 10, &(2..11)).is_err());
        assert!(check_range("a", 10, &(11..11)).is_err());
        assert!(check_range("a", 10, &Range { start: 5, end: 4 }).is_err());
        assert!(check_range("a", 10, &(0..u64::MAX)).is_err());
    }
}
