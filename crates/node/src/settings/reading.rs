//! Values of the file: variables are replaced, names become camelCase, types are checked, and errors leave out
//! what may be a key.

use std::fmt::Display;
use std::ops::RangeInclusive;

use anyhow::{Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Names in snake_case become camelCase, as the types have them.
///
/// # Errors
/// A setting that is there by both names.
pub(super) fn rename_keys(value: &mut Value) -> Result<()> {
    match value {
        Value::Array(all) => all.iter_mut().try_for_each(rename_keys),
        Value::Object(all) => {
            for (name, mut one) in std::mem::take(all) {
                rename_keys(&mut one)?;
                let renamed = camel_case(&name);
                let other = all.insert(renamed.clone(), one);
                ensure!(
                    other.is_none(),
                    "`{renamed}` is there twice, as `{name}` too"
                );
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or(name).to_owned();
    words.fold(first, |mut text, word| {
        let mut letters = word.chars();
        text.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        text.push_str(letters.as_str());
        text
    })
}

/// A number that is set or the default, where it lies within its bounds.
pub(super) fn between<T: PartialOrd + Display>(
    name: &str,
    number: Option<T>,
    default: T,
    bounds: RangeInclusive<T>,
) -> Result<T> {
    let number = number.unwrap_or(default);
    let (least, most) = (bounds.start(), bounds.end());
    ensure!(
        bounds.contains(&number),
        "{name}: {number} is not between {least} and {most}"
    );
    Ok(number)
}

/// A typed value, or which field is wrong and why.
pub(super) fn typed<T: DeserializeOwned>(value: Value, within: &str) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let dot = if within.is_empty() || path.is_empty() {
            ""
        } else {
            "."
        };
        anyhow!(
            "{within}{dot}{path}: {}",
            without_values(&error.inner().to_string())
        )
    })
}

/// A message without the text of the settings that it quotes, which may be a key, and without URLs, which may
/// carry one.
fn without_values(message: &str) -> String {
    // From the first quote to the last one: the text itself may have quotes.
    let around = message
        .split_once('"')
        .and_then(|(before, rest)| Some((before, rest.rsplit_once('"')?.1)));
    let message = match around {
        Some((before, after)) => format!("{before}\"…\"{after}"),
        None => message.to_owned(),
    };
    // Names of fields and variants stand between backticks.
    let hide = |part| match str::contains(part, "://") {
        true => "…",
        false => part,
    };
    let parts: Vec<&str> = message.split('`').map(hide).collect();
    parts.join("`")
}

/// Why and where a text is not TOML, without the line: it may hold a key.
pub(super) fn not_toml(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start));
    // The first line of the message: what follows may show the text.
    let why = error.message().lines().next().unwrap_or_default();
    match before {
        None => anyhow!("not TOML: {why}"),
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
            anyhow!("not TOML: {why} (line {line}, column {column})")
        }
    }
}

/// Replaces `${NAME}` and `${NAME:-default}` in all strings.
pub(super) fn expand(value: &mut Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    match value {
        Value::String(text) => {
            while let Some((before, rest)) = text.split_once("${") {
                let Some((inside, after)) = rest.split_once('}') else {
                    bail!("`${{` without `}}`");
                };
                let (name, default) = match inside.split_once(":-") {
                    Some((name, default)) => (name, Some(default.to_owned())),
                    None => (inside, None),
                };
                let Some(value) = variable(name).or(default) else {
                    bail!("environment variable {name} is not set");
                };
                ensure!(
                    !value.contains("${"),
                    "environment variable {name} holds `${{`"
                );
                *text = format!("{before}{value}{after}");
            }
            Ok(())
        }
        Value::Array(all) => all.iter_mut().try_for_each(|one| expand(one, variable)),
        Value::Object(all) => all.values_mut().try_for_each(|one| expand(one, variable)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Everything that a key may be put into by mistake.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields {
        #[expect(dead_code, reason = "only its type counts")]
        number: u64,
    }

    #[test]
    fn what_is_wrong_is_named_and_not_quoted() {
        for (value, expected) in [
            (
                json!({ "number": "chr_SECRET" }),
                "in.number: invalid type: string \"…\", expected u64",
            ),
            (
                json!({ "number": "chr_\" SECRET \"SECRET" }),
                "in.number: invalid type: string \"…\", expected u64",
            ),
            (
                json!({ "number": "https://n.example/SECRET" }),
                "in.number: invalid type: string \"…\", expected u64",
            ),
            (json!("chr_SECRET"), "in: invalid type: string \"…\""),
            (
                json!({ "number": -1 }),
                "in.number: invalid value: integer `-1`",
            ),
            (
                json!({ "numbr": 1 }),
                "unknown field `numbr`, expected `number`",
            ),
        ] {
            let error = typed::<Fields>(value, "in").unwrap_err().to_string();
            assert!(error.contains(expected), "{error} instead of {expected}");
            assert!(!error.contains("SECRET"), "{error}");
        }
        let url = without_values("unknown variant `https://n.example/SECRET`, expected `auto`");
        assert_eq!(url, "unknown variant `…`, expected `auto`");
    }
}
