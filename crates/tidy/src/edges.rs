//! Which crate may depend on which.
//!
//! The table is the architecture. An edge that is not in it is refused, however convenient;
//! dev-dependencies are free, because tests may see everything.

use serde_json::Value;

use crate::Finding;

/// What every package of the workspace is called before its folder's name.
const PREFIX: &str = "chronolith-";

/// Each crate and what it may depend on.
pub const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("store", &[]),
    ("evm", &[]),
    ("stellar", &["model"]),
    ("source", &["model", "evm", "stellar"]),
    ("finality", &["model"]),
    ("archive", &["model", "store"]),
    ("chain-view", &["model", "finality", "archive"]),
    ("projection", &["model", "store", "archive", "chain-view"]),
    ("projection-fees", &["model", "chain-view", "projection"]),
    (
        "projection-adfs",
        &["model", "archive", "chain-view", "evm", "projection"],
    ),
    (
        "serve",
        &[
            "model",
            "archive",
            "chain-view",
            "projection",
            "projection-fees",
            "evm",
            "stellar",
        ],
    ),
    (
        "sim",
        &["model", "store", "source", "finality", "archive", "stellar"],
    ),
    (
        "follower",
        &["model", "store", "source", "finality", "archive", "stellar"],
    ),
    (
        "node",
        &[
            "follower",
            "model",
            "store",
            "source",
            "finality",
            "archive",
            "chain-view",
            "projection",
            "projection-fees",
            "projection-adfs",
            "serve",
            "sim",
            "evm",
            "stellar",
        ],
    ),
    (
        "sim-cli",
        &["model", "store", "evm", "archive", "projection", "sim"],
    ),
    ("tidy", &[]),
];

/// Refuses edges that are not drawn, crates that are not in the table, and a package whose name
/// is not that of its folder.
#[must_use]
pub fn check(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in members(metadata) {
        let name = text(package, "name");
        let Some(short) = name.strip_prefix(PREFIX) else {
            let what = format!("a package of the workspace is called {PREFIX}<folder>");
            findings.push(Finding::whole(name, what));
            continue;
        };
        let manifest = text(package, "manifest_path").replace('\\', "/");
        if !manifest.ends_with(&format!("crates/{short}/Cargo.toml")) {
            let what = format!("does not live in crates/{short}");
            findings.push(Finding::whole(name, what));
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == short) else {
            let what = "is not in the table of crates (crates/tidy/src/edges.rs)".to_owned();
            findings.push(Finding::whole(name, what));
            continue;
        };
        for target in edges_of(package).filter(|target| !allowed.contains(target)) {
            let what = format!("may not depend on {PREFIX}{target}: that edge is not drawn");
            findings.push(Finding::whole(name, what));
        }
    }
    findings
}

/// The packages of the workspace.
pub fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let ids = list(metadata, "workspace_members");
    list(metadata, "packages")
        .iter()
        .filter(move |package| package.get("id").is_some_and(|id| ids.contains(id)))
}

/// The workspace crates that a package needs outside its tests.
fn edges_of(package: &Value) -> impl Iterator<Item = &str> {
    list(package, "dependencies")
        .iter()
        .filter(|dependency| text(dependency, "kind") != "dev")
        .filter_map(|dependency| text(dependency, "name").strip_prefix(PREFIX))
}

/// A field's text, empty where there is none.
#[must_use]
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A field's list, empty where there is none.
#[must_use]
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(name: &str, folder: &str, dependencies: &Value) -> usize {
        let metadata = json!({
            "workspace_members": ["id"],
            "packages": [
                {
                    "id": "id",
                    "name": name,
                    "manifest_path": format!("/r/crates/{folder}/Cargo.toml"),
                    "dependencies": dependencies,
                },
                { "id": "other", "name": "not-ours", "dependencies": [] },
            ],
        });
        check(&metadata).len()
    }

    #[test]
    fn edges_that_are_not_drawn_are_refused() {
        let normal = |name| json!([{ "name": name, "kind": null }]);
        let store = normal("chronolith-store");
        assert_eq!(findings("chronolith-archive", "archive", &store), 0);
        assert_eq!(findings("chronolith-model", "model", &store), 1);
        let build = json!([{ "name": "chronolith-sim", "kind": "build" }]);
        assert_eq!(findings("chronolith-archive", "archive", &build), 1);
        let dev = json!([{ "name": "chronolith-sim", "kind": "dev" }]);
        assert_eq!(findings("chronolith-archive", "archive", &dev), 0);
        let foreign = normal("bytes");
        assert_eq!(findings("chronolith-model", "model", &foreign), 0);
    }

    #[test]
    fn crates_are_known_and_live_in_their_folder() {
        let none = json!([]);
        assert_eq!(findings("chronolith-common", "common", &none), 1);
        assert_eq!(findings("chronolith-model", "nouns", &none), 1);
        assert_eq!(findings("model", "model", &none), 1);
    }

    #[test]
    fn the_table_has_no_cycle() {
        // A crate may only name crates above it in the table.
        for (at, (name, allowed)) in ALLOWED.iter().enumerate() {
            for target in *allowed {
                let above = ALLOWED.iter().take(at).any(|(other, _)| other == target);
                assert!(above, "{name} -> {target}");
            }
        }
    }
}
