//! What operators do: `resume`, `rewind`, `gc`. None of it runs beside a node that writes: the lock
//! on the data directory refuses it.

use anyhow::{Context as _, Result};
use chronolith_archive::{AuditEntry, Collect};

use crate::chain::open_for_operator;
use crate::cli::{Act, Wanted};
use crate::clock::now;
use crate::exit::Exit;
use crate::settings::Settings;

pub(crate) async fn resume(settings: &Settings, act: &Act) -> Result<Exit> {
    let chain = settings.chain(act.wanted.chain.as_deref())?;
    let archive = open_for_operator(chain, &settings.chain_dir(chain)).await?;
    archive.resume(audit("resume", &act.reason)).await?;
    archive.release().await?;
    println!("{}: the halt is over; `chronolith run` goes on", chain.name);
    Ok(Exit::Done)
}

pub(crate) async fn rewind(settings: &Settings, to: u64, act: &Act) -> Result<Exit> {
    let chain = settings.chain(act.wanted.chain.as_deref())?;
    let archive = open_for_operator(chain, &settings.chain_dir(chain)).await?;
    let rewound = archive.rewind(to, audit("rewind", &act.reason)).await;
    rewound.context("rewind")?;
    archive.release().await?;
    println!("{}: blocks above {to} are gone", chain.name);
    Ok(Exit::Done)
}

pub(crate) async fn gc(settings: &Settings, dry_run: bool, wanted: &Wanted) -> Result<Exit> {
    let chain = settings.chain(wanted.chain.as_deref())?;
    let archive = open_for_operator(chain, &settings.chain_dir(chain)).await?;
    let how = match dry_run {
        true => Collect::DryRun,
        false => Collect::Remove,
    };
    let report = archive.collect_garbage(how).await?;
    archive.release().await?;
    println!("{}: {report:?}", chain.name);
    Ok(Exit::Done)
}

fn audit(act: &str, reason: &str) -> AuditEntry {
    AuditEntry {
        at: now(),
        act: format!("{act}: {reason}"),
    }
}
