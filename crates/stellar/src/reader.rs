//! Reading numbers from a slice, and the slices between them.

use std::ops::Range;

use crate::fault::Fault;

/// A place in some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// What lies there, in the bytes that it was read from.
    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let place = bytes.get(self.range());
        place.expect("a span lies in the bytes that it was read from")
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Reads from front to back.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    /// Over bytes that offsets of 32 bits reach.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let reader = Self {
            rest: bytes,
            len: bytes.len(),
        };
        match u32::try_from(bytes.len()) {
            Ok(_) => Ok(reader),
            Err(_) => Err(reader.fault("longer than 4 GiB")),
        }
    }

    #[cold]
    pub(crate) fn fault(&self, what: &'static str) -> Fault {
        Fault::Malformed {
            at: self.at() as usize,
            what,
        }
    }

    pub(crate) fn at(&self) -> u32 {
        (self.len - self.rest.len()) as u32
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(self.fault("cut off")),
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        match self.rest.split_at_checked(len) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.fault("cut off")),
        }
    }

    /// A length, that many bytes, and their padding to four.
    #[inline]
    pub(crate) fn skip_bytes(&mut self) -> Result<(), Fault> {
        let len = self.u32()? as usize;
        self.take(len.next_multiple_of(4)).map(|_| ())
    }

    /// A count of things that take at least four bytes each.
    #[inline]
    pub(crate) fn count(&mut self) -> Result<u32, Fault> {
        let count = self.u32()?;
        if count as usize > self.rest.len() / 4 {
            return Err(self.fault("a count beyond the end"));
        }
        Ok(count)
    }

    /// Whether something optional is there.
    #[inline]
    pub(crate) fn present(&mut self) -> Result<bool, Fault> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.fault("neither present nor absent")),
        }
    }

    /// What a function passes over.
    #[inline]
    pub(crate) fn span(
        &mut self,
        pass: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<Span, Fault> {
        let start = self.at();
        pass(self)?;
        let end = self.at();
        Ok(Span { start, end })
    }

    pub(crate) fn finish(&self) -> Result<(), Fault> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.fault("bytes after the end"))
    }
}

/// A number of seven bits a byte, lowest first, from the front of a slice.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
