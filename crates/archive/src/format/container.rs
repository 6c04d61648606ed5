//! Every stored object is a container: sections one after the other, then a trailer that
//! lists where each section is.
//!
//! ```text
//! magic (8) | data sections … | table sections … | trailer | footer
//! trailer: object kind u8 | version u16 | readable from u16 | sections varint
//!          | per section: kind u16, flags u8, offset varint, length varint, checksum u64
//! footer:  start of the tables u64 | start of the trailer u64 | checksum of the trailer u64 | magic
//! ```
//! Data sections carry the checksums of their own units. Tables are read together with the trailer
//! and checked whole. A reader skips sections it does not know, unless they are marked required.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// The version that this code writes.
pub(crate) const FORMAT_VERSION: u16 = 3;
/// The oldest code that can read what this code writes.
pub(crate) const READABLE_FROM: u16 = 3;
const MAGIC: [u8; 8] = *b"CHRONO\x00\x01";
/// Length of the footer.
pub(crate) const FOOTER_BYTES: u64 = 32;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ObjectKind {
    Segment = 1,
    Pack = 2,
    Run = 3,
    Catalog = 4,
}

/// What a section holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Section {
    /// What the object is about: chain, range, counts, root.
    Summary = 1,
    /// Times of blocks, and how many logs and transactions they have.
    Blocks = 2,
    /// Which stretches of frames were made together.
    Stretches = 3,
    /// One entry a frame.
    FrameTable = 4,
    /// Compression dictionaries.
    Dictionaries = 5,
    /// Compressed frames.
    Frames = 6,
    /// Transaction hashes, 32 bytes each.
    TxHashes = 7,
    /// Positions of transactions, for blocks that do not list all of theirs.
    TxIndexes = 8,
    /// Block digests, 32 bytes each.
    Digests = 9,
    /// The term dictionary's pages.
    Terms = 10,
    /// Its directory.
    TermDirectory = 11,
    /// Posting records.
    Postings = 12,
    /// Checksums of the sections that are read in blocks of a fixed size.
    BlockChecksums = 13,
    /// A hash table's pages and its directory.
    Hashes = 14,
    HashDirectory = 15,
    /// Where in a pack's frames each block's parts lie.
    PackIndex = 16,
    /// The catalog's own content.
    Catalog = 17,
    /// Block hashes, 32 bytes each.
    BlockHashes = 18,
    /// The journal of ranges.
    Journal = 20,
    /// Compression dictionaries of a pack, and which of its frames need which.
    PackDictionaries = 19,
}

const FLAG_TABLE: u8 = 1;
const FLAG_REQUIRED: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: u16,
    flags: u8,
    offset: u64,
    len: u64,
    checksum: u64,
}

/// An object being written. Its bytes can be drained at any time, so that a large one never lies
/// in memory whole.
#[derive(Debug)]
pub(crate) struct ContainerBuilder {
    kind: ObjectKind,
    buffer: Vec<u8>,
    drained: u64,
    entries: Vec<Entry>,
    tables: Vec<(Section, u8, Vec<u8>)>,
}

