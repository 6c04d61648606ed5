//! What of a URL may be a key, and texts without it: providers repeat requests in errors. And the name of an
//! endpoint for operators.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use reqwest::Url;
use reqwest::header::HeaderValue;

/// Printed in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Shorter parts are not keys, and occur in any text.
const PART_CHARS_MIN: usize = 4;

/// Some quote a request in a text that is part of a URL itself.
const DECODINGS_MAX: usize = 3;

/// Shorter parts of a host are words.
const LABEL_CHARS_MIN: usize = 8;
/// Names below these belong to a private network, not to a provider.
const OWN_NETWORKS: [&str; 4] = ["internal", "lan", "local", "localhost"];

/// What an endpoint is called: its host, and the port where it has one of its own. Providers put keys also
/// in the first labels of a host, so that only the last two are printed.
pub(crate) fn name_of(url: &Url) -> String {
    let name = match hidden_labels(url) {
        Some((_, public)) => format!("…{public}"),
        None => url.host_str().unwrap_or("?").to_owned(),
    };
    match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name,
    }
}

/// The labels of a host that may be a key, and the others; none where nothing may: an IP address, a name
/// of one's own network, or one that is too short to hold a key.
fn hidden_labels(url: &Url) -> Option<(&str, &str)> {
    let host = url.domain()?;
    let mut dots = host.trim_end_matches('.').rmatch_indices('.');
    let (last, _) = dots.next()?;
    let (second, _) = dots.next()?;
    let is_own = OWN_NETWORKS.contains(&host.get(last + 1..)?.trim_end_matches('.'));
    host.split_at_checked(second)
        .filter(|_| !is_own)
        .map(|(hidden, public)| (hidden, public.trim_matches('.')))
}

/// Parts of a URL that must not be printed, as they are compared, the longest first.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Vec<u8>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    pub(crate) fn of(url: &Url) -> Self {
        let path = url.path();
        let mut parts = vec![path, url.username()];
        parts.extend(url.query().into_iter().chain(url.password()));
        parts.extend(path.split('/'));
        let values = url.query().unwrap_or_default().split('&');
        parts.extend(values.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value)));
        parts.retain(|part| part.chars().count() >= PART_CHARS_MIN);
        if let Some((hidden, _)) = hidden_labels(url) {
            let labels = hidden.split('.').chain([hidden]);
            parts.extend(labels.filter(|label| label.len() >= LABEL_CHARS_MIN));
        }
        let parts = parts.into_iter().map(ToOwned::to_owned);
        let mut parts: Vec<Vec<u8>> = parts
            .chain(basic(url))
            .map(|part| Folded::of(&part).text)
            .filter(|part| part.len() >= PART_CHARS_MIN)
            .collect();
        parts.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        parts.dedup();
        Self(parts)
    }

    /// A text without secrets, however they are encoded. At its end the beginning of one is hidden too: a text
    /// may have been cut there.
    pub(crate) fn hide(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let folded = Folded::of(text);
        let mut found: Vec<Range<usize>> = Vec::new();
        for part in &self.0 {
            found.extend(memmem::find_iter(&folded.text, part).map(|at| at..at + part.len()));
        }
        found.extend(self.cut_off(&folded));
        found.sort_unstable_by_key(|one| (one.start, one.end));
        let (mut shown, mut at) = (String::new(), 0);
        for one in joined(found) {
            let (start, end) = folded.place(&one);
            let start = text.floor_char_boundary(start).max(at);
            shown.push_str(text.get(at..start).unwrap_or_default());
            shown.push_str(HIDDEN);
            at = text.ceil_char_boundary(end).max(start);
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        shown
    }

    /// The beginning of a secret at the end of a text, with what is left of a character that was cut.
    fn cut_off(&self, folded: &Folded) -> Option<Range<usize>> {
        let whole = match folded.text.as_slice() {
            [before @ .., b'%'] => before,
            [before @ .., b'%', digit] if digit.is_ascii_hexdigit() => before,
            all => all,
        };
        let longest = |part: &Vec<u8>| {
            let most = part.len().min(whole.len());
            let mut lengths = (PART_CHARS_MIN..=most).rev();
            lengths.find(|length| {
                part.get(..*length)
                    .is_some_and(|part| whole.ends_with(part))
            })
        };
        let length = self.0.iter().filter_map(longest).max()?;
        Some(whole.len() - length..folded.text.len())
    }
}

