//! Every crate takes its dependencies, lints and package fields from the workspace.
//!
//! One block names every version, so that two crates cannot quietly use two of them.

use toml::{Table, Value};

use crate::{Finding, TextFile};

/// The tables that hold dependencies.
const DEPENDENCY_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Package fields that are said once, for all crates.
const SHARED_FIELDS: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// Checks one crate's `Cargo.toml`.
#[must_use]
pub fn check(file: &TextFile) -> Vec<Finding> {
    let found = |what: String| Finding::whole(&file.path, what);
    let manifest = match file.text.parse::<Table>() {
        Ok(manifest) => manifest,
        Err(error) => return vec![found(format!("does not parse: {error}"))],
    };
    let package = manifest.get("package").and_then(Value::as_table);
    let field = |name: &str| package.and_then(|table| table.get(name));
    let own_name = field("name").and_then(Value::as_str);
    let mut findings = Vec::new();
    for (name, value) in dependencies_of(&manifest) {
        if !inherits(value) && !is_itself(name, value, own_name) {
            findings.push(found(format!(
                "{name}: name it in [workspace.dependencies] and write `workspace = true`"
            )));
        }
    }
    for name in SHARED_FIELDS {
        if !field(name).is_some_and(inherits) {
            findings.push(found(format!("write `{name}.workspace = true`")));
        }
    }
    if !manifest.get("lints").is_some_and(inherits) {
        findings.push(found("write `workspace = true` under [lints]".to_owned()));
    }
    findings
}

fn inherits(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// A crate's tests may turn on its own features; that names no version.
fn is_itself(name: &str, value: &Value, own_name: Option<&str>) -> bool {
    own_name == Some(name) && value.get("path").and_then(Value::as_str) == Some(".")
}

/// Every dependency of every kind, those of single platforms included.
fn dependencies_of(manifest: &Table) -> Vec<(&String, &Value)> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platforms = platforms.into_iter().flat_map(Table::values);
    let tables = platforms.filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|name| table.get(*name)))
        .filter_map(Value::as_table)
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "[package]\nname = \"a\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        publish.workspace = true\n[lints]\nworkspace = true\n";

    fn findings(text: &str) -> usize {
        check(&TextFile::new("crates/a/Cargo.toml", text)).len()
    }

    #[test]
    fn dependencies_with_their_own_version_are_refused() {
        let check = |dependencies: &str| findings(&format!("{PACKAGE}{dependencies}"));
        assert_eq!(check(""), 0);
        assert_eq!(check("[dependencies]\nbytes.workspace = true\n"), 0);
        assert_eq!(
            check("[dev-dependencies]\na = { workspace = true, features = [] }\n"),
            0
        );
        assert_eq!(check("[dev-dependencies]\na = { path = \".\" }\n"), 0);
        assert_eq!(check("[dev-dependencies]\nb = { path = \".\" }\n"), 1);
        assert_eq!(check("[dependencies]\nbytes = \"1\"\n"), 1);
        assert_eq!(check("[dev-dependencies.a]\nversion = \"1\"\n"), 1);
        assert_eq!(check("[build-dependencies]\na = { path = \"../a\" }\n"), 1);
        assert_eq!(
            check("[target.'cfg(unix)'.dependencies]\na = \"1\"\nb = \"2\"\n"),
            2
        );
    }

    #[test]
    fn fields_and_lints_come_from_the_workspace() {
        assert_eq!(
            findings(&PACKAGE.replace("[lints]\nworkspace = true\n", "")),
            1
        );
        assert_eq!(
            findings(&PACKAGE.replace("edition.workspace = true", "edition = \"2021\"")),
            1
        );
        assert_eq!(findings("[package"), 1);
    }
}
