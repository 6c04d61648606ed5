//! The token that a node makes at each start for commands on its data directory, and its proof.
//!
//! Only the user of the node can read the file. A command sends the token to no listener before that has proven that
//! it has it too: after a crash, the address in the data directory may be that of another program.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use chronolith_serve::admin::proof;
use rand::TryRngCore as _;
use rand::rngs::OsRng;

/// The file in the data directory with the token.
const TOKEN_FILE: &str = "admin-token";
const TOKEN_BYTES: usize = 32;
/// Readable for the user of the node alone.
const MODE: u32 = 0o600;

/// A token that its node made.
#[derive(Clone)]
pub(crate) struct OwnToken(String);

impl OwnToken {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The token in a data directory; none where no node has run there.
    ///
    /// # Errors
    /// The file belongs to another user.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>> {
        let path = data_dir.join(TOKEN_FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self(text.trim().to_owned()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| {
                format!(
                    "cannot read {}: run this as the user of the node",
                    path.display()
                )
            }),
        }
    }

    /// A challenge that no other node was given.
    pub(crate) fn challenge() -> Result<String> {
        random()
    }

    /// Whether a listener has this token too.
    pub(crate) fn is_proven(&self, challenge: &str, answer: &str) -> bool {
        proof(&self.0, challenge) == answer
    }
}

/// The file with the token, which is removed with this.
pub(crate) struct TokenFile {
    path: PathBuf,
    pub(crate) token: OwnToken,
}

impl TokenFile {
    pub(crate) fn write(data_dir: &Path) -> Result<Self> {
        let path = data_dir.join(TOKEN_FILE);
        let token = OwnToken(random()?);
        let write = || {
            // One that is there may be readable for others.
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = std::fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(MODE)
                .open(&path)?;
            file.write_all(token.text().as_bytes())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, token })
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // One that stays opens nothing: the next start makes another.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn random() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    OsRng
        .try_fill_bytes(&mut bytes)
        .context("the system has no random bytes")?;
    Ok(const_hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_is_for_its_user_alone_and_new_at_each_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TOKEN_FILE);
        assert!(OwnToken::read(dir.path()).unwrap().is_none());
        std::fs::write(&path, "of a node that was killed").unwrap();
        let file = TokenFile::write(dir.path()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let read = OwnToken::read(dir.path()).unwrap().unwrap();
        assert_eq!(read.text(), file.token.text());
        let challenge = OwnToken::challenge().unwrap();
        assert!(read.is_proven(&challenge, &proof(file.token.text(), &challenge)));
        assert!(!read.is_proven(&challenge, &proof("another", &challenge)));
        assert!(!read.is_proven(&challenge, &proof(file.token.text(), "another")));
        drop(file);
        assert!(!path.exists());
        let next = TokenFile::write(dir.path()).unwrap();
        assert_ne!(next.token.text(), read.text());
    }
}
