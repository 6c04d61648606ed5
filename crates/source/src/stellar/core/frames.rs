//! Ledgers as core writes them: records with a length before each (RFC 1832).

use std::io::{ErrorKind, Read};

use bytes::Bytes;

/// Marks the last piece of a record. Core writes each ledger in one piece.
const LAST_PIECE: u32 = 1 << 31;
/// The most bytes of a ledger.
const LEDGER_BYTES_MAX: u32 = 128 << 20;
/// Room made for a ledger before it comes.
const READ_AHEAD_MAX: u32 = 8 << 20;

/// The next ledger; none where the pipe ended after one.
///
/// # Errors
/// What is wrong with what came: it cannot be read on from there.
pub(crate) fn read_frame(pipe: &mut impl Read) -> Result<Option<Bytes>, String> {
    let mut word = [0; 4];
    if !read_word(pipe, &mut word)? {
        return Ok(None);
    }
    let word = u32::from_be_bytes(word);
    let len = word & !LAST_PIECE;
    if word & LAST_PIECE == 0 {
        return Err("what came through the pipe is not a ledger in one piece".to_owned());
    }
    if len == 0 || len > LEDGER_BYTES_MAX {
        return Err(format!(
            "a ledger of {len} bytes came through the pipe, and 1 to {LEDGER_BYTES_MAX} are due"
        ));
    }
    let mut frame = Vec::with_capacity(len.min(READ_AHEAD_MAX) as usize);
    let read = pipe.by_ref().take(u64::from(len)).read_to_end(&mut frame);
    read.map_err(|error| error.to_string())?;
    if frame.len() == len as usize {
        Ok(Some(frame.into()))
    } else {
        Err(cut())
    }
}

/// Whether there is one more word.
fn read_word(pipe: &mut impl Read, word: &mut [u8; 4]) -> Result<bool, String> {
    let mut filled = 0;
    while let Some(rest) = word.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pipe.read(rest) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(cut()),
            Ok(more) => filled += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(true)
}

fn cut() -> String {
    "the pipe ended inside of a ledger".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(content: &[u8]) -> Vec<u8> {
        let word = LAST_PIECE | content.len() as u32;
        [&word.to_be_bytes()[..], content].concat()
    }

    #[test]
    fn frames_come_whole_or_not_at_all() {
        let bytes = [framed(b"one"), framed(b"two and more")].concat();
        let mut pipe = &*bytes;
        assert_eq!(read_frame(&mut pipe).unwrap().unwrap(), &b"one"[..]);
        assert_eq!(
            read_frame(&mut pipe).unwrap().unwrap(),
            &b"two and more"[..]
        );
        assert_eq!(read_frame(&mut pipe).unwrap(), None);
        let whole = framed(b"cut anywhere");
        for len in 1..whole.len() {
            let error = read_frame(&mut &whole[..len]).unwrap_err();
            assert!(error.contains("inside of a ledger"), "{len}: {error}");
        }
    }

    #[test]
    fn what_is_no_frame_costs_nothing() {
        for (word, expected) in [
            (LAST_PIECE, "a ledger of 0 bytes"),
            (u32::MAX, "a ledger of 2147483647 bytes"),
            (LAST_PIECE | (LEDGER_BYTES_MAX + 1), "a ledger of"),
            (12, "in one piece"),
            (u32::from_be_bytes(*b"2026"), "in one piece"),
        ] {
            let bytes = [&word.to_be_bytes()[..], &[0; 64]].concat();
            let error = read_frame(&mut &*bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