/// The header with user and password of a URL, as the HTTP client sends it; none where it has neither.
pub(crate) fn basic_header(url: &Url) -> Option<HeaderValue> {
    let value = format!("Basic {}", STANDARD.encode(user_and_password(url)?));
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// User and password of a URL, decoded.
fn user_and_password(url: &Url) -> Option<String> {
    let plain = |text: &str| {
        let decoded = Folded::decoded(text, 1);
        String::from_utf8_lossy(&decoded.text).into_owned()
    };
    let (user, password) = (plain(url.username()), url.password().map(plain));
    if user.is_empty() && password.is_none() {
        return None;
    }
    Some(format!("{user}:{}", password.unwrap_or_default()))
}

/// What a client sends of user and password: in base64, with both alphabets and without padding.
fn basic(url: &Url) -> Vec<String> {
    let Some(both) = user_and_password(url) else {
        return Vec::new();
    };
    vec![STANDARD_NO_PAD.encode(&both), URL_SAFE_NO_PAD.encode(&both)]
}

/// Ranges in order, those that overlap as one.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// A text as it is compared: characters that are escaped in a URL are decoded, a plus counts as a space, and case
/// does not count.
struct Folded {
    text: Vec<u8>,
    /// Where each byte begins and ends in the text.
    places: Vec<(usize, usize)>,
}

impl Folded {
    fn of(text: &str) -> Self {
        let mut folded = Self::decoded(text, DECODINGS_MAX);
        for byte in &mut folded.text {
            *byte = match *byte {
                b'+' => b' ',
                byte => byte.to_ascii_lowercase(),
            };
        }
        folded
    }

    /// Only decoded, this many times at most.
    fn decoded(text: &str, times: usize) -> Self {
        let mut folded = Self {
            text: text.as_bytes().to_vec(),
            places: (0..text.len()).map(|at| (at, at + 1)).collect(),
        };
        for _ in 0..times {
            let before = folded.text.len();
            folded = folded.decode();
            if folded.text.len() == before {
                break;
            }
        }
        folded
    }

    fn decode(self) -> Self {
        let (mut text, mut places) = (Vec::new(), Vec::new());
        let mut rest = self.text.as_slice();
        let mut from = self.places.as_slice();
        while let (Some((first, others)), Some((place, later))) =
            (rest.split_first(), from.split_first())
        {
            let escaped = match (rest, from) {
                ([b'%', high, low, after @ ..], [_, _, (_, end), later @ ..]) => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let byte = digit(*high).zip(digit(*low));
                    byte.map(|(high, low)| ((high * 16 + low) as u8, *end, after, later))
                }
                _ => None,
            };
            let (byte, end, others, later) = escaped.unwrap_or((*first, place.1, others, later));
            text.push(byte);
            places.push((place.0, end));
            (rest, from) = (others, later);
        }
        Self { text, places }
    }

    /// Where a range lies in the text.
    fn place(&self, range: &Range<usize>) -> (usize, usize) {
        let start = self.places.get(range.start).map_or(0, |place| place.0);
        let last = range.end.checked_sub(1).and_then(|at| self.places.get(at));
        (start, last.map_or(start, |place| place.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_a_key_is_hidden() {
        let url = "https://user:pass-word@node.example/v3/PATH-KEY?apikey=QUERY-KEY&x=1";
        let secrets = Secrets::of(&Url::parse(url).unwrap());
        for (text, expected) in [
            ("node.example is down", "node.example is down"),
            ("POST /v3/PATH-KEY: 401", "POST [hidden]: 401"),
            ("no such key PATH-KEY", "no such key [hidden]"),
            ("key QUERY-KEY of v3", "key [hidden] of v3"),
            ("user:pass-word", "[hidden]:[hidden]"),
            ("?apikey=QUERY-KEY&x=1", "?[hidden]"),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
    }

    /// An endpoint that repeated its request gave away its key in each of these ways.
    #[test]
    fn a_key_is_hidden_in_every_spelling() {
        let url =
            "https://USERKEY1:PASS%2BKEY2@node.example/v2/PATHKEY%2B123%2Fslash?k=Query%20Key";
        let secrets = Secrets::of(&Url::parse(url).unwrap());
        for (text, expected) in [
            ("key PATHKEY+123/slash", "key [hidden]"),
            ("key PATHKEY 123/slash", "key [hidden]"),
            ("key PATHKEY%2b123%2fSLASH!", "key [hidden]!"),
            ("key pathkey%252B123%252Fslash!", "key [hidden]!"),
            ("at /V2/PathKey+123/Slash: 401", "at [hidden]: 401"),
            ("?K=query+key", "?[hidden]"),
            ("it is QUERY KEY.", "it is [hidden]."),
            ("for userkey1", "for [hidden]"),
            ("with pass+key2", "with [hidden]"),
            // "USERKEY1:PASS+KEY2"
            ("Basic VVNFUktFWTE6UEFTUytLRVky", "Basic [hidden]"),
            ("Basic VVNFUKTFWTE6UEFTUYTLRVKY", "Basic [hidden]"),
            // Cut.
            ("POST /v2/PATHKEY%2B123%2F", "POST [hidden]"),
            ("POST /v2/PATHKEY%2", "POST [hidden]"),
            ("POST /v2/PATHKEY%25", "POST [hidden]"),
            ("key PATHK", "key [hidden]"),
            ("Basic VVNFUktFW", "Basic [hidden]"),
            ("PATHK is not at the end", "PATHK is not at the end"),
            ("ü PATHKEY+123/slash ü", "ü [hidden] ü"),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
        let plain = Secrets::of(&Url::parse("https://node.example").unwrap());
        assert_eq!(plain.hide("100 % is fine %"), "100 % is fine %");
    }

    #[test]
    fn a_host_is_printed_without_what_may_be_a_key() {
        for (url, name) in [
            ("https://provider.example/KEY", "provider.example"),
            ("https://0f3c9a7b.provider.example", "…provider.example"),
            (
                "https://0f3c9a7b.eu.provider.example:8443/x",
                "…provider.example:8443",
            ),
            ("https://0f3c9a7b.provider.example.", "…provider.example"),
            ("http://localhost:8545", "localhost:8545"),
            ("http://reth:8545", "reth:8545"),
            (
                "http://reth-1.chains.svc.cluster.local",
                "reth-1.chains.svc.cluster.local",
            ),
            ("http://10.1.2.3:8545", "10.1.2.3:8545"),
            ("http://[2001:db8::1]:8545", "[2001:db8::1]:8545"),
        ] {
            assert_eq!(name_of(&Url::parse(url).unwrap()), name, "{url}");
        }
        let url = Url::parse("https://0f3c9a7b.eu.provider.example/logs").unwrap();
        let secrets = Secrets::of(&url);
        for (text, expected) in [
            ("no such key 0f3c9a7b", "no such key [hidden]"),
            (
                "0f3c9a7b.eu.provider.example is down",
                "[hidden].provider.example is down",
            ),
            ("eu is no word to hide", "eu is no word to hide"),
        ] {
            assert_eq!(secrets.hide(text), expected);
        }
    }
}
