//! Health of the projections of a chain: what the database last reported, and since when it does not answer.

use chronolith_follower::clock::now;
use chronolith_projection::ChainState;
use chronolith_projection::leases::LeaseReport;
use chronolith_serve::health::{DatabaseState, HIDDEN_DATABASE_ERROR, ProjectionsHealth};
use parking_lot::Mutex;

/// Health of the projections of a chain that is followed here.
#[derive(Debug, Default)]
pub(crate) struct ProjectionHealth(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Whether anything is projected here.
    is_on: bool,
    /// Why nothing is written, and since when.
    writing: Option<Outage>,
    /// Why the database could not be looked at, and since when.
    looking: Option<Outage>,
    /// Its last report, and when.
    seen: Option<Seen>,
}

#[derive(Clone, Debug)]
struct Outage {
    message: String,
    since: u64,
}

#[derive(Debug)]
struct Seen {
    at: u64,
    /// None while the chain is not registered there.
    chain: Option<ChainState>,
    locks: Vec<LeaseReport>,
}

impl ProjectionHealth {
    /// Something is projected here.
    pub(crate) fn begin(&self) {
        self.0.lock().is_on = true;
    }

    /// Nothing can be written; returns whether that is new.
    pub(crate) fn cannot_write(&self, message: &str) -> bool {
        note(&mut self.0.lock().writing, message)
    }

    /// Everything is written again; returns whether it was not before.
    pub(crate) fn writes(&self) -> bool {
        self.0.lock().writing.take().is_some()
    }

    /// The database could not be looked at.
    pub(crate) fn cannot_look(&self, message: &str) {
        note(&mut self.0.lock().looking, message);
    }

    /// What the database says.
    pub(crate) fn saw(&self, chain: Option<&ChainState>, locks: &[LeaseReport]) {
        let mut known = self.0.lock();
        known.looking = None;
        known.seen = Some(Seen {
            at: now(),
            chain: chain.cloned(),
            locks: locks.to_vec(),
        });
    }

    /// For the health endpoint; none where nothing is projected here.
    pub(crate) fn health(&self) -> Option<ProjectionsHealth> {
        let known = self.0.lock();
        if !known.is_on {
            return None;
        }
        let (seen, chain) = (known.seen.as_ref(), known.chain());
        let since = [&known.writing, &known.looking];
        let since = since.into_iter().flatten().map(|outage| outage.since);
        let outage = known.writing.as_ref().or(known.looking.as_ref());
        Some(ProjectionsHealth {
            database: match (&known.looking, seen) {
                (Some(_), _) => DatabaseState::Unavailable,
                (None, Some(_)) => DatabaseState::Ok,
                (None, None) => DatabaseState::Unknown,
            },
            error: outage.map(|outage| outage.message.clone()),
            error_since: since.min(),
            looked_at: seen.map(|seen| seen.at),
            last_seen_block: chain.and_then(|chain| chain.last_seen_block),
            last_safe_block: chain.and_then(|chain| chain.last_safe_block),
            all: chain.map_or_else(Vec::new, |chain| chain.projections.clone()),
            locks: seen.map_or_else(Vec::new, |seen| seen.locks.clone()),
        })
    }

    /// The contract's version that is decoded.
    pub(crate) fn version(&self) -> Option<u32> {
        let known = self.0.lock();
        let version = known.chain()?.version?;
        u32::try_from(version).ok()
    }

    /// Why a projection waits for an operator, where one does.
    pub(crate) fn paused(&self) -> Option<String> {
        let known = self.0.lock();
        let mut all = known.chain()?.projections.iter();
        let paused = all.find(|one| one.paused_at.is_some())?;
        let reason = paused.paused_reason.as_deref().unwrap_or("unknown");
        let detail = paused.paused_detail.as_deref().unwrap_or("no detail");
        let name = &paused.projection;
        Some(format!("{name} is paused ({reason}): {detail}"))
    }

    /// History that stays missing until an operator acts: jobs that failed permanently.
    pub(crate) fn failed_jobs(&self) -> Option<String> {
        let known = self.0.lock();
        let mut all = known.chain()?.projections.iter();
        let dead = all.find(|one| one.dead_jobs > 0)?;
        let (name, jobs) = (&dead.projection, dead.dead_jobs);
        Some(format!(
            "projection {name}: {jobs} jobs failed permanently, and their rows are missing: see `chronolith jobs list`, then `chronolith jobs retry`"
        ))
    }

    /// Why projections are not ready, where they are not, and what everybody may read of it.
    pub(crate) fn not_ready(&self) -> Option<(String, String)> {
        if let Some(paused) = self.paused() {
            let reason = format!("projections: {paused}");
            return Some((reason.clone(), reason));
        }
        let known = self.0.lock();
        let outage = known.writing.as_ref().or(known.looking.as_ref())?;
        let seconds = now().saturating_sub(outage.since);
        let with = |message: &str| format!("projections: for {seconds} s: {message}");
        Some((with(&outage.message), with(HIDDEN_DATABASE_ERROR)))
    }
}

impl Known {
    fn chain(&self) -> Option<&ChainState> {
        self.seen.as_ref()?.chain.as_ref()
    }
}

/// Notes a failure with its begin; returns whether it is new.
fn note(known: &mut Option<Outage>, message: &str) -> bool {
    match known {
        Some(outage) if outage.message == message => false,
        Some(outage) => {
            message.clone_into(&mut outage.message);
            true
        }
        None => {
            let (message, since) = (message.to_owned(), now());
            *known = Some(Outage { message, since });
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_reported_from_when_it_began() {
        let watched = ProjectionHealth::default();
        assert!(watched.health().is_none(), "nothing is projected here");
        watched.begin();
        let health = watched.health().unwrap();
        assert_eq!(
            (health.database, health.error_since),
            (DatabaseState::Unknown, None)
        );
        assert!(watched.cannot_write("gone"));
        assert!(!watched.cannot_write("gone"), "that is no news");
        watched.0.lock().writing.as_mut().unwrap().since = 7;
        assert!(watched.cannot_write("still gone"));
        watched.cannot_look("no connection");
        let health = watched.health().unwrap();
        assert_eq!(
            (health.database, health.error.as_deref()),
            (DatabaseState::Unavailable, Some("still gone"))
        );
        assert_eq!(health.error_since, Some(7));
        let (reason, public) = watched.not_ready().unwrap();
        assert!(reason.contains("still gone"), "{reason}");
        // An error of the database may name its host.
        let what_is_hidden = reason.replace("still gone", HIDDEN_DATABASE_ERROR);
        assert_eq!(public, what_is_hidden);
        assert!(watched.writes());
        watched.saw(None, &[]);
        assert_eq!(watched.health().unwrap().database, DatabaseState::Ok);
        assert_eq!(watched.not_ready(), None);
    }
}
