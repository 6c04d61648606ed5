//! What core's settings file must contain, and what it should.
//!
//! The file is made for other programs, which add lines of their own. Core is called with it as it is, so that
//! what is missing must be reported before core runs for hours and keeps nothing.

use chronolith_stellar::Network;

/// Lines without which core leaves out events that a lake has: the field, and what is missing without it.
const EVENTS: [(&str, &str); 3] = [
    (
        "EMIT_CLASSIC_EVENTS",
        "events of classic operations and of fees",
    ),
    ("ENABLE_SOROBAN_DIAGNOSTIC_EVENTS", "diagnostic events"),
    (
        "EMIT_SOROBAN_TRANSACTION_META_EXT_V1",
        "fees of Soroban transactions in their meta",
    ),
];

/// Checks a settings file. What core does not need but a reader of ledgers misses is handed back, one line each.
///
/// # Errors
/// What keeps core from working here, with the line to add or to remove.
pub(crate) fn check(settings: &str, network: &Network) -> Result<Vec<String>, String> {
    let field = |name: &str| value_of(settings, name);
    if field("DATABASE").is_none_or(|place| place.contains(":memory:")) {
        return Err(
            "it has no DATABASE on disk, so that core forgets its ledgers when it ends: add the \
             line DATABASE=\"sqlite3://stellar.db\""
                .to_owned(),
        );
    }
    let passphrase = network.passphrase();
    if field("NETWORK_PASSPHRASE").as_deref() != Some(passphrase) {
        return Err(format!(
            "its network is another one: set the line NETWORK_PASSPHRASE={passphrase:?}"
        ));
    }
    if field("METADATA_OUTPUT_STREAM").is_some_and(|stream| !stream.is_empty()) {
        return Err(
            "core gets the place for ledgers when it is started, and refuses a second one: remove the \
             line METADATA_OUTPUT_STREAM"
                .to_owned(),
        );
    }
    if field("NODE_IS_VALIDATOR").as_deref() == Some("true") {
        return Err(
            "a validator cannot be started and ended as ledgers are needed: remove the line \
             NODE_IS_VALIDATOR=true"
                .to_owned(),
        );
    }
    let missing = EVENTS
        .into_iter()
        .filter(|(name, _)| field(name).as_deref() != Some("true"));
    let line = |(name, what)| format!("without {what}: add the line {name}=true");
    Ok(missing.map(line).collect())
}

/// The value of a field that stands before all tables, without quotes; the last where there are several.
fn value_of(settings: &str, name: &str) -> Option<String> {
    let lines = settings.lines().map(str::trim);
    let fields = lines.take_while(|line| !line.starts_with('['));
    let values = fields.filter_map(|line| {
        let (field, value) = line.split_once('=')?;
        (field.trim() == name).then(|| bare(value.trim()))
    });
    values.last()
}

/// A value without quotes and without the comment after it.
fn bare(value: &str) -> String {
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inside = value.strip_prefix(quote)?;
        inside.split(quote).next()
    });
    let inside = quoted.or_else(|| value.split('#').next().map(str::trim_end));
    inside.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
# of the network
NETWORK_PASSPHRASE = "Test SDF Network ; September 2015" # it's a test
DATABASE="sqlite3://stellar.db"
EMIT_CLASSIC_EVENTS=true
ENABLE_SOROBAN_DIAGNOSTIC_EVENTS = true # for debugging
EMIT_SOROBAN_TRANSACTION_META_EXT_V1=true
[[HOME_DOMAINS]]
NODE_IS_VALIDATOR=true
"#;

    fn checked(from: &str, to: &str) -> Result<Vec<String>, String> {
        let settings = GOOD.replace(from, to);
        assert!(from == to || settings != GOOD, "{from}");
        check(&settings, &Network::new(Network::TESTNET))
    }

    /// SDF's own files for captive core have no DATABASE: core kept everything in memory, began elsewhere after
    /// each start, and the program said forever that another ledger came in place of the one that was due.
    #[test]
    fn unusable_settings_of_core_are_refused_with_the_line_to_change() {
        assert_eq!(checked("", ""), Ok(Vec::new()));
        for (from, to, expected) in [
            (
                "DATABASE=",
                "# DATABASE=",
                "DATABASE=\"sqlite3://stellar.db\"",
            ),
            (
                "sqlite3://stellar.db",
                "sqlite3://:memory:",
                "no DATABASE on disk",
            ),
            ("2015", "2016", "NETWORK_PASSPHRASE=\"Test SDF Network"),
            ("NETWORK_PASSPHRASE", "#", "NETWORK_PASSPHRASE="),
            (
                "[[",
                "METADATA_OUTPUT_STREAM=\"fd:3\"\n[[",
                "remove the line METADATA_OUTPUT_STREAM",
            ),
            ("[[", "NODE_IS_VALIDATOR=true\n[[", "NODE_IS_VALIDATOR=true"),
        ] {
            let error = checked(from, to).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn events_that_core_would_leave_out_are_reported() {
        for (name, _) in EVENTS {
            let error = checked(name, "OTHER").unwrap();
            assert_eq!(error.len(), 1, "{error:?}");
            assert!(
                error[0].ends_with(&format!("add the line {name}=true")),
                "{error:?}"
            );
        }
        assert_eq!(checked("=true\n", "=false\n").unwrap().len(), 2);
    }
}
