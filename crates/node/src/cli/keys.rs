//! `chronolith keys`.

use clap::Subcommand;

/// What to do with API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key: print it once, with the entry for the settings, which has its hash only.
    New {
        /// Its name in the settings, in metrics and in the access log.
        #[arg(value_parser = name)]
        name: String,
    },
    /// Print the hash of a key that was made elsewhere, read from standard input.
    Hash,
}

/// The name of a key, as the settings allow it.
fn name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=64).contains(&text.len()) && text.bytes().all(is_part);
    match is_name && text != "anonymous" {
        true => Ok(text.to_owned()),
        false => Err("want 1 to 64 letters, digits, -, _ and ., and not `anonymous`".to_owned()),
    }
}
