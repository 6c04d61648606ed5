//! What core prints, without secrets: seeds and passwords of its settings.

/// Printed in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Characters of a line that are passed on.
const LINE_CHARS_MAX: usize = 1_000;
/// Shorter values are not secrets, and occur in any text.
const VALUE_CHARS_MIN: usize = 6;
/// How a seed begins, and how many characters it has.
const SEED_FIRST: u8 = b'S';
const SEED_CHARS: usize = 56;
/// Fields of core's settings with such words hold secrets.
const WORDS: [&str; 5] = ["SEED", "PASS", "SECRET", "TOKEN", "DATABASE"];
/// What looks like it, and is public.
const PUBLIC: [&str; 1] = ["NETWORK_PASSPHRASE"];

#[derive(Clone, Default)]
pub(crate) struct Quiet(Vec<String>);

impl std::fmt::Debug for Quiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Quiet({})", self.0.len())
    }
}

impl Quiet {
    /// Those of a settings file, which is TOML: a field and a value on each line.
    pub(crate) fn of(settings: &str) -> Self {
        let mut values = Vec::new();
        for line in settings.lines() {
            let Some((field, value)) = line.split_once('=') else {
                continue;
            };
            let field = field.trim();
            let is_secret = WORDS.iter().any(|word| field.contains(word));
            if !is_secret || PUBLIC.contains(&field) {
                continue;
            }
            // A name may follow a seed; the address of a database may contain its password.
            let parts = value.split(['"', '\'', ' ', ',', '[', ']']);
            let parts = parts.filter(|part| part.chars().count() >= VALUE_CHARS_MIN);
            values.extend(parts.map(str::to_owned));
            let password = value.split_once("password=").map(|(_, rest)| rest);
            let password = password.and_then(|rest| rest.split([' ', '"', '\'']).next());
            values.extend(password.filter(|it| !it.is_empty()).map(str::to_owned));
        }
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values)
    }

    pub(crate) fn hide(&self, line: &str) -> String {
        let line: String = line.trim_end().chars().take(LINE_CHARS_MAX).collect();
        let line = self
            .0
            .iter()
            .fold(line, |line, value| line.replace(value.as_str(), HIDDEN));
        let words = line.split_inclusive(|sign: char| !sign.is_ascii_alphanumeric());
        let hide = |word: &str| {
            let plain = word.trim_end_matches(|sign: char| !sign.is_ascii_alphanumeric());
            if is_seed(plain) {
                word.replace(plain, HIDDEN)
            } else {
                word.to_owned()
            }
        };
        words.map(hide).collect()
    }
}

fn is_seed(word: &str) -> bool {
    let base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    word.len() == SEED_CHARS && word.bytes().next() == Some(SEED_FIRST) && word.bytes().all(base32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_settings_and_seeds_are_hidden() {
        let seed = format!("S{}", "AB27".repeat(13)) + "CDE";
        let settings = format!(
            "NODE_SEED=\"{seed} self\"\nDATABASE = \"postgresql://dbname=core password=hunter2 host=x\"\n\
             NETWORK_PASSPHRASE=\"Some Network\"\nHTTP_PORT=11626\nADMIN_TOKEN='tok-123'\n"
        );
        let quiet = Quiet::of(&settings);
        for (line, expected) in [
            ("closing ledger 12 of Some Network", None),
            ("Got consensus: HTTP_PORT 11626", None),
            ("login tok-123 refused\n", Some("login [hidden] refused")),
            ("using hunter2", Some("using [hidden]")),
        ] {
            assert_eq!(quiet.hide(line), expected.unwrap_or(line));
        }
        let printed = quiet.hide(&format!("seed={seed}, done"));
        assert_eq!(printed, "seed=[hidden], done");
        let other = format!("S{}", "ZYX2".repeat(13)) + "CDE";
        assert_eq!(Quiet::default().hide(&other), "[hidden]");
        let public = other.replacen('S', "G", 1);
        assert_eq!(Quiet::default().hide(&public), public);
        assert_eq!(
            Quiet::default().hide(&"x".repeat(5_000)).len(),
            LINE_CHARS_MAX
        );
    }
}
