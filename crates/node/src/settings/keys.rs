//! API keys and the access log of the public listener.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use chronolith_serve::http::{ApiKey, ApiKeys, KeyLimits, Rate};

use super::raw::{RawApiKey, RawApiKeys, RawKeyFile, RawKeyLimits};
use super::reading::{expand, rename_keys, typed};

/// The name of requests without a key, in metrics and in the log.
const ANONYMOUS: &str = "anonymous";
/// Characters of a name: it is a label of metrics.
const NAME_CHARS_MAX: usize = 64;
/// Keys at most: each has series of its own in metrics.
const KEYS_MAX: usize = 10_000;
/// The most of a rate.
const RATE_MAX: f64 = 1e15;

/// Where the access log goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum AccessLogTarget {
    #[default]
    Off,
    Stderr,
    File(PathBuf),
}

/// Where a setting sends the access log.
pub(super) fn access_log(text: Option<&str>) -> Result<AccessLogTarget> {
    Ok(match text {
        None | Some("off") => AccessLogTarget::Off,
        Some("stderr") => AccessLogTarget::Stderr,
        Some(path) => {
            ensure!(
                path.contains('/'),
                "accessLog: `{path}` is neither off nor stderr nor a path, such as /var/log/chronolith/access.log"
            );
            AccessLogTarget::File(path.into())
        }
    })
}

/// Who may use the public listener; none where everybody may.
pub(super) fn api_keys(raw: Option<RawApiKeys>) -> Result<Option<ApiKeys>> {
    let Some(mut raw) = raw else {
        return Ok(None);
    };
    if let Some(path) = raw.file.as_ref().filter(|path| !path.is_empty()) {
        let more = read(Path::new(path)).with_context(|| format!("apiKeys.file: {path}"))?;
        raw.keys.extend(more);
    }
    ensure!(
        raw.keys.len() <= KEYS_MAX,
        "apiKeys: there are {} keys, at most {KEYS_MAX} are possible",
        raw.keys.len()
    );
    ensure!(
        !raw.required || !raw.keys.is_empty(),
        "apiKeys: required is set and there is no key, so that nobody could use the API: `chronolith keys new NAME` makes one"
    );
    let mut keys: Vec<ApiKey> = Vec::new();
    for one in raw.keys {
        let key = key(one)?;
        let same = keys
            .iter()
            .find(|other| other.name == key.name || other.hash == key.hash);
        ensure!(
            same.is_none(),
            "apiKeys: {} has the name or the hash of another key",
            key.name
        );
        keys.push(key);
    }
    Ok(Some(ApiKeys {
        required: raw.required,
        anonymous: limits(&raw.anonymous).context("apiKeys.anonymous")?,
        keys,
    }))
}

/// The keys of a file, JSON or TOML by its extension.
fn read(path: &Path) -> Result<Vec<RawApiKey>> {
    let text = std::fs::read_to_string(path).context("cannot read it")?;
    let is_toml = path.extension().is_some_and(|name| name == "toml");
    // Neither error quotes the file.
    let mut value: serde_json::Value = match is_toml {
        true => toml::from_str(&text).map_err(|_| anyhow!("it is not TOML"))?,
        false => serde_json::from_str(&text).context("it is not JSON")?,
    };
    expand(&mut value, &|name| std::env::var(name).ok())?;
    rename_keys(&mut value)?;
    let file: RawKeyFile = typed(value, "")?;
    Ok(file.keys)
}

fn key(raw: RawApiKey) -> Result<ApiKey> {
    let own = RawKeyLimits {
        requests_per_second: raw.requests_per_second,
        request_burst: raw.request_burst,
        bytes_per_second: raw.bytes_per_second,
        byte_burst: raw.byte_burst,
    };
    let RawApiKey { name, hash, .. } = raw;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_part),
        "apiKeys: the name of a key has 1 to {NAME_CHARS_MAX} letters, digits, -, _ and ."
    );
    ensure!(
        name != ANONYMOUS,
        "apiKeys: {ANONYMOUS} is the name of requests without a key"
    );
    let of = || format!("apiKeys: {name}");
    // The text may be the key itself, put there by mistake: it is not printed.
    let hash = hash
        .parse()
        .map_err(|wrong| anyhow!("hash: {wrong}; `chronolith keys hash` prints that of a key"));
    Ok(ApiKey {
        hash: hash.with_context(of)?,
        limits: limits(&own).with_context(of)?,
        name,
    })
}

fn limits(raw: &RawKeyLimits) -> Result<KeyLimits> {
    let requests = (raw.requests_per_second, raw.request_burst);
    let bytes = (raw.bytes_per_second, raw.byte_burst);
    Ok(KeyLimits {
        requests: rate(requests, ("requestsPerSecond", "requestBurst"))?,
        bytes: rate(bytes, ("bytesPerSecond", "byteBurst"))?,
    })
}

