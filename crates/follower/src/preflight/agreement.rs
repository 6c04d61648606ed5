//! Whether the endpoints serve one chain, checked before anything is archived.
//!
//! Hashes and roots prove that a block is whole, not that it is the chain's. So the block by which history
//! becomes final is requested from every other endpoint: one small call each. Where one has another
//! block there, nothing more is archived until it agrees again or is removed from the settings. No
//! majority decides: two of three endpoints may be one provider. An endpoint that is down or syncing
//! holds nothing up, but one that disagreed does so until it agrees. An endpoint that contradicts what
//! is archived already does not count: it is named and ignored.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronolith_model::BlockRef;
use chronolith_source::EndpointBlock;
use parking_lot::Mutex;

use crate::chain::Chain;
use crate::dispute;
use crate::error::FollowError;

/// The file that says why nothing is archived, for other commands.
const FILE: &str = "held";

/// What is known of the endpoints' agreement.
#[derive(Debug, Default)]
pub struct Agreement {
    known: Mutex<Known>,
    path: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Known {
    /// The last block that all had.
    agreed: Option<BlockRef>,
    /// Endpoints that had another block when they last answered.
    dissenters: Vec<Arc<str>>,
    /// Why nothing is archived, where nothing is.
    held: Option<String>,
}

impl Agreement {
    /// Of a chain whose notes are in this directory.
    pub fn new(notes: &Path) -> Self {
        Self {
            known: Mutex::default(),
            path: Some(notes.join(FILE)),
        }
    }

    /// Why nothing is archived, where nothing is.
    pub fn held(&self) -> Option<String> {
        self.known.lock().held.clone()
    }

    /// Notes that all agree on a block; returns whether something was held.
    fn agree(&self, block: BlockRef) -> bool {
        let mut known = self.known.lock();
        let is_first = known.agreed.is_none();
        known.agreed = Some(block);
        known.dissenters.clear();
        let was_held = known.held.take().is_some();
        if let Some(path) = self.path.as_ref().filter(|_| was_held || is_first) {
            // It is for people only, and mostly not there.
            let _ = fs::remove_file(path);
        }
        was_held
    }

    /// Notes why nothing is archived; returns whether the reason is new.
    fn hold(&self, dissenters: Vec<Arc<str>>, why: &str) -> bool {
        let mut known = self.known.lock();
        known.agreed = None;
        known.dissenters = dissenters;
        let before = known.held.replace(why.to_owned());
        let is_new = before.as_deref() != Some(why);
        if let Some(path) = self.path.as_ref().filter(|_| is_new)
            && let Err(error) = fs::write(path, why)
        {
            tracing::warn!(%error, "cannot note why archiving is held");
        }
        is_new
    }
}

/// What a writer noted why it archives nothing; none where it archives.
pub fn noted(notes: &Path) -> Option<String> {
    fs::read_to_string(notes.join(FILE)).ok()
}

/// Asks the other endpoints whether they have this block, which is about to be archived.
///
/// # Errors
/// That nothing may be archived for now, with both sides named; or that a final block was replaced.
pub async fn check(chain: &Chain, block: BlockRef) -> Result<(), FollowError> {
    let dissenters = {
        let known = chain.agreement.known.lock();
        if known.agreed == Some(block) {
            return Ok(());
        }
        known.dissenters.clone()
    };
    let mut heard = chain
        .source
        .block_at_healthy_endpoints(block.number, &dissenters)
        .await;
    if heard.iter().any(|one| one.block != block) {
        let strangers = strangers(chain).await?;
        heard.retain(|one| !strangers.contains(&one.endpoint));
        if !strangers.is_empty() && !heard.iter().any(|one| one.block == block) {
            let (number, names) = (block.number, strangers.join(", "));
            return Err(FollowError::Disagreement(format!(
                "block {number} comes from an endpoint that contradicts what is archived (endpoints={names})"
            )));
        }
    }
    let silent = |name: &&Arc<str>| !heard.iter().any(|one| one.endpoint == **name);
    let silent: Vec<Arc<str>> = dissenters.iter().filter(silent).cloned().collect();
    let against: Vec<&EndpointBlock> = heard.iter().filter(|one| one.block != block).collect();
    if against.is_empty() && silent.is_empty() {
        if chain.agreement.agree(block) {
            tracing::info!(event = "archiving_resumed", chain = %chain.settings.name, block = block.number, "endpoints agree again, archiving resumed");
        }
        return Ok(());
    }
    let why = description(block, &heard, &silent);
    let names = against.iter().map(|one| one.endpoint.clone());
    let names = names.chain(silent).collect();
    if chain.agreement.hold(names, &why) {
        chain.meters.disagreements.increment(1);
        tracing::error!(event = "archiving_held", chain = %chain.settings.name, block = block.number, %why, "endpoints disagree, archiving held");
    }
    Err(FollowError::Disagreement(why))
}

/// Endpoints that have another block than the archive at its head: they are named and ignored.
async fn strangers(chain: &Chain) -> Result<Vec<Arc<str>>, FollowError> {
    let Some(head) = chain.archive.health().head else {
        return Ok(Vec::new());
    };
    let opinions = chain.source.block_at_each_endpoint(head.number).await;
    let others = opinions.into_iter().filter(|one| one.block != head);
    let others: Vec<Arc<str>> = others.map(|one| one.endpoint).collect();
    if let Some(first) = others.first() {
        dispute::head(chain, first).await?;
    }
    Ok(others)
}

/// Who has which block, and what ends it.
fn description(block: BlockRef, heard: &[EndpointBlock], silent: &[Arc<str>]) -> String {
    let number = block.number;
    let mut sides: Vec<(String, Vec<&str>)> = vec![(block.hash.to_string(), Vec::new())];
    for one in heard {
        let hash = one.block.hash.to_string();
        match sides.iter_mut().find(|(known, _)| *known == hash) {
            Some((_, names)) => names.push(&one.endpoint),
            None => sides.push((hash, vec![&one.endpoint])),
        }
    }
    let side = |(hash, names): &(String, Vec<&str>)| match names.as_slice() {
        [] => hash.clone(),
        names => format!("{hash} at {}", names.join(", ")),
    };
    let mut parts: Vec<String> = sides.iter().map(side).collect();
    if !silent.is_empty() {
        parts.push(format!(
            "another one at {}, which does not answer now",
            silent.join(", ")
        ));
    }
    format!(
        "endpoints disagree: block {number} is {}; nothing more is archived until they agree, or until those of another chain are removed from rpcHttp",
        parts.join(" and ")
    )
}
