//! The chain's first block, kept beside its archive: an archive is of one chain for ever.
//!
//! A chain id does not tell chains apart. Private chains share theirs, and a chain that was begun
//! anew keeps it. The hash of block 0 does, so it is written down once and compared at every start.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_model::Hash32;
use chronolith_source::{Source, known_genesis};

use crate::hex::parse_hex;
use crate::settings::ChainSettings;

/// Refuses a source whose first block is not the chain's, or not the archive's. Whoever calls holds
/// the archive's directory as its writer.
pub(crate) async fn check(settings: &ChainSettings, dir: &Path, source: &dyn Source) -> Result<()> {
    let path = dir.join("genesis");
    let kept = load(&path)?;
    if let Some(kept) = kept {
        source.expect_genesis(kept);
    }
    let identity = source.identity().await;
    let Some(found) = identity.context("cannot ask for block 0")?.genesis else {
        tracing::info!(chain = %settings.name, "block 0 is not served: the genesis is not compared");
        return Ok(());
    };
    if let Some(known) = known_genesis(settings.chain_id) {
        ensure!(
            found == known,
            "the source is on another chain with the same id: its genesis is {found}, that of chain {} is {known}; give the right endpoint",
            settings.chain_id
        );
    }
    match kept {
        None => {
            store(dir, &path, found).with_context(|| format!("cannot write {}", path.display()))
        }
        Some(kept) if kept == found => Ok(()),
        Some(kept) => bail!(
            "the archive in {} is of another chain: its genesis is {kept}, the source's is {found}; give the right endpoint, or another data directory (dataDir)",
            dir.display()
        ),
    }
}

fn load(path: &Path) -> Result<Option<Hash32>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let hash = parse_hex(text.trim_end()).and_then(|bytes| Hash32::from_slice(&bytes));
    let damaged = || {
        format!(
            "{} is damaged: put the hash of the chain's block 0 there, or remove it to take the source's",
            path.display()
        )
    };
    hash.with_context(damaged).map(Some)
}

/// Whole or not at all, also after a power cut.
fn store(dir: &Path, path: &Path, hash: Hash32) -> std::io::Result<()> {
    let beside = dir.join("genesis.tmp");
    let mut file = File::create(&beside)?;
    writeln!(file, "{hash}")?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(dir)?.sync_all()
}
