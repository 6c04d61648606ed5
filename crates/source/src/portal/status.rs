//! What the statuses of Portal mean for a request.

use serde::Deserialize;

/// Characters of a refusal that are passed on.
const TEXT_CHARS_MAX: usize = 300;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// An answer, or the beginning of one.
    Answer,
    /// The first block of the request is not there yet.
    NotYet,
    /// The request is wrong and will stay wrong.
    Refused,
    /// There is no such dataset.
    NoDataset,
    /// The block that the request continues from is not part of the chain.
    Conflict,
    /// Too many requests, of this client or of others: none should be sent for a while.
    Busy,
    /// Something failed on the way.
    Failed,
}

pub(crate) fn meaning(status: u16) -> Meaning {
    match status {
        200 => Meaning::Answer,
        204 => Meaning::NotYet,
        404 => Meaning::NoDataset,
        409 => Meaning::Conflict,
        429 | 503 | 529 => Meaning::Busy,
        400..=407 | 410..500 => Meaning::Refused,
        _ => Meaning::Failed,
    }
}

/// What a refusal says: plain text, or an object with the text inside.
pub(crate) fn text_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    #[derive(Deserialize)]
    struct Envelope {
        error: Inner,
    }
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => envelope.error.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    text.trim().chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_meaning() {
        for (statuses, expected) in [
            (&[200][..], Meaning::Answer),
            (&[204], Meaning::NotYet),
            (&[400, 401, 403, 413, 422], Meaning::Refused),
            (&[404], Meaning::NoDataset),
            (&[409], Meaning::Conflict),
            (&[429, 503, 529], Meaning::Busy),
            (
                &[408, 500, 502, 504, 521, 522, 523, 524, 206, 301],
                Meaning::Failed,
            ),
        ] {
            for status in statuses {
                assert_eq!(meaning(*status), expected, "{status}");
            }
        }
    }

    #[test]
    fn a_refusal_is_read_in_both_forms() {
        let object =
            br#"{"error":{"type":"invalid_request","code":"x","message":"no such field"}}"#;
        assert_eq!(text_of(object), "no such field");
        assert_eq!(text_of(b"Bad request: oh\n"), "Bad request: oh");
        assert_eq!(text_of(&[b'a'; 1000]).len(), TEXT_CHARS_MAX);
        assert_eq!(text_of(b"\xff"), "\u{fffd}");
    }
}
