//! The code of contracts and implementations: each is fetched once, and projections compare its hash.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_projection::Projector;
use chronolith_source::{Error as SourceError, keccak256};
use const_hex::encode_prefixed;

use crate::running::RunningChain;

/// The pause after an attempt that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long an attempt may take: leases have to be renewed meanwhile.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// What was checked already.
#[derive(Default)]
pub(crate) struct Codes {
    seen: BTreeSet<[u8; 20]>,
    not_before: Option<Instant>,
    /// Whether the contracts were looked at.
    contracts: bool,
    /// What is wrong with them.
    missing: Option<String>,
}

/// What to change where a contract of the settings has no code. None where all have some, or the source does
/// not know.
///
/// # Errors
/// The source does not answer.
pub(crate) async fn missing_contract(chain: &RunningChain) -> Result<Option<String>, SourceError> {
    let settings = &chain.settings;
    let fees = settings.fees.iter().flat_map(|fees| &fees.contracts);
    let fees = fees.map(|contract| (contract.address, "fees.contracts or CONTRACT_ADDRESS"));
    let adfs = settings.adfs.iter();
    let adfs = adfs.map(|adfs| (adfs.proxy, "contractAddress"));
    for (address, setting) in fees.chain(adfs) {
        let code = chain.source.code(address).await?;
        if code.is_some_and(|code| code.is_empty()) {
            let address = encode_prefixed(address);
            return Ok(Some(format!(
                "there is no contract at {address}: correct {setting}"
            )));
        }
    }
    Ok(None)
}

impl Codes {
    /// [`Codes::look`], for not longer than a lease can be left alone. What fails is tried again.
    pub(crate) async fn look_soon(&mut self, projector: &Projector, chain: &RunningChain) {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let looked = tokio::time::timeout(LOOK_WITHIN, self.look(projector, chain)).await;
        let why = match looked {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(chain = %chain.settings.name, %why, "bytecode not checked");
        self.not_before = Some(Instant::now() + AGAIN_AFTER);
    }

    /// What is wrong with the contracts of the settings, where something is.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Fetches the code of new implementations, and records its hash.
    ///
    /// # Errors
    /// Source or database do not answer, or the source does not have the block of deployment yet.
    pub(crate) async fn look(&mut self, projector: &Projector, chain: &RunningChain) -> Result<()> {
        if !self.contracts {
            let missing = missing_contract(chain).await;
            self.missing = missing.context("the code of contracts")?;
            // One that is not there may be deployed: it is looked for again.
            self.contracts = self.missing.is_none();
            if self.missing.is_some() {
                self.not_before = Some(Instant::now() + AGAIN_AFTER);
                return Ok(());
            }
        }
        for (implementation, is_final) in projector.implementations().await? {
            if self.seen.contains(&implementation) {
                continue;
            }
            let address = encode_prefixed(implementation);
            let code = chain.source.code(implementation).await;
            let code = code.with_context(|| format!("the code of {address}"))?;
            let is_there = code.as_ref().is_none_or(|code| !code.is_empty());
            // Once the block is final, there is none and never will be: it was destroyed.
            ensure!(is_there || is_final, "there is no code at {address} yet");
            if code.is_none() {
                tracing::warn!(
                    chain = %chain.settings.name, %address,
                    "the source does not serve code: expectedBytecodeHash is not compared"
                );
            }
            let hash = code.map(|code| keccak256(&code));
            projector.note_code(&implementation, hash).await?;
            self.seen.insert(implementation);
        }
        Ok(())
    }
}
