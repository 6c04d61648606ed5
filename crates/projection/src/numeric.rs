//! Numbers of 256 bits as PostgreSQL writes a `NUMERIC` on the wire.

use alloy_primitives::U256;
use bytes::{BufMut as _, BytesMut};

/// A digit of the wire holds four of ours.
const BASE: u64 = 10_000;

/// Puts a number with its length before it, as a field of a binary COPY.
pub(crate) fn put_numeric(out: &mut BytesMut, value: U256) {
    let mut digits = Vec::with_capacity(20);
    let mut rest = value;
    while !rest.is_zero() {
        let (quotient, digit) = rest.div_rem(U256::from(BASE));
        digits.push(digit.to::<u64>() as i16);
        rest = quotient;
    }
    digits.reverse();
    let weight = i16::try_from(digits.len()).unwrap_or(i16::MAX) - 1;
    // Zeros at the end are in the weight.
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    out.put_i32(8 + 2 * digits.len() as i32);
    out.put_i16(digits.len() as i16);
    out.put_i16(weight);
    // Positive, and nothing behind the point.
    out.put_u16(0);
    out.put_u16(0);
    for digit in digits {
        out.put_i16(digit);
    }
}
