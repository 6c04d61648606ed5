//! Catches a chain up once, for a caller that waits for it: `chronolith run --until-caught-up` does.

use anyhow::{Result, bail};

use crate::backfill::retry_policy::OnFatal;
use crate::backfill::{bounded, gaps};
use crate::chain::Chain;
use crate::{ingest, maintenance};

/// Archives every requested block that is final by now, gaps below the head included, and does the maintenance
/// that is due.
///
/// # Errors
/// No retry helps until an operator acts, or a bounded backfill did not complete every range.
pub async fn run(chain: &Chain) -> Result<()> {
    let work = Box::pin(async {
        match chain.end_block() {
            Some(_) => Box::pin(bounded::run(chain, OnFatal::Exit)).await,
            None => maintenance::beside(chain, Box::pin(rounds(chain))).await,
        }
    });
    ingest::beside_l1(chain, work).await
}

/// Rounds until one succeeds, or no round can.
async fn rounds(chain: &Chain) -> Result<()> {
    loop {
        chain.control.run_waiting().await;
        let done = match ingest::round(chain).await {
            // The head of such a source is not where the chain stands.
            Ok(()) if chain.source.is_catching_up() => {
                tokio::time::sleep(chain.settings.poll_far()).await;
                continue;
            }
            Ok(()) => {
                gaps::fill_once(chain).await?;
                maintenance::settle(chain).await
            }
            failed => failed,
        };
        match done {
            Ok(()) => return Ok(()),
            Err(error) if ingest::is_fatal(chain, &error) => {
                bail!("chain {}: {error}", chain.settings.name);
            }
            Err(error) => {
                tracing::warn!(chain = %chain.settings.name, %error, "retrying");
            }
        }
        tokio::time::sleep(chain.settings.poll_far()).await;
    }
}
