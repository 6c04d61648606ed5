//! The start-up probe: does this store really refuse a second create?
//!
//! A store that ignores the condition makes two writers both believe that they won. Nothing in an
//! answer tells; only a race does. A race that passes is no proof, but a store that ignores the
//! condition fails the first, and one that checks and then writes is likely to fail one of several.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use super::{failed, key};
use crate::nonce::Nonces;
use crate::{Error, Result};

/// Races that all must have exactly one winner.
const ROUNDS: usize = 4;

/// Lets `racers` create one key at once, several times, and fails unless exactly one wins each
/// time and its bytes are what is there. Removes its keys. [`Error::Conflict`]: the store is unfit
/// to hold the record.
pub async fn probe_create_only(
    store: &Arc<dyn ObjectStore>,
    prefix: &Path,
    racers: usize,
) -> Result<()> {
    let nonces = Nonces::new();
    for _ in 0..ROUNDS {
        let name = format!("probe/{:032x}", nonces.next());
        let key = key(prefix, &name)?;
        let outcome = race(store, &key, &name, racers).await;
        let deleted = store.delete(&key).await;
        outcome?;
        match deleted {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed("remove probe", &name, error)),
        }
    }
    Ok(())
}

async fn race(store: &Arc<dyn ObjectStore>, key: &Path, name: &str, racers: usize) -> Result<()> {
    let contents: Vec<_> = (0..racers)
        .map(|racer| Bytes::from(format!("racer {racer}")))
        .collect();
    let creates = contents.iter().map(|bytes| create(store, key, bytes));
    let mut winners = Vec::new();
    for (created, bytes) in join_all(creates).await.into_iter().zip(&contents) {
        match created {
            Ok(_) => winners.push(bytes),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error @ object_store::Error::NotImplemented { .. }) => return Err(unfit(&error)),
            Err(error) => return Err(failed("probe the store", name, error)),
        }
    }
    let winner = match winners[..] {
        [winner] => winner,
        // Every answer was a refusal or got lost on its way: that says nothing about the store.
        [] => return Err(nobody_won(name)),
        _ => return Err(unfit(&format!("{} of {racers} racers won", winners.len()))),
    };
    let late = create(store, key, &Bytes::from_static(b"late")).await;
    if !matches!(late, Err(object_store::Error::AlreadyExists { .. })) {
        return Err(unfit(&"a create of an existing key was not refused"));
    }
    let fail = |error| failed("probe the store", name, error);
    let found = store
        .get(key)
        .await
        .map_err(fail)?
        .bytes()
        .await
        .map_err(fail)?;
    if found != *winner {
        return Err(unfit(&"another's bytes are there than the winner's"));
    }
    Ok(())
}

async fn create(
    store: &Arc<dyn ObjectStore>,
    key: &Path,
    bytes: &Bytes,
) -> object_store::Result<object_store::PutResult> {
    let options = PutOptions::from(PutMode::Create);
    store.put_opts(key, bytes.clone().into(), options).await
}

fn nobody_won(name: &str) -> Error {
    Error::Unavailable {
        context: format!("probe the store: nobody won, try again (name={name})"),
        source: None,
    }
}

fn unfit(what: &dyn std::fmt::Display) -> Error {
    Error::Conflict {
        reason: format!(
            "this object store does not create atomically ({what}): keep objects in it, but the record in PostgreSQL"
        ),
    }
}

#[cfg(test)]
mod tests;
