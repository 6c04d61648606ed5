//! Where the sections of a stored object lie, read from its trailer by a second, independent
//! reader of the format: what damage was done where, and which bytes a query asked for.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::ops::Range;

/// Length of the footer and of the magic number at both ends.
const FOOTER_BYTES: usize = 32;
const MAGIC_BYTES: usize = 8;
/// The numbers of the sections that tests look for.
pub(crate) const SUMMARY: u16 = 1;
pub(crate) const FRAME_TABLE: u16 = 4;
pub(crate) const FRAMES: u16 = 6;
pub(crate) const TX_HASHES: u16 = 7;
pub(crate) const DIGESTS: u16 = 9;
pub(crate) const TERMS: u16 = 10;
pub(crate) const TERM_DIRECTORY: u16 = 11;
pub(crate) const POSTINGS: u16 = 12;
pub(crate) const HASHES: u16 = 14;
pub(crate) const BLOCK_HASHES: u16 = 18;

/// One section of an object.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kind: u16,
    pub(crate) table: bool,
    pub(crate) range: Range<usize>,
}

/// The sections of an object, in the order of its trailer.
pub(crate) fn of(object: &[u8]) -> Vec<Place> {
    let footer = object.len() - FOOTER_BYTES;
    let trailer_start = u64::from_le_bytes(object[footer + 8..footer + 16].try_into().unwrap());
    let mut rest = &object[trailer_start as usize..footer];
    // Object kind, version, readable from.
    rest = &rest[5..];
    let count = varint(&mut rest);
    let mut places = Vec::new();
    for _ in 0..count {
        let kind = u16::from_le_bytes([rest[0], rest[1]]);
        let table = rest[2] & 1 != 0;
        rest = &rest[3..];
        let start = varint(&mut rest);
        let len = varint(&mut rest);
        rest = &rest[8..];
        places.push(Place {
            kind,
            table,
            range: start..start + len,
        });
    }
    assert!(
        rest.is_empty(),
        "the trailer has other fields than this reader knows"
    );
    places
}

/// The section of a kind; an empty range where there is none.
pub(crate) fn find(object: &[u8], kind: u16) -> Range<usize> {
    let found = of(object).into_iter().find(|place| place.kind == kind);
    found.map_or(0..0, |place| place.range)
}

/// What the byte at an offset belongs to, in words.
pub(crate) fn name_at(object: &[u8], offset: usize) -> String {
    if offset < MAGIC_BYTES {
        return "magic".to_owned();
    }
    let places = of(object);
    match places.iter().find(|place| place.range.contains(&offset)) {
        Some(place) => format!(
            "{}{}",
            section_name(place.kind),
            if place.table { " table" } else { "" }
        ),
        None => "trailer".to_owned(),
    }
}

fn section_name(kind: u16) -> &'static str {
    let names = [
        "?",
        "summary",
        "blocks",
        "stretches",
        "frame",
        "dictionaries",
        "frames",
        "tx hashes",
        "tx indexes",
        "digests",
        "terms",
        "term directory",
        "postings",
        "block checksums",
        "hashes",
        "hash directory",
        "pack index",
        "catalog",
        "block hashes",
        "pack dictionaries",
    ];
    names.get(usize::from(kind)).copied().unwrap_or("unknown")
}

/// The frames of a segment, each as its range in the object.
pub(crate) fn frames(segment: &[u8]) -> Vec<Range<usize>> {
    let mut table = &segment[find(segment, FRAME_TABLE)];
    let mut start = find(segment, FRAMES).start;
    let mut frames = Vec::new();
    while !table.is_empty() {
        let len = varint(&mut table);
        varint(&mut table);
        table = &table[4..];
        frames.push(start..start + len);
        start += len;
    }
    assert_eq!(
        start,
        find(segment, FRAMES).end,
        "frames fill their section"
    );
    frames
}

/// Reads a number and moves on behind it.
pub(crate) fn varint(bytes: &mut &[u8]) -> usize {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number without an end");
}
