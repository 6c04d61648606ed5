//! The oracle contract ADFS: its calldata and events as rows.
