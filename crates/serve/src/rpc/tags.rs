//! Block tags.
//!
//! | tag | block |
//! |---|---|
//! | `latest` | the newest block that is served, in the tail where there is one |
//! | `finalized` | the newest archived block: final by the chain's own rule, and durable here |
//! | `safe` | the same: a final block is safe, and nothing weaker is offered |
//! | `earliest` | the oldest indexed block |

use super::wire::BlockTag;
use crate::error::{ApiError, ErrorCode};
use crate::view::View;

/// The number of the block that a tag names. A number is returned as it is, indexed or not.
pub(crate) fn resolve(view: &View<'_>, tag: BlockTag) -> Result<u64, ApiError> {
    let unknown =
        |name: &str| ApiError::new(ErrorCode::BlockNotFound, format!("{name} block not found"));
    match tag {
        BlockTag::Number(number) => Ok(number),
        BlockTag::Latest => Ok(view.known_head()?.number),
        BlockTag::Earliest => view.first().ok_or_else(|| unknown("earliest")),
        BlockTag::Finalized | BlockTag::Safe => {
            let name = if tag == BlockTag::Safe {
                "safe"
            } else {
                "finalized"
            };
            let head = view.finalized_head().map(|head| head.number);
            head.ok_or_else(|| unknown(name))
        }
        BlockTag::Pending => Err(ApiError::params("pending blocks are not supported")),
    }
}
