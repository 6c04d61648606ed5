//! The code of implementations: looked at once each, for projections to compare it with what was named.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chronolith_projection::{Error, Projector};
use chronolith_source::keccak256;

use crate::chain::Chain;
use crate::hex::hex;

/// How long to wait before a node that could not tell is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What was looked at already.
#[derive(Default)]
pub(crate) struct Codes {
    seen: BTreeSet<[u8; 20]>,
    not_before: Option<Instant>,
}

impl Codes {
    /// Looks at the code of implementations that are new, and writes its hash down. A node that does not
    /// answer, or does not have the block of deployment yet, is asked again later.
    pub(crate) async fn look(&mut self, projector: &Projector, chain: &Chain) -> Result<(), Error> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.not_before = None;
        for implementation in projector.implementations().await? {
            if self.seen.contains(&implementation) {
                continue;
            }
            let why = match chain.source.code(implementation).await {
                Ok(Some(code)) if code.is_empty() => "there is none yet".to_owned(),
                Ok(code) => {
                    let hash = code.map(|code| keccak256(&code));
                    projector.note_code(&implementation, hash).await?;
                    self.seen.insert(implementation);
                    continue;
                }
                Err(error) => error.to_string(),
            };
            let address = hex(&implementation);
            tracing::warn!(chain = %chain.settings.name, %address, %why, "code was not looked at");
            self.not_before = Some(Instant::now() + AGAIN_AFTER);
        }
        Ok(())
    }
}
