//! Maintenance of what is published: merges, garbage collection and repair. Content never changes, except
//! where a repair proves it further.

pub(crate) mod gc;
pub(crate) mod hash_check;
pub(crate) mod merge;
pub(crate) mod packs;
pub(crate) mod plan;
pub(crate) mod rebuild_run;
pub(crate) mod repair;
pub(crate) mod repair_together;
pub(crate) mod replace;
pub(crate) mod runs;
pub(crate) mod step;
pub(crate) mod tables;
pub(crate) mod verify_run;
