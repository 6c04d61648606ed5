//! A lake in a directory of this machine.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;

use super::keys::Layout;
use super::objects::{Failure, Newest, Objects, fits};

#[derive(Clone, Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    /// Works on a thread that may wait.
    async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let root = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&root)).await;
        done.unwrap_or_else(|error| Err(Failure::Unavailable(error.to_string())))
    }
}

#[async_trait]
impl Objects for Directory {
    async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, Failure> {
        let key = key.to_owned();
        self.wait(move |root| {
            let path = root.join(key);
            let Some(found) = present(std::fs::metadata(&path))? else {
                return Ok(None);
            };
            fits(found.len(), most)?;
            Ok(present(std::fs::read(&path))?.map(Bytes::from))
        })
        .await
    }

    async fn has(&self, key: &str) -> Result<bool, Failure> {
        let key = key.to_owned();
        self.wait(move |root| Ok(present(std::fs::metadata(root.join(key)))?.is_some()))
            .await
    }

    async fn newest(&self, layout: Layout) -> Result<Newest, Failure> {
        self.wait(move |root| newest(root, layout)).await
    }
}

/// The first object of the first partition that has one.
fn newest(root: &Path, layout: Layout) -> Result<Newest, Failure> {
    if !layout.has_partitions() {
        return Ok(first_of(&names(root)?, "", layout));
    }
    for partition in names(root)? {
        // A file beside the partitions is none.
        let inside = match std::fs::read_dir(root.join(&partition)) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => continue,
            listed => sorted(listed)?,
        };
        let first = first_of(&inside, &format!("{partition}/"), layout);
        if first != Newest::Nothing {
            return Ok(first);
        }
    }
    Ok(Newest::Nothing)
}

fn first_of(names: &[String], before: &str, layout: Layout) -> Newest {
    let mut keys = names.iter().map(|name| format!("{before}{name}"));
    let first = keys.find(|key| layout.parse(key).is_some());
    first.map_or(Newest::Nothing, Newest::Key)
}

fn names(dir: &Path) -> Result<Vec<String>, Failure> {
    sorted(std::fs::read_dir(dir))
}

fn sorted(listed: std::io::Result<std::fs::ReadDir>) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in listed.map_err(failed)? {
        // A name that is not text is not a key.
        let name = entry.map_err(failed)?.file_name().into_string();
        names.extend(name.ok());
    }
    names.sort_unstable();
    Ok(names)
}

fn present<T>(found: std::io::Result<T>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::Unavailable(error.to_string())
}
