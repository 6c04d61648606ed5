//! The fields of each type of transaction, in the order of its bytes.

use super::{CELO, CELO_OLD, DEPOSIT, arbitrum};

/// How a field is encoded and shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    Number,
    /// Bytes of any length, or a hash.
    Data,
    /// Empty is null.
    Address,
    Flag,
    AccessList,
    Hashes,
    Authorizations,
}

impl As {
    /// A name has one form in all types.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "input" | "retryData" | "sourceHash" | "requestId" | "ticketId" => Self::Data,
            "from" | "to" | "feeCurrency" | "gatewayFeeRecipient" => Self::Address,
            "refundTo" | "retryTo" | "beneficiary" => Self::Address,
            "isSystemTx" => Self::Flag,
            "accessList" => Self::AccessList,
            "blobVersionedHashes" => Self::Hashes,
            "authorizationList" => Self::Authorizations,
            _ => Self::Number,
        }
    }
}

/// Fields of the types that have several forms. The number of fields distinguishes the forms.
pub(super) const LEGACY_FIELDS: usize = 9;
pub(super) const CELO_LEGACY_FIELDS: usize = 12;
pub(super) const OP_DEPOSIT_FIELDS: usize = 8;
pub(super) const SCROLL_MESSAGE_FIELDS: usize = 6;
pub(super) const BERACHAIN_REWARD_FIELDS: usize = 7;

/// The names of the fields of a type, and of the form with this many of them where it has several.
pub(super) fn layout(kind: u8, fields: usize) -> Option<Vec<&'static str>> {
    let names = match (kind, fields) {
        (0, LEGACY_FIELDS) => "nonce gasPrice gas to value input v r s",
        (0, _) => {
            "nonce gasPrice gas feeCurrency gatewayFeeRecipient gatewayFee to value input v r s"
        }
        (1, _) => "chainId nonce gasPrice gas to value input accessList yParity r s",
        (2, _) => {
            "chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList \
             yParity r s"
        }
        (3, _) => {
            "chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList \
             maxFeePerBlobGas blobVersionedHashes yParity r s"
        }
        (4, _) => {
            "chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList \
             authorizationList yParity r s"
        }
        (CELO, _) => {
            "chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList \
             feeCurrency yParity r s"
        }
        (CELO_OLD, _) => {
            "chainId nonce maxPriorityFeePerGas maxFeePerGas gas feeCurrency gatewayFeeRecipient \
             gatewayFee to value input accessList yParity r s"
        }
        (DEPOSIT, OP_DEPOSIT_FIELDS) => "sourceHash from to mint value gas isSystemTx input",
        (DEPOSIT, SCROLL_MESSAGE_FIELDS) => "queueIndex gas to value input from",
        (DEPOSIT, _) => "chainId from to nonce gas gasPrice input",
        (arbitrum::DEPOSIT, _) => "chainId requestId from to value",
        (arbitrum::UNSIGNED, _) => "chainId from nonce maxFeePerGas gas to value input",
        (arbitrum::CONTRACT, _) => "chainId requestId from maxFeePerGas gas to value input",
        (arbitrum::RETRY, _) => {
            "chainId nonce from maxFeePerGas gas to value input ticketId refundTo maxRefund \
             submissionFeeRefund"
        }
        (arbitrum::SUBMIT_RETRYABLE, _) => {
            "chainId requestId from l1BaseFee depositValue maxFeePerGas gas retryTo retryValue \
             beneficiary maxSubmissionFee refundTo retryData"
        }
        (arbitrum::INTERNAL, _) => "chainId input",
        _ => return None,
    };
    Some(names.split(' ').collect())
}
