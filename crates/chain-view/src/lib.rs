//! A chain at one moment: one published state of the archive and the tail above it, proven to be one
//! chain.
//!
//! Every API answer and every projected row is made from one [`ChainView`]. It never changes, and
//! holding it keeps the archive objects that it names. Nothing here talks to a chain: the process that
//! follows the chain implements [`Live`].

mod live;
mod view;

pub use live::Live;
pub use view::{ChainView, Location, Unsettled};
