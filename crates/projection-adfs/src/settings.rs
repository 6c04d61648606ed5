//! The settings of an ADFS contract: where it is, and which versions of it there are.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, b256, keccak256};
use chronolith_projection::{Error, Result};
use serde_json::{Value, json};

use crate::calldata::{HeaderForm, LanePolicy, Limits, Profile};

/// First topic of `Upgraded(address)`.
pub(crate) const UPGRADED: B256 =
    b256!("bc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b");

/// The ADFS contract of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdfsSettings {
    /// The proxy, which emits all events.
    pub proxy: [u8; 20],
    /// The block it was deployed in, or one before. Upgrades before it are not known.
    pub start_block: u64,
    /// Versions by number.
    pub versions: BTreeMap<u32, AdfsVersion>,
    /// Versions of implementations.
    pub implementations: BTreeMap<[u8; 20], u32>,
    /// The version of events before the first upgrade that is known; where none is set and there is
    /// one version, it is that.
    pub initial_version: Option<u32>,
    /// Hashes that the code of implementations must have, where they are set.
    pub code_hashes: BTreeMap<[u8; 20], [u8; 32]>,
    /// Most bytes of the calldata of an update.
    pub calldata_bytes_max: usize,
}

/// A version of the contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdfsVersion {
    /// The event, such as `DataFeedsUpdated(uint256)`.
    pub signature: String,
    /// Whether its calldata begins with a block number; with two accumulators otherwise.
    pub has_block_number: bool,
    /// What it has beside feeds and rows.
    pub extra_fields: Vec<String>,
    /// Most feeds of an update.
    pub feeds_max: u32,
    /// What is done about lanes outside of the ring.
    pub lanes: LanePolicy,
}

impl AdfsVersion {
    /// A version with the usual limits, and the fields that its form has.
    #[must_use]
    pub fn new(signature: &str, has_block_number: bool) -> Self {
        let form = form(has_block_number);
        let fields = form.extra_fields().iter().map(|name| (*name).to_owned());
        Self {
            signature: signature.to_owned(),
            has_block_number,
            extra_fields: fields.collect(),
            feeds_max: Limits::default().feeds_max,
            lanes: LanePolicy::default(),
        }
    }

    /// The first topic of its event.
    pub(crate) fn topic0(&self) -> B256 {
        keccak256(self.signature.as_bytes())
    }

    pub(crate) fn profile(&self, calldata_bytes_max: usize) -> Profile {
        Profile {
            header: form(self.has_block_number),
            lanes: self.lanes,
            limits: Limits {
                feeds_max: self.feeds_max,
                calldata_bytes_max,
            },
        }
    }

