//! Calls, and the body of a request that makes them.

use std::collections::BTreeSet;

/// Bytes of the answer to a call for a number or the state of the sync. It has less than a kilobyte; the rest is room
/// for the page of a proxy: an error with the status of that helps more than one about its length.
const NUMBER_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a block without whole transactions. Each of their hashes takes 69, so this is room for 240,000 of them: more
/// than blocks of known chains have. A block that is refused for its length cannot be archived.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// Calls of a request whose answer is known to be small: the newest block and its tags.
const SMALL_CALLS_MAX: usize = 3;

/// A method and its parameters as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) params: String,
}

impl Call {
    pub(crate) fn new(method: &'static str, params: impl Into<String>) -> Self {
        let params = params.into();
        Self { method, params }
    }

    /// How long its answer may be, where it is small on every chain.
    fn small_bytes_max(&self) -> Option<u64> {
        match self.method {
            "eth_chainId" | "eth_blockNumber" | "eth_syncing" => Some(NUMBER_BYTES_MAX),
            "eth_getBlockByNumber" if self.params.ends_with("false]") => Some(HEADER_BYTES_MAX),
            _ => None,
        }
    }
}

/// How long the answer to a request with these calls may be, where it is small on every chain.
pub(super) fn small_bytes_max(calls: &[Call]) -> Option<u64> {
    if calls.len() > SMALL_CALLS_MAX {
        return None;
    }
    calls.iter().map(Call::small_bytes_max).sum()
}

/// The methods of calls, each once.
pub(super) fn methods_of(calls: &[Call]) -> BTreeSet<&'static str> {
    calls.iter().map(|call| call.method).collect()
}

pub(super) fn body_of(calls: &[Call]) -> String {
    let bodies: Vec<String> = calls
        .iter()
        .enumerate()
        .map(|(id, Call { method, params })| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        })
        .collect();
    match bodies.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", bodies.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_small_answers_have_a_low_limit() {
        let number = |method| Call::new(method, "[]");
        let block = |params| Call::new("eth_getBlockByNumber", params);
        let header = || block(r#"["latest",false]"#);
        for (calls, expected) in [
            (vec![number("eth_chainId")], Some(1 << 20)),
            (vec![number("eth_blockNumber")], Some(1 << 20)),
            (vec![number("eth_syncing")], Some(1 << 20)),
            (vec![header()], Some(16 << 20)),
            (vec![header(), header(), header()], Some(48 << 20)),
            (vec![header(), header(), header(), header()], None),
            (vec![block(r#"["latest",true]"#)], None),
            (vec![header(), number("eth_getLogs")], None),
            (vec![number("eth_getBlockReceipts")], None),
            (vec![number("eth_getCode")], None),
        ] {
            assert_eq!(small_bytes_max(&calls), expected, "{calls:?}");
        }
    }
}
