//! Programs of others that `scripts/need` has installed.

use std::path::PathBuf;

/// A real EVM node; `CHRONOLITH_ANVIL` names another one.
pub fn anvil() -> Option<PathBuf> {
    let named = std::env::var("CHRONOLITH_ANVIL").map(PathBuf::from).ok();
    let place = "anvil-1.7.1/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil";
    named.or_else(|| installed(place))
}

/// Where `scripts/need` puts what it installs.
pub fn installed(place: &str) -> Option<PathBuf> {
    let cache = std::env::var("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.or_else(|_| std::env::var("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let program = cache.ok()?.join("chronolith").join(place);
    program.exists().then_some(program)
}
