//! Decoded contract history in PostgreSQL, with honest finality.

pub mod adfs;
