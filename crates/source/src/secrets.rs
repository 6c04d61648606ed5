//! What of a URL may be a key, and texts without it: providers repeat in errors what they were asked
//! with.

use reqwest::Url;

/// What stands in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Shorter parts are no keys, and occur in any text.
const PART_CHARS_MIN: usize = 4;

/// Parts of a URL that must not be told, the longest first.
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of(url: &Url) -> Self {
        let path = url.path();
        let mut parts = vec![path, url.username()];
        parts.extend(url.query().into_iter().chain(url.password()));
        parts.extend(path.split('/'));
        let values = url.query().unwrap_or_default().split('&');
        parts.extend(values.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value)));
        let mut parts: Vec<String> = parts
            .into_iter()
            .filter(|part| part.chars().count() >= PART_CHARS_MIN)
            .map(ToOwned::to_owned)
            .collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.dedup();
        Self(parts)
    }

    /// The text without them.
    pub(crate) fn hide(&self, text: &str) -> String {
        let hide = |text: String, part: &String| match text.contains(part.as_str()) {
            true => text.replace(part.as_str(), HIDDEN),
            false => text,
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
}
