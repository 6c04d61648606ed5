//! What must hold before blocks are archived: the right chain, one chain, nothing missing before it.

pub mod admission;
pub mod agreement;
pub mod genesis;
pub mod streaming;
