//! `chronolith chain probe` and `chronolith chain record`.

use anyhow::{Context as _, Result};
use chronolith_model::Verification;
use chronolith_serve::ChainId;
use chronolith_source::evm::{Checks, Oddity, Probed, Prober};
use serde_json::{Value, json};

use super::output::print_json;
use crate::cli::{ChainCommand, ProbeChain, RecordChain};
use crate::exit::Exit;

/// Where blocks are tried on a chain of this height: old ones, and new ones.
const PARTS: [(u128, u128); 6] = [(0, 1), (1, 100), (1, 4), (1, 2), (9, 10), (1, 1)];

pub(crate) async fn chain(what: &ChainCommand) -> Result<Exit> {
    match what {
        ChainCommand::Probe(args) => probe(args).await,
        ChainCommand::Record(args) => record(args).await,
    }
}

async fn probe(args: &ProbeChain) -> Result<Exit> {
    let prober = Prober::new(&args.url)?;
    let (chain_id, newest) = prober.newest().await.context("ask the endpoint")?;
    let blocks = if args.blocks.is_empty() {
        let part = |(of, whole)| u64::try_from(u128::from(newest) * of / whole).ok();
        let mut blocks: Vec<u64> = PARTS.into_iter().filter_map(part).collect();
        blocks.dedup();
        blocks
    } else {
        args.blocks.clone()
    };
    let mut probed = Vec::new();
    for number in blocks {
        let recorded = prober.record(number).await;
        let recorded = recorded.with_context(|| format!("fetch block {number}"))?;
        probed.push(recorded.probe()?);
    }
    let level = level(&probed);
    if args.json {
        let blocks: Vec<Value> = probed.iter().map(as_json).collect();
        let id = ChainId(chain_id);
        let answer = json!({ "chainId": id, "blocks": blocks, "verification": level.as_str() });
        return print_json(&answer);
    }
    println!("chain {chain_id}, newest block {newest}");
    println!(
        "{:>12}  {:>5}  {:>6}  {:<16} {:<6} {:<13} {:<17}",
        "block", "txs", "logs", "header hash", "bloom", "receipts root", "transactions root"
    );
    probed.iter().for_each(print);
    println!("verification: {level}{}", advice(level));
    Ok(Exit::Done)
}

/// The highest level that every block reaches.
fn level(probed: &[Probed]) -> Verification {
    let all = |holds: fn(&Probed) -> bool| !probed.is_empty() && probed.iter().all(holds);
    // A bloom without bits fits a block without logs, whether blooms are filled or not.
    let blooms_filled = probed.iter().any(|one| one.logs > Some(0));
    let checks = Checks {
        header_hash: all(|one| one.header.is_some()),
        bloom: blooms_filled && all(|one| one.bloom == Some(true)),
        blooms_filled,
        receipts_root: all(|one| one.receipts_root == Some(true)),
        transactions_root: all(|one| one.transactions_root == Some(true)),
        oddity: Oddity::None,
    };
    let covered = all(|one| one.header.is_some_and(|form| form.covers_content()));
    if covered {
        checks.best()
    } else {
        checks.best().min(Verification::Linked)
    }
}

fn advice(level: Verification) -> &'static str {
    match level {
        Verification::Roots => " (everything is proven; it is the default)",
        Verification::Receipts => " (transaction hashes and bodies are the endpoint's word)",
        Verification::Bloom => " (contents of logs are the endpoint's word)",
        Verification::Linked => " (logs and transactions are the endpoint's word)",
        Verification::Claimed => " (nothing can be proven by the rules that are known)",
    }
}

fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "holds",
        Some(false) => "fails",
        None => "-",
    }
}

fn print(one: &Probed) {
    let logs = one.logs.map_or("-".to_owned(), |logs| logs.to_string());
    let header = one.header.map_or("fails", |form| form.name());
    println!(
        "{:>12}  {:>5}  {:>6}  {:<16} {:<6} {:<13} {:<17}",
        one.number,
        one.transactions,
        logs,
        header,
        verdict(one.bloom),
        verdict(one.receipts_root),
        verdict(one.transactions_root),
    );
    if !one.extra_fields.is_empty() {
        println!(
            "              header fields that are not Ethereum's: {}",
            one.extra_fields.join(", ")
        );
    }
    if !one.unknown_transactions.is_empty() {
        println!("              {}", one.unknown_transactions.join(", "));
    }
    if one.logs.is_none() {
        println!("              the endpoint does not serve eth_getBlockReceipts");
    }
    match one.oddity {
        Oddity::None => {}
        Oddity::StateSync { .. } => {
            println!("              holds a state-sync transaction that is under no root")
        }
        Oddity::BlockReceipt => println!("              holds a receipt of the block itself"),
    }
}

fn as_json(one: &Probed) -> Value {
    json!({
        "number": one.number,
        "transactions": one.transactions,
        "logs": one.logs,
        "headerForm": one.header.map(|form| form.name()),
        "extraHeaderFields": one.extra_fields,
        "bloom": one.bloom,
        "receiptsRoot": one.receipts_root,
        "transactionsRoot": one.transactions_root,
        "unknownTransactions": one.unknown_transactions,
    })
}

async fn record(args: &RecordChain) -> Result<Exit> {
    let prober = Prober::new(&args.url)?;
    let (chain_id, _) = prober.newest().await.context("ask the endpoint")?;
    let dir = args.out.join(chain_id.to_string());
    std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    for number in &args.blocks {
        let recorded = prober.record(*number).await;
        let recorded = recorded.with_context(|| format!("fetch block {number}"))?;
        recorded.probe().context("the answer is not a block")?;
        let files = [
            ("block", Some(&recorded.block)),
            ("receipts", recorded.receipts.as_ref()),
        ];
        for (what, text) in files {
            let Some(text) = text else {
                println!("block {number}: the endpoint does not serve receipts");
                continue;
            };
            let file = dir.join(format!("{number}.{what}.json"));
            std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            println!("{}", file.display());
        }
    }
    Ok(Exit::Done)
}
