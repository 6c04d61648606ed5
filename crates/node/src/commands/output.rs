//! The result of a command, as text or as JSON.

use anyhow::Result;
use serde::Serialize;

use crate::cli::Wanted;
use crate::exit::Exit;

pub(super) fn print_json(value: &(impl Serialize + ?Sized)) -> Result<Exit> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(Exit::Done)
}

/// Prints a result in the form that was requested.
pub(super) fn print_result(wanted: &Wanted, answer: &impl Serialize, text: &str) -> Result<Exit> {
    if wanted.json {
        return print_json(answer);
    }
    println!("{text}");
    Ok(Exit::Done)
}
