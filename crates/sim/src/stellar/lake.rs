//! A data lake of a chain: files of ledgers in the layout of SEP-54, as Galexie writes them.
//!
//! Names count backwards in hexadecimal, so that a listing by name has the newest ledger first. What is
//! written appears under its name at once and whole.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::chain::StellarChain;

/// The level that Galexie compresses with.
const LEVEL: i32 = 3;
/// The manifest's name.
const MANIFEST: &str = ".config.json";

/// What names end with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LakeSuffix {
    /// `.xdr.zst`, as it is today.
    #[default]
    Zst,
    /// `.xdr.zstd`, as older lakes have it.
    Zstd,
}

impl LakeSuffix {
    /// The suffix with its dots.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Zst => ".xdr.zst",
            Self::Zstd => ".xdr.zstd",
        }
    }
}

/// Which ledger lies in which file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LakeLayout {
    /// Ledgers of a file. A file begins at a multiple of it.
    pub ledgers_per_file: u32,
    /// Files of a folder; 1 for no folders.
    pub files_per_partition: u32,
    pub suffix: LakeSuffix,
}

impl Default for LakeLayout {
    /// As the public lakes are: a file for each ledger, 64,000 of them in a folder.
    fn default() -> Self {
        Self {
            ledgers_per_file: 1,
            files_per_partition: 64_000,
            suffix: LakeSuffix::Zst,
        }
    }
}

impl LakeLayout {
    /// The first ledger of the file with this one, and the last. Ledgers 0 and 1 do not exist, but
    /// files are counted as if they did.
    #[must_use]
    pub fn file(&self, sequence: u32) -> (u32, u32) {
        cell(sequence, self.ledgers_per_file)
    }

    /// The name of the file with this ledger, below the lake's root.
    #[must_use]
    pub fn key(&self, sequence: u32) -> String {
        let (start, end) = self.file(sequence);
        let mut key = String::new();
        if self.files_per_partition > 1 {
            let size = self
                .ledgers_per_file
                .saturating_mul(self.files_per_partition);
            let (start, end) = cell(sequence, size);
            key = format!("{:08X}--{start}-{end}/", u32::MAX - start);
        }
        key.push_str(&format!("{:08X}--{start}", u32::MAX - start));
        if end > start {
            key.push_str(&format!("-{end}"));
        }
        key.push_str(self.suffix.text());
        key
    }

    /// The manifest of such a lake.
    #[must_use]
    pub fn manifest(&self, passphrase: &str) -> String {
        let manifest = serde_json::json!({
            "networkPassphrase": passphrase,
            "version": "1.0",
            "compression": "zstd",
            "ledgersPerBatch": self.ledgers_per_file,
            "batchesPerPartition": self.files_per_partition,
        });
        format!("{manifest:#}\n")
    }
}

/// The cell of a grid that a ledger lies in: its first and its last.
fn cell(sequence: u32, size: u32) -> (u32, u32) {
    let size = size.max(1);
    let start = sequence - sequence % size;
    (start, start.saturating_add(size - 1))
}

/// A lake in a directory.
#[derive(Clone, Debug)]
pub struct Lake {
    directory: PathBuf,
    layout: LakeLayout,
}

impl Lake {
    /// A lake below this directory, which need not be there yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, layout: LakeLayout) -> Self {
        Self {
            directory: directory.into(),
            layout,
        }
    }

    /// Its root.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How it is laid out.
    #[must_use]
    pub fn layout(&self) -> LakeLayout {
        self.layout
    }

    /// Where the file with this ledger is.
    #[must_use]
    pub fn path(&self, sequence: u32) -> PathBuf {
        self.directory.join(self.layout.key(sequence))
    }

    /// Writes the manifest of the chain's network.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write_manifest(&self, chain: &StellarChain) -> io::Result<()> {
        let manifest = self.layout.manifest(&chain.settings().passphrase);
        put(&self.directory.join(MANIFEST), manifest.as_bytes())
    }

    /// Writes all files that hold a ledger of this range, and says which ledgers they hold. A file is
    /// always whole, so that these may be more.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, chain: &StellarChain, ledgers: Range<u32>) -> io::Result<Range<u32>> {
        let first = chain.settings().first_ledger;
        if ledgers.end <= ledgers.start.max(first) {
            return Ok(ledgers.start..ledgers.start);
        }
        let start = self.layout.file(ledgers.start.max(first)).0.max(first);
        let mut next = start;
        while next < ledgers.end {
            next = self.write_with(chain, next, None)?;
        }
        Ok(start..next)
    }

    /// Writes the file that holds this ledger, with other bytes in its place if there are any. Returns the ledger
    /// after the file.
    pub(super) fn write_with(
        &self,
        chain: &StellarChain,
        sequence: u32,
        other: Option<&Bytes>,
    ) -> io::Result<u32> {
        let (start, end) = self.layout.file(sequence);
        let start = start.max(chain.settings().first_ledger);
        let object = object(start..=end, |one| match other {
            Some(other) if one == sequence => other.clone(),
            _ => chain.ledger(one).raw.clone(),
        })?;
        put(&self.path(sequence), &object)?;
        Ok(end.saturating_add(1))
    }
}

/// A file of these ledgers.
fn object(ledgers: RangeInclusive<u32>, raw: impl Fn(u32) -> Bytes) -> io::Result<Vec<u8>> {
    let (start, end) = (*ledgers.start(), *ledgers.end());
    let mut batch = Vec::new();
    for number in [start, end, end - start + 1] {
        batch.extend_from_slice(&number.to_be_bytes());
    }
    for sequence in ledgers {
        batch.extend_from_slice(&raw(sequence));
    }
    // With a checksum, as Galexie's files are.
    let mut packer = zstd::bulk::Compressor::new(LEVEL)?;
    packer.include_checksum(true)?;
    packer.compress(&batch)
}

/// Puts bytes under a name, whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("no name to write to"));
    };
    std::fs::create_dir_all(folder)?;
    // Hidden, so that a listing of the folder does not take it for a file of the lake.
    let unfinished = folder.join(format!(".{}.part", name.to_string_lossy()));
    std::fs::write(&unfinished, bytes)?;
    std::fs::rename(&unfinished, path)
}
