//! What a JSON-RPC endpoint answered. The bytes are hostile: what is made of them is never many times
//! as large as they are.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Characters of an error's message that are kept. Hints at ranges that work come after some 300.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// An error's data is dropped above this length.
const DATA_BYTES_MAX: usize = 1_000;

/// An error that the endpoint answered with.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RpcFault {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default, deserialize_with = "beginning")]
    pub(crate) message: String,
    #[serde(default, deserialize_with = "unless_long")]
    pub(crate) data: Option<Box<RawValue>>,
}

/// What came back for one call; none for `null`.
pub(crate) type Answer<T> = Result<Option<T>, RpcFault>;

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Reply<T> {
    #[serde(default)]
    id: Option<u64>,
    /// None where there is no result, which is not `null`.
    #[serde(default = "Option::default", deserialize_with = "given")]
    result: Option<Option<T>>,
    #[serde(default)]
    error: Option<RpcFault>,
}

/// Answers by their ids, whatever order they came in; an error unless every call has one.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    calls: usize,
) -> Result<Vec<Answer<T>>, String> {
    // The first byte decides what it is, so that an error is about that.
    let is_list = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let replies = if is_list {
        listed(bytes, calls)
    } else {
        serde_json::from_slice(bytes).map(|reply| vec![reply])
    };
    let mut replies: Vec<Reply<T>> = replies.map_err(|error| error.to_string())?;
    if let (false, [only]) = (is_list || calls == 1, replies.as_mut_slice()) {
        // One error for the whole batch stands for each of its calls.
        let fault = only.error.take();
        let fault = fault.ok_or("one answer for many calls")?;
        return Ok((0..calls).map(|_| Err(fault.clone())).collect());
    }
    let mut answers: Vec<Option<Answer<T>>> = (0..calls).map(|_| None).collect();
    for reply in replies {
        let id = match reply.id {
            Some(id) => usize::try_from(id).unwrap_or(usize::MAX),
            None if calls == 1 => 0,
            None => continue,
        };
        let place = answers.get_mut(id).ok_or("an answer to no call")?;
        let nothing = "an answer with neither a result nor an error";
        *place = Some(match reply.error {
            Some(fault) => Err(fault),
            None => Ok(reply.result.ok_or(nothing)?),
        });
    }
    let all: Option<Vec<Answer<T>>> = answers.into_iter().collect();
    all.ok_or_else(|| "a call without an answer".to_owned())
}

fn listed<T: DeserializeOwned>(bytes: &[u8], most: usize) -> serde_json::Result<Vec<Reply<T>>> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let kind = PhantomData;
    let replies = from.deserialize_seq(AtMost { most, kind })?;
    from.end()?;
    Ok(replies)
}

/// A list of no more than this many.
struct AtMost<T> {
    most: usize,
    kind: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<Reply<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of answers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut replies = Vec::with_capacity(self.most);
        while let Some(reply) = items.next_element()? {
            if replies.len() >= self.most {
                return Err(A::Error::custom("more answers than calls"));
            }
            replies.push(reply);
        }
        Ok(replies)
    }
}

/// What is there, `null` included.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn beginning<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    struct Beginning;

    impl Visitor<'_> for Beginning {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.chars().take(MESSAGE_CHARS_MAX).collect())
        }
    }

    from.deserialize_str(Beginning)
}

fn unless_long<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    let data = Option::<&'de RawValue>::deserialize(from)?;
    let data = data.filter(|data| data.get().len() <= DATA_BYTES_MAX);
    Ok(data.map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &str, calls: usize) -> Option<Vec<String>> {
        let answers = parse::<Box<RawValue>>(bytes.as_bytes(), calls).ok()?;
        let text = |answer: Answer<Box<RawValue>>| match answer {
            Ok(value) => value.map_or("null".to_owned(), |value| value.get().to_owned()),
            Err(fault) => format!("{} {}", fault.code, fault.message),
        };
        Some(answers.into_iter().map(text).collect())
    }

    #[test]
    fn answers_come_in_the_order_of_the_calls() {
        let batch = r#"[{"id":1,"result":"b"},{"id":0,"result":null}]"#;
        assert_eq!(texts(batch, 2).unwrap(), ["null", "\"b\""]);
        let fault = r#"[{"id":0,"result":1},{"id":1,"error":{"code":-32000,"message":"no"}}]"#;
        assert_eq!(texts(fault, 2).unwrap(), ["1", "-32000 no"]);
        let whole = r#"{"id":null,"error":{"code":-32600,"message":"no batches"}}"#;
        assert_eq!(texts(whole, 2).unwrap(), ["-32600 no batches"; 2]);
        assert_eq!(texts(r#"{"id":0,"result":7}"#, 1).unwrap(), ["7"]);
        for cut in [
            r#"[{"id":0,"result":1}]"#,
            r#"[{"id":0,"res"#,
            "",
            r#"[{"id":5,"result":1}]"#,
            r#"{"id":0,"result":1}"#,
        ] {
            assert_eq!(texts(cut, 2), None, "{cut}");
        }
    }

    /// A few bytes a reply became hundreds once they were all collected.
    #[test]
    fn hostile_answers_are_refused_before_they_are_held() {
        let flood = format!("[{}{{}}]", "{},".repeat(100_000));
        let error = parse::<u64>(flood.as_bytes(), 2).unwrap_err();
        assert!(error.contains("more answers than calls"), "{error}");
        // Nothing is not an answer, and null is one.
        assert_eq!(texts(r#"{"id":0}"#, 1), None);
        assert_eq!(texts(r#"[{"id":0,"result":1},{"id":1}]"#, 2), None);
        assert_eq!(texts(r#"{"id":0,"result":null}"#, 1).unwrap(), ["null"]);
        assert_eq!(
            texts(r#"{"id":0,"result":null,"error":null}"#, 1).unwrap(),
            ["null"]
        );
        let both = r#"{"id":0,"result":null,"error":{"code":1,"message":"no"}}"#;
        assert_eq!(texts(both, 1).unwrap(), ["1 no"]);
        let long = "é".repeat(5_000);
        for (data, kept) in [
            ("\"short\"".to_owned(), true),
            (format!("\"{long}\""), false),
        ] {
            let fault = format!(r#"{{"error":{{"code":1,"message":"{long}","data":{data}}}}}"#);
            let answers = parse::<u64>(fault.as_bytes(), 2).unwrap();
            for answer in answers {
                let fault = answer.unwrap_err();
                assert_eq!(fault.message.chars().count(), MESSAGE_CHARS_MAX);
                assert_eq!(fault.data.is_some(), kept);
            }
        }
    }
}
