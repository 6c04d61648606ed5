//! XDR in an answer: base64 of the stored bytes, or JSON of the decoded value.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use stellar_xdr::{Limits, ReadXdr, ScVal};

use super::wire::Format;
use crate::encode;
use crate::error::excerpt;

/// The network refuses deeper nesting.
const DEPTH_MAX: u32 = 500;

/// Bytes of a topic in a filter.
const TOPIC_BYTES_MAX: usize = 64 << 10;

fn limits(bytes: &[u8]) -> Limits {
    Limits {
        depth: DEPTH_MAX,
        len: bytes.len(),
    }
}

/// The XDR of a value, from base64. It is compared byte by byte, so it must be exactly one value.
pub(super) fn value_from_base64(text: &str) -> Result<Bytes, String> {
    if text.len() > TOPIC_BYTES_MAX.div_ceil(3) * 4 {
        return Err(format!("a topic has at most {TOPIC_BYTES_MAX} bytes"));
    }
    let bytes = STANDARD.decode(text);
    let bytes = bytes.map_err(|_| {
        format!(
            "`{}` is neither a wildcard nor base64 of an ScVal",
            excerpt(text)
        )
    })?;
    match ScVal::from_xdr(&bytes, limits(&bytes)) {
        Ok(_) => Ok(bytes.into()),
        Err(error) => Err(format!(
            "`{}` is not the XDR of an ScVal: {error}",
            excerpt(text)
        )),
    }
}

/// Appends XDR of a type, as JSON.
pub(super) fn json<T: ReadXdr + Serialize>(out: &mut Vec<u8>, xdr: &[u8]) -> Result<(), String> {
    let message = |error: &dyn Display| format!("XDR that does not decode: {error}");
    let decoded = T::from_xdr(xdr, limits(xdr)).map_err(|error| message(&error))?;
    serde_json::to_writer(out, &decoded).map_err(|error| message(&error))
}

/// Appends `"name":`, with a comma before it.
pub(super) fn name(out: &mut Vec<u8>, name: &str, format: Format) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(match format {
        Format::Base64 => b"Xdr\":",
        Format::Json => b"Json\":",
    });
}

/// Appends XDR of a type in a format.
pub(super) fn value<T: ReadXdr + Serialize>(
    out: &mut Vec<u8>,
    xdr: &[u8],
    format: Format,
) -> Result<(), String> {
    match format {
        Format::Json => json::<T>(out, xdr),
        Format::Base64 => {
            out.push(b'"');
            encode::base64(out, xdr);
            out.push(b'"');
            Ok(())
        }
    }
}

/// Appends a list of them.
pub(super) fn list<T: ReadXdr + Serialize>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = impl AsRef<[u8]>>,
    format: Format,
) -> Result<(), String> {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        value::<T>(out, item.as_ref(), format)?;
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stellar_xdr::{ScSymbol, ScVec, WriteXdr};

    fn base64(value: &ScVal) -> String {
        STANDARD.encode(value.to_xdr(Limits::none()).unwrap())
    }

    #[test]
    fn a_topic_is_one_value_and_no_more() {
        let value = ScVal::Symbol(ScSymbol("transfer".try_into().unwrap()));
        let xdr = value.to_xdr(Limits::none()).unwrap();
        assert_eq!(value_from_base64(&base64(&value)).unwrap(), xdr);
        let longer = [&xdr[..], &[0; 4]].concat();
        let shorter = &xdr[..xdr.len() - 4];
        for wrong in [
            "",
            "#",
            "AAAA",
            &STANDARD.encode(longer),
            &STANDARD.encode(shorter),
        ] {
            assert!(value_from_base64(wrong).is_err(), "{wrong}");
        }
    }

    /// Values inside of values are read by calls inside of calls: there is an end to that.
    #[test]
    fn deep_values_are_refused_and_not_followed() {
        let nested = |depth: usize| {
            let mut xdr = Vec::new();
            for _ in 0..depth {
                // A list that is there, of one value.
                for number in [16_u32, 1, 1] {
                    xdr.extend_from_slice(&number.to_be_bytes());
                }
            }
            // Nothing.
            xdr.extend_from_slice(&1_u32.to_be_bytes());
            STANDARD.encode(xdr)
        };
        let value = ScVal::Vec(Some(ScVec(vec![ScVal::Void].try_into().unwrap())));
        assert_eq!(nested(1), base64(&value));
        assert!(value_from_base64(&nested(20)).is_ok());
        assert!(value_from_base64(&nested(4_000)).is_err());
    }
}
