//! Settings of a fee collector out of the environment alone, as the fee document has them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chronolith_follower::settings::CatchingUp;
use serde_json::json;

use super::Settings;
use super::endpoints::{HTTP, PortalOverrides, check_url};
use super::projections::address_of;

const CHAIN: &str = "ACTIVE_CHAIN";
const REST: [&str; 3] = ["RPC_URL", "CONTRACT_ADDRESS", "START_POINT"];
/// Variables that no other program has: they are set for a collector.
const OF_A_COLLECTOR: [&str; 2] = ["CONTRACT_ADDRESS", "START_POINT"];
/// Variables with a default.
const OPTIONAL: [&str; 4] = [
    "BATCH_SIZE",
    "JOB_LEASE_TTL_MS",
    "HISTORICAL_POLL_INTERVAL_MS",
    "REALTIME_POLL_INTERVAL_MS",
];

/// Blocks of a job where `BATCH_SIZE` is not set.
const BATCH_SIZE: u64 = 100;
/// The lease of a job where `JOB_LEASE_TTL_MS` is not set, and the shortest that is allowed.
const JOB_LEASE_TTL_MS: u64 = 120_000;
const JOB_LEASE_TTL_MS_LEAST: u64 = 1_000;
/// Milliseconds between two looks for new blocks, far behind the head and near it, where they are not set.
const HISTORICAL_POLL_INTERVAL_MS: u64 = 5_000;
const REALTIME_POLL_INTERVAL_MS: u64 = 60_000;
const POLL_INTERVAL_MS_LEAST: u64 = 10;
/// A chain is far behind again at this many times the blocks of a job.
const FAR_BEHIND_JOBS: u64 = 5;
/// The longest time that makes sense: a day.
const MS_MOST: u64 = 86_400_000;

/// Variables of the document that nothing here corresponds to, and what is there instead.
const NOT_USED: [(&str, &str); 3] = [
    (
        "MONGO_URI",
        "rows go to PostgreSQL, which PG_URL names (`chronolith db init` sets it up)",
    ),
    ("APP_ENV", "there is one way to start"),
    (
        "DEV_MULTIPLE_WORKERS",
        "jobs have two workers in this process, and `chronolith work` adds more",
    ),
];

/// Whether the variables describe a collector.
///
/// # Errors
/// Some do, and its chain is missing: the block times of all chains are hardly what is wanted then.
pub(super) fn is_meant(variable: &dyn Fn(&str) -> Option<String>) -> Result<bool> {
    let is_meant = variable(CHAIN).is_some();
    let mut others = OF_A_COLLECTOR.iter();
    let other = others.find(|name| variable(name).is_some());
    if let Some(other) = other {
        ensure!(
            is_meant,
            "{other} is set and {CHAIN} is not: all of {CHAIN}, {} are needed",
            REST.join(", ")
        );
    }
    Ok(is_meant)
}

/// A line for a file that goes before the variables of a collector. It may use some of them by name.
pub(super) fn beside_file(
    path: &Path,
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let is_in_file = |name: &str| {
        let uses = [format!("${{{name}}}"), format!("${{{name}:-")];
        uses.iter().any(|used| text.contains(used))
    };
    let mut names = set_of_document(variable);
    names.retain(|name| !is_in_file(name));
    let names = listed(&names)?;
    Some(format!(
        "set and not used: {names}; the settings file {} goes before the variables of a collector. Without the file, \
         {CHAIN}, {} describe the chain",
        path.display(),
        REST.join(", ")
    ))
}

/// A line for a run that is not of a collector, since its chain is not set.
pub(super) fn without_chain(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let names = listed(&set_of_document(variable))?;
    Some(format!(
        "set and not used: {names}; they are for a collector, whose chain {CHAIN}, {} describe",
        REST.join(", ")
    ))
}

/// The variables of the document that are set, also those that other programs have.
fn set_of_document(variable: &dyn Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let unused = NOT_USED.iter().map(|(name, _)| *name);
    let all = [CHAIN].into_iter().chain(REST).chain(OPTIONAL);
    let set = all.chain(unused).filter(|name| variable(name).is_some());
    set.collect()
}

/// None where there are none.
fn listed(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(", "))
}

