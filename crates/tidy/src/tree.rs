//! The repository's text files, and what a check says about them.
//!
//! The tree is read from disk, not from git, so that a file is checked before it is committed and
//! an unpacked archive without history is checked too. Build output and data are left out.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Context, Result};

/// Folders that hold nothing of ours.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "data", "testdata", "node_modules"];

/// Files above this size are data, not text.
const TEXT_BYTES_MAX: u64 = 2 << 20;

/// One text file.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Its path from the root, with `/` on every system.
    pub path: String,
    pub text: String,
}

impl TextFile {
    /// A file as it would be read, for samples in tests.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Whether its name ends with a dot and this.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        let found = Path::new(&self.path).extension();
        found.is_some_and(|found| found == extension)
    }

    /// Its lines with their numbers, from one.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// File, and line where there is one.
    pub place: String,
    /// What is wrong, and what to do about it.
    pub what: String,
}

impl Finding {
    /// A finding about a whole file or crate.
    #[must_use]
    pub fn whole(place: &str, what: String) -> Self {
        Self {
            place: place.to_owned(),
            what,
        }
    }

    /// A finding about one line.
    #[must_use]
    pub fn line(path: &str, line: usize, what: String) -> Self {
        Self::whole(&format!("{path}:{line}"), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// All findings, one a line.
#[must_use]
pub fn report(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The repository.
#[derive(Debug)]
pub struct Tree {
    /// Where it is.
    pub root: PathBuf,
    /// Its text files, sorted by path.
    pub files: Vec<TextFile>,
}

impl Tree {
    /// Reads the repository that this crate was compiled in.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub fn load() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .context("find the repository's root")?;
        let mut files = Vec::new();
        collect(&root, &root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, files })
    }

    /// The files with this extension.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &TextFile> {
        self.files
            .iter()
            .filter(move |file| file.has_extension(extension))
    }

    /// The file at this path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The documents that stand beside the repository, where they are there.
    #[must_use]
    pub fn shared(&self) -> Option<PathBuf> {
        let shared = self.root.join("../shared");
        shared.is_dir().then_some(shared)
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", folder.display()))?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            let name = entry.file_name();
            if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                collect(root, &path, files)?;
            }
        } else if kind.is_file() && entry.metadata()?.len() <= TEXT_BYTES_MAX {
            // Bytes that are not text are neither prose nor code.
            if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                let relative = path.strip_prefix(root).context("path outside the root")?;
                let path = relative.to_string_lossy().replace('\\', "/");
                files.push(TextFile { path, text });
            }
        }
    }
    Ok(())
}
