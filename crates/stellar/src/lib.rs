//! Stellar's bytes: ledgers walked without copying, proven, taken apart and put together again.
//!
//! Everything here is a pure function of bytes. Code that fetches ledgers, keeps them or answers
//! from them uses it; nothing here waits, reads or writes.
//!
//! ```text
//!  bytes ─► walk ─► Ledger ─► prove ─► Proven ─► block: clock, transactions, events as logs,
//!                                                skeleton and one body for each transaction
//!  skeleton and bodies ─► join ─► the same bytes          body ─► TxParts
//! ```

mod again;
mod block;
mod calls;
mod events;
mod fault;
mod ids;
mod ledger;
mod network;
mod parts;
mod prove;
mod reader;
mod schema;
mod skeleton;

pub use again::{prove_kept, without_proofs};
pub use events::{EventPlace, Stage};
pub use fault::Fault;
pub use ids::{EventId, NoEventId, Toid};
pub use ledger::{Ledger, walk_batch};
pub use network::Network;
pub use parts::{TxEvents, TxParts};
pub use prove::{Proven, prove};
pub use skeleton::{join, skeleton_count, skeleton_header};
