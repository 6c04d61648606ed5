//! The same queries to a node and to Chronolith, through alloy's provider.
//!
//! The arguments are two URLs. Answers are parsed into alloy's types, so that a value that it cannot parse is a failure
//! too, and compared as JSON except for the fields in `left-out.json`. Prints the number of comparisons; a difference, or
//! no comparison at all, is a failure.

use std::error::Error;
use std::process::ExitCode;

use alloy_primitives::{Address, B256, address, b256};
use alloy_provider::{Provider, RootProvider};
use alloy_rpc_types_eth::Filter;
use serde_json::{Map, Value};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Fields of a block that Chronolith may omit, each with the reason.
const LEFT_OUT: &str = include_str!("../../left-out.json");
const DIFFERENCES_SHOWN: usize = 10;

/// The contracts that `contracts.mjs` describes, and the first topic of their logs.
const TOKEN: Address = address!("5fbdb2315678afecb367f032d93f642f64180aa3");
const NOISE: Address = address!("e7f1725e7734ce288f8367e1bb143e90bb3f0512");
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
const APPROVAL: B256 = b256!("8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925");

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let urls: Vec<_> = std::env::args().skip(1).collect();
    let [node, ours] = urls.as_slice() else {
        eprintln!("usage: chronolith-client-alloy NODE_URL OURS_URL");
        return ExitCode::from(2);
    };
    match compare(node, ours).await {
        Ok(tally) => tally.finish(),
        Err(error) => {
            eprintln!("  alloy: {error}");
            println!("result alloy 0 1");
            ExitCode::FAILURE
        }
    }
}

async fn compare(node: &str, ours: &str) -> Outcome<Tally> {
    let mut tally = Tally::new()?;
    let node: RootProvider = RootProvider::new_http(node.parse()?);
    let ours: RootProvider = RootProvider::new_http(ours.parse()?);
    let id = (node.get_chain_id().await?, ours.get_chain_id().await?);
    tally.equal("chain id", &id.0.into(), &id.1.into());
    let head = node.get_block_number().await?;
    tally.equal("head", &head.into(), &ours.get_block_number().await?.into());
    for number in 0..=head {
        block(&mut tally, &node, &ours, number).await?;
    }
    let mut logs_seen = 0;
    for filter in filters(head) {
        let theirs = node.get_logs(&filter).await?;
        logs_seen += theirs.len();
        let mine = serde_json::to_value(ours.get_logs(&filter).await?)?;
        let what = serde_json::to_string(&filter)?;
        tally.equal(&what, &serde_json::to_value(theirs)?, &mine);
    }
    if logs_seen == 0 {
        return Err("the node has no logs: feed.mjs makes them".into());
    }
    Ok(tally)
}

/// One block in full, by number and by hash, and each of its transactions.
async fn block(
    tally: &mut Tally,
    node: &RootProvider,
    ours: &RootProvider,
    number: u64,
) -> Outcome<()> {
    let theirs = node.get_block_by_number(number.into()).full().await?;
    let theirs = theirs.ok_or("the node lost a block")?;
    let mine = ours.get_block_by_number(number.into()).full().await?;
    let expected = serde_json::to_value(&theirs)?;
    tally.equal(
        &format!("block {number}"),
        &expected,
        &serde_json::to_value(mine)?,
    );
    let mine = ours.get_block_by_hash(theirs.header.hash).full().await?;
    tally.equal(
        &format!("block {number} by hash"),
        &expected,
        &serde_json::to_value(mine)?,
    );
    for hash in theirs.transactions.hashes() {
        let theirs = serde_json::to_value(node.get_transaction_by_hash(hash).await?)?;
        let mine = serde_json::to_value(ours.get_transaction_by_hash(hash).await?)?;
        tally.equal(&format!("transaction {hash}"), &theirs, &mine);
    }
    Ok(())
}

/// Filters as this library's users write them, over all blocks and in windows.
fn filters(head: u64) -> Vec<Filter> {
    let all = Filter::new().from_block(0).to_block(head);
    let holder = address!("70997970c51812dc3a010c7d01b50e0d17dc79c8").into_word();
    let other = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266").into_word();
    let mut filters = vec![
        all.clone(),
        all.clone().address(TOKEN),
        all.clone().address(vec![TOKEN, NOISE]),
        all.clone().event_signature(TRANSFER),
        all.clone().event_signature(vec![TRANSFER, APPROVAL]),
        all.clone().topic1(holder),
        all.clone()
            .address(TOKEN)
            .event_signature(TRANSFER)
            .topic2(holder),
        all.clone()
            .event_signature(TRANSFER)
            .topic1(vec![holder, other])
            .topic2(vec![holder, other]),
        all.clone().topic3(B256::with_last_byte(9)),
        all.address(Address::with_last_byte(7)),
    ];
    let windows = (0..=head).step_by(7);
    filters.extend(windows.map(|from| Filter::new().from_block(from).to_block(head.min(from + 9))));
    filters
}

/// Counts comparisons and differences.
struct Tally {
    left_out: Map<String, Value>,
    compared: usize,
    differences: usize,
}

impl Tally {
    fn new() -> Outcome<Self> {
        let left_out = serde_json::from_str(LEFT_OUT)?;
        Ok(Self {
            left_out,
            compared: 0,
            differences: 0,
        })
    }

    /// Both answers are equal, except for fields that may be omitted.
    fn equal(&mut self, what: &str, theirs: &Value, ours: &Value) {
        self.compared += 1;
        if let Some(place) = self.difference(theirs, ours) {
            self.differences += 1;
            if self.differences <= DIFFERENCES_SHOWN {
                println!("  alloy: {what}: {place}");
            }
        }
    }

    /// The first difference.
    fn difference(&self, theirs: &Value, ours: &Value) -> Option<String> {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                let added = ours.keys().filter(|key| !theirs.contains_key(*key));
                let left_out =
                    |key: &&String| self.left_out.contains_key(*key) && !ours.contains_key(*key);
                let keys = theirs.keys().filter(|key| !left_out(key)).chain(added);
                keys.into_iter().find_map(|key| {
                    let value =
                        |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                    let found = self.difference(&value(theirs), &value(ours))?;
                    Some(format!(".{key}{found}"))
                })
            }
            (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
                let pairs = theirs.iter().zip(ours).enumerate();
                pairs.into_iter().find_map(|(at, (theirs, ours))| {
                    let found = self.difference(theirs, ours)?;
                    Some(format!("[{at}]{found}"))
                })
            }
            (Value::Array(theirs), Value::Array(ours)) => Some(format!(
                ": theirs has {} items, ours {}",
                theirs.len(),
                ours.len()
            )),
            _ => (theirs != ours).then(|| format!(": theirs {theirs}, ours {ours}")),
        }
    }

    /// Prints the counts.
    fn finish(&self) -> ExitCode {
        println!("result alloy {} {}", self.compared, self.differences);
        if self.compared == 0 || self.differences > 0 {
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}
