//! `chronolith keys`: makes API keys, and the hashes of those that exist.

use std::io::Read as _;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chronolith_serve::http::KeyHash;
use rand::TryRngCore as _;
use rand::rngs::OsRng;

use crate::cli::KeysCommand;
use crate::exit::Exit;

/// Begins every key, so that people and programs that look for leaked secrets see what it is.
const PREFIX: &str = "chr_";
/// Random bytes of a key: no number of guesses finds one.
const KEY_BYTES: usize = 32;
/// A key that was made elsewhere is at least this long: a plain hash does not protect a word.
const KEY_CHARS_MIN: usize = 32;
const KEY_CHARS_MAX: usize = 512;

pub(crate) fn keys(what: &KeysCommand) -> Result<Exit> {
    match what {
        KeysCommand::New { name } => {
            let key = random_key()?;
            let hash = KeyHash::of(&key);
            println!("The key, which is shown only now:\n\n  {key}\n");
            println!("Its entry in `apiKeys.keys` of the settings, in JSON and in TOML:\n");
            println!("  {{ \"name\": \"{name}\", \"hash\": \"{hash}\" }}");
            println!("  {{ name = \"{name}\", hash = \"{hash}\" }}");
        }
        KeysCommand::Hash => {
            let mut key = String::new();
            let stdin = std::io::stdin().lock();
            stdin
                .take(KEY_CHARS_MAX as u64 + 2)
                .read_to_string(&mut key)
                .context("read the key from standard input")?;
            println!("{}", hash_of(key.trim_end_matches(['\r', '\n']))?);
        }
    }
    Ok(Exit::Done)
}

fn random_key() -> Result<String> {
    let mut bytes = [0; KEY_BYTES];
    OsRng
        .try_fill_bytes(&mut bytes)
        .context("the system has no random bytes")?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

fn hash_of(key: &str) -> Result<KeyHash> {
    ensure!(
        (KEY_CHARS_MIN..=KEY_CHARS_MAX).contains(&key.len()),
        "a key has {KEY_CHARS_MIN} to {KEY_CHARS_MAX} characters: shorter ones can be guessed; `chronolith keys new NAME` makes one"
    );
    let is_sendable = |byte: u8| byte.is_ascii_graphic();
    ensure!(
        key.bytes().all(is_sendable),
        "a key has only ASCII letters, digits and signs: others cannot be sent in a header"
    );
    Ok(KeyHash::of(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_random_and_their_hashes_are_those_of_the_settings() {
        let (one, two) = (random_key().unwrap(), random_key().unwrap());
        assert_ne!(one, two);
        for key in [&one, &two] {
            assert!(key.starts_with(PREFIX) && key.len() == 47, "{key}");
            let hash = hash_of(key).unwrap();
            assert_eq!(hash.to_string().parse(), Ok(hash));
        }
        for wrong in ["", "password", &"ä".repeat(40), &"a b".repeat(20)] {
            assert!(hash_of(wrong).is_err(), "{wrong}");
        }
    }
}
