//! The start-up probe: does this store really refuse a second create?
//!
//! A store that ignores the condition makes two writers both believe that they won. Only a race
//! shows it, no single answer does. A race that passes is no proof, but a store that ignores the
//! condition fails the first, and one that checks and then writes is likely to fail one of several.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use super::{failed, key};
use crate::nonce::Nonces;
use crate::{Error, Result};

/// Races that all must have exactly one winner.
const ROUNDS: usize = 4;
/// How often a request is sent, or a race is run, before the store counts as out of reach.
const TRIES: usize = 6;
/// How long is waited before the next try.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Lets `racers` create one key at once, several times, and fails unless exactly one wins each
/// time and its bytes are what is there. Removes its keys. [`Error::Conflict`]: the store is unfit
/// to hold the record.
///
/// An answer that gets lost says nothing about the store: the racer may have won or not, which the
/// bytes that are there show. A race that no one can have won is run again.
pub async fn probe_create_only(
    store: &Arc<dyn ObjectStore>,
    prefix: &Path,
    racers: usize,
) -> Result<()> {
    let nonces = Nonces::new();
    let (mut rounds, mut tries) = (0, 0);
    while rounds < ROUNDS {
        let name = format!("probe/{:032x}", nonces.next());
        let key = key(prefix, &name)?;
        let outcome = race(store, &key, &name, racers).await;
        let deleted = answered(async || match store.delete(&key).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        });
        let deleted = deleted.await;
        match outcome {
            Err(Error::Unavailable { .. }) if tries + 1 < TRIES => {
                tries += 1;
                tokio::time::sleep(TRY_AGAIN).await;
                continue;
            }
            outcome => outcome?,
        }
        deleted.map_err(|error| failed("remove probe", &name, error))?;
        (rounds, tries) = (rounds + 1, 0);
    }
    Ok(())
}

/// Sends a request until it is answered, and gives up after a while.
async fn answered<T>(
    request: impl AsyncFn() -> object_store::Result<T>,
) -> object_store::Result<T> {
    for _ in 1..TRIES {
        match request().await {
            Err(error) if !is_answer(&error) => tokio::time::sleep(TRY_AGAIN).await,
            answer => return answer,
        }
    }
    request().await
}

/// Whether an error is what the store says, and not the loss of it.
fn is_answer(error: &object_store::Error) -> bool {
    use object_store::Error::{AlreadyExists, NotFound, NotImplemented};
    matches!(
        error,
        AlreadyExists { .. } | NotFound { .. } | NotImplemented { .. }
    )
}

async fn race(store: &Arc<dyn ObjectStore>, key: &Path, name: &str, racers: usize) -> Result<()> {
    let contents = (0..racers).map(|racer| Bytes::from(format!("racer {racer}")));
    let contents: Vec<Bytes> = contents.collect();
    let creates = contents.iter().map(|bytes| create(store, key, bytes));
    let (mut winners, mut unknown) = (Vec::new(), Vec::new());
    for (created, bytes) in join_all(creates).await.into_iter().zip(&contents) {
        match created {
            Ok(_) => winners.push(bytes),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error @ object_store::Error::NotImplemented { .. }) => return Err(unfit(&error)),
            Err(_) => unknown.push(bytes),
        }
    }
    let may_have_won = match winners[..] {
        [winner] => vec![winner],
        [] => unknown,
        _ => return Err(unfit(&format!("{} of {racers} racers won", winners.len()))),
    };
    let fail = |error| failed("probe the store", name, error);
    let read = answered(async || match store.get(key).await {
        Ok(found) => found.bytes().await.map(Some),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    });
    // Every answer was a refusal or got lost on its way, and nothing landed.
    let found = read.await.map_err(fail)?;
    let found = found.ok_or_else(|| {
        let context = format!("probe the store: no attempt won, try again (name={name})");
        Error::without_cause(context)
    })?;
    if !may_have_won.contains(&&found) {
        return Err(unfit(&"another's bytes are there than the winner's"));
    }
    let late = answered(async || create(store, key, &Bytes::from_static(b"late")).await);
    match late.await {
        Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
        Err(error) if !is_answer(&error) => Err(fail(error)),
        _ => Err(unfit(&"a create of an existing key was not refused")),
    }
}

async fn create(
    store: &Arc<dyn ObjectStore>,
    key: &Path,
    bytes: &Bytes,
) -> object_store::Result<object_store::PutResult> {
    let options = PutOptions::from(PutMode::Create);
    store.put_opts(key, bytes.clone().into(), options).await
}

fn unfit(what: &dyn std::fmt::Display) -> Error {
    Error::conflict(format!(
        "this object store does not create atomically ({what}): keep objects in it, but the record in PostgreSQL"
    ))
}

#[cfg(test)]
mod tests;
