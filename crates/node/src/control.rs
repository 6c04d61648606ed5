//! Control of a running node: the admin API, and how operations are executed.

pub(crate) mod projection;
pub(crate) mod queue;
pub(crate) mod server;
mod token;
