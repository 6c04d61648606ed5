//! What providers say when a range is too large, in their many spellings.

use super::wire::parse_quantity;
use crate::failure::FailureClass;
use crate::jsonrpc::reply::RpcFault;

/// What an error of a node means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// The range holds or spans too much; perhaps with the number of blocks that would work.
    TooLarge(Option<u64>),
    /// The method does not exist there.
    NoMethod,
    /// Anything else: worth another try.
    Failure,
}

/// Parts of messages that mean "too much", in lower case.
const TOO_LARGE: &[&str] = &[
    "more than",
    "too many",
    "too large",
    "too big",
    "too wide",
    "block range",
    "range is",
    "response size",
    "exceed",
    "limited to",
    "limit of",
    "is limited",
    "max results",
    "query timeout",
    "query timed out",
    "timeout exceeded",
    "try with this",
    "retry with",
    "maximum allowed",
    "result set",
    "please reduce",
    "10,000 logs",
];

/// Parts that mean a limit on the rate of requests, which no smaller range helps against.
const TOO_OFTEN: &[&str] = &[
    "rate limit",
    "too many requests",
    "requests per",
    "request rate",
    "compute units",
    "capacity",
    "throughput",
    "daily request",
    "quota",
];

/// Parts that mean, together with the word "method", that there is none.
const NO_METHOD: &[&str] = &[
    "not found",
    "does not exist",
    "not supported",
    "not available",
    "unsupported",
];

pub(crate) fn meaning(fault: &RpcFault) -> Meaning {
    let data = fault.data.as_ref().map_or("", |data| data.get());
    let text = format!("{} {data}", fault.message).to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if matches!(fault.code, -32601 | -32004) || (has(NO_METHOD) && text.contains("method")) {
        Meaning::NoMethod
    } else if has(TOO_LARGE) && !has(TOO_OFTEN) {
        Meaning::TooLarge(span(&text))
    } else {
        Meaning::Failure
    }
}

/// The class of an error that is neither about a method nor about a range.
pub(crate) fn class_of(fault: &RpcFault) -> FailureClass {
    let text = fault.message.to_lowercase();
    if fault.code == 429 || TOO_OFTEN.iter().any(|part| text.contains(part)) {
        FailureClass::RateLimited
    } else {
        FailureClass::Refused
    }
}

/// Whether it refuses several calls in one request, whatever they are. Too many of them, or too often, is
/// another matter.
pub(crate) fn refuses_batches(fault: &RpcFault) -> bool {
    let text = fault.message.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    text.contains("batch") && !has(TOO_OFTEN) && !has(TOO_LARGE)
}

/// How many blocks a message says would work: from a range in brackets or after "range", or from a
/// number of blocks. Only a hint: the caller checks that it is smaller than what failed.
fn span(text: &str) -> Option<u64> {
    if let Some((from, to)) = bracketed(text) {
        return to.checked_sub(from)?.checked_add(1);
    }
    let digits = |word: &str| {
        let plain = word.replace([',', '_'], "");
        let plain = plain.trim_matches(|sign: char| !sign.is_ascii_digit() && sign != 'k');
        match plain.strip_suffix('k') {
            Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1000),
            None => plain.parse().ok(),
        }
    };
    // A number beside one of these words: others count results or bytes. The smallest is the limit,
    // where the range of the request is repeated.
    let begins = |word: &str, starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
    let about = |word: &&str| begins(word, &["block", "range", "maximum"]);
    let not_about = |word: &&str| begins(word, &["result", "log"]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let near = |at: usize| {
        let around = words.get(at.saturating_sub(4)..(at + 3).min(words.len()));
        let around = around.unwrap_or_default();
        around.iter().any(about) && !around.iter().any(not_about)
    };
    let spans = words.iter().enumerate();
    let spans = spans.filter_map(|(at, word)| digits(word).filter(|span| *span > 0 && near(at)));
    spans.min()
}

/// Two numbers in brackets, or around a dash: `[0x10, 0x20]`, `16-32`.
fn bracketed(text: &str) -> Option<(u64, u64)> {
    let number = |word: &str| {
        let word = word
            .trim()
            .trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
        parse_quantity(word).or_else(|| word.parse().ok())
    };
    if let Some(start) = text.find('[') {
        let inside = text.get(start + 1..)?.split(']').next()?;
        let (from, to) = inside.split_once(',').or_else(|| inside.split_once(' '))?;
        return number(from).zip(number(to));
    }
    let after = text.split("range").nth(1)?;
    let word = after.split_whitespace().find(|word| word.contains('-'))?;
    let (from, to) = word.split_once('-')?;
    number(from).zip(number(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_speaks_of_batches_refuses_them() {
        for (message, refuses) in [
            ("batch requests are not supported", true),
            ("Batch calls are disabled for this plan", true),
            ("batch too large", false),
            ("batch of 100 exceeds the maximum", false),
            ("rate limit reached for batch calls", false),
            ("internal error", false),
        ] {
            let fault = RpcFault {
                code: -32600,
                message: message.to_owned(),
                data: None,
            };
            assert_eq!(refuses_batches(&fault), refuses, "{message}");
        }
    }

    #[track_caller]
    fn check(code: i64, message: &str, expected: Meaning) {
        let fault = RpcFault {
            code,
            message: message.to_owned(),
            data: None,
        };
        assert_eq!(meaning(&fault), expected, "{message}");
    }

    #[test]
    fn spellings_of_providers() {
        use Meaning::{Failure, NoMethod, TooLarge};
        let plain = TooLarge(None);
        check(-32005, "query returned more than 10000 results", plain);
        check(
            -32602,
            "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work: [0x64, 0xc7]",
            TooLarge(Some(100)),
        );
        check(
            -32602,
            "query exceeds max results 20000, retry with the range 100-150",
            TooLarge(Some(51)),
        );
        check(-32000, "block range is too wide", plain);
        check(
            -32000,
            "exceed maximum block range: 5000",
            TooLarge(Some(5000)),
        );
        check(
            -32614,
            "eth_getLogs is limited to a 10,000 range",
            TooLarge(Some(10_000)),
        );
        check(
            -32000,
            "logs matched by query exceeds limit of 10000",
            plain,
        );
        check(-32000, "query timeout exceeded", plain);
        check(
            -32600,
            "eth_getLogs and eth_newFilter are limited to a 10,000 blocks range",
            TooLarge(Some(10_000)),
        );
        check(
            -32000,
            "requested too many blocks from 0 to 16777216, maximum is set to 2048",
            TooLarge(Some(2048)),
        );
        check(
            -32005,
            "please limit the query to at most 1000 blocks, block range limit exceeded",
            TooLarge(Some(1000)),
        );
        check(
            -32601,
            "the method eth_getBlockReceipts does not exist/is not available",
            NoMethod,
        );
        check(
            -32004,
            "Method eth_getBlockReceipts is not supported",
            NoMethod,
        );
        check(-32000, "Method not found", NoMethod);
        check(
            -32005,
            "daily request count exceeded, request rate limited",
            Failure,
        );
        check(
            429,
            "Your app has exceeded its compute units per second capacity",
            Failure,
        );
        check(-32000, "header not found", Failure);
        check(-32000, "", Failure);
    }
}
