//! Where the archive of a chain is kept: a directory of this machine, or a place in an object store
//! that several machines may share.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::Place;
use chronolith_store::{FileBlobs, FileMeta, ObjectPlace, TakeOver};

/// Variables of the environment that say how an object store is reached.
const STORE_VARIABLES: &str = "AWS_";

/// How an object store is reached, by the environment.
pub fn store_options() -> Vec<(String, String)> {
    std::env::vars()
        .filter(|(name, value)| name.starts_with(STORE_VARIABLES) && !value.is_empty())
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect()
}

/// Archives in an object store.
#[derive(Clone, Debug)]
pub struct Remote {
    place: ObjectPlace,
    /// The URL without anything that could be a secret.
    shown: String,
}

impl Remote {
    /// A place by its URL; keys and endpoint come from the environment, never from a file.
    pub fn open(url: &str) -> Result<Self> {
        let options = store_options();
        let parsed: reqwest::Url = url.parse().context("it is not a URL")?;
        ensure!(
            parsed.username().is_empty() && parsed.password().is_none() && parsed.query().is_none(),
            "keys do not belong in it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        );
        Ok(Self {
            place: ObjectPlace::open(url, &options)?,
            shown: parsed.to_string().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Where one chain's archive is.
#[derive(Clone, Debug)]
pub enum ArchiveLocation {
    Directory(PathBuf),
    Remote {
        remote: Remote,
        /// This chain's part of it, and what this machine notes of the chain.
        part: String,
        notes: PathBuf,
    },
}

/// A place that is open for writing, and what keeps a second process of this machine out of it.
pub struct Writable {
    pub place: Place,
    pub take_over: TakeOver,
    /// Who writes, where others may: restarted, it does not wait for itself.
    pub instance: Option<String>,
    pub lock: Option<File>,
}

impl ArchiveLocation {
    /// Opens it for the one process that writes.
    pub async fn writer(&self) -> Result<Writable> {
        let notes = self.notes();
        std::fs::create_dir_all(notes)
            .with_context(|| format!("cannot write to the data directory {}", notes.display()))?;
        match self {
            Self::Directory(dir) => Ok(Writable {
                place: Place {
                    meta: Arc::new(FileMeta::open_writer(dir)?),
                    blobs: Arc::new(FileBlobs::open_writer(dir)?),
                },
                // The directory is locked: no other process can be writing.
                take_over: TakeOver::NoWait,
                instance: None,
                lock: None,
            }),
            Self::Remote { remote, part, .. } => {
                let lock = lock(notes)?;
                let opened = remote.place.within(part).writer().await;
                let (meta, blobs) = opened
                    .with_context(|| format!("cannot write to {remote}; is it reachable?"))?;
                Ok(Writable {
                    place: Place {
                        meta: Arc::new(meta),
                        blobs: Arc::new(blobs),
                    },
                    take_over: TakeOver::Wait,
                    instance: Some(instance(notes)?),
                    lock: Some(lock),
                })
            }
        }
    }

    /// Opens it beside the process that writes.
    pub fn reader(&self) -> Place {
        match self {
            Self::Directory(dir) => Place {
                meta: Arc::new(FileMeta::open_reader(dir)),
                blobs: Arc::new(FileBlobs::open_reader(dir)),
            },
            Self::Remote { remote, part, .. } => {
                let (meta, blobs) = remote.place.within(part).reader();
                Place {
                    meta: Arc::new(meta),
                    blobs: Arc::new(blobs),
                }
            }
        }
    }

    /// The directory, where it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(dir) => Some(dir),
            Self::Remote { .. } => None,
        }
    }

    /// Where the object store keeps it, where it is in one.
    pub fn object_place(&self) -> Option<ObjectPlace> {
        match self {
            Self::Directory(_) => None,
            Self::Remote { remote, part, .. } => Some(remote.place.within(part)),
        }
    }

    /// The directory in which this machine notes what it knows of the chain.
    pub fn notes(&self) -> &Path {
        match self {
            Self::Directory(dir) => dir,
            Self::Remote { notes, .. } => notes,
        }
    }

    /// Where an object or a folder of objects is, by its name.
    pub fn path_of(&self, name: &str) -> String {
        match self {
            Self::Directory(dir) => dir.join("blobs").join(name).display().to_string(),
            Self::Remote { .. } => format!("{self}/{name}"),
        }
    }

    /// Whether there is an archive. Objects without a state are an error: the state is lost.
    pub async fn has_archive(&self) -> Result<bool> {
        let found = chronolith_archive::has_state(&self.reader()).await;
        found.with_context(|| format!("cannot read the archive in {self}"))
    }

    /// Refuses a place whose state is lost, before anything is written there.
    pub async fn refuse_lost(&self) -> Result<()> {
        match chronolith_archive::has_state(&self.reader()).await {
            Err(lost @ chronolith_archive::Error::StateLost { .. }) => {
                Err(lost).with_context(|| format!("cannot open the archive in {self}"))
            }
            // Other errors are reported where the archive is opened.
            _ => Ok(()),
        }
    }

    /// Whether there is a state, whatever else is there.
    pub async fn has_state(&self) -> Result<bool> {
        match self {
            Self::Directory(dir) => Ok(dir.join("state").exists()),
            Self::Remote { .. } => {
                match self.reader().meta.load().await {
                    Ok(loaded) => Ok(loaded.is_some()),
                    // It is there, and it is damaged.
                    Err(chronolith_store::Error::Corrupt { .. }) => Ok(true),
                    Err(error) => Err(error).with_context(|| format!("cannot read {self}")),
                }
            }
        }
    }
}

impl fmt::Display for ArchiveLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => write!(f, "{}", dir.display()),
            Self::Remote { remote, part, .. } => write!(f, "{remote}/{part}"),
        }
    }
}

/// Two processes of one machine and one data directory have one name, and would throw each other
/// out of a shared archive again and again.
fn lock(notes: &Path) -> Result<File> {
    let path = notes.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let locked = file.try_lock();
    locked.with_context(|| format!("another process of this machine holds {}", path.display()))?;
    Ok(file)
}

/// This machine and its data directory.
fn instance(notes: &Path) -> Result<String> {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    Ok(format!(
        "{machine}:{}",
        std::path::absolute(notes)?.display()
    ))
}