/// A line with the variables of the document that are set and not used.
pub(super) fn not_used(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let set = NOT_USED.iter().filter(|(name, _)| variable(name).is_some());
    let each: Vec<String> = set
        .map(|(name, instead)| format!("{name} ({instead})"))
        .collect();
    (!each.is_empty()).then(|| format!("set and not used: {}", each.join("; ")))
}

/// The settings of one chain with one fee contract.
///
/// # Errors
/// A variable is missing or cannot be used; the message names it.
pub(super) fn settings(
    variable: &dyn Fn(&str) -> Option<String>,
    portal: PortalOverrides<'_>,
) -> Result<Settings> {
    let needed = |name: &str| {
        let all = REST.join(", ");
        let missing =
            || format!("{CHAIN} is set and {name} is not: all of {CHAIN}, {all} are needed");
        variable(name).with_context(missing)
    };
    let chain = needed(CHAIN)?;
    let chain: u64 = chain
        .trim()
        .parse()
        .with_context(|| format!("{CHAIN}: `{chain}` is not a chain id"))?;
    let [url, contract, start] = REST;
    let (url, contract, start) = (needed(url)?, needed(contract)?, needed(start)?);
    check_url("RPC_URL", &url, HTTP)?;
    address_of(&contract).context("CONTRACT_ADDRESS")?;
    let start: u64 = start
        .trim()
        .parse()
        .with_context(|| format!("START_POINT: `{start}` is not a number"))?;
    let batch = number(variable, "BATCH_SIZE", BATCH_SIZE, (1, u64::MAX))?;
    let ttl = (JOB_LEASE_TTL_MS_LEAST, MS_MOST);
    let ttl = number(variable, "JOB_LEASE_TTL_MS", JOB_LEASE_TTL_MS, ttl)?;
    let poll = |name, default| {
        let number = number(variable, name, default, (POLL_INTERVAL_MS_LEAST, MS_MOST));
        number.map(Duration::from_millis)
    };
    let far = poll("HISTORICAL_POLL_INTERVAL_MS", HISTORICAL_POLL_INTERVAL_MS)?;
    let near = poll("REALTIME_POLL_INTERVAL_MS", REALTIME_POLL_INTERVAL_MS)?;
    let value = json!({
        "chains": [{
            "chainId": chain,
            "rpcHttp": [url],
            "startBlock": start,
            "logs": { "addresses": [contract] },
            "fees": { "contracts": [contract], "jobBlocks": batch, "jobLeaseTtlMs": ttl },
        }],
    });
    let settings = Settings::build(value, portal);
    let mut settings = settings.context("in the environment")?;
    for chain in &mut settings.chains {
        if let Some(fees) = &mut chain.fees {
            fees.first_run_only = true;
        }
        chain.poll = near;
        chain.catching_up = Some(CatchingUp {
            poll: far,
            near_blocks: batch,
            far_blocks: batch.saturating_mul(FAR_BEHIND_JOBS),
        });
    }
    Ok(settings)
}

