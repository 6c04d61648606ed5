//! HTTP: connections and their limits, what handlers share, response bodies, and the routers of the
//! public listener and of the health listener.

pub(crate) mod body;
pub(crate) mod context;
pub(crate) mod health;
pub(crate) mod listener;
pub(crate) mod panics;
mod peers;
pub(crate) mod public;
#[cfg(test)]
pub(crate) mod test_client;
