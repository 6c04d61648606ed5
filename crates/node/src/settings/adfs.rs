//! The ADFS contract of a chain: which versions of it there are, and how their updates are read.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chronolith_model::{Dataset, DatasetSet, Scope, ScopeEntry};
use chronolith_projection_adfs::{AdfsSettings, AdfsVersion, LanePolicy, Limits};
use chronolith_source::portal::PortalSettings;

use super::projections::address_of;
use super::raw::{RawChain, RawLanePolicy, RawSettings, RawVersion};
use super::reading::between;
use crate::hex::parse_array;

/// Most bytes of calldata that may be let through: no chain takes more.
const CALLDATA_BYTES_MAX: usize = 16 << 20;
/// Most feeds that may be let through.
const FEEDS_MAX: u32 = 1_000_000;

/// The versions of all chains.
#[derive(Default)]
pub(super) struct Versions {
    versions: BTreeMap<u32, AdfsVersion>,
    /// The version of each implementation, and the hash that its code must have, if one is set.
    implementations: BTreeMap<[u8; 20], (u32, Option<[u8; 32]>)>,
}

impl Versions {
    pub(super) fn new(raw: &RawSettings) -> Result<Self> {
        let mut all = Self::default();
        for (key, version) in &raw.versions {
            let place = || format!("versions.{key}");
            let number = number_of(key).with_context(place)?;
            all.versions
                .insert(number, version_of(version).with_context(place)?);
        }
        for (key, one) in &raw.impl_version_map {
            let place = || format!("implVersionMap.{key}");
            let address = address_of(key).with_context(place)?;
            let known = all.versions.contains_key(&one.version);
            let number = one.version;
            ensure!(known, "{}: there is no versions.{number}", place());
            let hash = one.expected_bytecode_hash.as_ref().map(|text| {
                let odd = || format!("{}.expectedBytecodeHash: `{text}` is not 32 bytes", place());
                parse_array(text).with_context(odd)
            });
            let implementation = (number, hash.transpose()?);
            let before = all.implementations.insert(address, implementation);
            ensure!(before.is_none(), "{}: the address is listed twice", place());
        }
        Ok(all)
    }
}

fn number_of(key: &str) -> Result<u32> {
    let number = key.parse().ok().filter(|number| *number <= i32::MAX as u32);
    number.with_context(|| format!("`{key}` is not the number of a version"))
}

/// Each chain sets the event itself.
fn version_of(raw: &RawVersion) -> Result<AdfsVersion> {
    let guards = &raw.guards;
    let feeds_max = Limits::default().feeds_max;
    let (name, bounds) = ("guards.feedsLength", 1..=FEEDS_MAX);
    Ok(AdfsVersion {
        signature: String::new(),
        has_block_number: raw.has_block_number,
        extra_fields: raw.extra_fields.clone(),
        feeds_max: between(name, guards.feeds_length, feeds_max, bounds)?,
        lanes: match guards.lane_policy {
            None | Some(RawLanePolicy::Reject) => LanePolicy::Reject,
            Some(RawLanePolicy::Mask) => LanePolicy::Mask,
        },
    })
}

/// The contract of a chain, where there is one. Whatever is missing is an error now, not at the first
/// upgrade.
pub(super) fn contract(raw: &RawChain, shared: &Versions) -> Result<Option<AdfsSettings>> {
    let Some(address) = &raw.contract_address else {
        return Ok(None);
    };
    let proxy = address_of(address).context("contractAddress")?;
    let mut versions = BTreeMap::new();
    for (key, signature) in &raw.topic_names {
        let number = number_of(key).with_context(|| format!("topicNames.{key}"))?;
        let known = shared.versions.get(&number);
        let known =
            known.with_context(|| format!("topicNames.{key}: there is no versions.{number}"))?;
        let version = AdfsVersion {
            signature: signature.clone(),
            ..known.clone()
        };
        versions.insert(number, version);
    }
    ensure!(
        !versions.is_empty(),
        "topicNames: contractAddress needs the event of each version, as in \
         \"topicNames\": {{ \"1\": \"DataFeedsUpdated(uint256)\" }}, and a profile of it in versions"
    );
    // A chain need not have every version. An upgrade to one whose event it does not name is to an
    // implementation that is not known here: the projection is paused and says so.
    let (mut implementations, mut code_hashes) = (BTreeMap::new(), BTreeMap::new());
    for (address, (number, hash)) in &shared.implementations {
        if versions.contains_key(number) {
            implementations.insert(*address, *number);
            code_hashes.extend(hash.map(|hash| (*address, hash)));
        }
    }
    let calldata_bytes_max = between(
        "maxCalldataBytes",
        raw.max_calldata_bytes,
        Limits::default().calldata_bytes_max,
        1..=CALLDATA_BYTES_MAX,
    )?;
    let settings = AdfsSettings {
        proxy,
        start_block: raw.start_block.unwrap_or(0),
        versions,
        implementations,
        initial_version: raw.initial_version,
        code_hashes,
        calldata_bytes_max,
    };
    settings.check()?;
    Ok(Some(settings))
}

