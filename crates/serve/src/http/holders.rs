//! Which connections hold memory for answers, and which of them are cut where others wait for it.
//!
//! Answers take memory until their clients have read them. A hundred clients that read next to nothing could take all
//! of it, and keep all others from answers. So where an answer finds no memory for a while, connections are cut
//! whose clients read slowly: of the address that holds most, those that have held it for longest. An answer that is cut
//! does not look whole.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::activity::Activity;
use super::peers::counted_as;
use crate::metrics;

tokio::task_local! {
    /// The connection whose answers the task makes.
    static OWNER: Owner;
}

/// A connection that may hold memory.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    address: IpAddr,
    activity: Arc<Activity>,
}

/// A part of the memory for answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Small,
    Large,
}

/// All reservations that belong to a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    held: HashMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    owner: Owner,
    part: Part,
    units: usize,
    since: Instant,
}

/// What a reservation counts for its connection, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Counted(Option<(Holders, u64)>);

impl Owner {
    pub(super) fn new(address: IpAddr, activity: Arc<Activity>) -> Self {
        let address = counted_as(address);
        Self { address, activity }
    }

    /// Counts the memory of all answers that a task makes for this connection.
    pub(super) async fn run<T>(self, task: impl Future<Output = T>) -> T {
        OWNER.scope(self, task).await
    }

    /// That of this task.
    pub(super) fn current() -> Option<Self> {
        OWNER.try_with(Self::clone).ok()
    }
}

impl Holders {
    /// Cuts connections until this many units come free, as far as there are any that may be cut.
    pub(super) fn cut(&self, part: Part, units: usize) {
        let mut listed = self.0.lock();
        let slow: Vec<&Held> = (listed.held.values())
            .filter(|held| held.part == part && held.owner.activity.is_slow_reader())
            .collect();
        let mut by_address = HashMap::<IpAddr, usize>::new();
        for held in &slow {
            *by_address.entry(held.owner.address).or_default() += held.units;
        }
        let Some((&most, _)) = by_address.iter().max_by_key(|(_, units)| **units) else {
            return;
        };
        let mut oldest: Vec<(Instant, usize, Arc<Activity>)> = (slow.iter())
            .filter(|held| held.owner.address == most)
            .map(|held| (held.since, held.units, held.owner.activity.clone()))
            .collect();
        oldest.sort_by_key(|(since, ..)| *since);
        let (mut freed, mut cut) = (0, HashSet::new());
        for (_, held, activity) in oldest {
            if freed >= units {
                break;
            }
            freed += held;
            // One may have several answers of a batch.
            if cut.insert(Arc::as_ptr(&activity)) {
                activity.cut();
                metrics::cut();
            }
        }
        // Until their tasks have ended, others are chosen.
        let is_cut = |held: &Held| cut.contains(&Arc::as_ptr(&held.owner.activity));
        listed.held.retain(|_, held| !is_cut(held));
        drop(listed);
        tracing::debug!(address = %most, freed, "slow readers cut");
    }
}

impl Counted {
    /// The reservation has this much now.
    pub(super) fn set(&mut self, holders: &Holders, part: Part, units: usize) {
        let mut listed = holders.0.lock();
        if let Some((_, id)) = &self.0 {
            if let Some(held) = listed.held.get_mut(id) {
                (held.part, held.units) = (part, units);
            }
            return;
        }
        let Some(owner) = Owner::current() else {
            return;
        };
        let id = listed.next;
        listed.next += 1;
        let since = Instant::now();
        let held = Held {
            owner,
            part,
            units,
            since,
        };
        listed.held.insert(id, held);
        drop(listed);
        self.0 = Some((holders.clone(), id));
    }

    /// The reservation has less now.
    pub(super) fn trim(&mut self, units: usize) {
        if let Some((holders, id)) = &self.0
            && let Some(held) = holders.0.lock().held.get_mut(id)
        {
            held.units = units;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((holders, id)) = &self.0 {
            holders.0.lock().held.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;
    use crate::http::activity::Connections;
    use crate::http::activity::Registered;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    struct Client {
        connection: Registered,
        _counted: Counted,
    }

    impl Client {
        /// A client whose answer takes this much, of which bytes wait for it.
        async fn new(holders: &Holders, (last, part, units): (u8, Part, usize)) -> Self {
            let connection = Connections::default().register();
            connection.activity.set_writing(true);
            let owner = Owner::new(address(last), connection.activity.clone());
            let mut counted = Counted::default();
            let count = async { counted.set(holders, part, units) };
            owner.run(count).await;
            Self {
                connection,
                _counted: counted,
            }
        }

        fn is_cut(&self) -> bool {
            self.connection.activity.closed().now_or_never().is_some()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_that_holds_most_is_cut_and_its_oldest_first() {
        let holders = Holders::default();
        let mut clients = Vec::new();
        for one in [
            (1, Part::Small, 40),
            (2, Part::Small, 30),
            (2, Part::Small, 30),
            (2, Part::Small, 30),
            (1, Part::Large, 900),
        ] {
            clients.push(Client::new(&holders, one).await);
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        let cut = |clients: &[Client]| clients.iter().map(Client::is_cut).collect::<Vec<_>>();
        holders.cut(Part::Small, 1);
        assert_eq!(cut(&clients), [false; 5], "they may read fast");
        tokio::time::advance(Duration::from_secs(2)).await;
        clients[1].connection.activity.set_writing(false);
        holders.cut(Part::Small, 31);
        // The others of its address hold more, and the first of them is not waited for.
        assert_eq!(cut(&clients), [false, false, true, true, false]);
        holders.cut(Part::Small, 31);
        assert_eq!(cut(&clients), [true, false, false, false, false]);
        holders.cut(Part::Small, 31);
        assert_eq!(cut(&clients), [false; 5], "none is left");
        drop(clients);
        assert!(holders.0.lock().held.is_empty());
    }

    #[tokio::test]
    async fn what_no_connection_asked_for_belongs_to_none() {
        let holders = Holders::default();
        let mut counted = Counted::default();
        counted.set(&holders, Part::Small, 5);
        assert!(counted.0.is_none());
    }
}
