//! EVM chains from SQD Portal: one dataset of ready-made blocks as a stream of JSON lines.
//!
//! A stream may end anywhere and does not say so. What counts is the last whole line; the rest is
//! requested again, until the range is complete.

pub(crate) mod check;
mod client;
mod limit;
mod lines;
mod request;
mod source;
mod status;
mod walk;
mod wire;

pub use source::{PortalSettings, PortalSource};