/// What is kept of a chain.
pub(super) struct Kept {
    pub(super) datasets: DatasetSet,
    pub(super) scope: Scope,
}

/// What is kept of a chain that may have a contract. With one: its logs, the transactions that they name, and what the
/// settings ask for besides. Nothing else is needed, and all transactions of a chain are many times as much.
pub(super) fn kept(
    raw: &RawChain,
    Kept { datasets, scope }: Kept,
    contract: Option<&AdfsSettings>,
    portal_alone: Option<&PortalSettings>,
) -> Result<Kept> {
    let Some(contract) = contract else {
        return Ok(Kept { datasets, scope });
    };
    ensure!(
        portal_alone.is_none(),
        "contractAddress: the updates are in transactions, and a portal does not deliver all of them: give \
         rpcHttp as well"
    );
    let wanted = match raw.datasets {
        Some(_) => datasets,
        None => DatasetSet::CLOCK,
    };
    let own = ScopeEntry {
        emitter: Some(Bytes::copy_from_slice(&contract.proxy)),
        topic0: None,
    };
    let all_logs = wanted.contains(Dataset::Logs) || raw.logs.is_some();
    let scope = match scope {
        Scope::Only(mut entries) => {
            entries.push(own);
            Scope::only(entries)
        }
        Scope::All if all_logs => Scope::All,
        Scope::All => Scope::only(vec![own]),
    };
    let datasets = wanted.with(Dataset::Logs).with(Dataset::Transactions);
    Ok(Kept { datasets, scope })
}

#[cfg(test)]
mod tests {
    use crate::settings::Settings;
    use crate::settings::tests::ORACLE_EXAMPLE;
    use chronolith_model::{Dataset, DatasetSet, Scope};
    use chronolith_projection_adfs::LanePolicy;