impl ContainerBuilder {
    pub(crate) fn new(kind: ObjectKind) -> Self {
        Self {
            kind,
            buffer: MAGIC.to_vec(),
            drained: 0,
            entries: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Bytes written so far, without the tables.
    pub(crate) fn len(&self) -> u64 {
        self.drained + self.buffer.len() as u64
    }

    /// Where the bytes of data sections go.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Takes what was written so far.
    pub(crate) fn drain(&mut self) -> Bytes {
        self.drained += self.buffer.len() as u64;
        std::mem::take(&mut self.buffer).into()
    }

    /// Begins a data section; everything written until the next begins belongs to it.
    pub(crate) fn begin(&mut self, section: Section) {
        self.close();
        let offset = self.len();
        let entry = Entry {
            kind: section as u16,
            flags: FLAG_REQUIRED,
            offset,
            len: 0,
            checksum: 0,
        };
        self.entries.push(entry);
    }

    fn close(&mut self) {
        let end = self.len();
        if let Some(entry) = self.entries.last_mut() {
            entry.len = end - entry.offset;
        }
    }

    /// Keeps a table for the end of the object.
    pub(crate) fn table(&mut self, section: Section, bytes: Vec<u8>) {
        self.tables
            .push((section, FLAG_TABLE | FLAG_REQUIRED, bytes));
    }

    /// Keeps a table that a reader need not know.
    pub(crate) fn optional_table(&mut self, section: Section, bytes: Vec<u8>) {
        self.tables.push((section, FLAG_TABLE, bytes));
    }

    /// Writes tables, trailer and footer. Returns the object's length and where its tables begin;
    /// the bytes are what [`Self::drain`] gave and gives.
    pub(crate) fn finish(&mut self) -> Finished {
        self.close();
        let tables_start = self.len();
        for (section, flags, bytes) in std::mem::take(&mut self.tables) {
            let offset = self.len();
            let checksum = xxh3_64_with_seed(&bytes, offset ^ section as u64);
            let len = bytes.len() as u64;
            self.entries.push(Entry {
                kind: section as u16,
                flags,
                offset,
                len,
                checksum,
            });
            self.buffer.put(&bytes);
        }
        let trailer_start = self.len();
        let trailer = self.trailer();
        let checksum = xxh3_64_with_seed(&trailer, trailer_start ^ tables_start.rotate_left(32));
        self.buffer.put(&trailer);
        self.buffer.put_u64(tables_start);
        self.buffer.put_u64(trailer_start);
        self.buffer.put_u64(checksum);
        self.buffer.put(&MAGIC);
        Finished {
            len: self.len(),
            tables_start,
        }
    }

    fn trailer(&self) -> Vec<u8> {
        let mut trailer = Vec::new();
        trailer.put_u8(self.kind as u8);
        trailer.put_u16(FORMAT_VERSION);
        trailer.put_u16(READABLE_FROM);
        trailer.put_list(&self.entries, |entry, trailer| {
            trailer.put_u16(entry.kind);
            trailer.put_u8(entry.flags);
            trailer.put_varint(entry.offset);
            trailer.put_varint(entry.len);
            trailer.put_u64(entry.checksum);
        });
        trailer
    }
}

/// Where a finished object ends and where its tables begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finished {
    pub(crate) len: u64,
    pub(crate) tables_start: u64,
}

/// The last [`FOOTER_BYTES`] of an object.
pub(crate) struct Footer {
    pub(crate) tables_start: u64,
    pub(crate) trailer_start: u64,
    checksum: u64,
}

impl Footer {
    pub(crate) fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let footer = Self {
            tables_start: reader.u64()?,
            trailer_start: reader.u64()?,
            checksum: reader.u64()?,
        };
        ensure(reader.array()? == MAGIC, "not one of our objects")?;
        Ok(footer)
    }

    /// The footer of an object of `len` bytes, whose trailer it must place inside the object.
    pub(crate) fn decode_within(bytes: &[u8], len: u64) -> Decoded<Self> {
        let footer = Self::decode(bytes)?;
        let is_inside = footer.tables_start <= footer.trailer_start
            && footer.trailer_start <= len.saturating_sub(FOOTER_BYTES);
        ensure(is_inside, "trailer out of bounds")?;
        Ok(footer)
    }

    /// Whether the checksum is that of the trailer. It covers where the tables begin, so that nothing is
    /// read by a damaged footer.
    pub(crate) fn check(&self, trailer: &[u8]) -> Decoded<()> {
        let seed = self.trailer_start ^ self.tables_start.rotate_left(32);
        let sum = xxh3_64_with_seed(trailer, seed);
        ensure(sum == self.checksum, "trailer checksum mismatch")
    }
}

/// A parsed trailer with the tables at hand.
#[derive(Debug)]
pub(crate) struct Container {
    entries: Vec<Entry>,
    tail: Bytes,
    tail_offset: u64,
}

impl Container {
    /// Parses the end of an object, from where its tables begin.
    pub(crate) fn parse(tail: Bytes, tail_offset: u64, kind: ObjectKind) -> Decoded<Self> {
        let (trailer, trailer_start) = checked_trailer(&tail, tail_offset)?;
        let entries = parse_trailer(trailer, kind)?;
        let container = Self {
            entries,
            tail,
            tail_offset,
        };
        container.check_tables(trailer_start)?;
        Ok(container)
    }

    fn check_tables(&self, trailer_start: u64) -> Decoded<()> {
        for entry in &self.entries {
            let end = entry
                .offset
                .checked_add(entry.len)
                .ok_or(Damage("section out of bounds"))?;
            if entry.flags & FLAG_TABLE == 0 {
                ensure(end <= self.tail_offset, "data section out of bounds")?;
                continue;
            }
            ensure(
                self.tail_offset <= entry.offset && end <= trailer_start,
                "table out of bounds",
            )?;
            let bytes = self.slice(entry)?;
            let sum = xxh3_64_with_seed(&bytes, entry.offset ^ u64::from(entry.kind));
            ensure(sum == entry.checksum, "table checksum mismatch")?;
        }
        Ok(())
    }

