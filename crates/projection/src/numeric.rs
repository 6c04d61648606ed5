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
    // Positive, and nothing after the point.
    out.put_u16(0);
    out.put_u16(0);
    for digit in digits {
        out.put_i16(digit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that a server would make of it: digits of four, from the weight on.
    fn read(bytes: &[u8]) -> String {
        let number = |at: usize| i16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (count, weight) = (number(4), number(6));
        assert_eq!(bytes.len(), 12 + 2 * count as usize);
        assert_eq!((number(8), number(10)), (0, 0));
        let digit = |at: i16| match at < count {
            true => number(12 + 2 * at as usize),
            false => 0,
        };
        let digits: String = (0..=weight).map(|at| format!("{:04}", digit(at))).collect();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            "0".to_owned()
        } else {
            digits.to_owned()
        }
    }

    #[test]
    fn numbers_are_written_as_the_server_reads_them() {
        let mut numbers = vec![U256::ZERO, U256::MAX, U256::from(9_999), U256::from(10_000)];
        for power in 0..78_u64 {
            let ten = U256::from(10).pow(U256::from(power));
            numbers.extend([
                ten - U256::from(1),
                ten,
                ten + U256::from(1),
                ten * U256::from(7),
            ]);
        }
        for value in numbers {
            let mut out = BytesMut::new();
            put_numeric(&mut out, value);
            assert_eq!(read(&out), value.to_string());
        }
    }
}
