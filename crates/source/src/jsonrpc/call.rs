//! Calls, and the body of a request that makes them.

use std::collections::BTreeSet;

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

    /// Whether its answer is small on every chain.
    pub(super) fn is_small(&self) -> bool {
        match self.method {
            "eth_chainId" | "eth_syncing" => true,
            "eth_getBlockByNumber" => self.params.ends_with("false]"),
            _ => false,
        }
    }
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
