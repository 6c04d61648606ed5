//! JSON-RPC over HTTP: endpoints with limits, batches, retries and an order of preference.

pub(crate) mod availability;
pub(crate) mod batch;
pub(crate) mod endpoint;
pub(crate) mod pool;
pub(crate) mod reply;
pub(crate) mod secrets;
pub(crate) mod throttle;
