//! What an operator asks of projections. The path is the words of the command, so that whoever knows the
//! one knows the other: `chronolith locks release` is `POST /admin/v1/locks/release`.

use axum::http::Method;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// An act on projections, with the words of the command that does the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProjectionAct {
    /// `db status` and `projection state`.
    Status(OfChain),
    /// `projection resume`.
    Resume(OfProjection),
    /// `projection replay`.
    Replay(ReplayRange),
    /// `jobs list`.
    Jobs(OfChain),
    /// `jobs explain`.
    Explain(OneJob),
    /// `jobs retry`.
    Retry(SomeJob),
    /// `jobs audit`.
    Audit(OfChain),
    /// `locks list`.
    Locks(OfChain),
    /// `locks release`.
    Release(LockOf),
    /// `partitions create`.
    CreatePartitions(PartitionsOf),
    /// `partitions prune`.
    Prune(Prune),
    /// `versions list`.
    Versions(OfChain),
    /// `versions add`.
    AddVersion(VersionOf),
    /// `versions remove`.
    RemoveVersion(ImplementationOf),
}

/// Which chain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfChain {
    /// Name or id; none for the only one, or for all.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
}

/// Which projection of which chain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfProjection {
    /// Name or id; none for the only one.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    /// `fees` or `adfs`; none for all of the chain.
    pub projection: Option<String>,
}

/// Blocks to project again.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayRange {
    /// Name or id; none for the only one.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    /// `fees` or `adfs`; none for all of the chain.
    pub projection: Option<String>,
    /// First block.
    pub from: u64,
    /// Last block.
    pub to: u64,
}

/// A job by its number.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneJob {
    #[serde(deserialize_with = "number")]
    pub id: i64,
}

/// A job by its number, or all of them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SomeJob {
    /// Its number; none for all that failed or were given up.
    pub id: Option<i64>,
}

/// A lock of a chain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockOf {
    /// Name or id; none for the only one.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    /// `finality` or `writer`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Partitions of a month.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionsOf {
    /// Name or id; none for all.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    pub month: String,
}

/// Old partitions.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Prune {
    /// Only show what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// The version of an implementation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionOf {
    /// Name or id; none for the only one.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    pub implementation: String,
    pub version: u32,
}

/// An implementation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImplementationOf {
    /// Name or id; none for the only one.
    #[serde(default, deserialize_with = "name")]
    pub chain: Option<String>,
    pub implementation: String,
}

/// A chain's id may be written as the number it is.
fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name)),
        Value::Number(id) => Ok(Some(id.to_string())),
        _ => Err(D::Error::custom("chain: give its name or its id")),
    }
}

/// The same where it is needed.
pub(super) fn some_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let missing = || D::Error::custom("chain: give its name or its id");
    name(from)?.ok_or_else(missing)
}

/// In a query everything is text.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = match &value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    number.ok_or_else(|| D::Error::custom("id: give the number of a job"))
}

/// Why a request is not an act.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NoAct {
    /// There is no such path.
    Unknown,
    /// There is, but not for this method: this one is.
    Method(&'static str),
    /// What it says makes no sense.
    Bad(String),
}

/// The words of the commands that only look.
const LOOKS: [&str; 6] = [
    "db/status",
    "projection/state",
    "jobs/list",
    "jobs/explain",
    "locks/list",
    "versions/list",
];

/// The words of those that change something.
const CHANGES: [&str; 9] = [
    "projection/resume",
    "projection/replay",
    "jobs/retry",
    "jobs/audit",
    "locks/release",
    "partitions/create",
    // Looks only where it is told to: it is a change all the same.
    "partitions/prune",
    "versions/add",
    "versions/remove",
];

/// What a path and a method ask for. `given` is the body, or the query as an object of texts.
pub(super) fn read(method: &Method, path: &str, given: Value) -> Result<ProjectionAct, NoAct> {
    let looks = LOOKS.contains(&path);
    if !looks && !CHANGES.contains(&path) {
        return Err(NoAct::Unknown);
    }
    let wanted = if looks { Method::GET } else { Method::POST };
    if *method != wanted {
        return Err(NoAct::Method(if looks { "GET" } else { "POST" }));
    }
    use ProjectionAct as Act;
    match path {
        "db/status" | "projection/state" => typed(given).map(Act::Status),
        "projection/resume" => typed(given).map(Act::Resume),
        "projection/replay" => typed(given).map(Act::Replay),
        "jobs/list" => typed(given).map(Act::Jobs),
        "jobs/explain" => typed(given).map(Act::Explain),
        "jobs/retry" => typed(given).map(Act::Retry),
        "jobs/audit" => typed(given).map(Act::Audit),
        "locks/list" => typed(given).map(Act::Locks),
        "locks/release" => typed(given).map(Act::Release),
        "partitions/create" => typed(given).map(Act::CreatePartitions),
        "partitions/prune" => typed(given).map(Act::Prune),
        "versions/list" => typed(given).map(Act::Versions),
        "versions/add" => typed(given).map(Act::AddVersion),
        _ => typed(given).map(Act::RemoveVersion),
    }
}

fn typed<T: DeserializeOwned>(given: Value) -> Result<T, NoAct> {
    serde_json::from_value(given).map_err(|error| NoAct::Bad(error.to_string()))
}

/// A query as an object of texts; of two values of one name one would be passed over.
pub(super) fn query(text: Option<&str>) -> Result<Value, NoAct> {
    let mut all = Map::new();
    for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
        let given = all.insert(name.to_string(), Value::String(value.into_owned()));
        if given.is_some() {
            return Err(NoAct::Bad(format!("the parameter `{name}` is given twice")));
        }
    }
    Ok(Value::Object(all))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_the_words_of_commands() {
        let chain = OfChain {
            chain: Some("31337".to_owned()),
        };
        for (method, path, given, expected) in [
            (
                Method::GET,
                "jobs/list",
                json!({ "chain": 31_337 }),
                Ok(ProjectionAct::Jobs(chain.clone())),
            ),
            (
                Method::GET,
                "jobs/explain",
                json!({ "id": "17" }),
                Ok(ProjectionAct::Explain(OneJob { id: 17 })),
            ),
            (
                Method::POST,
                "jobs/retry",
                json!({}),
                Ok(ProjectionAct::Retry(SomeJob { id: None })),
            ),
            (
                Method::GET,
                "jobs/retry",
                json!({}),
                Err(NoAct::Method("POST")),
            ),
            (
                Method::POST,
                "locks/list",
                json!({}),
                Err(NoAct::Method("GET")),
            ),
            (Method::POST, "locks/break", json!({}), Err(NoAct::Unknown)),
        ] {
            assert_eq!(read(&method, path, given), expected, "{method} {path}");
        }
        for (path, given, said) in [
            ("jobs/explain", json!({ "id": "x" }), "number of a job"),
            ("jobs/explain", json!({}), "missing field"),
            ("locks/list", json!({ "chian": "x" }), "unknown field"),
            ("locks/list", json!({ "chain": [1] }), "its name or its id"),
            ("locks/list", json!("x"), "invalid type"),
        ] {
            let refused = read(&Method::GET, path, given);
            let told = matches!(&refused, Err(NoAct::Bad(why)) if why.contains(said));
            assert!(told, "{path}: {refused:?}");
        }
    }

    #[test]
    fn a_query_says_everything_once() {
        assert_eq!(query(None), Ok(json!({})));
        assert_eq!(
            query(Some("chain=a%20b&id=1")),
            Ok(json!({ "chain": "a b", "id": "1" }))
        );
        assert!(query(Some("chain=a&chain=b")).is_err());
    }
}
