//! The naive scan: every log of every block, looked at by the rules as they are written, with none
//! of the program's own code.

use chronolith_model::{Block, Log};
use serde_json::{Value, json};

use super::chains::{Chain, hex};

/// The logs that a filter wants, as a node shows them. Block numbers of the filter are plain numbers.
pub(crate) fn logs<'a>(chain: &'a Chain, filter: &Value) -> Vec<&'a Value> {
    let number = |name: &str| {
        let given = filter[name]
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        given.unwrap_or_else(|| panic!("{name} of {filter} is no number"))
    };
    // Each log is put into words once: that takes longer than anything else here.
    let shown = chain
        .shown
        .get_or_init(|| chain.blocks.iter().map(show).collect());
    let blocks = &shown[number("fromBlock")..=number("toBlock")];
    let mut wanted: Vec<&Value> = blocks
        .iter()
        .flatten()
        .filter(|log| is_wanted(log, filter))
        .collect();
    match filter["order"].as_str() {
        None | Some("asc") => {}
        Some("desc") => wanted.reverse(),
        Some(other) => panic!("order {other}"),
    }
    if let Some(limit) = filter["limit"].as_u64() {
        wanted.truncate(usize::try_from(limit).unwrap());
    }
    wanted
}

/// Address and every position must fit; a filter with more positions than the log has topics never
/// does.
fn is_wanted(log: &Value, filter: &Value) -> bool {
    const NONE: &Vec<Value> = &Vec::new();
    let topics = log["topics"].as_array().unwrap();
    let positions = filter["topics"].as_array().unwrap_or(NONE);
    let mut pairs = positions.iter().zip(topics);
    topics.len() >= positions.len()
        && fits(&filter["address"], &log["address"])
        && pairs.all(|(wanted, topic)| fits(wanted, topic))
}

/// Nothing, an empty list and a list with null in it all mean any.
fn fits(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::String(one) => *value == one.to_lowercase(),
        Value::Array(several) => {
            several.is_empty() || several.iter().any(|one| one.is_null() || fits(one, value))
        }
        other => panic!("{other} is neither a value nor a list"),
    }
}

fn show(block: &Block) -> Vec<Value> {
    let log = |log: &Log| {
        let tx = block.tx_hash(log.tx_index()).unwrap();
        json!({
            "address": hex(log.emitter()),
            "topics": log.topics().map(hex).collect::<Vec<_>>(),
            "data": hex(log.data()),
            "blockNumber": format!("{:#x}", block.clock.number),
            "blockHash": block.clock.hash.to_string(),
            "blockTimestamp": format!("{:#x}", block.clock.timestamp),
            "transactionHash": tx.to_string(),
            "transactionIndex": format!("{:#x}", log.tx_index()),
            "logIndex": format!("{:#x}", log.log_index()),
            "removed": false,
        })
    };
    block.logs.iter().map(log).collect()
}

/// The same logs as a table.
pub(crate) fn csv(logs: &[&Value]) -> String {
    let names = [
        "blockNumber",
        "blockTimestamp",
        "blockHash",
        "transactionIndex",
        "transactionHash",
        "logIndex",
        "address",
    ];
    let decimal = |text: &str| match text.len() {
        // Hashes and addresses stay as they are.
        42 | 66 => text.to_owned(),
        _ => u64::from_str_radix(&text[2..], 16).unwrap().to_string(),
    };
    let mut table = format!("{},topic0,topic1,topic2,topic3,data\n", names.join(","));
    for log in logs {
        let mut row: Vec<String> = names
            .iter()
            .map(|name| decimal(log[*name].as_str().unwrap()))
            .collect();
        row.extend((0..4).map(|at| log["topics"][at].as_str().unwrap_or("").to_owned()));
        row.push(log["data"].as_str().unwrap().to_owned());
        table.push_str(&row.join(","));
        table.push('\n');
    }
    table
}
