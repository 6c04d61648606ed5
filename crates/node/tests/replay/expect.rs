//! What is expected of an answer: the very JSON, or an operator where an object has a single field
//! whose name begins with `$`.
//!
//! | operator | holds where the answer |
//! |---|---|
//! | `{"$like": "a * b"}` | is a text of that shape; `*` is anything |
//! | `{"$len": 3}` | is a list of so many |
//! | `{"$is": "number"}` | is of that sort: number, text, list, object |
//! | `{"$short": 300}` | is a text of at most so many bytes |
//! | `{"$below": 100}` | is a smaller number |
//! | `{"$either": […]}` | is as one of these |
//! | `{"$part": {…}}` | is an object with at least these fields |
//! | `{"$logs": {filter}}` | is what the naive scan finds, in order; it must find something |

use serde_json::Value;

use super::chains::Chain;
use super::naive;

/// Longest part of an answer that a failure shows.
const SHOWN_MAX: usize = 600;

/// Whether an answer is as expected; `place` says where in it.
pub(crate) fn check(
    expected: &Value,
    actual: &Value,
    chain: &Chain,
    place: &str,
) -> Result<(), String> {
    if let Some((name, operand)) = operator(expected) {
        return operate((name, operand), actual, chain, place);
    }
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(fields)) => {
            // What nothing proves is named beside it, and a node names nothing.
            let known = |name: &str| wanted.contains_key(name) || name == "unprovenFields";
            let strange = fields.keys().find(|name| !known(name));
            if let Some(name) = strange {
                return Err(format!("{place}.{name} is not expected: {}", show(actual)));
            }
            parts(expected, actual, chain, place)
        }
        (Value::Array(wanted), Value::Array(list)) if wanted.len() == list.len() => {
            let pairs = wanted.iter().zip(list).enumerate();
            for (at, (wanted, one)) in pairs {
                check(wanted, one, chain, &format!("{place}[{at}]"))?;
            }
            Ok(())
        }
        _ if expected == actual => Ok(()),
        _ => differs(place, &show(expected), actual),
    }
}

fn operator(expected: &Value) -> Option<(&str, &Value)> {
    let fields = expected.as_object()?;
    let (name, operand) = fields.iter().next()?;
    (fields.len() == 1 && name.starts_with('$')).then_some((name, operand))
}

fn operate(
    (name, operand): (&str, &Value),
    actual: &Value,
    chain: &Chain,
    place: &str,
) -> Result<(), String> {
    let holds = match name {
        "$like" => actual
            .as_str()
            .is_some_and(|text| is_like(operand.as_str().unwrap(), text)),
        "$len" => actual
            .as_array()
            .is_some_and(|list| Some(list.len() as u64) == operand.as_u64()),
        "$is" => sort(actual) == operand.as_str().unwrap(),
        "$short" => actual
            .as_str()
            .is_some_and(|text| text.len() as u64 <= operand.as_u64().unwrap()),
        "$below" => actual
            .as_f64()
            .is_some_and(|number| number < operand.as_f64().unwrap()),
        "$either" => {
            let ways = operand.as_array().unwrap();
            ways.iter()
                .any(|way| check(way, actual, chain, place).is_ok())
        }
        "$part" => return parts(operand, actual, chain, place),
        "$logs" => {
            let wanted = naive::logs(chain, operand);
            return same_logs(&wanted, actual, place);
        }
        other => panic!("no operator {other}"),
    };
    match holds {
        true => Ok(()),
        false => differs(place, &format!("{name} {}", show(operand)), actual),
    }
}

fn parts(wanted: &Value, actual: &Value, chain: &Chain, place: &str) -> Result<(), String> {
    for (name, wanted) in wanted.as_object().unwrap() {
        let Some(field) = actual.get(name) else {
            return Err(format!("{place}.{name} is missing: {}", show(actual)));
        };
        check(wanted, field, chain, &format!("{place}.{name}"))?;
    }
    Ok(())
}

/// Whether a list of logs is exactly this one.
pub(crate) fn same_logs(wanted: &[&Value], actual: &Value, place: &str) -> Result<(), String> {
    if wanted.is_empty() {
        return Err(format!(
            "{place}: the scan finds nothing, so this shows nothing"
        ));
    }
    let Some(list) = actual.as_array() else {
        return differs(place, "a list of logs", actual);
    };
    let unlike = wanted
        .iter()
        .zip(list)
        .position(|(wanted, log)| *wanted != log);
    if let Some(at) = unlike {
        return differs(&format!("{place}[{at}]"), &show(wanted[at]), &list[at]);
    }
    match wanted.len() == list.len() {
        true => Ok(()),
        false => Err(format!(
            "{place}: {} logs, not {}",
            list.len(),
            wanted.len()
        )),
    }
}

/// Whether a text has a shape: the pieces between stars, in order, the ends at the ends.
pub(crate) fn is_like(shape: &str, text: &str) -> bool {
    let mut pieces = shape.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn differs(place: &str, expected: &str, actual: &Value) -> Result<(), String> {
    Err(format!(
        "{place} is not {expected}\n    but {}",
        show(actual)
    ))
}

/// A value, cut where it is long.
pub(crate) fn show(value: &Value) -> String {
    cut(&value.to_string())
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{} … ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

#[test]
fn a_shape_is_met_from_end_to_end() {
    for (shape, text, is) in [
        ("ab", "ab", true),
        ("ab", "abc", false),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("*b", "abc", false),
        ("a*c", "abc", true),
        ("a*b*c", "a-b-c", true),
        ("a*c*b", "a-b-c", false),
        ("ab*bc", "abc", false),
        ("*", "", true),
    ] {
        assert_eq!(is_like(shape, text), is, "{shape} {text}");
    }
}
