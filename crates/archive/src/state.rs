//! What is published: the one mutable record, the catalog that it names, and the snapshot that readers
//! of one moment share.

pub(crate) mod catalog;
pub(crate) mod coverage;
pub(crate) mod head;
pub(crate) mod held;
pub(crate) mod lost;
pub(crate) mod record;
pub(crate) mod snapshot;
