//! The hash-linked walk from what is known to the source's head.

use chronolith_finality::{Endpoint, Fault, Seen, Step, TailError};
use chronolith_model::{BlockRange, BlockRef};
use chronolith_source::{Fetched, Heads};

use crate::backfill;
use crate::chain::{Chain, Proof};
use crate::clock::now;
use crate::ingest::{self, Trouble};

/// Blocks that are asked for at once.
const STEP_BLOCKS: u64 = 64;
/// How far back a fork is looked for before the round is given up.
const BACK_MAX: usize = 4_096;

/// Walks to the source's head. What becomes final on the way is archived on the way, so that the
/// tail stays small however far behind we are.
pub(crate) async fn to_head(chain: &Chain, heads: &Heads) -> Result<(), Trouble> {
    if replaced(chain, heads.head) {
        let at_head = fetch(chain, BlockRange::one(heads.head.number)).await?;
        if !offer_all(chain, heads, at_head).await? {
            return Ok(());
        }
    }
    loop {
        let head = chain.window().tracker.head();
        let next = head.map_or(chain.settings.start_block, |head| head.number + 1);
        if next > heads.head.number {
            return Ok(());
        }
        let end = (next + STEP_BLOCKS).min(heads.head.number + 1);
        let fetched = fetch(chain, BlockRange::new(next, end)).await?;
        if !offer_all(chain, heads, fetched).await? {
            return Ok(());
        }
        ingest::finalize(chain, &ingest::seen(chain, heads)).await?;
    }
}

/// Whether the block that the source calls its head is at a height that we know another block of.
fn replaced(chain: &Chain, head: BlockRef) -> bool {
    let known = chain.window().tracker.hash_at(head.number);
    known.is_some_and(|known| known != head.hash)
}

async fn fetch(chain: &Chain, range: BlockRange) -> Result<Vec<Fetched>, Trouble> {
    Ok(chain.source.fetch(range, &chain.want).await?)
}

/// Offers blocks in order, going back where they stand on a fork. Returns false where the tail has
/// no room: the head stands still until something is final.
async fn offer_all(chain: &Chain, heads: &Heads, fetched: Vec<Fetched>) -> Result<bool, Trouble> {
    // The next to offer is the last.
    let mut due: Vec<Fetched> = fetched;
    due.reverse();
    while let Some(one) = due.pop() {
        match offer(chain, heads, &one)? {
            Offered::Taken => {}
            Offered::NoRoom => return Ok(false),
            Offered::Before(number) => {
                due.push(one);
                if due.len() > BACK_MAX {
                    return Err(Trouble::Unsettled(
                        "a fork is longer than can be followed".to_owned(),
                    ));
                }
                due.extend(fetch(chain, BlockRange::one(number)).await?);
            }
            Offered::Violation => {
                halt(chain).await?;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What became of a block that was offered.
enum Offered {
    Taken,
    NoRoom,
    /// The block of this number must come first.
    Before(u64),
    /// It replaces a final block.
    Violation,
}

fn offer(chain: &Chain, heads: &Heads, one: &Fetched) -> Result<Offered, Trouble> {
    let mut window = chain.window();
    let window = &mut *window;
    if !window.tail.has_room(&one.block) {
        tracing::warn!(chain = %chain.settings.name, "the tail is full, the head stands still");
        return Ok(Offered::NoRoom);
    }
    let clock = &one.block.clock;
    let depth = window.tracker.reorg_depth(clock.number);
    let endpoint = Endpoint {
        head: heads.head.number,
        syncing: heads.syncing,
    };
    let known = window.tracker.hash_at(clock.number);
    if known.is_some_and(|known| known != clock.hash) {
        let allowed = window.tracker.allows_reorg(depth, &endpoint);
        allowed.map_err(|refused| Trouble::Unsettled(refused.to_string()))?;
    }
    let steps = match window.tracker.accept(clock) {
        Ok(steps) => steps,
        Err(Fault::ParentUnknown { ask, .. }) => return Ok(Offered::Before(ask)),
        Err(Fault::Gap { expected, .. }) => return Ok(Offered::Before(expected)),
        Err(Fault::FinalityViolation { .. } | Fault::Below { .. }) => {
            return Ok(Offered::Violation);
        }
        Err(Fault::WindowFull { .. }) => return Ok(Offered::NoRoom),
    };
    for step in steps {
        let done = match step {
            Step::Extend(block) => {
                let proof = Proof {
                    level: one.level,
                    endpoint: one.endpoint.clone(),
                };
                window.proofs.insert(block.hash, proof);
                window.tail.push(one.block.clone())
            }
            Step::Rollback { to } => {
                let gone = window.tail.rollback(to);
                let blocks = gone.as_ref().map_or(0, Vec::len);
                tracing::info!(chain = %chain.settings.name, to = to.number, blocks, "reorg");
                gone.map(|_| ())
            }
            Step::Finalize(_) => Ok(()),
        };
        done.map_err(|error: TailError| Trouble::Other(error.to_string()))?;
    }
    // Depth alone may make something final with each block.
    window.tracker.observe(&Seen::at(now()));
    Ok(Offered::Taken)
}

/// A final block was replaced: the archive is told, and halts.
async fn halt(chain: &Chain) -> Result<(), Trouble> {
    let finalized = chain.window().tracker.finalized();
    if let Some(finalized) = finalized {
        let now_there = fetch(chain, BlockRange::one(finalized.number)).await?;
        for one in now_there {
            backfill::append(chain, vec![one.block], one.level, &one.endpoint).await?;
        }
    }
    Ok(())
}
