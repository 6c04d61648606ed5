//! Which faults a simulated server injects, how often, and how often it did.
//!
//! A fault is drawn only where it can be seen: no log goes missing from an empty answer. Which request meets a
//! fault depends on the order in which requests arrive.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::rng::Rng;

/// The rate that always hits, in cases of a million.
const ALWAYS: u32 = 1_000_000;

/// A kind of fault that a server can inject.
pub trait InjectedFault: Copy + Ord + fmt::Debug {
    /// How bad those faults are that have a size.
    type Sizes: Copy + Default + fmt::Debug;

    /// The fault of this name.
    fn named(name: &str) -> Option<Self>;

    /// The number of its random stream, where it has one of its own: then changing the rate of one fault leaves
    /// the others where they were.
    fn stream(self) -> Option<u64> {
        None
    }
}

/// A seeded plan of faults. A clone is another handle to the same plan; it may change while the server
/// serves.
#[derive(Debug)]
pub struct FaultRegistry<F: InjectedFault> {
    plan: Arc<Mutex<Plan<F>>>,
}

#[derive(Debug)]
struct Plan<F: InjectedFault> {
    seed: u64,
    /// The stream of all faults that have none of their own.
    rng: Rng,
    rates: BTreeMap<F, Rate>,
    sizes: F::Sizes,
    /// How often each fault was possible while it had a rate.
    chances: BTreeMap<F, u64>,
    injected: BTreeMap<F, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    per_million: u32,
    /// How often it may still happen.
    left: u64,
}

impl<F: InjectedFault> Clone for FaultRegistry<F> {
    fn clone(&self) -> Self {
        Self {
            plan: self.plan.clone(),
        }
    }
}

impl<F: InjectedFault> Default for FaultRegistry<F> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<F: InjectedFault> FaultRegistry<F> {
    /// A plan without faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let plan = Plan {
            seed,
            rng: Rng::of(&[seed]),
            rates: BTreeMap::new(),
            sizes: F::Sizes::default(),
            chances: BTreeMap::new(),
            injected: BTreeMap::new(),
        };
        Self {
            plan: Arc::new(Mutex::new(plan)),
        }
    }

    /// Injects a fault in this many of a million cases; 0 ends it.
    pub fn set(&self, fault: F, per_million: u32) {
        let left = u64::MAX;
        self.plan().rates.insert(fault, Rate { per_million, left });
    }

    /// Injects a fault every time.
    pub fn always(&self, fault: F) {
        self.set(fault, ALWAYS);
    }

    /// Injects a fault the next `left` times.
    pub fn times(&self, fault: F, left: u64) {
        let per_million = ALWAYS;
        self.plan().rates.insert(fault, Rate { per_million, left });
    }

    /// Ends all faults. What was counted stays.
    pub fn clear(&self) {
        self.plan().rates.clear();
    }

    /// Changes how bad the faults are.
    pub fn set_sizes(&self, sizes: F::Sizes) {
        self.plan().sizes = sizes;
    }

    /// How bad the faults are.
    #[must_use]
    pub fn sizes(&self) -> F::Sizes {
        self.plan().sizes
    }

    /// Sets the rates of an object of names and probabilities, such as `{"http_500": 0.02}`. Faults
    /// that are not in it keep their rate.
    ///
    /// # Errors
    /// Text that is not such an object, an unknown name, or a probability outside 0 to 1; then nothing
    /// is changed.
    pub fn load_json(&self, text: &str) -> Result<(), FaultsError> {
        for (fault, per_million) in parse_rates(text)? {
            self.set(fault, per_million);
        }
        Ok(())
    }

    /// How often the fault was injected.
    pub(crate) fn count(&self, fault: F) -> u64 {
        let plan = self.plan();
        plan.injected.get(&fault).copied().unwrap_or_default()
    }

    /// How often each fault was injected; without those that never were.
    pub(crate) fn all_counts(&self) -> BTreeMap<F, u64> {
        self.plan().injected.clone()
    }

    /// The faults that may still happen.
    pub(crate) fn planned(&self) -> Vec<F> {
        let plan = self.plan();
        let may_happen = plan.rates.iter().filter(|(_, rate)| rate.left > 0);
        may_happen.map(|(fault, _)| *fault).collect()
    }

    /// Whether the fault happens now. The caller must then show it.
    pub(crate) fn hits(&self, fault: F) -> bool {
        self.draw(fault).is_some()
    }

    /// Like [`FaultRegistry::hits`], with a number to choose by.
    pub(crate) fn draw(&self, fault: F) -> Option<u64> {
        let mut plan = self.plan();
        let rate = plan.rates.get(&fault).copied()?;
        if rate.left == 0 {
            return None;
        }
        let drawn = plan.draw(fault, rate.per_million)?;
        let left = rate.left - 1;
        plan.rates.insert(fault, Rate { left, ..rate });
        *plan.injected.entry(fault).or_default() += 1;
        Some(drawn)
    }

    fn plan(&self) -> MutexGuard<'_, Plan<F>> {
        self.plan.lock()
    }
}

impl<F: InjectedFault> Plan<F> {
    fn draw(&mut self, fault: F, per_million: u32) -> Option<u64> {
        let Some(stream) = fault.stream() else {
            return hit(&mut self.rng, per_million);
        };
        if per_million == 0 {
            return None;
        }
        let chance = self.chances.entry(fault).or_default();
        *chance += 1;
        hit(&mut Rng::of(&[self.seed, *chance, stream]), per_million)
    }
}

/// A number to choose by, in this many of a million cases.
fn hit(rng: &mut Rng, per_million: u32) -> Option<u64> {
    let hits = rng.below(ALWAYS.into()) < per_million.into();
    hits.then(|| rng.next())
}

/// Why a text does not describe faults.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct FaultsError(String);

/// The faults of an object of names and probabilities, each with its rate in cases of a million.
fn parse_rates<F: InjectedFault>(text: &str) -> Result<Vec<(F, u32)>, FaultsError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| FaultsError(format!("faults are not JSON: {error}")))?;
    let object = value.as_object();
    let object = object.ok_or_else(|| FaultsError("faults are not a JSON object".to_owned()))?;
    let rate = |(name, value): (&String, &Value)| {
        let fault = F::named(name);
        let fault = fault.ok_or_else(|| FaultsError(format!("unknown fault (name={name})")))?;
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        let what = || FaultsError(format!("not a probability from 0 to 1 (name={name})"));
        let share = share.ok_or_else(what)?;
        Ok((fault, (share * f64::from(ALWAYS)).round() as u32))
    };
    object.iter().map(rate).collect()
}
