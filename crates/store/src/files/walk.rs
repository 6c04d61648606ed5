//! Listing a directory tree in the order of the names, not of the directories.
//!
//! A directory sorts as its name with the slash that follows it: `a-b`, `a.b`, `a/b`, `ab`.
//! Subtrees that are before `after` or outside of the prefix are never opened.

use std::path::Path;
use std::{fs, io};

use super::disk::failed;
use crate::{BlobInfo, Result};

/// What to list.
pub(super) struct Walk<'a> {
    pub(super) prefix: &'a str,
    pub(super) after: Option<&'a str>,
    pub(super) limit: usize,
}

impl Walk<'_> {
    /// Objects below `root`, in order.
    pub(super) fn run(&self, root: &Path) -> Result<Vec<BlobInfo>> {
        let mut found = Vec::new();
        self.enter(root, "", &mut found)?;
        Ok(found)
    }

    /// Lists the directory of all names that begin with `base`. Recurses as deep as names have
    /// parts, which the length of a name bounds.
    fn enter(&self, directory: &Path, base: &str, found: &mut Vec<BlobInfo>) -> Result<()> {
        for name in self.entries(directory, base)? {
            if found.len() >= self.limit {
                return Ok(());
            }
            let last = name.strip_prefix(base).unwrap_or(&name);
            let path = directory.join(last);
            if name.ends_with('/') {
                self.enter(&path, &name, found)?;
                continue;
            }
            match fs::metadata(&path) {
                Ok(metadata) => found.push(BlobInfo {
                    name,
                    len: metadata.len(),
                }),
                // Deleted since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("list objects", &path, error)),
            }
        }
        Ok(())
    }

    /// The names in one directory that may hold what is requested, sorted, directories with a
    /// slash at their end.
    fn entries(&self, directory: &Path, base: &str) -> Result<Vec<String>> {
        let fail = |error| failed("list objects", directory, error);
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fail)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let file_name = entry.file_name();
            // Other programs' files have names that no object can have.
            let Some(last) = file_name.to_str() else {
                continue;
            };
            let is_dir = entry.file_type().map_err(fail)?.is_dir();
            let slash = if is_dir { "/" } else { "" };
            let name = format!("{base}{last}{slash}");
            if self.may_hold(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn may_hold(&self, name: &str) -> bool {
        if name.ends_with('/') {
            let inside = name.starts_with(self.prefix) || self.prefix.starts_with(name);
            let ahead = |after: &str| after < name || after.starts_with(name);
            return inside && self.after.is_none_or(ahead);
        }
        name.starts_with(self.prefix) && self.after.is_none_or(|after| name > after)
    }
}
