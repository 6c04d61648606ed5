//! The tables of errors and limits in the description: `x-errors` and `x-limits`. Their texts are data, their
//! numbers are those that the code uses, for a node with the default settings.

use serde::{Deserialize, Serialize};

use crate::fees;
use crate::http::Limits;
use crate::http::limits::FixedLimits;
use crate::rest::logs_of_chains::CHAINS_MAX;
use crate::rpc::TOPICS_MAX;

/// What may fail, and what to do then.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
pub(super) struct ErrorRow {
    /// The code of JSON-RPC; none where it is for REST alone.
    pub(super) rpc: Option<i64>,
    /// By what it differs from others with this code.
    #[serde(default)]
    pub(super) note: String,
    /// The status of REST; none where it is for JSON-RPC alone.
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) codes: Vec<String>,
    pub(super) when: String,
    pub(super) advice: String,
}

/// A limit of requests and answers.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
pub(super) struct LimitRow {
    pub(super) what: String,
    /// The setting that changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) setting: Option<String>,
    pub(super) limit: String,
}

pub(super) fn errors() -> serde_json::Result<Vec<ErrorRow>> {
    let mut rows: Vec<ErrorRow> = serde_json::from_str(include_str!("errors.json"))?;
    let values = values(&Limits::default());
    for row in &mut rows {
        row.when = fill(&row.when, &values);
    }
    Ok(rows)
}

pub(super) fn limits() -> serde_json::Result<Vec<LimitRow>> {
    let mut rows: Vec<LimitRow> = serde_json::from_str(include_str!("limits.json"))?;
    let values = values(&Limits::default());
    for row in &mut rows {
        row.what = fill(&row.what, &values);
        row.limit = fill(&row.limit, &values);
    }
    Ok(rows)
}