/// A rate; without a burst, what comes in two seconds may come at once.
fn rate(
    (per_second, burst): (Option<f64>, Option<f64>),
    (name, burst_name): (&str, &str),
) -> Result<Option<Rate>> {
    let Some(per_second) = per_second else {
        ensure!(burst.is_none(), "{burst_name} needs {name}");
        return Ok(None);
    };
    ensure!(
        per_second > 0.0 && per_second <= RATE_MAX,
        "{name}: want a number above 0"
    );
    let burst = burst.unwrap_or((per_second * 2.0).max(1.0));
    ensure!(
        (1.0..=RATE_MAX).contains(&burst),
        "{burst_name}: want a number of at least 1"
    );
    Ok(Some(Rate { per_second, burst }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HASH: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(value: Value) -> Result<ApiKeys> {
        let keys = api_keys(Some(typed(value, "apiKeys")?))?;
        Ok(keys.expect("they are set"))
    }

    #[track_caller]
    fn check(value: Value, expected: &str) {
        let error = format!("{:#}", parse(value).expect_err("it is refused"));
        assert!(error.contains(expected), "{error} instead of {expected}");
        assert!(!error.contains("chr_secret"), "{error}");
    }

    #[test]
    fn keys_have_names_hashes_and_limits() {
        let keys = parse(json!({
            "required": true,
            "anonymous": { "requestsPerSecond": 0.2 },
            "keys": [{
                "name": "acme", "hash": HASH, "requestsPerSecond": 5, "bytesPerSecond": 1000, "byteBurst": 9000,
            }],
        }))
        .unwrap();
        let key = &keys.keys[0];
        assert_eq!((&*key.name, &*key.hash.to_string()), ("acme", HASH));
        let rate = |per_second, burst| Some(Rate { per_second, burst });
        assert_eq!(key.limits.requests, rate(5.0, 10.0));
        assert_eq!(key.limits.bytes, rate(1_000.0, 9_000.0));
        assert_eq!(keys.anonymous.requests, rate(0.2, 1.0));
        assert!(keys.required && keys.anonymous.bytes.is_none());
        assert!(api_keys(None).unwrap().is_none(), "off by default");
    }

    #[test]
    fn what_is_wrong_is_named_without_the_key() {
        let one = |more: Value| {
            let mut key = json!({ "name": "acme", "hash": HASH });
            key.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({ "keys": [key] })
        };
        check(json!({ "required": true }), "there is no key");
        check(
            one(json!({ "hash": "chr_secret" })),
            "acme: hash: a hash is `sha256:`",
        );
        check(one(json!({ "name": "a b" })), "letters, digits");
        check(one(json!({ "name": "anonymous" })), "without a key");
        check(
            one(json!({ "requestBurst": 5 })),
            "requestBurst needs requestsPerSecond",
        );
        check(one(json!({ "requestsPerSecond": 0 })), "above 0");
        check(
            one(json!({ "bytesPerSecond": 5, "byteBurst": 0.5 })),
            "at least 1",
        );
        check(one(json!({ "secret": 1 })), "unknown field");
        check(
            json!({ "keys": ["chr_secret"] }),
            "apiKeys.keys[0]: invalid type: string \"…\"",
        );
        let twice =
            json!({ "keys": [{ "name": "a", "hash": HASH }, { "name": "b", "hash": HASH }] });
        check(twice, "b has the name or the hash of another");
        check(
            json!({ "file": "/nowhere/keys.json" }),
            "apiKeys.file: /nowhere/keys.json",
        );
    }

    #[test]
    fn keys_may_be_in_a_file_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            (
                "keys.json",
                format!(
                    r#"{{ "keys": [{{ "name": "b", "hash": "{HASH}", "requests_per_second": 3 }}] }}"#
                ),
            ),
            (
                "keys.toml",
                format!("[[keys]]\nname = \"b\"\nhash = \"{HASH}\"\nrequestsPerSecond = 3"),
            ),
        ];
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            let other = HASH.replace("ba", "ab");
            let keys =
                parse(json!({ "file": path, "keys": [{ "name": "a", "hash": other }] })).unwrap();
            let names: Vec<&str> = keys.keys.iter().map(|key| &*key.name).collect();
            assert_eq!(names, ["a", "b"]);
            assert_eq!(keys.keys[1].limits.requests.unwrap().per_second, 3.0);
        }
        let path = dir.path().join("keys.toml");
        std::fs::write(&path, "keys = \"chr_secret\" oops").unwrap();
        check(json!({ "file": path }), "it is not TOML");
    }

    #[test]
    fn the_log_is_off_or_goes_somewhere() {
        let file = |path: &str| AccessLogTarget::File(path.into());
        for (text, expected) in [
            (None, AccessLogTarget::Off),
            (Some("off"), AccessLogTarget::Off),
            (Some("stderr"), AccessLogTarget::Stderr),
            (Some("/var/log/a"), file("/var/log/a")),
            (Some("./a.log"), file("./a.log")),
        ] {
            assert_eq!(access_log(text).unwrap(), expected);
        }
        let error = access_log(Some("stdout")).unwrap_err().to_string();
        assert!(error.contains("accessLog: `stdout`"), "{error}");
    }
}
