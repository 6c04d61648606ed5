//! Which bytes a `Range` header asks for.

use std::ops::Range;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RequestedRange {
    /// All of it: no header, or one that is not understood, which a server must ignore.
    Whole,
    /// These bytes.
    Part(Range<usize>),
    /// Bytes that are not there.
    Beyond,
}

/// Reads the header's text for a file of this length. Of several ranges none is served.
pub(super) fn parse(header: Option<&str>, len: usize) -> RequestedRange {
    let range = header.and_then(|text| text.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return RequestedRange::Whole;
    };
    let number = |text: &str| text.parse::<usize>().ok();
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Some(first), None) if last.is_empty() => first..len,
        (None, Some(count)) if first.is_empty() => len.saturating_sub(count)..len,
        _ => return RequestedRange::Whole,
    };
    if part.start < part.end {
        RequestedRange::Part(part)
    } else {
        RequestedRange::Beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_mean_what_they_mean_on_the_web() {
        let check = |header: &str, expected| {
            assert_eq!(parse(Some(header), 100), expected, "{header}");
        };
        check("bytes=0-0", RequestedRange::Part(0..1));
        check("bytes=10-19", RequestedRange::Part(10..20));
        check("bytes=90-500", RequestedRange::Part(90..100));
        check("bytes=90-", RequestedRange::Part(90..100));
        check("bytes=-30", RequestedRange::Part(70..100));
        check("bytes=-300", RequestedRange::Part(0..100));
        check("bytes=100-", RequestedRange::Beyond);
        check("bytes=-0", RequestedRange::Beyond);
        check("bytes=20-10", RequestedRange::Whole);
        check("bytes=1-2,4-5", RequestedRange::Whole);
        check("lines=1-2", RequestedRange::Whole);
        check("bytes=18446744073709551616-", RequestedRange::Whole);
        assert_eq!(parse(None, 100), RequestedRange::Whole);
        assert_eq!(parse(Some("bytes=0-"), 0), RequestedRange::Beyond);
    }
}
