//! Hashed headers of a range, to hold the blocks of another source against.

use chronolith_model::{BlockRange, BlockRef, DatasetSet, Proof, Scope};
use futures::FutureExt as _;

use super::claims::Claims;
use super::rules::Refusal;
use super::source::EvmSource;
use super::wire::WireBlock;
use crate::error::Result;
use crate::source::Want;

#[derive(Debug)]
pub(crate) struct Headers {
    pub(crate) headers: Vec<WireBlock>,
    pub(crate) hashed: bool,
    /// Whether the hash of each covers its bloom and its roots.
    pub(crate) covers: bool,
}

impl EvmSource {
    /// The headers of a range from one endpoint that has the anchor, without transactions. Each
    /// hashes to what it is called where the chain allows to tell, and names the one before it as
    /// its parent.
    ///
    /// # Errors
    /// `Exhausted` where no endpoint shows them.
    pub(crate) async fn headers(&self, range: BlockRange, anchor: BlockRef) -> Result<Headers> {
        self.first_answer(Some(anchor), move |source, endpoint| {
            let headers = async move {
                let want = Want {
                    datasets: DatasetSet::CLOCK,
                    scope: Scope::All,
                    proof: Proof::CLAIMED,
                };
                let claims = Claims::default();
                let numbers: Vec<u64> = (range.start..range.end).collect();
                let fetcher = source.fetcher(endpoint, &want, Some(anchor), &claims);
                let headers = fetcher.blocks_of(&numbers).await?;
                let mut before: Option<&WireBlock> = None;
                let (mut hashed, mut covers) = (true, true);
                for header in &headers {
                    let refused = |refusal: Refusal| refusal.of(&endpoint.name, header.number());
                    hashed &= source.verifier.header(header).map_err(refused)?;
                    covers &= source.verifier.commits(header).map_err(refused)?;
                    if before.is_some_and(|before| before.hash != header.header().parent_hash) {
                        let number = header.number();
                        let reason = format!("block {number} does not follow the one before it");
                        return Err(endpoint.unavailable(reason));
                    }
                    before = Some(header);
                }
                Ok(Headers {
                    headers,
                    hashed,
                    covers,
                })
            };
            headers.boxed()
        })
        .await
    }
}
