//! Stellar's bytes: ledgers walked without copying, proven, taken apart and put together again.
//!
//! Everything here is a pure function of bytes. Whoever fetches ledgers, keeps them or answers from them
//! uses it; nothing here waits, reads or writes.

mod network;

pub use network::Network;
