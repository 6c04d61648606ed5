//! What `latest`, `finalized` and the others mean.
//!
//! | tag | block |
//! |---|---|
//! | `latest` | the newest block that is served, in the tail where there is one |
//! | `finalized` | the newest archived block: final by the chain's own rule, and durable here |
//! | `safe` | the same: what is final is safe, and nothing weaker is promised |
//! | `earliest` | the oldest block that is there |

use super::wire::BlockTag;
use crate::error::{ApiError, ErrorCode};
use crate::view::View;

/// The number that a tag stands for. A number stands for itself, whether it is there or not.
pub(crate) fn resolve(view: &View<'_>, tag: BlockTag) -> Result<u64, ApiError> {
    let unknown =
        |name: &str| ApiError::new(ErrorCode::BlockNotFound, format!("{name} block not found"));
    match tag {
        BlockTag::Number(number) => Ok(number),
        BlockTag::Latest => Ok(view.known_head()?.number),
        BlockTag::Earliest => {
            let first = view.first();
            first.ok_or_else(|| unknown("earliest"))
        }
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