    fn parse(changes: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let mut text = ORACLE_EXAMPLE.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "no {from}");
            text = text.replace(from, to);
        }
        Settings::parse(&text, false)
    }

    #[test]
    fn the_example_of_the_document_is_a_contract_with_two_versions() {
        let settings = parse(&[]).unwrap();
        let chain = &settings.chains[0];
        let adfs = chain.adfs.as_ref().unwrap();
        assert_eq!(adfs.proxy, [0x44; 20]);
        assert_eq!(adfs.start_block, 19_000_000);
        assert_eq!(adfs.implementations[&[0x11; 20]], 1);
        assert_eq!(adfs.implementations[&[0x33; 20]], 2);
        assert_eq!(adfs.versions[&1].signature, "DataFeedsUpdated(uint256)");
        assert!(adfs.versions[&1].has_block_number && !adfs.versions[&2].has_block_number);
        assert_eq!(adfs.versions[&1].feeds_max, 10_000);
        assert_eq!(adfs.calldata_bytes_max, 128 << 10);
        assert_eq!(adfs.code_hashes[&[0x11; 20]], [0x22; 32]);
        assert_eq!(adfs.initial_version, None);
        // The whole chain was kept.
        let needed = [Dataset::Logs, Dataset::Transactions];
        assert_eq!(chain.datasets, DatasetSet::of(&needed));
        assert_eq!(emitters(&chain.scope), Some(vec![[0x44; 20].to_vec()]));
    }

    fn emitters(scope: &Scope) -> Option<Vec<Vec<u8>>> {
        let Scope::Only(entries) = scope else {
            return None;
        };
        let emitters = entries.iter().filter_map(|entry| entry.emitter.as_ref());
        Some(emitters.map(|emitter| emitter.to_vec()).collect())
    }

    /// What is asked for is kept beside what the contract needs.
    #[test]
    fn no_more_is_kept_than_is_requested() {
        let start = r#""startBlock": 19000000"#;
        let of = |more: &str| {
            let settings = parse(&[(start, &format!("{start}, {more}"))]).unwrap();
            let chain = &settings.chains[0];
            (chain.datasets, emitters(&chain.scope))
        };
        let (contract, other) = (vec![0x44; 20], vec![0x55; 20]);
        let own = &[Dataset::Logs, Dataset::Transactions][..];
        let with = |more: &[Dataset]| DatasetSet::of(&[own, more].concat());
        let narrow = r#""logs": { "addresses": ["0x5555555555555555555555555555555555555555"] }"#;
        let both = Some(vec![contract.clone(), other.clone()]);
        assert_eq!(of(narrow), (with(&[]), both.clone()));
        let headers = r#""datasets": ["headers"]"#;
        let expected = (with(&[Dataset::Headers]), Some(vec![contract]));
        assert_eq!(of(headers), expected);
        assert_eq!(of(r#""datasets": ["logs"]"#), (with(&[]), None));
        let all = r#""datasets": ["headers", "logs", "tx_hashes"]"#;
        let whole = with(&[Dataset::Headers, Dataset::TxHashes]);
        assert_eq!(of(all), (whole, None));
        assert_eq!(of(&format!("{all}, {narrow}")), (whole, both.clone()));
        let fees = r#""fees": { "contracts": ["0x5555555555555555555555555555555555555555"] }"#;
        assert_eq!(of(fees), (with(&[]), both));
    }

    #[test]
    fn guards_and_scopes_are_taken() {
        let settings = parse(&[
            (
                r#""extraFields": [] }"#,
                r#""extraFields": [], "guards": { "feedsLength": 7, "lanePolicy": "mask" } }"#,
            ),
            (
                r#""startBlock": 19000000"#,
                r#""startBlock": 19000000, "maxCalldataBytes": 4096, "datasets": ["logs"],
                   "logs": { "addresses": ["0x5555555555555555555555555555555555555555"] }"#,
            ),
        ]);
        let settings = settings.unwrap();
        let chain = &settings.chains[0];
        let adfs = chain.adfs.as_ref().unwrap();
        let first = &adfs.versions[&1];
        assert_eq!((first.feeds_max, first.lanes), (7, LanePolicy::Mask));
        assert_eq!(adfs.calldata_bytes_max, 4_096);
        assert!(chain.datasets.contains(Dataset::Transactions));
        let Scope::Only(entries) = &chain.scope else {
            panic!()
        };
        assert_eq!(entries.len(), 2);
    }

    /// Chains share `implVersionMap`, and one may not have been upgraded yet, or never have had the first
    /// version. It had to name events of versions that it does not have.
    #[test]
    fn a_chain_names_the_versions_that_it_has() {
        let settings = parse(&[(r#""1": "DataFeedsUpdated(uint256)", "#, "")]).unwrap();
        let adfs = settings.chains[0].adfs.as_ref().unwrap();
        assert_eq!(adfs.versions.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(
            adfs.implementations.keys().collect::<Vec<_>>(),
            [&[0x33; 20]]
        );
        assert!(!adfs.code_hashes.contains_key(&[0x11; 20]));
    }

    #[test]
    fn what_is_missing_is_named_with_its_place() {
        for (from, to, expected) in [
            (
                r#""2": "DataFeeds"#,
                r#""3": "DataFeeds"#,
                "topicNames.3: there is no versions.3",
            ),
            (
                r#""version": 2"#,
                r#""version": 5"#,
                "there is no versions.5",
            ),
            (r#""topicNames""#, r#""rpcWs2""#, "rpcWs2"),
            (
                "0x4444444444444444444444444444444444444444",
                "0x44",
                "contractAddress: `0x44`",
            ),
            (
                "0x3333333333333333333333333333333333333333",
                "0x33",
                "implVersionMap.0x33",
            ),
            (
                r#""hasBlockNumber": true"#,
                r#""hasBlockNumber": false"#,
                "versions.1.extraFields",
            ),
            (
                r#""extraFields": []"#,
                r#""guards": { "lanePolicy": "maybe" }"#,
                "versions.1.guards.lanePolicy: unknown variant `maybe`, expected `reject` or `mask`",
            ),
            (
                r#""extraFields": []"#,
                r#""guards": { "feedsLength": 0 }"#,
                "versions.1: guards.feedsLength",
            ),
            (
                r#""startBlock": 19000000"#,
                r#""initialVersion": 7"#,
                "initialVersion: version 7",
            ),
            (
                r#""startBlock": 19000000"#,
                r#""maxCalldataBytes": 0"#,
                "maxCalldataBytes: 0",
            ),
            (
                r#""versions": { "1""#,
                r#""versions": { "one""#,
                "versions.one",
            ),
        ] {
            let error = parse(&[(from, to)]).unwrap_err();
            let message = format!("{error:#}");
            assert!(message.contains(expected), "{message}");
        }
    }
}
