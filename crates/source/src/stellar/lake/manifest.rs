//! What a lake says of itself, in the object `.config.json`.

use chronolith_stellar::Network;
use serde::Deserialize;

use super::keys::Layout;
use crate::error::{Error, Result};

pub(crate) const KEY: &str = ".config.json";

/// It is a few lines.
pub(crate) const BYTES_MAX: u64 = 64 << 10;

/// How objects are packed, everywhere so far.
const COMPRESSION: &str = "zstd";

/// The fields that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    network_passphrase: Option<String>,
    compression: Option<String>,
    ledgers_per_batch: u32,
    batches_per_partition: u32,
}

/// How the lake is laid out, by its manifest and by the settings. One of them must say, and they must not
/// contradict each other.
///
/// # Errors
/// `Invalid` where they do, where neither says, and where the lake is another network's.
pub(crate) fn layout(
    manifest: Option<&[u8]>,
    set: Option<Layout>,
    network: &Network,
) -> Result<Layout> {
    let invalid = |what: String| Error::Invalid(format!("lake: {what}"));
    let Some(manifest) = manifest else {
        return set.ok_or_else(|| {
            invalid(format!(
                "there is no {KEY} in it: is this the lake's first folder? If it is, the settings must give \
                 ledgersPerBatch and batchesPerPartition"
            ))
        });
    };
    let manifest: Manifest = serde_json::from_slice(manifest)
        .map_err(|error| invalid(format!("{KEY} is not a manifest: {error}")))?;
    let ours = network.passphrase();
    if let Some(other) = manifest.network_passphrase.filter(|name| name != ours) {
        return Err(invalid(format!(
            "it is of the network {other:?}, and this chain is {ours:?}"
        )));
    }
    if let Some(other) = manifest.compression.filter(|name| name != COMPRESSION) {
        return Err(invalid(format!(
            "its objects are packed as {other}: only {COMPRESSION} can be read"
        )));
    }
    let stated = Layout::new(manifest.ledgers_per_batch, manifest.batches_per_partition)
        .map_err(|error| invalid(format!("{KEY}: {error}")))?;
    match set {
        Some(set) if set != stated => Err(invalid(format!(
            "{KEY} has {stated}, and the settings {set}: leave them out of the settings"
        ))),
        _ => Ok(stated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(manifest: Option<&str>, set: Option<(u32, u32)>, expected: Result<(u32, u32), &str>) {
        let set = set.map(|(a, b)| Layout::new(a, b).unwrap());
        let network = Network::new("Sim");
        match (layout(manifest.map(str::as_bytes), set, &network), expected) {
            (Ok(found), Ok((a, b))) => assert_eq!(found, Layout::new(a, b).unwrap()),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn manifest_and_settings_agree_or_are_refused() {
        let whole = r#"{ "networkPassphrase": "Sim", "version": "1.0", "compression": "zstd",
            "ledgersPerBatch": 1, "batchesPerPartition": 64000 }"#;
        check(Some(whole), None, Ok((1, 64_000)));
        check(Some(whole), Some((1, 64_000)), Ok((1, 64_000)));
        check(Some(whole), Some((1, 1)), Err("leave them out"));
        check(None, Some((64, 10)), Ok((64, 10)));
        check(
            None,
            None,
            Err("no .config.json in it: is this the lake's first"),
        );
        let other = whole.replace("Sim", "Other");
        check(Some(&other), None, Err("\"Other\""));
        let packed = whole.replace("\"zstd\"", "\"gzip\"");
        check(Some(&packed), None, Err("packed as gzip"));
        let none = whole.replace("64000", "0");
        check(Some(&none), None, Err("above 0"));
        check(Some("{}"), None, Err("not a manifest"));
        check(Some("<html>"), None, Err("not a manifest"));
        let short = r#"{ "ledgersPerBatch": 2, "batchesPerPartition": 1 }"#;
        check(Some(short), None, Ok((2, 1)));
    }
}
