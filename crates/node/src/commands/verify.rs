//! `chronolith verify`.

use std::process::ExitCode;

use anyhow::Result;
use chronolith_archive::Archive;
use chronolith_model::BlockRange;
use chronolith_source::Source;
use serde_json::json;

use super::query::range_of;
use super::state::level_name;
use crate::chain::{open_reader, open_source, want_of};
use crate::cli::VerifyRange;
use crate::settings::{ChainSettings, Settings};

/// What is not whole.
const NOT_WHOLE: u8 = 3;
/// Blocks that are fetched at once.
const STEP_BLOCKS: u64 = 250;
/// Findings that are shown without being asked for all.
const SHOWN: usize = 20;

/// What was found, block by block, and how many logs were read.
struct Found {
    logs: u64,
    findings: Vec<(u64, String)>,
}

/// Reads every block of the range back: each must be covered, link to the one before, and pass its
/// checksums.
pub(crate) async fn verify(settings: &Settings, asked: &VerifyRange) -> Result<ExitCode> {
    let chain = settings.chain(asked.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.chain_dir(chain)).await?;
    let range = range_of(&archive, asked.from, asked.to)?;
    let mut found = read_back(&archive, range).await;
    if asked.against_source {
        let source = open_source(chain).await?;
        let differing = compare(&archive, &*source, chain, range).await?;
        found.findings.extend(differing);
    }
    let whole = found.findings.is_empty();
    let root = match whole {
        true => Some(archive.content_root(range).await?.to_string()),
        false => None,
    };
    let levels = archive.coverage(chain.datasets, None);
    let within = levels.iter();
    let within = within.filter(|(covered, _)| covered.intersect(&range).is_some());
    let lowest = within.map(|(_, level)| *level).min().map(level_name);
    let (from, to, logs) = (range.start, range.end - 1, found.logs);
    if asked.wanted.json {
        let findings = found.findings.iter();
        let findings = findings.map(|(block, what)| json!({ "block": block, "what": what }));
        let answer = json!({
            "chainId": chain.chain_id,
            "from": from,
            "to": to,
            "logs": logs,
            "level": lowest,
            "contentRoot": root,
            "findings": findings.collect::<Vec<_>>(),
        });
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        let count = found.findings.len();
        println!("blocks {from} to {to}: {logs} logs, {count} findings");
        for (block, what) in found.findings.iter().take(SHOWN) {
            println!("  block {block}: {what}");
        }
        if count > SHOWN {
            println!("  … and {} more; --json shows all", count - SHOWN);
        }
        if let Some(root) = root {
            println!(
                "content root {root}, proven by {} or better",
                lowest.unwrap_or("nothing")
            );
        }
    }
    Ok(match whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOT_WHOLE),
    })
}

/// Fetches every block anew, proven as it was when it came, and compares it with the archive's.
async fn compare(
    archive: &Archive,
    source: &dyn Source,
    chain: &ChainSettings,
    range: BlockRange,
) -> Result<Vec<(u64, String)>> {
    let mut findings = Vec::new();
    let want = want_of(chain);
    for start in (range.start..range.end).step_by(STEP_BLOCKS as usize) {
        let part = BlockRange::new(start, start.saturating_add(STEP_BLOCKS).min(range.end));
        for theirs in source.fetch(part, &want, None).await? {
            let number = theirs.block.clock.number;
            // What cannot be read back is a finding already.
            let Ok(ours) = archive.block(number).await else {
                continue;
            };
            let what = match () {
                () if ours.clock != theirs.block.clock => "the source has another block",
                () if ours.logs != theirs.block.logs => "the source has other logs",
                () if ours.txs != theirs.block.txs => "the source has other transactions",
                () => continue,
            };
            findings.push((number, format!("{what} (endpoint={})", theirs.endpoint)));
        }
    }
    Ok(findings)
}

async fn read_back(archive: &Archive, range: BlockRange) -> Found {
    let mut found = Found {
        logs: 0,
        findings: Vec::new(),
    };
    let mut before = None;
    for number in range.start..range.end {
        match archive.block(number).await {
            Ok(block) => {
                if before.is_some_and(|before| before != block.clock.parent_hash) {
                    let what = "does not link to the block before".to_owned();
                    found.findings.push((number, what));
                }
                before = Some(block.clock.hash);
                found.logs += block.logs.len() as u64;
            }
            Err(error) => {
                found.findings.push((number, error.to_string()));
                before = None;
            }
        }
    }
    found
}
