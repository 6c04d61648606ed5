//! Which licences and packages the dependency tree may hold.
//!
//! `make deny` runs cargo-deny, which is the authority on licences, bans and sources. It takes minutes to
//! install, so CI does not have it. This check reads the same lists of `deny.toml` and keeps a licence or a
//! package that is not allowed from landing there.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use serde_json::Value;
use toml::Table;

use crate::Finding;
use crate::edges::{list, members, text};

/// What `deny.toml` allows and bans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Licences that a package may be under.
    pub allowed: Vec<String>,
    /// Packages that may not be there at all.
    pub banned: Vec<String>,
}

impl Policy {
    /// Reads `deny.toml`.
    ///
    /// # Errors
    /// Text that is not TOML or has no allow list.
    pub fn parse(deny: &str) -> anyhow::Result<Self> {
        let table: Table = deny.parse()?;
        let name = |value: &toml::Value| {
            let inner = value.get("crate").or_else(|| value.get("name"));
            inner.unwrap_or(value).as_str().map(str::to_owned)
        };
        let names = |section: &str, key: &str| -> Vec<String> {
            let found = table.get(section).and_then(|section| section.get(key));
            let values = found.and_then(toml::Value::as_array);
            values.into_iter().flatten().filter_map(name).collect()
        };
        let (allowed, banned) = (names("licenses", "allow"), names("bans", "deny"));
        anyhow::ensure!(!allowed.is_empty(), "deny.toml allows no licence");
        Ok(Self { allowed, banned })
    }

    /// Whether the expression can be met with allowed licences alone.
    #[must_use]
    pub fn admits(&self, expression: &str) -> bool {
        // The slash is how old packages write OR.
        let spaced = expression
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let mut tokens = spaced.split_whitespace().peekable();
        self.any(&mut tokens) == Some(true) && tokens.next().is_none()
    }

    fn any(&self, tokens: &mut Tokens<'_>) -> Option<bool> {
        let mut met = self.all(tokens)?;
        while tokens.next_if_eq(&"OR").is_some() {
            met |= self.all(tokens)?;
        }
        Some(met)
    }

    fn all(&self, tokens: &mut Tokens<'_>) -> Option<bool> {
        let mut met = self.one(tokens)?;
        while tokens.next_if_eq(&"AND").is_some() {
            met &= self.one(tokens)?;
        }
        Some(met)
    }

    fn one(&self, tokens: &mut Tokens<'_>) -> Option<bool> {
        let mut licence = tokens.next()?.to_owned();
        if licence == "(" {
            let met = self.any(tokens)?;
            return (tokens.next()? == ")").then_some(met);
        }
        if tokens.next_if_eq(&"WITH").is_some() {
            licence = format!("{licence} WITH {}", tokens.next()?);
        }
        Some(self.allowed.contains(&licence))
    }
}

type Tokens<'a> = Peekable<SplitWhitespace<'a>>;

/// Refuses packages that are banned or under no allowed licence.
#[must_use]
pub fn check(metadata: &Value, policy: &Policy) -> Vec<Finding> {
    let ours: Vec<&str> = members(metadata).map(|ours| text(ours, "id")).collect();
    let mut findings = Vec::new();
    for package in list(metadata, "packages") {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        if policy.banned.iter().any(|banned| banned == name) {
            findings.push(Finding::whole(name, "is banned by deny.toml".to_owned()));
        }
        if !ours.contains(&text(package, "id")) && !policy.admits(licence) {
            let what = format!("licence `{licence}` is not allowed by deny.toml");
            findings.push(Finding::whole(name, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy() -> Policy {
        Policy::parse(
            "[licenses]\nallow = [\"MIT\", \"ISC\", \"Apache-2.0 WITH LLVM-exception\"]\n\
             [bans]\ndeny = [{ crate = \"openssl-sys\" }]\n",
        )
        .unwrap()
    }

    #[test]
    fn expressions_are_met_or_refused() {
        let check = |expression, expected| {
            assert_eq!(policy().admits(expression), expected, "{expression}");
        };
        check("MIT", true);
        check("MIT OR GPL-3.0", true);
        check("MIT/GPL-3.0", true);
        check("GPL-3.0", false);
        check("MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0) AND ISC", true);
        check("(MIT OR GPL-3.0) AND GPL-2.0", false);
        check("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true);
        check("Apache-2.0", false);
        check("", false);
        check("MIT AND", false);
        check("MIT MIT", false);
        check("(MIT", false);
    }

    #[test]
    fn foreign_packages_are_judged_and_ours_are_not() {
        let package = |id: &str, name: &str, licence: Value| json!({ "id": id, "name": name, "license": licence });
        let findings = |packages: Value| {
            let metadata = json!({ "workspace_members": ["ours"], "packages": packages });
            check(&metadata, &policy()).len()
        };
        assert_eq!(findings(json!([package("ours", "a", json!(null))])), 0);
        assert_eq!(findings(json!([package("b", "b", json!("MIT"))])), 0);
        assert_eq!(findings(json!([package("b", "b", json!(null))])), 1);
        assert_eq!(findings(json!([package("b", "b", json!("AGPL-3.0"))])), 1);
        assert_eq!(
            findings(json!([package("b", "openssl-sys", json!("MIT"))])),
            1
        );
    }

    #[test]
    fn a_policy_that_allows_nothing_is_refused() {
        assert!(Policy::parse("[bans]\n").is_err());
    }
}
