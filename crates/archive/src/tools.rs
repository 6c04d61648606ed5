//! Operations on a whole archive that operators start: inspect, copy, rebuild a lost state, check the
//! format version.

pub(crate) mod copy;
pub(crate) mod inspect;
pub(crate) mod rebuild;
pub(crate) mod upgrade;
