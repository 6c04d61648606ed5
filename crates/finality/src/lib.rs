//! Which blocks may still roll back, and the blocks themselves while they may.
//!
//! [`Tracker`] takes clocks of blocks and observations from outside, and reports what became of the
//! chain: [`Step::Extend`], [`Step::Rollback`], [`Step::Finalize`]. A [`Rule`] decides how high
//! finality may go, and nothing else: a caller that follows the steps does not know the rule. [`Tail`]
//! holds the blocks above the archive, within a budget, and gives readers snapshots that never
//! change; [`joins`] says whether a snapshot and an archive head make one chain.
//!
//! Everything here is pure: nothing does I/O, waits or reads a clock. What is final is durable only
//! in the archive, so a tracker begins at the archive's published head.
//!
//! ```
//! use chronolith_finality::{Rule, Observation, Settings, Step, Tracker};
//! use chronolith_model::{BlockMeta, Hash32};
//!
//! let rule = Rule::Depth { confirmations: 1 };
//! let mut tracker = Tracker::new(rule, Settings::default(), None)?;
//! let block = |number: u8| BlockMeta {
//!     number: number.into(),
//!     hash: Hash32([number; 32]),
//!     parent_hash: Hash32([number - 1; 32]),
//!     timestamp: 0,
//! };
//! for number in 1..4 {
//!     assert_eq!(tracker.accept(&block(number))?, [Step::Extend(block(number).block_ref())]);
//! }
//! let step = tracker.observe(&Observation::at(0));
//! assert_eq!(step, Some(Step::Finalize(block(2).block_ref())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod dual;
mod fault;
mod guard;
mod rule;
mod snapshot;
mod tail;
mod tracker;

pub use dual::Inclusion;
pub use fault::{Fault, Stall};
pub use guard::{Endpoint, Refused};
pub use rule::{Invalid, Observation, ReportedBlock, Rule, Settings};
pub use snapshot::{TailBlock, TailSnapshot, joins};
pub use tail::{Tail, TailError};
pub use tracker::{Step, Tracker};
