//! Cursors of lists as text, also for URLs. They name rows of the database, so that they stay valid after
//! restarts and writes.

use chronolith_model::Hash32;
use chronolith_projection_fees::{Address, FeePosition, TotalPosition, event_named};

/// A position that clients get and send back.
pub(super) trait CursorText: Sized {
    fn encode(&self) -> String;
    /// Parses what [`CursorText::encode`] wrote, and nothing else.
    fn parse(text: &str) -> Option<Self>;
    fn chain(&self) -> u64;
}

/// No cursor is longer: a longer text is not parsed.
const LENGTH_MAX: usize = 256;
/// Instead of an integrator, where there is none.
const NO_INTEGRATOR: &str = "none";

/// `chain-block-log-position-hash`
impl CursorText for FeePosition {
    fn encode(&self) -> String {
        let hash = const_hex::encode(self.block_hash.as_bytes());
        let (chain, block) = (self.chain, self.block);
        format!(
            "{chain}-{block}-{}-{}-{hash}",
            self.log_index, self.position
        )
    }

    fn parse(text: &str) -> Option<Self> {
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
        // Each has one spelling.
        (at.encode() == text).then_some(at)
    }

    fn chain(&self) -> u64 {
        self.chain
    }
}

/// `chain-day-integrator-token-event`
impl CursorText for TotalPosition {
    fn encode(&self) -> String {
        let integrator = self.integrator.map(const_hex::encode);
        let integrator = integrator.as_deref().unwrap_or(NO_INTEGRATOR);
        let token = const_hex::encode(self.token);
        format!(
            "{}-{}-{integrator}-{token}-{}",
            self.chain, self.day, self.event
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let [chain, day, integrator, token, event] = parts(text)?;
        let integrator = match integrator {
            NO_INTEGRATOR => None,
            some => Some(address(some)?),
        };
        let at = Self {
            chain: chain.parse().ok()?,
            day: day.parse().ok()?,
            integrator,
            token: address(token)?,
            event: event_named(event)?,
        };
        (at.encode() == text).then_some(at)
    }

    fn chain(&self) -> u64 {
        self.chain
    }
}

fn parts(text: &str) -> Option<[&str; 5]> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let parts: Vec<&str> = text.split('-').collect();
    parts.try_into().ok()
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
        assert_eq!(FeePosition::parse(&event.encode()), Some(event));
        for integrator in [None, Some([0x11; 20])] {
            let total = TotalPosition {
                chain: 1,
                day: u64::MAX,
                integrator,
                token: [0; 20],
                event: "FeesWithdrawn",
            };
            assert_eq!(TotalPosition::parse(&total.encode()), Some(total));
            assert_eq!(FeePosition::parse(&total.encode()), None);
            let other = total.encode().replace("FeesWithdrawn", "Transfer");
            assert_eq!(TotalPosition::parse(&other), None);
        }
        let text = event.encode();
        let (longer, upper) = (format!("{text}-1"), text.to_uppercase());
        let signed = format!("+{text}");
        for bad in ["", "1", "1-2-3-4-5", "----", &longer, &upper, &signed] {
            assert_eq!(FeePosition::parse(bad), None, "{bad}");
        }
    }
}
