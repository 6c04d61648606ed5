//! JSON-RPC over HTTP: endpoints with limits, batches, retries and an order of preference.

mod availability;
mod batch;
pub(crate) mod call;
pub(crate) mod endpoint;
pub(crate) mod pool;
pub(crate) mod reply;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod throttle;
