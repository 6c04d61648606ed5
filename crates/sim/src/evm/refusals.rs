//! How nodes and providers say no: JSON-RPC errors, and the many spellings of "too much".
//!
//! Clients split a range by what such a message says, so each spelling is one that is in use.

/// A JSON-RPC error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: String,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Bad parameters.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }
}

/// A refused `eth_getLogs`: the blocks requested, both included, and the limit that was hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The last block of a smaller range that is not refused.
    pub(super) works_to: u64,
    pub(super) limit: u64,
}

/// How many spellings there are.
pub(super) const SPELLINGS: u64 = 14;

/// More blocks than a node allows, as it says so by default.
pub(super) fn too_many_blocks(refused: &Refused) -> RpcError {
    RpcError::params(format!("query exceeds max block range {}", refused.limit))
}

/// More logs than a node allows, as it says so by default.
pub(super) fn too_many_logs(refused: &Refused) -> RpcError {
    let Refused {
        from,
        works_to,
        limit,
        ..
    } = refused;
    RpcError::params(format!(
        "query exceeds max results {limit}, retry with the range {from}-{works_to}"
    ))
}

/// One of the spellings of providers.
pub(super) fn spelling(which: u64, refused: &Refused) -> RpcError {
    let Refused {
        from,
        to,
        works_to,
        limit,
    } = *refused;
    match which % SPELLINGS {
        0 => RpcError::new(
            -32005,
            format!(
                "query returned more than {limit} results. \
                 Try with this block range [{from:#x}, {works_to:#x}]."
            ),
        ),
        1 => RpcError::params(format!(
            "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block \
             range and no limit on the response size, or you can request any block range with a \
             cap of 10K logs in the response. Based on your parameters and the response size \
             limit, this block range should work: [{from:#x}, {works_to:#x}]"
        )),
        2 => RpcError::new(-32600, "block range is too wide"),
        3 => RpcError::new(-32000, format!("exceed maximum block range: {limit}")),
        4 => RpcError::new(-32614, "eth_getLogs is limited to a 10,000 range"),
        5 => RpcError::new(
            -32005,
            format!("logs matched by query exceeds limit of {limit}"),
        ),
        6 => RpcError::new(-32000, "query timeout exceeded"),
        7 => too_many_blocks(refused),
        8 => too_many_logs(refused),
        9 => RpcError::new(-32005, "block range too large"),
        10 => RpcError::new(
            -32000,
            format!("requested too many blocks from {from} to {to}, maximum is set to {limit}"),
        ),
        11 => RpcError::new(-32062, "Block range is too large"),
        12 => RpcError::new(
            -32000,
            "Response size should not greater than 10000000 bytes",
        ),
        _ => RpcError::new(
            -32602,
            format!("Block range limit exceeded. Maximum allowed is {limit} blocks."),
        ),
    }
}
