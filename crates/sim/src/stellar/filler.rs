//! Plain transfers by the thousand, for ledgers as large as those of a busy network.
//!
//! One transfer is made of its XDR types, with marks in place of what differs from one to the next:
//! accounts, signature, hash of the result, amount, sequence number. Its bytes are then copied and
//! the marks replaced, which is as fast as memory. So transfers differ only in what cannot be
//! compressed, as on a real network.

mod template;

use super::maker::Maker;
use super::sha256;
use super::transaction::{Family, Parts, Setting};
use template::Template;

/// What comes after a transaction in its envelope: one signature, with its hint and lengths.
const SIGNATURES_BYTES: usize = 4 + 4 + 4 + 64;
/// Accounts that send or receive such transfers.
const ACCOUNTS: u64 = 100_000;
const ACCOUNT: u64 = 0x5354_0020;

/// Makes transfers for the ledgers of one version.
pub(super) struct Filler {
    family: Family,
    network_id: [u8; 32],
    template: Template,
}

impl Filler {
    /// Transfers of this family, with the version of meta that their ledger has.
    pub(super) fn new(maker: &mut Maker, family: Family, setting: Setting) -> Self {
        Self {
            family,
            network_id: setting.network_id,
            template: template::template(maker, family, setting.meta),
        }
    }

    /// One more transfer.
    pub(super) fn transfer(&self, maker: &mut Maker) -> Parts {
        let source = maker.pooled(ACCOUNT, ACCOUNTS);
        let destination = maker.pooled(ACCOUNT, ACCOUNTS);
        let signature: [u8; 64] = maker.make();
        let [amount, sequence, balance] =
            [40, 12, 30].map(|bits| (maker.rng.next() >> bits).to_be_bytes());
        let values = |result| {
            [
                &source[..],
                &destination,
                &signature,
                result,
                &amount,
                &sequence,
                &balance,
            ]
        };
        let template = &self.template;
        // The preimage does not hold the hash that is made of it.
        let result = sha256(&[&template.preimage.fill(&values(&[0; 32]))]);
        let values = &values(&result);
        let envelope = template.envelope.fill(values);
        let signed = envelope.len() - SIGNATURES_BYTES;
        // What is signed is the envelope up to its signatures, after the network's id.
        let signed = envelope.get(..signed).unwrap_or_default();
        Parts {
            family: self.family,
            hash: sha256(&[&self.network_id, signed]),
            inner_hash: None,
            success: true,
            result: template.result.fill(values),
            fee_processing: template.fee_processing.fill(values),
            meta: template.meta.fill(values),
            post_fee_processing: template.post_fee_processing.fill(values),
            envelope,
        }
    }
}

/// The bytes of a transaction, without its hash.
pub(super) fn weight(tx: &Parts) -> usize {
    let processing = tx.result.len() + tx.fee_processing.len() + tx.meta.len();
    tx.envelope.len() + processing + tx.post_fee_processing.len()
}
