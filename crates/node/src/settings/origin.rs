//! Where the settings come from: a file, the variables of a fee collector, or nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use chronolith_source::CHAINS;
use serde_json::{Value, json};

use super::collector;

/// The file that is written where none is named, and those that are looked for.
pub(crate) const DEFAULT_FILE: &str = "chronolith.json";
const FILES: [&str; 2] = [DEFAULT_FILE, "chronolith.toml"];

/// The settings file: the one that is named, or the one that is in the working directory.
///
/// # Errors
/// Two are there and none is named.
pub(crate) fn find_file(named: Option<&Path>) -> Result<Option<PathBuf>> {
    find_in(Path::new(""), named)
}

fn find_in(dir: &Path, named: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    let mut found = FILES.map(|name| dir.join(name)).to_vec();
    // One that cannot be looked at counts as there, so that reading it says why.
    found.retain(|path| path.try_exists().unwrap_or(true));
    ensure!(
        found.len() < FILES.len(),
        "{} are both here: name one with --config",
        FILES.join(" and ")
    );
    Ok(found.pop())
}

/// Where the settings come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    File(PathBuf),
    /// The variables of the fee document.
    Collector,
    /// Nothing is set: the block times of all known chains.
    KnownChains,
}

impl Origin {
    /// The file that is named, or the one that is in this directory, else what the variables say.
    ///
    /// # Errors
    /// Two files are there and none is named, or variables of a collector are there without its chain.
    pub(super) fn find(
        dir: &Path,
        named: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        Ok(match find_in(dir, named)? {
            Some(path) => Self::File(path),
            None if collector::is_meant(variable)? => Self::Collector,
            None => Self::KnownChains,
        })
    }

    /// What is set and not used, one line each.
    pub(super) fn notes(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let note = match self {
            Self::File(path) => {
                // Default: a file that is gone since it was read uses no variable.
                let text = fs::read_to_string(path).unwrap_or_default();
                collector::beside_file(path, &text, variable)
            }
            Self::Collector => collector::not_used(variable),
            Self::KnownChains => collector::without_chain(variable),
        };
        note.into_iter().collect()
    }

    /// How it is called in what people read.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Collector => "the environment (ACTIVE_CHAIN)".to_owned(),
            Self::KnownChains => "the default (no settings file)".to_owned(),
        }
    }

    /// Whether there is a file to change.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// The settings of the block-by-time document: the clock of every known chain, from the common Portal.
pub(super) fn clocks_of_known_chains() -> Value {
    let chains = CHAINS.iter();
    let chains = chains.map(|chain| json!({ "name": chain.name, "datasets": ["clock"] }));
    json!({ "chains": chains.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::super::endpoints::PortalOverrides;
    use super::*;

    fn check(files: &[&str], variables: &[(&str, &str)], expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(dir.path().join(file), "{}").unwrap();
        }
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let found = Origin::find(dir.path(), None, &variable);
        let shown = match found {
            Ok(Origin::File(path)) => path.file_name().unwrap().to_string_lossy().into_owned(),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{files:?} {variables:?}: {shown}");
    }

    #[test]
    fn a_file_goes_before_variables_and_they_before_nothing() {
        let chain = [("ACTIVE_CHAIN", "137")];
        check(&[], &[], "KnownChains");
        check(&[], &chain, "Collector");
        check(&["chronolith.json"], &chain, "chronolith.json");
        check(&["chronolith.toml"], &[], "chronolith.toml");
        let both = ["chronolith.json", "chronolith.toml"];
        check(&both, &[], "name one with --config");
        // A URL of a node alone may be meant for another program; the others are of no other.
        check(&[], &[("RPC_URL", "http://a")], "KnownChains");
        for name in ["CONTRACT_ADDRESS", "START_POINT"] {
            check(&[], &[(name, "1")], "ACTIVE_CHAIN is not");
        }
        // One that is named is read, and its absence is an error there.
        let nowhere = Path::new("/nowhere/chronolith.json");
        let named = Origin::find(Path::new(""), Some(nowhere), &|_| None).unwrap();
        assert_eq!(named, Origin::File(nowhere.to_owned()));
    }

    #[test]
    fn what_is_set_and_not_used_is_named_for_each_origin() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("chronolith.json");
        fs::write(&file, r#"{ "chains": [{ "rpcHttp": ["${RPC_URL}"] }] }"#).unwrap();
        let set = ["RPC_URL", "BATCH_SIZE", "MONGO_URI"];
        let variable = |name: &str| set.contains(&name).then(|| "x".to_owned());
        for (origin, names) in [
            (Origin::File(file), "BATCH_SIZE, MONGO_URI; "),
            (Origin::Collector, "MONGO_URI ("),
            (Origin::KnownChains, "RPC_URL, BATCH_SIZE, MONGO_URI; "),
        ] {
            let notes = origin.notes(&variable);
            let expected = format!("set and not used: {names}");
            let is_right = notes.len() == 1 && notes[0].starts_with(&expected);
            assert!(is_right, "{origin:?}: {notes:?}");
            assert_eq!(origin.notes(&|_| None), [""; 0]);
        }
    }

    #[test]
    fn the_clock_of_every_known_chain_is_followed_without_a_file() {
        let portal = PortalOverrides {
            url: Some("http://127.0.0.1:1/datasets"),
            requests_per_10s: Some(7),
        };
        let settings = super::super::Settings::build(clocks_of_known_chains(), portal).unwrap();
        assert_eq!(settings.chains.len(), 30);
        for (chain, known) in settings.chains.iter().zip(CHAINS) {
            assert_eq!(chain.chain_id, known.chain_id);
            assert_eq!(chain.datasets, chronolith_model::DatasetSet::CLOCK);
            let url = &chain.portal.as_ref().unwrap().url;
            assert_eq!(
                *url,
                format!("http://127.0.0.1:1/datasets/{}", known.portal)
            );
        }
    }
}
