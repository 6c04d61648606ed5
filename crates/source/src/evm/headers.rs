//! Hashed headers of a range, to compare the blocks of another source with.

use chronolith_model::{BlockRange, BlockRef};
use futures::FutureExt as _;

use super::claims::Claims;
use super::fetch::{check_links, meta_of};
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
    /// hashes to what it is called where the chain allows to check that, and names the one before it as
    /// its parent.
    ///
    /// # Errors
    /// `Exhausted` where no endpoint serves them.
    pub(crate) async fn headers(&self, range: BlockRange, anchor: BlockRef) -> Result<Headers> {
        self.first_answer(Some(anchor), move |source, endpoint| {
            let headers = async move {
                let want = Want::CLOCK;
                let claims = Claims::default();
                let numbers: Vec<u64> = (range.start..range.end).collect();
                let fetcher = source.fetcher(endpoint, &want, Some(anchor), &claims);
                let headers = fetcher.blocks_of(&numbers).await?;
                let (mut hashed, mut covers, mut last) = (true, true, None);
                for header in &headers {
                    let refused = |refusal: Refusal| refusal.of(&endpoint.name, header.number());
                    hashed &= source.verifier.header(header).map_err(refused)?;
                    covers &= source.verifier.commits(header).map_err(refused)?;
                    let two = last.replace(header).into_iter().chain([header]);
                    check_links(endpoint, two.map(meta_of))?;
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
