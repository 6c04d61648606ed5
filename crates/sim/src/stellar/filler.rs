//! Plain transfers by the thousand, for ledgers as large as those of a busy network.
//!
//! One transfer is made of its XDR types, with marks in place of what differs from one to the next:
//! accounts, signature, hash of the result, amount, sequence number. Its bytes are then copied and
//! the marks replaced, which is as fast as memory. So transfers are alike but for what nobody can
//! compress, as on a real network.

mod template;

use super::maker::Maker;
use super::sha256;
use super::transaction::{Family, Parts, Setting};
use template::{Sheet, sheet};

/// What stands behind a transaction in its envelope: one signature, with its hint and lengths.
const SIGNATURES_BYTES: usize = 4 + 4 + 4 + 64;
/// Accounts that send or receive such transfers.
const ACCOUNTS: u64 = 100_000;
const ACCOUNT: u64 = 0x5354_0020;

/// Makes transfers for the ledgers of one version.
pub(super) struct Filler {
    family: Family,
    network_id: [u8; 32],
    envelope: Sheet,
    result: Sheet,
    /// What the hash in the result is made of.
    preimage: Sheet,
    fee_processing: Sheet,
    meta: Sheet,
    post_fee_processing: Sheet,
}

/// What differs from one transfer to the next.
#[derive(Clone, Debug)]
struct Fields {
    source: [u8; 32],
    destination: [u8; 32],
    signature: [u8; 64],
    result: [u8; 32],
    amount: [u8; 8],
    sequence: [u8; 8],
    balance: [u8; 8],
}

impl Filler {
    /// Transfers of this family, with the version of meta that their ledger has.
    pub(super) fn new(maker: &mut Maker, family: Family, setting: Setting) -> Self {
        let made = template::template(maker, family, setting.meta);
        Self {
            family,
            network_id: setting.network_id,
            envelope: sheet(made.envelope),
            result: sheet(made.result),
            preimage: sheet(made.preimage),
            fee_processing: sheet(made.fee_processing),
            meta: sheet(made.meta),
            post_fee_processing: sheet(made.post_fee_processing),
        }
    }

    /// One more transfer.
    pub(super) fn transfer(&self, maker: &mut Maker) -> Parts {
        let source = maker.pooled(ACCOUNT, ACCOUNTS);
        let mut fields = Fields {
            source,
            destination: maker.pooled(ACCOUNT, ACCOUNTS),
            signature: maker.make(),
            result: [0; 32],
            amount: (maker.rng.next() >> 40).to_be_bytes(),
            sequence: (maker.rng.next() >> 12).to_be_bytes(),
            balance: (maker.rng.next() >> 30).to_be_bytes(),
        };
        fields.result = sha256(&[&self.preimage.fill(&fields)]);
        let envelope = self.envelope.fill(&fields);
        let signed = envelope.len() - SIGNATURES_BYTES;
        // What is signed is the envelope up to its signatures, after the network's id.
        let signed = envelope.get(..signed).unwrap_or_default();
        Parts {
            family: self.family,
            hash: sha256(&[&self.network_id, signed]),
            inner_hash: None,
            success: true,
            result: self.result.fill(&fields),
            fee_processing: self.fee_processing.fill(&fields),
            meta: self.meta.fill(&fields),
            post_fee_processing: self.post_fee_processing.fill(&fields),
            envelope,
        }
    }
}

/// The bytes of a transaction, without its hash.
pub(super) fn weight(tx: &Parts) -> usize {
    let processing = tx.result.len() + tx.fee_processing.len() + tx.meta.len();
    tx.envelope.len() + processing + tx.post_fee_processing.len()
}
