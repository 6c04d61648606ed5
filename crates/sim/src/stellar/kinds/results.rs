//! What became of an operation, in every way that there is.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
    ClaimLiquidityAtom { liquidity_pool_id, asset_sold, amount_sold, asset_bought, amount_bought }
    ClaimOfferAtom { seller_id, offer_id, asset_sold, amount_sold, asset_bought, amount_bought }
    ClaimOfferAtomV0 { seller_ed25519, offer_id, asset_sold, amount_sold, asset_bought,
        amount_bought }
    InflationPayout { destination, amount }
    ManageOfferSuccessResult { offers_claimed, offer }
    PathPaymentStrictReceiveResultSuccess { offers, last }
    PathPaymentStrictSendResultSuccess { offers, last }
    SimplePaymentResult { destination, asset, amount }
}

variants! {
    AccountMergeResult [Malformed NoAccount ImmutableSet HasSubEntries SeqnumTooFar DestFull
        IsSponsor] [Success]
    AllowTrustResult [Success Malformed NoTrustLine TrustNotRequired CantRevoke SelfNotAllowed
        LowReserve] []
    BeginSponsoringFutureReservesResult [Success Malformed AlreadySponsored Recursive] []
    BumpSequenceResult [Success BadSeq] []
    ChangeTrustResult [Success Malformed NoIssuer InvalidLimit LowReserve SelfNotAllowed
        TrustLineMissing CannotDelete NotAuthMaintainLiabilities] []
    ClaimAtom [] [V0 OrderBook LiquidityPool]
    ClaimClaimableBalanceResult [Success DoesNotExist CannotClaim LineFull NoTrust NotAuthorized] []
    ClawbackClaimableBalanceResult [Success DoesNotExist NotIssuer NotClawbackEnabled] []
    ClawbackResult [Success Malformed NotClawbackEnabled NoTrust Underfunded] []
    CreateAccountResult [Success Malformed Underfunded LowReserve AlreadyExist] []
    CreateClaimableBalanceResult [Malformed LowReserve NoTrust NotAuthorized Underfunded] [Success]
    EndSponsoringFutureReservesResult [Success NotSponsored] []
    ExtendFootprintTtlResult [Success Malformed ResourceLimitExceeded InsufficientRefundableFee] []
    InflationResult [NotTime] [Success]
    InvokeHostFunctionResult [Malformed Trapped ResourceLimitExceeded EntryArchived
        InsufficientRefundableFee] [Success]
    LiquidityPoolDepositResult [Success Malformed NoTrust NotAuthorized Underfunded LineFull
        BadPrice PoolFull] []
    LiquidityPoolWithdrawResult [Success Malformed NoTrust Underfunded LineFull UnderMinimum] []
    ManageBuyOfferResult [Malformed SellNoTrust BuyNoTrust SellNotAuthorized BuyNotAuthorized
        LineFull Underfunded CrossSelf SellNoIssuer BuyNoIssuer NotFound LowReserve] [Success]
    ManageDataResult [Success NotSupportedYet NameNotFound LowReserve InvalidName] []
    ManageOfferSuccessResultOffer [Deleted] [Created Updated]
    ManageSellOfferResult [Malformed SellNoTrust BuyNoTrust SellNotAuthorized BuyNotAuthorized
        LineFull Underfunded CrossSelf SellNoIssuer BuyNoIssuer NotFound LowReserve] [Success]
    OperationResult [OpBadAuth OpNoAccount OpNotSupported OpTooManySubentries OpExceededWorkLimit
        OpTooManySponsoring] [OpInner]
    OperationResultTr [] [CreateAccount Payment PathPaymentStrictReceive ManageSellOffer
        CreatePassiveSellOffer SetOptions ChangeTrust AllowTrust AccountMerge Inflation ManageData
        BumpSequence ManageBuyOffer PathPaymentStrictSend CreateClaimableBalance
        ClaimClaimableBalance BeginSponsoringFutureReserves EndSponsoringFutureReserves
        RevokeSponsorship Clawback ClawbackClaimableBalance SetTrustLineFlags LiquidityPoolDeposit
        LiquidityPoolWithdraw InvokeHostFunction ExtendFootprintTtl RestoreFootprint]
    PathPaymentStrictReceiveResult [Malformed Underfunded SrcNoTrust SrcNotAuthorized NoDestination
        NoTrust NotAuthorized LineFull TooFewOffers OfferCrossSelf OverSendmax] [Success NoIssuer]
    PathPaymentStrictSendResult [Malformed Underfunded SrcNoTrust SrcNotAuthorized NoDestination
        NoTrust NotAuthorized LineFull TooFewOffers OfferCrossSelf UnderDestmin] [Success NoIssuer]
    PaymentResult [Success Malformed Underfunded SrcNoTrust SrcNotAuthorized NoDestination NoTrust
        NotAuthorized LineFull NoIssuer] []
    RestoreFootprintResult [Success Malformed ResourceLimitExceeded InsufficientRefundableFee] []
    RevokeSponsorshipResult [Success DoesNotExist NotSponsor LowReserve OnlyTransferable Malformed]
        []
    SetOptionsResult [Success LowReserve TooManySigners BadFlags InvalidInflation CantChange
        UnknownFlag ThresholdOutOfRange BadSigner InvalidHomeDomain AuthRevocableRequired] []
    SetTrustLineFlagsResult [Success Malformed NoTrustLine CantRevoke InvalidState LowReserve] []
}
