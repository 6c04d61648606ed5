//! Who signed a transaction.

use alloy_primitives::{Address, keccak256};
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};

/// The sender by a signature over a hash; none where no key made it.
pub(crate) fn recover(hash: [u8; 32], r: &[u8], s: &[u8], odd: bool) -> Option<Address> {
    let wide = |bytes: &[u8]| -> Option<[u8; 32]> {
        let mut out = [0; 32];
        let start = 32_usize.checked_sub(bytes.len())?;
        out.get_mut(start..)?.copy_from_slice(bytes);
        Some(out)
    };
    let mut signature = Signature::from_scalars(wide(r)?, wide(s)?).ok()?;
    let mut odd = odd;
    // Chains took both forms of a signature once; the library takes one.
    if let Some(normal) = signature.normalize_s() {
        signature = normal;
        odd = !odd;
    }
    let id = RecoveryId::new(odd, false);
    let key = VerifyingKey::recover_from_prehash(&hash, &signature, id).ok()?;
    let point = key.to_encoded_point(false);
    let digest = keccak256(point.as_bytes().get(1..)?);
    Some(Address::from_slice(digest.get(12..)?))
}
