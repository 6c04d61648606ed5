//! A network: its passphrase, and the numbers that follow from it.

use sha2::{Digest as _, Sha256};

/// A network by its passphrase. Two networks differ in nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    passphrase: String,
    id: [u8; 32],
}

impl Network {
    pub const PUBNET: &'static str = "Public Global Stellar Network ; September 2015";
    pub const TESTNET: &'static str = "Test SDF Network ; September 2015";

    /// The network with a passphrase.
    #[must_use]
    pub fn new(passphrase: impl Into<String>) -> Self {
        let passphrase = passphrase.into();
        let id = Sha256::digest(passphrase.as_bytes()).into();
        Self { passphrase, id }
    }

    #[must_use]
    pub fn passphrase(&self) -> &str {
        &self.passphrase
    }

    /// Its hash, which goes into the hash of every transaction.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// A number for it where chains go by numbers: the first 63 bits of its id, so that it is
    /// positive in a database too.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.id;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_networks() {
        let pubnet = Network::new(Network::PUBNET);
        let hex: String = pubnet.id().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "7ac33997544e3175d266bd022439b22cdb16508c01163f26e5cb2a3e1045a979"
        );
        assert_eq!(pubnet.chain_id(), 0x7ac3_3997_544e_3175 >> 1);
        assert!(i64::try_from(Network::new(Network::TESTNET).chain_id()).is_ok());
    }
}
