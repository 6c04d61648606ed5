//! How a value of each XDR type is made: one list a family of types.
//!
//! A list names the fields of a type or the ways it can be; what they hold follows from their types.

mod config;
mod entries;
mod ledgers;
mod operations;
mod results;
mod values;
