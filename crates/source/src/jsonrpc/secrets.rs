//! What of a URL may be a key, and texts without it: providers repeat requests in
//! errors. And the public name of an endpoint.

use reqwest::Url;

/// Printed in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Shorter parts are not keys, and occur in any text.
const PART_CHARS_MIN: usize = 4;

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

/// Parts of a URL that must not be printed, the longest first.
pub(crate) struct Secrets(Vec<String>);

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
        let mut parts: Vec<String> = parts.into_iter().map(ToOwned::to_owned).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.dedup();
        Self(parts)
    }

    pub(crate) fn hide(&self, text: &str) -> String {
        let hide = |text: String, part: &String| {
            if text.contains(part.as_str()) {
                text.replace(part.as_str(), HIDDEN)
            } else {
                text
            }
        };
        self.0.iter().fold(text.to_owned(), hide)
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
