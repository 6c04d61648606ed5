//! How a chain was last run: its mode, and the bounds of its last backfill. Kept beside its archive, where
//! the next start and other commands look.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use chronolith_store::replace_file;
use serde::{Deserialize, Serialize};

use crate::settings::{FollowSettings, Mode};

/// The file.
const FILE: &str = "run";
/// Where a damaged one is kept.
const ASIDE: &str = "run.damaged";

/// How a chain was last run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RunState {
    /// Whether the last run was bounded.
    pub is_backfill: bool,
    /// First and last block of the last run that was.
    pub bounds: Option<(u64, u64)>,
}

impl RunState {
    /// What is known of a chain's last run; by its settings where there was none.
    pub fn load(settings: &FollowSettings, notes: &Path) -> Result<Self> {
        let path = notes.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self::default().with(settings));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        // A note of how the chain was run, and nothing that answers depend on: the settings say the same.
        Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "note of the last run is damaged, going by the settings");
            Self::default().with(settings)
        }))
    }

    /// Records that a chain is run with these settings. Only the writer of its archive calls this.
    pub fn note(settings: &FollowSettings, notes: &Path) -> Result<()> {
        let path = notes.join(FILE);
        if fs::read(&path).is_ok_and(|text| serde_json::from_slice::<Self>(&text).is_err()) {
            let aside = notes.join(ASIDE);
            fs::rename(&path, &aside).with_context(|| format!("cannot move {}", path.display()))?;
            tracing::warn!(path = %aside.display(), "damaged note of the last run was set aside");
        }
        let before = Self::load(settings, notes)?;
        let after = before.clone().with(settings);
        if before == after && path.exists() {
            return Ok(());
        }
        let written = replace_file(&path, &serde_json::to_vec(&after)?);
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// The same once a chain was run with these settings. Bounds stay after a run without.
    pub fn with(self, settings: &FollowSettings) -> Self {
        match settings.mode {
            Mode::Backfill { end_block } => Self {
                is_backfill: true,
                bounds: Some((settings.start_block, end_block)),
            },
            Mode::Auto | Mode::Streaming => Self {
                is_backfill: false,
                ..self
            },
        }
    }

    /// The name of the mode. Following a chain is streaming, whatever was fetched before.
    pub fn mode(&self) -> &'static str {
        if self.is_backfill {
            "backfill"
        } else {
            "streaming"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(start_block: u64, mode: Mode) -> FollowSettings {
        FollowSettings {
            start_block,
            mode,
            ..FollowSettings::of_endpoints(7, "seven", Vec::new())
        }
    }

    #[test]
    fn bounds_stay_when_the_mode_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (auto, backfill) = (
            chain(0, Mode::Auto),
            chain(
                2,
                Mode::Backfill {
                    end_block: 30_000_001,
                },
            ),
        );
        let load = |chain: &FollowSettings| RunState::load(chain, dir.path()).unwrap();
        assert_eq!(
            (load(&auto).mode(), load(&auto).bounds),
            ("streaming", None)
        );
        RunState::note(&backfill, dir.path()).unwrap();
        assert_eq!(load(&auto).mode(), "backfill");
        RunState::note(&auto, dir.path()).unwrap();
        let last = load(&backfill);
        assert_eq!(last.mode(), "streaming");
        assert_eq!(last.bounds, Some((2, 30_000_001)));
        // A damaged note stops nothing: it is set aside, and a new one is written.
        fs::write(dir.path().join(FILE), "x").unwrap();
        assert_eq!(
            (load(&auto).mode(), load(&auto).bounds),
            ("streaming", None)
        );
        RunState::note(&backfill, dir.path()).unwrap();
        assert_eq!(load(&auto).mode(), "backfill");
        assert_eq!(fs::read(dir.path().join(ASIDE)).unwrap(), b"x");
    }
}
