//! Placeholders of scenarios, filled from a chain.
//!
//! | placeholder | becomes |
//! |---|---|
//! | `${head}`, `${finalized-3}`, `${start}`, `${sourceHead}`, `${chainId}` | a number in decimal; blocks may be a few off |
//! | `${hex:head+1}` | the same in hex |
//! | `${blockHash:17}`, `${parentHash:17}`, `${txHash:17:0}` | a hash |
//! | `${txCount:17}` | how many transactions a block has, in hex |
//! | `${address:0}`, `${topic0:0}` | the most frequent one, the next by `:1` |
//! | `${upper:address:0}` | the same with upper-case digits |
//! | `${time:17}`, `${time:17\|+6}`, `${ms:17}`, `${hexTime:17}` | the time of a block, seconds off it, in milliseconds, in hex |
//! | `${twin}`, `${twinEnd}` | the first and the last block of the first run of archived blocks of one time |
//! | `${busy}`, `${busyTail}` | the newest block with two transactions in the archive, in the tail |
//! | `${strangeCursor}` | a cursor that was given for another chain |
//! | `${=head}` | as a whole string: a JSON number |
//! | `{"$times": [3, value]}` | a list of so many of a value, in whose texts `{20}` and `{32}` are the place in the list as so many bytes |

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::chains::Chain;

/// A value with every placeholder in its texts filled.
pub(crate) fn fill(value: &Value, chain: &Chain) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("${=") {
            Some(rest) => {
                let filled = placeholder(rest.strip_suffix('}').unwrap(), chain);
                Value::Number(filled.parse::<u64>().unwrap().into())
            }
            None => Value::String(fill_text(text, chain)),
        },
        Value::Array(list) => list.iter().map(|one| fill(one, chain)).collect(),
        Value::Object(fields) if fields.contains_key("$times") => times(&fields["$times"], chain),
        Value::Object(fields) => {
            let filled = fields
                .iter()
                .map(|(name, one)| (name.clone(), fill(one, chain)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn times(operand: &Value, chain: &Chain) -> Value {
    let text = fill(&operand[1], chain).to_string();
    let one = |at: u64| {
        let of_20 = text.replace("{20}", &format!("{at:040x}"));
        serde_json::from_str::<Value>(&of_20.replace("{32}", &format!("{at:064x}"))).unwrap()
    };
    (0..operand[0].as_u64().unwrap()).map(one).collect()
}

pub(crate) fn fill_text(text: &str, chain: &Chain) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').expect("a placeholder has an end");
        filled.push_str(before);
        filled.push_str(&placeholder(name, chain));
        rest = after;
    }
    filled + rest
}

fn placeholder(text: &str, chain: &Chain) -> String {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let block = || chain.block(number(rest, chain));
    let at = |list: &[String]| list[rest.parse::<usize>().unwrap()].clone();
    match name {
        "hex" => format!("{:#x}", number(rest, chain)),
        "upper" => format!("0x{}", placeholder(rest, chain)[2..].to_uppercase()),
        "blockHash" => block().clock.hash.to_string(),
        "parentHash" => block().clock.parent_hash.to_string(),
        "txHash" => {
            let (block, index) = rest.split_once(':').unwrap();
            let block = chain.block(number(block, chain));
            block.txs[index.parse::<usize>().unwrap()].hash.to_string()
        }
        "txCount" => format!("{:#x}", block().txs.len()),
        "strangeCursor" => chain.strange_cursor.clone(),
        "address" => at(&chain.addresses),
        "topic0" => at(&chain.topics),
        "time" => time(rest, chain).to_string(),
        "ms" => (time(rest, chain) * 1_000).to_string(),
        "hexTime" => format!("{:#x}", time(rest, chain)),
        _ => number(text, chain).to_string(),
    }
}

/// The time of a block, and seconds off it behind a bar.
fn time(text: &str, chain: &Chain) -> u64 {
    let (block, off) = text.split_once('|').unwrap_or((text, "+0"));
    let time = chain.block(number(block, chain)).clock.timestamp;
    time.checked_add_signed(off.parse().unwrap()).unwrap()
}

fn number(text: &str, chain: &Chain) -> u64 {
    let (base, off) = match text.find(['+', '-']) {
        Some(at) => (&text[..at], text[at..].parse::<i64>().unwrap()),
        None => (text, 0),
    };
    let base = match base {
        "head" => chain.head,
        "sourceHead" => chain.source_head,
        "finalized" => chain.finalized.expect("nothing is final"),
        "start" => chain.start,
        "chainId" => chain.id,
        "busy" => busy(chain, 0..=chain.finalized.unwrap()),
        "busyTail" => busy(chain, chain.finalized.unwrap() + 1..=chain.head),
        "twin" => twins(chain).0,
        "twinEnd" => twins(chain).1,
        digits => digits
            .parse()
            .unwrap_or_else(|_| panic!("no placeholder {text}")),
    };
    base.checked_add_signed(off).unwrap()
}

/// The newest block of these with two transactions.
fn busy(chain: &Chain, mut blocks: RangeInclusive<u64>) -> u64 {
    let found = blocks.rfind(|&number| chain.block(number).txs.len() >= 2);
    found.expect("no block with two transactions")
}

/// The first run of blocks of one time.
fn twins(chain: &Chain) -> (u64, u64) {
    let time = |number: u64| chain.block(number).clock.timestamp;
    let mut blocks = 1..chain.finalized.unwrap();
    let first =
        blocks.find(|&number| time(number) == time(number + 1) && time(number) > time(number - 1));
    let first = first.expect("no two blocks of one time");
    let same = (first..=chain.head).take_while(|&number| time(number) == time(first));
    (first, same.last().unwrap())
}