type Value = (&'static str, String);

/// A text with the values of the names in braces.
fn fill(text: &str, values: &[Value]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// The values of all names.
fn values(limits: &Limits) -> Vec<Value> {
    let mib = |bytes: usize| (bytes >> 20).to_string();
    let kib = |bytes: usize| (bytes >> 10).to_string();
    let or = |limit: Option<u64>, otherwise: &str| match limit {
        Some(limit) => grouped(limit),
        None => otherwise.to_owned(),
    };
    let count = |count: usize| grouped(count as u64);
    let per_peer = limits.connections_per_peer.map(|count| count as u64);
    let alternatives = limits.alternatives.map(|count| count as u64);
    let fixed = FixedLimits::THESE;
    vec![
        ("results", count(limits.answers.results)),
        ("answerMib", mib(limits.answer_bytes)),
        ("blockRange", or(limits.block_range, "all")),
        ("bodyMib", mib(limits.body_bytes)),
        ("batch", count(limits.batch)),
        ("alternatives", or(alternatives, "as many as fit")),
        ("topics", count(TOPICS_MAX)),
        ("querySeconds", limits.timeout.as_secs().to_string()),
        ("answerSeconds", fixed.answer.as_secs().to_string()),
        ("times", count(limits.times)),
        ("chains", count(CHAINS_MAX)),
        ("queueSeconds", fixed.queue.as_secs().to_string()),
        ("queries", count(limits.queries_at_once)),
        ("connections", count(limits.connections)),
        ("connectionsPerPeer", or(per_peer, "all")),
        ("fees", count(fees::LIMIT_MAX)),
        ("feesSeconds", fees::TIMEOUT.as_secs().to_string()),
        ("headSeconds", fixed.head.as_secs().to_string()),
        ("idleSeconds", fixed.idle.as_secs().to_string()),
        ("readMib", mib(fixed.read_bytes)),
        ("writeSeconds", fixed.write.as_secs().to_string()),
        ("holdSeconds", fixed.hold.as_secs().to_string()),
        ("unreadMib", mib(limits.unread_bytes)),
        ("smallKib", kib(fixed.small_bytes)),
        ("tinyKib", kib(fixed.tiny_bytes)),
        ("largeKib", kib(fixed.large_bytes)),
        ("paceKib", kib(fixed.medium_bytes_a_second)),
        ("headKib", kib(fixed.head_bytes)),
        ("bodiesMib", mib(limits.bodies_bytes)),
        ("compressed", count(fixed.compressed)),
    ]
}

/// `10,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::error::ErrorCode;

    const DOCUMENT: &str = include_str!("../../../../docs/api.md");

    /// The rows of the last table of a chapter, without its head.
    fn table(chapter: &str) -> Vec<&'static str> {
        let (_, chapter) = DOCUMENT.split_once(&format!("\n## {chapter}\n")).unwrap();
        let (chapter, _) = chapter.split_once("\n## ").unwrap();
        let lines: Vec<_> = chapter.lines().collect();
        let head = lines
            .iter()
            .rposition(|line| line.starts_with("|---"))
            .unwrap();
        let rows = lines[head + 1..].iter().copied();
        rows.take_while(|line| line.starts_with('|')).collect()
    }

    #[test]
    fn the_document_has_the_same_errors() {
        let row = |row: &ErrorRow| {
            let rpc = row.rpc.map(|code| format!("{code}{} ", row.note));
            let codes: Vec<_> = row.codes.iter().map(|code| format!("`{code}`")).collect();
            let rest = row
                .status
                .map(|status| format!("{status} {} ", codes.join(", ")));
            let (rpc, rest) = (rpc.unwrap_or_default(), rest.unwrap_or_default());
            format!("| {rpc}| {rest}| {} | {} |", row.when, row.advice)
        };
        let rows: Vec<_> = errors().unwrap().iter().map(row).collect();
        assert_eq!(rows, table("Errors"));
    }

    #[test]
    fn the_document_has_the_same_limits() {
        let row = |row: &LimitRow| {
            let setting = row.setting.as_ref().map(|name| format!(" (`{name}`)"));
            format!(
                "| {}{} | {} |",
                row.what,
                setting.unwrap_or_default(),
                row.limit
            )
        };
        let rows: Vec<_> = limits().unwrap().iter().map(row).collect();
        assert_eq!(rows, table("Limits"));
    }

    /// What clients can take depends on these sizes and counts.
    #[test]
    fn the_sum_of_memory_names_the_same_limits() {
        let page = include_str!("../../../../docs/deployment.md");
        let (_, chapter) = page.split_once("\n## Memory\n").unwrap();
        let (chapter, _) = chapter.split_once("\n## ").unwrap();
        let values = values(&Limits::default());
        for text in [
            "| requests of more than {tinyKib} KiB, until they are answered | {bodiesMib} |",
            "one request of up to {largeKib} KiB and one of up to {bodyMib} MiB",
            "until they are read | {unreadMib} |",
            "tiny answers of {connections} connections",
            "compression of {compressed} answers",
        ] {
            let text = fill(text, &values);
            assert!(chapter.contains(&text), "{text}");
        }
    }

    /// No name is left, and no value is without a place.
    #[test]
    fn numbers_come_from_the_code() {
        let data = [include_str!("limits.json"), include_str!("errors.json")].concat();
        for (name, _) in values(&Limits::default()) {
            assert!(data.contains(&format!("{{{name}}}")), "{name}");
        }
        let shown = serde_json::to_string(&(errors().unwrap(), limits().unwrap())).unwrap();
        let names = shown.split('{').skip(1);
        let left: Vec<_> = names.filter(|rest| !rest.starts_with('"')).collect();
        assert_eq!(left, Vec::<&str>::new());
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn every_error_of_the_code_has_a_row_and_no_other_has() {
        let rows = errors().unwrap();
        let described: BTreeSet<(u16, &str)> = rows
            .iter()
            .flat_map(|row| {
                row.codes
                    .iter()
                    .map(move |code| (row.status.unwrap(), &**code))
            })
            .collect();
        let known = ErrorCode::ALL.iter().map(|code| code.rest());
        let known: BTreeSet<_> = known
            .map(|(status, word)| (status.as_u16(), word))
            .collect();
        assert_eq!(described, known);
        let described: BTreeSet<i64> = rows.iter().filter_map(|row| row.rpc).collect();
        let calls = [
            ErrorCode::Parse,
            ErrorCode::InvalidRequest,
            ErrorCode::MethodNotFound,
        ];
        let known = ErrorCode::ALL.iter().chain(&calls);
        let known: BTreeSet<_> = known.map(|code| code.rpc()).collect();
        assert_eq!(described, known);
    }
}
