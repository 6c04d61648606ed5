//! The runs of a snapshot, ready to be looked into: what is in memory is found without going through
//! the cache, which is read only now and then, so that it knows what is used.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::cache::{Part, Value};
use super::objects::{Objects, OpenRun, Want, all_of};
use crate::error::{Error, Result};
use crate::state::catalog::RunEntry;

/// Runs with more pages are looked up in the cache alone: their places would take more memory than
/// they save time.
const PAGES_MAX: usize = 1 << 19;
/// One lookup in this many goes through the cache: else it would let go of what is used most.
const TOUCH_EVERY: u64 = 16;

/// A page, where it is still in memory. The cache holds it.
type Slot = RwLock<Weak<[u8]>>;

/// Where the pages of a run are in memory.
#[derive(Debug)]
pub(crate) struct PageSlots(Vec<Slot>);

impl PageSlots {
    pub(crate) fn new(pages: usize) -> Self {
        let pages = if pages <= PAGES_MAX { pages } else { 0 };
        let empty = || RwLock::new(Weak::<[u8; 0]>::new() as Weak<[u8]>);
        Self((0..pages).map(|_| empty()).collect())
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.0.len() * size_of::<Slot>()
    }

    fn get(&self, page: usize) -> Option<Arc<[u8]>> {
        let slot = self.0.get(page)?;
        slot.read().upgrade()
    }

    fn set(&self, page: usize, bytes: &Arc<[u8]>) {
        if let Some(slot) = self.0.get(page) {
            let mut slot = slot.write();
            *slot = Arc::downgrade(bytes);
        }
    }
}

/// A run, and where it is once it was opened.
#[derive(Debug)]
struct Known {
    entry: Arc<RunEntry>,
    open: RwLock<Weak<OpenRun>>,
}

/// The runs of a snapshot.
#[derive(Debug)]
pub(crate) struct RunSet(Vec<Known>);

impl RunSet {
    pub(crate) fn new(runs: &[Arc<RunEntry>]) -> Self {
        let known = |entry: &Arc<RunEntry>| Known {
            entry: entry.clone(),
            open: RwLock::new(Weak::new()),
        };
        Self(runs.iter().map(known).collect())
    }

    /// Adds the blocks that may hold a hash, as far as what is in memory tells. Returns the places of
    /// the runs that have to be read.
    pub(crate) fn look(
        &self,
        objects: &Objects,
        prefix: u64,
        numbers: &mut Vec<u64>,
    ) -> Vec<usize> {
        let mut unread = Vec::new();
        for (at, known) in self.0.iter().enumerate() {
            if known.look(objects, prefix, numbers).is_none() {
                unread.push(at);
            }
        }
        unread
    }

    /// Adds the blocks that may hold a hash, of the run at a place, after reading its page.
    pub(crate) async fn read(&self, objects: &Objects, at: usize, prefix: u64) -> Result<Vec<u64>> {
        let known = self.0.get(at).expect("the place is that of a run");
        let run = objects.open_run(&known.entry.object).await?;
        known.remember(&run);
        let table = &run.hashes;
        let key = table.key(prefix);
        let Some(place) = table.place_of(key) else {
            return Ok(Vec::new());
        };
        let want = Want {
            at: u64::from(place.index),
            range: run.offset + place.start..run.offset + place.end,
        };
        let decode = |_, bytes: bytes::Bytes| {
            place.verify(&bytes)?;
            Ok(Value::Page(Arc::from(&bytes[..])))
        };
        let values = objects
            .load(&run.identity, Part::HashPage, &[want], decode)
            .await?;
        let pages = all_of(&run.identity, values, |value| match value {
            Value::Page(page) => Some(page),
            _ => None,
        })?;
        let page = pages.first().expect("as many pages as were requested");
        run.slots.set(place.index as usize, page);
        let found = table.find(key, page);
        let found = found.map_err(|damage| Error::damaged(&run.identity.name, damage))?;
        Ok(found
            .map(|offset| known.entry.range.start + offset)
            .collect())
    }
}

impl Known {
    fn remember(&self, run: &Arc<OpenRun>) {
        let mut open = self.open.write();
        *open = Arc::downgrade(run);
    }

    fn opened(&self, objects: &Objects) -> Option<Arc<OpenRun>> {
        let open = self.open.read();
        if let Some(run) = open.upgrade() {
            return Some(run);
        }
        drop(open);
        let run = objects.opened_run(&self.entry.object)?;
        self.remember(&run);
        Some(run)
    }

    /// Looks at the page that is in memory; none where it is not.
    fn look(&self, objects: &Objects, prefix: u64, numbers: &mut Vec<u64>) -> Option<()> {
        let run = self.opened(objects)?;
        let table = &run.hashes;
        let key = table.key(prefix);
        let index = table.page_of(key);
        // Keys are spread evenly, so their low bits choose at random.
        let touch = key.is_multiple_of(TOUCH_EVERY);
        let page = match run.slots.get(index).filter(|_| !touch) {
            Some(page) => page,
            None => {
                if touch {
                    objects.opened_run(&self.entry.object)?;
                }
                let Some(place) = table.place_of(key) else {
                    return Some(());
                };
                let page = objects.cached_hash_page(&run.identity, place.index)?;
                run.slots.set(index, &page);
                page
            }
        };
        let start = self.entry.range.start;
        numbers.extend(table.find(key, &page).ok()?.map(|offset| start + offset));
        Some(())
    }
}