    fn slice(&self, entry: &Entry) -> Decoded<Bytes> {
        let start = (entry.offset - self.tail_offset) as usize;
        let end = start + entry.len as usize;
        ensure(end <= self.tail.len(), "table out of bounds")?;
        Ok(self.tail.slice(start..end))
    }

    fn entry(&self, section: Section) -> Decoded<&Entry> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.kind == section as u16);
        entry.ok_or(Damage("a section is missing"))
    }

    /// A table's bytes.
    pub(crate) fn table(&self, section: Section) -> Decoded<Bytes> {
        let entry = self.entry(section)?;
        ensure(entry.flags & FLAG_TABLE != 0, "a table is stored as data")?;
        self.slice(entry)
    }

    /// A table's bytes; none where the object has no such table.
    pub(crate) fn optional_table(&self, section: Section) -> Decoded<Option<Bytes>> {
        match self.entry(section) {
            Ok(_) => self.table(section).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Where a data section lies in the object: offset and length.
    pub(crate) fn data(&self, section: Section) -> Decoded<(u64, u64)> {
        let entry = self.entry(section)?;
        ensure(entry.flags & FLAG_TABLE == 0, "data is stored as a table")?;
        Ok((entry.offset, entry.len))
    }
}

/// The trailer, checked, and where in the object it begins.
fn checked_trailer(tail: &[u8], tail_offset: u64) -> Decoded<(&[u8], u64)> {
    let footer_at = tail.len().checked_sub(FOOTER_BYTES as usize);
    let (body, footer) = footer_at
        .and_then(|at| tail.split_at_checked(at))
        .ok_or(Damage("object too short"))?;
    let footer = Footer::decode(footer)?;
    let expected = footer.tables_start == tail_offset;
    ensure(expected, "tables are not where the catalog says")?;
    let trailer = footer
        .trailer_start
        .checked_sub(tail_offset)
        .and_then(|at| body.get(usize::try_from(at).ok()?..))
        .ok_or(Damage("trailer out of bounds"))?;
    footer.check(trailer)?;
    Ok((trailer, footer.trailer_start))
}

/// Which version wrote an object, and the oldest that can read it, from the object's end: all that can
/// be read of an object of a newer version.
pub(crate) fn versions(tail: &[u8], tail_offset: u64) -> Decoded<(u16, u16)> {
    let (trailer, _) = checked_trailer(tail, tail_offset)?;
    let mut reader = Reader::new(trailer);
    reader.u8()?;
    Ok((reader.u16()?, reader.u16()?))
}

fn parse_trailer(trailer: &[u8], kind: ObjectKind) -> Decoded<Vec<Entry>> {
    let mut reader = Reader::new(trailer);
    ensure(reader.u8()? == kind as u8, "object of another kind")?;
    let _written_by = reader.u16()?;
    ensure(
        reader.u16()? <= FORMAT_VERSION,
        "written by a newer version that this one cannot read",
    )?;
    let entries = reader.list(13, |reader| {
        let entry = Entry {
            kind: reader.u16()?,
            flags: reader.u8()?,
            offset: reader.varint()?,
            len: reader.varint()?,
            checksum: reader.u64()?,
        };
        let known = (1..=Section::PackDictionaries as u16).contains(&entry.kind);
        ensure(
            known || entry.flags & FLAG_REQUIRED == 0,
            "a required section is unknown to this version",
        )?;
        Ok(entry)
    })?;
    reader.finish()?;
    Ok(entries)
}

/// Checksums of a section that is read in blocks of a fixed size, made while it is written.
#[derive(Debug)]
pub(crate) struct BlockSums {
    block_bytes: usize,
    carry: Vec<u8>,
    sums: Vec<u32>,
}

impl BlockSums {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            carry: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Takes the section's next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.carry.is_empty() && bytes.len() >= self.block_bytes {
                let (block, rest) = bytes.split_at(self.block_bytes);
                self.sums
                    .push(super::checksum(block, self.sums.len() as u64));
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.block_bytes - self.carry.len()));
            self.carry.extend_from_slice(part);
            bytes = rest;
            if self.carry.len() == self.block_bytes {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.sums
            .push(super::checksum(&self.carry, self.sums.len() as u64));
        self.carry.clear();
    }

    /// Appends the checksums to a table.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        if !self.carry.is_empty() {
            self.close();
        }
        out.put_varint(self.block_bytes as u64);
        out.put_list(&self.sums, |&sum, out| out.put_u32(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> (Vec<u8>, Finished) {
        let mut builder = ContainerBuilder::new(ObjectKind::Segment);
        builder.begin(Section::Frames);
        builder.buffer().put(b"frames");
        let mut bytes = builder.drain().to_vec();
        builder.begin(Section::Postings);
        builder.buffer().put(b"postings");
        builder.table(Section::Summary, b"summary".to_vec());
        let finished = builder.finish();
        bytes.extend_from_slice(&builder.drain());
        (bytes, finished)
    }

    fn parse(bytes: &[u8], start: u64) -> Decoded<Container> {
        let tail = Bytes::copy_from_slice(&bytes[start as usize..]);
        Container::parse(tail, start, ObjectKind::Segment)
    }

    #[test]
    fn sections_are_found_again() {
        let (bytes, finished) = sample();
        assert_eq!(finished.len, bytes.len() as u64);
        let footer = &bytes[bytes.len() - FOOTER_BYTES as usize..];
        let footer = Footer::decode(footer).unwrap();
        assert_eq!(footer.tables_start, finished.tables_start);
        let container = parse(&bytes, finished.tables_start).unwrap();
        let (offset, len) = container.data(Section::Postings).unwrap();
        assert_eq!(
            &bytes[offset as usize..(offset + len) as usize],
            b"postings"
        );
        assert_eq!(&container.table(Section::Summary).unwrap()[..], b"summary");
        assert!(container.table(Section::Blocks).is_err());
        let tail = Bytes::copy_from_slice(&bytes[finished.tables_start as usize..]);
        assert!(Container::parse(tail, finished.tables_start, ObjectKind::Run).is_err());
    }

    #[test]
    fn every_flipped_byte_of_tables_and_trailer_is_damage() {
        let (bytes, finished) = sample();
        for at in finished.tables_start as usize..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(parse(&broken, finished.tables_start).is_err(), "byte {at}");
        }
    }

    /// A container whose trailer says what a newer version might say.
    fn from_the_future(readable_from: u16, kind: u16, flags: u8) -> Decoded<Container> {
        let mut trailer = Vec::new();
        trailer.put_u8(ObjectKind::Segment as u8);
        trailer.put_u16(FORMAT_VERSION + 1);
        trailer.put_u16(readable_from);
        trailer.put_varint(1);
        trailer.put_u16(kind);
        trailer.put_u8(flags);
        trailer.put_varint(0);
        trailer.put_varint(0);
        trailer.put_u64(0);
        let mut tail = trailer.clone();
        tail.put_u64(0);
        tail.put_u64(0);
        tail.put_u64(xxh3_64_with_seed(&trailer, 0));
        tail.put(&MAGIC);
        Container::parse(tail.into(), 0, ObjectKind::Segment)
    }

    #[test]
    fn a_newer_version_is_read_if_it_says_so_and_refused_if_not() {
        assert!(
            from_the_future(FORMAT_VERSION, 900, 0).is_ok(),
            "an unknown optional section"
        );
        let refused = from_the_future(FORMAT_VERSION, 900, FLAG_REQUIRED).map(|_| ());
        assert_eq!(
            refused,
            Err(Damage("a required section is unknown to this version"))
        );
        let refused = from_the_future(FORMAT_VERSION + 1, 900, 0).map(|_| ());
        let newer = Damage("written by a newer version that this one cannot read");
        assert_eq!(refused, Err(newer));
    }

    proptest! {
        #[test]
        fn hostile_tails_are_damage(bytes: Vec<u8>, offset: u64) {
            prop_assert!(Container::parse(bytes.into(), offset, ObjectKind::Segment).is_err());
        }

        #[test]
        fn block_sums_do_not_depend_on_how_bytes_arrive(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20)
        ) {
            let mut piecewise = BlockSums::new(16);
            parts.iter().for_each(|part| piecewise.update(part));
            let mut whole = BlockSums::new(16);
            whole.update(&parts.concat());
            let (mut a, mut b) = (Vec::new(), Vec::new());
            piecewise.finish(&mut a);
            whole.finish(&mut b);
            prop_assert_eq!(a, b);
        }
    }
}
