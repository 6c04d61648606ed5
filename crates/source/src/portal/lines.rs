//! Lines out of a stream of pieces, without ever holding more than one of them.

/// What is kept allocated between two lines.
const KEPT_BYTES: usize = 64 << 10;

/// Why no more lines are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop<E> {
    /// A line is longer than allowed.
    TooLong,
    /// The taker of lines has enough.
    Taker(E),
}

/// Cuts pieces into lines. A line inside a piece is not copied.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    bytes_max: usize,
}

impl Lines {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            begun: Vec::new(),
            bytes_max,
        }
    }

    /// Gives every line that this piece completes to `take`, until that fails.
    pub(crate) fn feed<E>(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let mut rest = piece;
        if !self.begun.is_empty() {
            let Some((head, tail)) = split(rest) else {
                return self.keep(rest);
            };
            self.keep(head)?;
            take(&self.begun).map_err(Stop::Taker)?;
            self.begun.clear();
            self.begun.shrink_to(KEPT_BYTES);
            rest = tail;
        }
        while let Some((line, tail)) = split(rest) {
            if line.len() > self.bytes_max {
                return Err(Stop::TooLong);
            }
            if !line.is_empty() {
                take(line).map_err(Stop::Taker)?;
            }
            rest = tail;
        }
        self.keep(rest)
    }

    /// What came after the last end of a line.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.begun
    }

    fn keep<E>(&mut self, bytes: &[u8]) -> Result<(), Stop<E>> {
        if self.begun.len() + bytes.len() > self.bytes_max {
            return Err(Stop::TooLong);
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }
}

/// Before and after the first end of a line.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'\n', bytes)?;
    let (line, rest) = bytes.split_at(at);
    Some((line, rest.strip_prefix(b"\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whole lines, and what is after the last of them.
    type Found = (Vec<Vec<u8>>, Vec<u8>);

    fn cut(pieces: &[&[u8]], bytes_max: usize) -> Result<Found, Stop<()>> {
        let mut lines = Lines::new(bytes_max);
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(piece, |line| {
                found.push(line.to_vec());
                Ok(())
            })?;
        }
        Ok((found, lines.rest().to_vec()))
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        for (pieces, fits) in [
            (&[&b"12345\n"[..]][..], true),
            (&[b"123456\n"], false),
            (&[b"123", b"45\n"], true),
            (&[b"123", b"456\n"], false),
            (&[b"123", b"456"], false),
            (&[b"1\n2\n3\n4\n5\n6\n"], true),
        ] {
            assert_eq!(cut(pieces, 5).is_ok(), fits, "{pieces:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_pieces_give_the_lines_of_the_whole(
            text in proptest::collection::vec(prop_oneof![3 => 1..=255_u8, 1 => Just(b'\n')], 0..200),
            step in 1..20_usize,
        ) {
            let pieces: Vec<&[u8]> = text.chunks(step).collect();
            let (found, rest) = cut(&pieces, 1_000).unwrap();
            let mut whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            prop_assert_eq!(rest.as_slice(), whole.pop().unwrap());
            let whole: Vec<&[u8]> = whole.into_iter().filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(found, whole);
        }
    }
}
