//! Cursors as text: the chain's own coordinates, so that they outlive restarts and merges.

use chronolith_model::{BlockRef, Cursor, Hash32};

/// `number-index-hash`, also for URLs.
pub(crate) fn encode(cursor: &Cursor) -> String {
    let hash = const_hex::encode(cursor.block.hash.0);
    format!("{}-{}-{hash}", cursor.block.number, cursor.log_index)
}

/// Parses what [`encode`] wrote.
pub(crate) fn parse(text: &str) -> Option<Cursor> {
    let mut parts = text.split('-');
    let (number, index, hash) = (parts.next()?, parts.next()?, parts.next()?);
    let mut bytes = [0; 32];
    const_hex::decode_to_slice(hash, &mut bytes).ok()?;
    let cursor = Cursor {
        block: BlockRef {
            number: number.parse().ok()?,
            hash: Hash32(bytes),
        },
        log_index: index.parse().ok()?,
    };
    // Each has one spelling, and nothing follows it.
    (encode(&cursor) == text).then_some(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_nothing_else_does() {
        let cursor = Cursor {
            block: BlockRef {
                number: u64::MAX,
                hash: Hash32([0xab; 32]),
            },
            log_index: 7,
        };
        let text = encode(&cursor);
        assert_eq!(parse(&text), Some(cursor));
        let long = format!("{text}-1");
        for bad in [
            "",
            "1",
            "1-2",
            "1-2-zz",
            "-1-2-ab",
            "+1-2-ab",
            long.as_str(),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
