//! Settings of a fee collector out of the environment alone, as the fee document has them.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

const CHAIN: &str = "ACTIVE_CHAIN";
const REST: [&str; 3] = ["RPC_URL", "CONTRACT_ADDRESS", "START_POINT"];

/// Blocks of a job where `BATCH_SIZE` is not set.
const BATCH_SIZE: u64 = 100;
/// The lease of a job where `JOB_LEASE_TTL_MS` is not set, and the shortest that is allowed.
const JOB_LEASE_TTL_MS: u64 = 120_000;
const JOB_LEASE_TTL_MS_LEAST: u64 = 1_000;

/// The settings of the environment, where there is no settings file and it names a chain.
pub(super) fn from_environment(
    path: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Value>> {
    let Some(chain) = variable(CHAIN).filter(|_| !path.exists()) else {
        return Ok(None);
    };
    let chain: u64 = chain
        .trim()
        .parse()
        .with_context(|| format!("{CHAIN}: `{chain}` is not a chain id"))?;
    let [url, contract, start] = REST.map(|name| variable(name).ok_or(name));
    let (url, contract, start) = match (url, contract, start) {
        (Ok(url), Ok(contract), Ok(start)) => (url, contract, start),
        (Err(name), _, _) | (_, Err(name), _) | (_, _, Err(name)) => {
            bail!(
                "{CHAIN} is set and {name} is not: all of {CHAIN}, {} are needed",
                REST.join(", ")
            )
        }
    };
    let start: u64 = start
        .trim()
        .parse()
        .with_context(|| format!("START_POINT: `{start}` is not a number"))?;
    let number = |name: &str, default: u64, least: u64| {
        let Some(text) = variable(name) else {
            return Ok(default);
        };
        let number = text.trim().parse().ok().filter(|number| *number >= least);
        number.with_context(|| format!("{name}: `{text}` is not a number of {least} or more"))
    };
    let batch = number("BATCH_SIZE", BATCH_SIZE, 1)?;
    let ttl = number("JOB_LEASE_TTL_MS", JOB_LEASE_TTL_MS, JOB_LEASE_TTL_MS_LEAST)?;
    Ok(Some(json!({
        "chains": [{
            "chainId": chain,
            "rpcHttp": [url],
            "startBlock": start,
            "logs": { "addresses": [contract] },
            "fees": { "contracts": [contract], "jobBlocks": batch, "jobLeaseTtlMs": ttl },
        }],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_collector_needs_no_file() {
        let address = "0xbD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9";
        let all = [
            ("ACTIVE_CHAIN", "137"),
            ("RPC_URL", "http://127.0.0.1:1"),
            ("CONTRACT_ADDRESS", address),
            ("START_POINT", "78600000"),
        ];
        let path = Path::new("/nowhere/chronolith.json");
        let without = |left_out: &'static str| {
            move |name: &str| {
                let known = all.iter().filter(|(known, _)| *known != left_out);
                let mut found = known.filter(|(known, _)| *known == name);
                found.next().map(|(_, value)| (*value).to_owned())
            }
        };
        let value = from_environment(path, &without("")).unwrap().unwrap();
        let settings = Settings::from_value(value).unwrap();
        let chain = &settings.chains[0];
        let fees = chain.fees.as_ref().unwrap();
        assert_eq!((chain.chain_id, chain.start_block), (137, 78_600_000));
        assert_eq!((fees.contracts.len(), fees.job_blocks), (1, Some(100)));
        assert!(
            from_environment(path, &without("ACTIVE_CHAIN"))
                .unwrap()
                .is_none()
        );
        for name in REST {
            let error = from_environment(path, &without(name)).unwrap_err();
            assert!(
                error.to_string().contains(&format!("{name} is not")),
                "{error}"
            );
        }
        // What cannot be used is named. It was replaced by a default before.
        for (odd, value) in [
            ("START_POINT", "soon"),
            ("BATCH_SIZE", "many"),
            ("BATCH_SIZE", "0"),
            ("JOB_LEASE_TTL_MS", "5"),
        ] {
            let variable = |name: &str| {
                if name == odd {
                    Some(value.to_owned())
                } else {
                    without("")(name)
                }
            };
            let error = from_environment(path, &variable).unwrap_err().to_string();
            assert!(error.contains(&format!("{odd}: `{value}`")), "{error}");
        }
        // A file that is there goes before it.
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(from_environment(&here, &without("")).unwrap().is_none());
    }
}
