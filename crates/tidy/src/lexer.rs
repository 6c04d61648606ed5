//! Just enough of Rust's lexer to tell code from comments and strings.
//!
//! It is not a parser: it serves word checks, which must not stumble over prose.

/// The text with every comment and the inside of every string and character blanked; lines and
/// columns stay where they were.
#[must_use]
pub fn code_only(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(first) = rest.chars().next() {
        let len = match blank_len(rest, out.chars().next_back()) {
            Some(len) => {
                out.extend(rest.chars().scan(0, |seen, c| {
                    *seen += c.len_utf8();
                    (*seen <= len).then_some(if c == '\n' { '\n' } else { ' ' })
                }));
                len
            }
            None => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    out
}

/// How many bytes of comment or literal `rest` begins with, if it does.
fn blank_len(rest: &str, before: Option<char>) -> Option<usize> {
    let inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_len(rest));
    }
    if !inside_word && let Some(len) = raw_string_len(rest) {
        return Some(len);
    }
    if rest.starts_with('"') {
        return Some(quoted_len(rest, '"'));
    }
    rest.starts_with('\'').then(|| char_len(rest)).flatten()
}

fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth.saturating_sub(1), at + 2);
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string_len(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(|p| rest.starts_with(p))?;
    let after = rest.get(prefix.len()..)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(prefix.len() + hashes + 1 + end)
}

fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// A character literal's length; a lifetime has none.
fn char_len(rest: &str) -> Option<usize> {
    let mut chars = rest.chars().skip(1);
    let (first, second) = (chars.next()?, chars.next()?);
    (first == '\\' || second == '\'').then(|| quoted_len(rest, '\''))
}

/// The identifiers of code, each with its line number.
pub fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(at, line)| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(move |word| (at + 1, word))
    })
}

/// The words that an identifier is made of, in lower case.
#[must_use]
pub fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && lower_before) {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let check = |text: &str, expected: &[&str]| {
            let code = code_only(text);
            assert_eq!(code.lines().count(), text.lines().count());
            let found: Vec<_> = identifiers(&code).map(|(_, word)| word).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("let a = b; // c\nd", &["let", "a", "b", "d"]);
        check("a /* b /* c */ d */ e", &["a", "e"]);
        check("a \"b \\\" c\" d", &["a", "d"]);
        check("a r#\"b \" c\"# d br\"e\"", &["a", "d"]);
        check("a 'b' c '\\'' d &'e f", &["a", "c", "d", "e", "f"]);
        check("'\"' a \"'\" b", &["a", "b"]);
        check("a \"é\" b // ü\nc", &["a", "b", "c"]);
    }

    #[test]
    fn identifiers_fall_into_words() {
        assert_eq!(words("next_shard_id"), ["next", "shard", "id"]);
        assert_eq!(words("ShardMap2Tip"), ["shard", "map2", "tip"]);
        assert_eq!(words("MAX_TIP"), ["max", "tip"]);
        assert_eq!(words("multiple"), ["multiple"]);
    }
}
