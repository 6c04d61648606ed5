//! What becomes of a transaction: it succeeds, an operation of it fails, or it is not run at all.

use stellar_xdr::{
    Hash, InnerTransactionResult, InnerTransactionResultExt, InnerTransactionResultPair,
    InnerTransactionResultResult as Inner, Name, Operation, OperationBody as Body, OperationResult,
    OperationResultTr as Tr, TransactionResult, TransactionResultExt,
    TransactionResultResult as Outer,
};

use crate::stellar::maker::{Make, Maker, bounded, same_xdr};

/// A way to end that was not drawn after so many draws is left to chance. No type has more than
/// twenty ways, so that this does not happen.
const DRAWS_MAX: u32 = 2_000;
/// What every operation calls it.
const SUCCESS: &str = "Success";
/// Of a hundred transactions, so many succeed.
const SUCCESS_PERCENT: u32 = 80;

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// All operations of it did what they should.
    Success,
    /// The operation at this place did not, so none did anything.
    Failed { at: usize },
    /// It was not run.
    Refused,
}

impl Outcome {
    /// An outcome for a transaction of so many operations.
    pub(super) fn draw(maker: &mut Maker, operations: usize) -> Self {
        if maker.rng.percent(SUCCESS_PERCENT) {
            return Self::Success;
        }
        match maker.rng.below(4) {
            0 => Self::Refused,
            _ => Self::Failed {
                at: maker.rng.below(operations as u64) as usize,
            },
        }
    }

    pub(super) fn success(self) -> bool {
        self == Self::Success
    }

    /// What became of each operation.
    pub(super) fn of_operations(
        self,
        maker: &mut Maker,
        operations: &[Operation],
    ) -> Vec<OperationResult> {
        let results = operations.iter().zip(0..);
        let results = results.map(|(operation, at)| match self {
            Self::Failed { at: failed } if failed == at && maker.rng.percent(20) => {
                refused_operation(maker)
            }
            Self::Failed { at: failed } => settle(maker, &operation.body, failed != at),
            Self::Success | Self::Refused => settle(maker, &operation.body, true),
        });
        results.collect()
    }

    /// The result of the transaction; a fee bump's says what became of the inner one.
    pub(super) fn result(
        self,
        maker: &mut Maker,
        inner_hash: Option<[u8; 32]>,
        operations: Vec<OperationResult>,
    ) -> TransactionResult {
        let inner = match self {
            Self::Success => Inner::TxSuccess(bounded(operations)),
            Self::Failed { .. } => Inner::TxFailed(bounded(operations)),
            Self::Refused => refusal(maker),
        };
        let result = match inner_hash {
            Some(hash) => {
                let pair = InnerTransactionResultPair {
                    transaction_hash: Hash(hash),
                    result: InnerTransactionResult {
                        fee_charged: maker.make(),
                        result: inner,
                        ext: InnerTransactionResultExt::V0,
                    },
                };
                match self {
                    Self::Success => Outer::TxFeeBumpInnerSuccess(pair),
                    Self::Failed { .. } | Self::Refused => Outer::TxFeeBumpInnerFailed(pair),
                }
            }
            // A result outside a fee bump is the same on the wire.
            None => same_xdr(&inner),
        };
        TransactionResult {
            fee_charged: maker.make(),
            result,
            ext: TransactionResultExt::V0,
        }
    }
}

/// Why a transaction is not run.
fn refusal(maker: &mut Maker) -> Inner {
    // The last code is newer than protocol 23.
    let [_success, _failed, codes @ .., _frozen_key] = Inner::VARIANTS;
    same_xdr(&maker.one_of(&codes))
}

/// The result of an operation that is not run.
fn refused_operation(maker: &mut Maker) -> OperationResult {
    let [_inner, codes @ ..] = OperationResult::VARIANTS;
    same_xdr(&maker.one_of(&codes))
}

/// The result of this operation, in one of the ways to succeed or to fail that its type has.
fn settle(maker: &mut Maker, body: &Body, success: bool) -> OperationResult {
    let way = (maker, success);
    OperationResult::OpInner(match body {
        Body::CreateAccount(_) => Tr::CreateAccount(draw(way)),
        Body::Payment(_) => Tr::Payment(draw(way)),
        Body::PathPaymentStrictReceive(_) => Tr::PathPaymentStrictReceive(draw(way)),
        Body::ManageSellOffer(_) => Tr::ManageSellOffer(draw(way)),
        Body::CreatePassiveSellOffer(_) => Tr::CreatePassiveSellOffer(draw(way)),
        Body::SetOptions(_) => Tr::SetOptions(draw(way)),
        Body::ChangeTrust(_) => Tr::ChangeTrust(draw(way)),
        Body::AllowTrust(_) => Tr::AllowTrust(draw(way)),
        Body::AccountMerge(_) => Tr::AccountMerge(draw(way)),
        Body::Inflation => Tr::Inflation(draw(way)),
        Body::ManageData(_) => Tr::ManageData(draw(way)),
        Body::BumpSequence(_) => Tr::BumpSequence(draw(way)),
        Body::ManageBuyOffer(_) => Tr::ManageBuyOffer(draw(way)),
        Body::PathPaymentStrictSend(_) => Tr::PathPaymentStrictSend(draw(way)),
        Body::CreateClaimableBalance(_) => Tr::CreateClaimableBalance(draw(way)),
        Body::ClaimClaimableBalance(_) => Tr::ClaimClaimableBalance(draw(way)),
        Body::BeginSponsoringFutureReserves(_) => Tr::BeginSponsoringFutureReserves(draw(way)),
        Body::EndSponsoringFutureReserves => Tr::EndSponsoringFutureReserves(draw(way)),
        Body::RevokeSponsorship(_) => Tr::RevokeSponsorship(draw(way)),
        Body::Clawback(_) => Tr::Clawback(draw(way)),
        Body::ClawbackClaimableBalance(_) => Tr::ClawbackClaimableBalance(draw(way)),
        Body::SetTrustLineFlags(_) => Tr::SetTrustLineFlags(draw(way)),
        Body::LiquidityPoolDeposit(_) => Tr::LiquidityPoolDeposit(draw(way)),
        Body::LiquidityPoolWithdraw(_) => Tr::LiquidityPoolWithdraw(draw(way)),
        Body::InvokeHostFunction(_) => Tr::InvokeHostFunction(draw(way)),
        Body::ExtendFootprintTtl(_) => Tr::ExtendFootprintTtl(draw(way)),
        Body::RestoreFootprint(_) => Tr::RestoreFootprint(draw(way)),
    })
}

/// A value that says success, or any that does not.
fn draw<T: Make + Name>((maker, success): (&mut Maker, bool)) -> T {
    let mut made: T = maker.make();
    for _ in 0..DRAWS_MAX {
        if (made.name() == SUCCESS) == success {
            break;
        }
        made = maker.make();
    }
    made
}
