//! Cursors of lists as text, for URLs too. They name what stands in the database, so that they outlive
//! restarts and whatever is written meanwhile.

use chronolith_model::Hash32;
use chronolith_projection_fees::{Address, FeePosition, TotalPosition, event_named};

/// A position that can be given to callers and read back.
pub(super) trait CursorText: Sized {
    fn show(&self) -> String;
    /// Reads what [`AsText::show`] made, and nothing else.
    fn read(text: &str) -> Option<Self>;
    fn chain(&self) -> u64;
}

/// Longer than any cursor: what is longer is not looked at.
const LENGTH_MAX: usize = 256;
/// In the place of an integrator, where there is none.
const NOBODY: &str = "none";

/// `chain-block-log-position-hash`
impl CursorText for FeePosition {
    fn show(&self) -> String {
        let hash = const_hex::encode(self.block_hash.as_bytes());
        let (chain, block) = (self.chain, self.block);
        format!(
            "{chain}-{block}-{}-{}-{hash}",
            self.log_index, self.position
        )
    }

    fn read(text: &str) -> Option<Self> {
        let [chain, block, log_index, position, hash] = parts(text)?;
        let mut bytes = [0; 32];
        const_hex::decode_to_slice(hash, &mut bytes).ok()?;
        let at = Self {
            chain: chain.parse().ok()?,
            block: block.parse().ok()?,
            log_index: log_index.parse().ok()?,
            position: position.parse().ok()?,
            block_hash: Hash32(bytes),
        };
        // One spelling each.
        (at.show() == text).then_some(at)
    }

    fn chain(&self) -> u64 {
        self.chain
    }
}

/// `chain-day-integrator-token-event`
impl CursorText for TotalPosition {
    fn show(&self) -> String {
        let who = self.integrator.map(const_hex::encode);
        let who = who.unwrap_or_else(|| NOBODY.to_owned());
        let token = const_hex::encode(self.token);
        format!("{}-{}-{who}-{token}-{}", self.chain, self.day, self.event)
    }

    fn read(text: &str) -> Option<Self> {
        let [chain, day, integrator, token, event] = parts(text)?;
        let integrator = match integrator {
            NOBODY => None,
            some => Some(address(some)?),
        };
        let at = Self {
            chain: chain.parse().ok()?,
            day: day.parse().ok()?,
            integrator,
            token: address(token)?,
            event: event_named(event)?,
        };
        (at.show() == text).then_some(at)
    }

    fn chain(&self) -> u64 {
        self.chain
    }
}

fn parts(text: &str) -> Option<[&str; 5]> {
    let parts = text.split('-').take(6).collect::<Vec<_>>();
    let parts = parts.try_into().ok();
    parts.filter(|_| text.len() <= LENGTH_MAX)
}

fn address(text: &str) -> Option<Address> {
    let mut bytes = [0; 20];
    const_hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_and_nothing_else_does() {
        let event = FeePosition {
            chain: u64::MAX,
            block: 7,
            log_index: u32::MAX,
            position: 1,
            block_hash: Hash32([0xab; 32]),
        };
        assert_eq!(FeePosition::read(&event.show()), Some(event));
        for integrator in [None, Some([0x11; 20])] {
            let total = TotalPosition {
                chain: 1,
                day: u64::MAX,
                integrator,
                token: [0; 20],
                event: "FeesWithdrawn",
            };
            assert_eq!(TotalPosition::read(&total.show()), Some(total));
            assert_eq!(FeePosition::read(&total.show()), None);
            let other = total.show().replace("FeesWithdrawn", "Transfer");
            assert_eq!(TotalPosition::read(&other), None);
        }
        let text = event.show();
        let (longer, upper) = (format!("{text}-1"), text.to_uppercase());
        let signed = format!("+{text}");
        for bad in ["", "1", "1-2-3-4-5", "----", &longer, &upper, &signed] {
            assert_eq!(FeePosition::read(bad), None, "{bad}");
        }
    }
}
