//! What a stand-in remembers from one process to the next, in a file of its working directory.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::GENESIS_LEDGER;

/// The file's name.
const NAME: &str = "sim-stellar-core.json";

/// What is remembered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoreState {
    /// The last ledger that was closed.
    pub lcl: u32,
    /// The newest ledger that was ever closed: so far the network is.
    #[serde(default)]
    pub reached: u32,
    /// How often each fault of the settings struck, in their order.
    pub struck: Vec<u32>,
}

impl CoreState {
    /// The state of a new database. Faults that struck, and how far the network is, are not forgotten with the old
    /// one.
    ///
    /// # Errors
    /// When the old one cannot be read.
    pub fn reset(directory: &Path) -> io::Result<Self> {
        let old = Self::load(directory)?;
        let (reached, struck) = old.map_or((0, Vec::new()), |old| (old.reached, old.struck));
        Ok(Self {
            lcl: GENESIS_LEDGER,
            reached,
            struck,
        })
    }

    /// What is remembered in this directory; none where nothing is.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid.
    pub fn load(directory: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(directory.join(NAME)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, directory: &Path) -> io::Result<()> {
        let unfinished = directory.join(format!("{NAME}.part"));
        std::fs::write(&unfinished, serde_json::to_vec(self)?)?;
        std::fs::rename(&unfinished, directory.join(NAME))
    }

    /// Counts that the fault at this place struck.
    pub fn strike(&mut self, place: usize) {
        if self.struck.len() <= place {
            self.struck.resize(place + 1, 0);
        }
        if let Some(times) = self.struck.get_mut(place) {
            *times += 1;
        }
    }
}
