//! Sources made of two: one for history, one for what is new.

mod lake_and_core;
mod portal_and_rpc;

pub use lake_and_core::LakeAndCore;
pub use portal_and_rpc::JointSource;
