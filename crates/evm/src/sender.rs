//! Who signed a transaction.

use alloy_primitives::{Address, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

/// The sender by a signature over a hash; none where no key made it.
pub(crate) fn recover(hash: [u8; 32], r: &[u8], s: &[u8], odd: bool) -> Option<Address> {
    let mut signature = [0; 64];
    let (first, second) = signature.split_at_mut(32);
    for (place, bytes) in [(first, r), (second, s)] {
        let start = place.len().checked_sub(bytes.len())?;
        place.get_mut(start..)?.copy_from_slice(bytes);
    }
    let id = if odd {
        RecoveryId::One
    } else {
        RecoveryId::Zero
    };
    let signature = RecoverableSignature::from_compact(&signature, id).ok()?;
    let key = SECP256K1.recover_ecdsa(Message::from_digest(hash), &signature);
    let point = key.ok()?.serialize_uncompressed();
    let digest = keccak256(point.get(1..)?);
    Some(Address::from_slice(digest.get(12..)?))
}