/// A number of a variable, or the default where it is not set.
fn number(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
    default: u64,
    (least, most): (u64, u64),
) -> Result<u64> {
    let Some(text) = variable(name) else {
        return Ok(default);
    };
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.with_context(|| match most {
        u64::MAX => format!("{name}: `{text}` is not a number of {least} or more"),
        _ => format!("{name}: `{text}` is not a number from {least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 4] = [
        (CHAIN, "137"),
        ("RPC_URL", "http://127.0.0.1:1"),
        (
            "CONTRACT_ADDRESS",
            "0xbD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9",
        ),
        ("START_POINT", "78600000"),
    ];

    /// The settings with these variables instead of the others; an empty one is not set.
    fn with(other: &[(&str, &str)]) -> Result<Settings> {
        let variable = |name: &str| {
            let mut all = other.iter().chain(&ALL);
            let found = all.find(|(known, _)| *known == name);
            found
                .map(|(_, value)| (*value).to_owned())
                .filter(|value| !value.is_empty())
        };
        settings(&variable, PortalOverrides::default())
    }

    #[test]
    fn a_collector_needs_no_file() {
        let settings = with(&[]).unwrap();
        let chain = &settings.chains[0];
        let fees = chain.fees.as_ref().unwrap();
        assert_eq!((chain.chain_id, chain.start_block), (137, 78_600_000));
        assert_eq!((fees.contracts.len(), fees.job_blocks), (1, Some(100)));
        assert!(fees.first_run_only);
        for (name, _) in &ALL {
            let error = with(&[(name, "")]).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(&format!("{name} is not")), "{error}");
        }
    }

    /// Each message names the variable: there is no file with settings.
    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        for (name, value) in [
            (CHAIN, "polygon"),
            ("RPC_URL", "127.0.0.1:8545"),
            ("RPC_URL", "https://exa mple/SECRET"),
            ("CONTRACT_ADDRESS", "0x12"),
            ("START_POINT", "soon"),
            ("BATCH_SIZE", "many"),
            ("BATCH_SIZE", "0"),
            ("JOB_LEASE_TTL_MS", "5"),
            ("HISTORICAL_POLL_INTERVAL_MS", "0"),
            ("REALTIME_POLL_INTERVAL_MS", "1m"),
            ("REALTIME_POLL_INTERVAL_MS", "86400001"),
        ] {
            let error = format!("{:#}", with(&[(name, value)]).unwrap_err());
            assert!(error.starts_with(&format!("{name}: ")), "{value}: {error}");
            for setting in ["chains[", "rpcHttp", "contracts", "startBlock", "SECRET"] {
                assert!(!error.contains(setting), "{value}: {error}");
            }
        }
    }

    #[test]
    fn poll_intervals_are_those_of_the_variables_then_of_the_document() {
        let polls = |variables: &[(&str, &str)]| {
            let settings = with(variables).unwrap();
            let chain = &settings.chains[0];
            let catching_up = chain.catching_up.unwrap();
            let (far, near) = (catching_up.poll, chain.poll);
            let bounds = (catching_up.near_blocks, catching_up.far_blocks);
            ([far, near].map(|poll| poll.as_millis()), bounds)
        };
        assert_eq!(polls(&[]), ([5_000, 60_000], (100, 500)));
        let set = [
            ("HISTORICAL_POLL_INTERVAL_MS", "20"),
            ("REALTIME_POLL_INTERVAL_MS", "30000"),
            ("BATCH_SIZE", "7"),
        ];
        assert_eq!(polls(&set), ([20, 30_000], (7, 35)));
    }

    #[test]
    fn what_is_not_used_is_named_once_with_what_is_there_instead() {
        let line = |name: &str| (name == "MONGO_URI" || name == "APP_ENV").then(|| "x".to_owned());
        let line = not_used(&line).unwrap();
        for word in ["MONGO_URI", "PG_URL", "APP_ENV"] {
            assert!(line.contains(word), "{line}");
        }
        assert!(!line.contains("DEV_MULTIPLE_WORKERS"), "{line}");
        assert_eq!(not_used(&|_| None), None);
    }

    /// Nothing but the chain was named beside a file, and nothing without one.
    #[test]
    fn variables_of_no_collector_are_named_once() {
        let all = [CHAIN]
            .into_iter()
            .chain(REST)
            .chain(OPTIONAL)
            .chain(NOT_USED.map(|(name, _)| name));
        for name in all {
            let set = |one: &str| (one == name).then(|| "SECRET".to_owned());
            let beside = |text: &str| beside_file(Path::new("a.json"), text, &set);
            let lines = [beside("{}"), without_chain(&set)].map(Option::unwrap);
            for line in &lines {
                let names = format!("set and not used: {name};");
                assert!(line.starts_with(&names), "{line}");
                assert!(!line.contains("SECRET"), "{line}");
            }
            assert!(lines[0].contains("a.json"), "{}", lines[0]);
            // A file may use it after all.
            for used in [format!("\"${{{name}}}\""), format!("\"${{{name}:-x}}\"")] {
                assert_eq!(beside(&used), None, "{used}");
            }
            let other = format!("\"${{{name}_2}}\"");
            assert!(beside(&other).is_some(), "{other}");
        }
        let both = |name: &str| name.ends_with("_INTERVAL_MS").then(|| "1".to_owned());
        let names = "set and not used: HISTORICAL_POLL_INTERVAL_MS, REALTIME_POLL_INTERVAL_MS;";
        assert!(without_chain(&both).unwrap().starts_with(names));
        assert_eq!(without_chain(&|_| None), None);
        assert_eq!(beside_file(Path::new("a.json"), "{}", &|_| None), None);
    }
}