    fn check(&self, number: u32) -> Result<()> {
        let signature = &self.signature;
        let whole = signature.ends_with(')') && signature.contains('(');
        if !whole || signature.contains(' ') || self.topic0() == UPGRADED {
            return Err(Error::Invalid(format!(
                "topicNames.{number}: `{signature}` is no signature such as DataFeedsUpdated(uint256)"
            )));
        }
        let mut wanted = form(self.has_block_number).extra_fields().to_vec();
        let mut found: Vec<&str> = self.extra_fields.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        if wanted != found {
            let with = if self.has_block_number { "" } else { "out" };
            return Err(Error::Invalid(format!(
                "versions.{number}.extraFields: calldata with{with} a block number has {wanted:?}, \
                 not {found:?}"
            )));
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        json!({
            "topic": self.signature,
            "hasBlockNumber": self.has_block_number,
            "feedsLength": self.feeds_max,
            "lanePolicy": self.lanes.as_str(),
        })
    }
}

impl AdfsSettings {
    /// First topics of everything that is looked for: the event of each version, and upgrades.
    #[must_use]
    pub fn topics(&self) -> Vec<[u8; 32]> {
        let events = self.versions.values().map(AdfsVersion::topic0);
        let mut topics: Vec<[u8; 32]> = events.chain([UPGRADED]).map(|topic| topic.0).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Whether everything that is needed is set.
    ///
    /// # Errors
    /// What is missing, and where.
    pub fn check(&self) -> Result<()> {
        if self.versions.is_empty() {
            let why = "topicNames: an ADFS contract needs at least one version".to_owned();
            return Err(Error::Invalid(why));
        }
        for (number, version) in &self.versions {
            version.check(*number)?;
        }
        let initial = self.initial_version;
        if let Some(version) = initial.filter(|version| !self.versions.contains_key(version)) {
            return Err(Error::Invalid(format!(
                "initialVersion: version {version} is not among the versions"
            )));
        }
        for (address, version) in &self.implementations {
            if !self.versions.contains_key(version) {
                return Err(Error::Invalid(format!(
                    "implVersionMap.{}: version {version} is not among the versions",
                    Address::from(*address)
                )));
            }
        }
        Ok(())
    }

    /// The version of events before the first upgrade, as far as these settings say.
    pub(crate) fn initial(&self) -> Option<u32> {
        let mut all = self.versions.keys();
        let only = all.next().filter(|_| all.next().is_none());
        self.initial_version.or(only.copied())
    }

    /// As it is written down beside the cursor.
    pub(crate) fn to_json(&self) -> Value {
        let hex = |bytes: &[u8]| const_hex::encode_prefixed(bytes);
        let versions = self.versions.iter();
        let versions = versions.map(|(number, version)| (number.to_string(), version.to_json()));
        let versions: BTreeMap<String, Value> = versions.collect();
        let implementations = self.implementations.iter();
        let implementations = implementations.map(|(address, version)| (hex(address), *version));
        let implementations: BTreeMap<String, u32> = implementations.collect();
        let codes = self.code_hashes.iter();
        let codes = codes.map(|(address, hash)| (hex(address), hex(hash)));
        let codes: BTreeMap<String, String> = codes.collect();
        json!({
            "proxy": hex(&self.proxy),
            "startBlock": self.start_block,
            "maxCalldataBytes": self.calldata_bytes_max,
            "versions": versions,
            "implementations": implementations,
            "initialVersion": self.initial_version,
            "codeHashes": codes,
        })
    }

    /// Whether these make every row that others made: the same contract from no later block on, no
    /// version changed but for wider limits, no implementation taken away.
    pub(crate) fn extends(&self, before: &Value) -> bool {
        let now = self.to_json();
        let number = |of: &Value, key: &str| of[key].as_u64();
        let version = |old: &Value, new: &Value| {
            let lanes = old["lanePolicy"] == new["lanePolicy"] || old["lanePolicy"] == "reject";
            old["topic"] == new["topic"]
                && old["hasBlockNumber"] == new["hasBlockNumber"]
                && number(old, "feedsLength") <= number(new, "feedsLength")
                && lanes
        };
        now.get("proxy") == before.get("proxy")
            && number(&now, "startBlock") <= number(before, "startBlock")
            && number(before, "maxCalldataBytes") <= number(&now, "maxCalldataBytes")
            && every(before, &now, "versions", version)
            && every(before, &now, "implementations", |old, new| old == new)
    }

    /// Whether these differ from others in nothing but versions and implementations that were unknown:
    /// what is projected already stays as it is.
    pub(crate) fn continues(&self, before: &Value) -> bool {
        let now = self.to_json();
        let same = ["proxy", "startBlock", "maxCalldataBytes"];
        same.iter().all(|key| now.get(key) == before.get(key))
            && every(before, &now, "versions", |old, new| old == new)
            && every(before, &now, "implementations", |old, new| old == new)
    }
}

/// Whether everything of a map is still there, and as it should be.
fn every(before: &Value, now: &Value, key: &str, holds: impl Fn(&Value, &Value) -> bool) -> bool {
    let Some(before) = before[key].as_object() else {
        return false;
    };
    let new = |name: &str| now[key].get(name);
    let mut before = before.iter();
    before.all(|(name, old)| new(name).is_some_and(|new| holds(old, new)))
}

fn form(has_block_number: bool) -> HeaderForm {
    match has_block_number {
        true => HeaderForm::BlockNumber,
        false => HeaderForm::Accumulators,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> AdfsSettings {
        AdfsSettings {
            proxy: [1; 20],
            start_block: 5,
            versions: [(1, AdfsVersion::new("DataFeedsUpdated(uint256)", true))].into(),
            implementations: [([2; 20], 1)].into(),
            initial_version: None,
            code_hashes: BTreeMap::new(),
            calldata_bytes_max: 1_000,
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        settings().check().unwrap();
        let check = |change: &dyn Fn(&mut AdfsSettings), expected: &str| {
            let mut changed = settings();
            change(&mut changed);
            let error = changed.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&|all| all.versions.clear(), "topicNames");
        check(
            &|all| all.initial_version = Some(9),
            "initialVersion: version 9",
        );
        check(
            &|all| all.implementations.extend([([3; 20], 9)]),
            "version 9",
        );
        let other = |change: fn(&mut AdfsVersion)| {
            move |all: &mut AdfsSettings| all.versions.values_mut().for_each(change)
        };
        check(
            &other(|one| one.has_block_number = false),
            "versions.1.extraFields",
        );
        check(
            &other(|one| one.signature = "Data".to_owned()),
            "topicNames.1",
        );
        let upgraded = |one: &mut AdfsVersion| one.signature = "Upgraded(address)".to_owned();
        check(&other(upgraded), "topicNames.1");
    }

    #[test]
    fn topics_are_hashes_of_signatures() {
        let topic = AdfsVersion::new("DataFeedsUpdated(uint256)", true).topic0();
        let known = b256!("e64378c8d8a289137204264780c7669f3860a703795c6f0574d925d473a4a2a7");
        assert_eq!(topic, known);
        assert_eq!(
            AdfsVersion::new("Upgraded(address)", true).topic0(),
            UPGRADED
        );
    }

    #[test]
    fn settings_that_make_the_same_rows_are_equal_and_others_are_not() {
        let before = settings().to_json();
        let check = |change: &dyn Fn(&mut AdfsSettings), extends: bool, continues: bool| {
            let mut now = settings();
            change(&mut now);
            let found = (now.extends(&before), now.continues(&before));
            assert_eq!(found, (extends, continues), "{:?}", now.to_json());
        };
        check(&|_| {}, true, true);
        let second = AdfsVersion::new("DataFeedsUpdated(uint256)", false);
        let more = |all: &mut AdfsSettings| {
            all.versions.insert(2, second.clone());
            all.implementations.insert([3; 20], 2);
        };
        check(&more, true, true);
        check(&|all| all.start_block = 4, true, false);
        check(&|all| all.start_block = 6, false, false);
        check(&|all| all.calldata_bytes_max = 2_000, true, false);
        check(&|all| all.calldata_bytes_max = 999, false, false);
        check(&|all| all.proxy = [9; 20], false, false);
        check(&|all| all.implementations.clear(), false, false);
        let mask = |all: &mut AdfsSettings| {
            let lanes = |one: &mut AdfsVersion| one.lanes = LanePolicy::Mask;
            all.versions.values_mut().for_each(lanes);
        };
        check(&mask, true, false);
    }
}
