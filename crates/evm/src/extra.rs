//! Fields of no known form, as they came: no more than any chain has, whatever an answer holds.

/// Most of them in one header or transaction. Chains have up to ten.
const FIELDS_MAX: usize = 64;
/// Most bytes of all of them. Avalanche shows data of some hundred thousand.
const BYTES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 128;
/// Characters of hostile text that a message shows.
const SHOWN_CHARS_MAX: usize = 64;

/// Counts fields of no known form.
#[derive(Debug, Default)]
pub(crate) struct Room {
    fields: usize,
    bytes: usize,
}

impl Room {
    /// Takes one more field.
    ///
    /// # Errors
    /// Where it is one too many.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.fields += 1;
        self.bytes = self.bytes.saturating_add(name.len() + value.len());
        let over = if name.len() > NAME_BYTES_MAX {
            "a name that is too long"
        } else if self.fields > FIELDS_MAX {
            "too many fields that are not known"
        } else if self.bytes > BYTES_MAX {
            "too many bytes in fields that are not known"
        } else {
            return Ok(());
        };
        Err(format!("{over} (at={})", cut(name)))
    }
}

/// The beginning of hostile text.
pub(crate) fn cut(text: &str) -> &str {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => text.split_at(at).0,
        None => text,
    }
}
