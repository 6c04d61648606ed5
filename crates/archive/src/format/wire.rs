//! Little-endian primitives: a growing buffer to write to, a bounded slice to read from.

use chronolith_model::{BlockRange, Hash32};

use super::{Damage, Decoded, ensure};

/// Writes primitives to the end of a buffer.
pub(crate) trait Put {
    /// Appends raw bytes.
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Seven bits a byte, lowest first.
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }

    /// Signed, small magnitudes short.
    fn put_signed(&mut self, value: i64) {
        self.put_varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Numbers of this many bits each, lowest bits first, without gaps; the last byte is filled up.
    fn put_packed(&mut self, width: u32, values: impl Iterator<Item = u64>)
    where
        Self: Sized,
    {
        // Eight bytes at a time: tables of many million entries are written like this.
        let (mut bits, mut filled) = (0_u64, 0_u32);
        for value in values {
            bits |= value << filled;
            filled += width;
            if filled >= u64::BITS {
                self.put_u64(bits);
                filled -= u64::BITS;
                // What of the value did not fit; all of it did where nothing is left.
                bits = value.checked_shr(width - filled).unwrap_or(0);
            }
        }
        let bytes = bits.to_le_bytes();
        let bytes = bytes.get(..filled.div_ceil(8) as usize);
        self.put(bytes.expect("fewer than 64 bits are left"));
    }

    /// A length and the bytes.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.put(bytes);
    }

    /// A count and the values.
    fn put_list<T>(&mut self, values: &[T], put: impl Fn(&T, &mut Self))
    where
        Self: Sized,
    {
        self.put_varint(values.len() as u64);
        values.iter().for_each(|value| put(value, self));
    }

    /// One byte, 0 for none and 1 for a value, and the value.
    fn put_option<T>(&mut self, value: Option<&T>, put: impl FnOnce(&T, &mut Self))
    where
        Self: Sized,
    {
        self.put_u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(value, self);
        }
    }

    /// The first block and the number of blocks.
    fn put_range(&mut self, range: &BlockRange) {
        self.put_varint(range.start);
        self.put_varint(range.len());
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Reads primitives from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

const SHORT: Damage = Damage("ends too early");

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(SHORT)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        let (&head, rest) = self.rest.split_first().ok_or(SHORT)?;
        self.rest = rest;
        Ok(head)
    }
    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Decoded<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage("number too long"))
    }

    pub(crate) fn varint_u32(&mut self) -> Decoded<u32> {
        u32::try_from(self.varint()?).map_err(|_| Damage("number too large"))
    }

    pub(crate) fn signed(&mut self) -> Decoded<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A count of things of which each takes at least `min_bytes` here: more than fit is damage,
    /// so that a count never makes us allocate what the bytes cannot hold.
    pub(crate) fn count(&mut self, min_bytes: usize) -> Decoded<usize> {
        let count = usize::try_from(self.varint()?).map_err(|_| Damage("count too large"))?;
        match count.checked_mul(min_bytes.max(1)) {
            Some(bytes) if bytes <= self.rest.len() => Ok(count),
            _ => Err(Damage("count beyond the bytes")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = self.count(1)?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Decoded<String> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| Damage("not a text"))
    }

    /// A count and the values, each of at least `min_bytes`.
    pub(crate) fn list<T>(
        &mut self,
        min_bytes: usize,
        decode: impl Fn(&mut Self) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = self.count(min_bytes)?;
        (0..count).map(|_| decode(self)).collect()
    }

    pub(crate) fn option<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Decoded<T>,
    ) -> Decoded<Option<T>> {
        match self.u8()? {
            0 => Ok(None),
            1 => decode(self).map(Some),
            _ => Err(Damage("neither present nor absent")),
        }
    }

    pub(crate) fn hash(&mut self) -> Decoded<Hash32> {
        self.array().map(Hash32)
    }

    /// A range that is not empty.
    pub(crate) fn range(&mut self) -> Decoded<BlockRange> {
        let (start, len) = (self.varint()?, self.varint()?);
        let end = start.checked_add(len).filter(|_| len > 0);
        Ok(BlockRange::new(
            start,
            end.ok_or(Damage("impossible range"))?,
        ))
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Decoded<()> {
        ensure(self.rest.is_empty(), "bytes left over")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(unsigned: u64, signed: i64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            out.put_varint(unsigned);
            out.put_signed(signed);
            out.put_bytes(&bytes);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint()?, unsigned);
            prop_assert_eq!(reader.signed()?, signed);
            prop_assert_eq!(reader.bytes()?, &bytes[..]);
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn counts_cannot_exceed_the_bytes() {
        let mut out = Vec::new();
        out.put_varint(1 << 40);
        assert!(Reader::new(&out).count(1).is_err());
        assert!(
            Reader::new(&[0xff; 11]).varint().is_err(),
            "eleven continued bytes"
        );
        let too_big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&too_big).varint().is_err(), "65 bits");
    }
}
