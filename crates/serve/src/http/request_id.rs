//! The id of a request: in a header of its answer, and in its error, so that both ends speak of the same one.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes of an id that a client or a proxy made.
const BYTES_MAX: usize = 128;

/// Makes ids. They tell nothing about other requests.
#[derive(Clone, Default)]
pub(crate) struct RequestIds {
    random: RandomState,
    next: Arc<AtomicU64>,
}

impl RequestIds {
    /// The id that came with the request, where it is one; else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(REQUEST_ID).filter(|id| is_id(id.as_bytes()));
        given.cloned().unwrap_or_else(|| self.make())
    }

    fn make(&self) -> HeaderValue {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:016x}", self.random.hash_one(number));
        HeaderValue::from_str(&id).expect("hex digits are a header value")
    }
}

/// It goes into logs and answers: nothing in it needs quotes or escapes.
fn is_id(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/".contains(byte);
    (1..=BYTES_MAX).contains(&text.len()) && text.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sane_ids_are_kept_and_others_are_replaced() {
        let ids = RequestIds::default();
        let long = "a".repeat(BYTES_MAX + 1);
        for (given, is_kept) in [
            ("7b1f0c52-9a55-4a1e-a5a3-3c4f8f4f8f4f", true),
            ("Root=1-67891233-abcdef012345678912345678", true),
            ("c29tZSBiYXNlNjQ+/w==", true),
            (&long[1..], true),
            (&long, false),
            ("", false),
            ("two words", false),
            ("<script>", false),
            ("a\"b", false),
            ("\u{e4}", false),
        ] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_bytes(given.as_bytes()).unwrap();
            headers.insert(REQUEST_ID, value.clone());
            let id = ids.of(&headers);
            assert_eq!(id == value, is_kept, "{given}");
            assert!(is_id(id.as_bytes()), "{given}");
        }
    }

    #[test]
    fn requests_without_an_id_get_different_ones() {
        let ids = RequestIds::default();
        let made: BTreeSet<_> = (0..1_000)
            .map(|_| ids.of(&HeaderMap::new()).to_str().unwrap().to_owned())
            .collect();
        assert_eq!(made.len(), 1_000);
    }
}
