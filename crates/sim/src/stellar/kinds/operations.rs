//! Operations, and what stands around them in a transaction.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
    AllowTrustOp { trustor, asset, authorize }
    BeginSponsoringFutureReservesOp { sponsored_id }
    BumpSequenceOp { bump_to }
    ChangeTrustOp { line, limit }
    ClaimClaimableBalanceOp { balance_id }
    ClawbackClaimableBalanceOp { balance_id }
    ClawbackOp { asset, from, amount }
    ContractIdPreimageFromAddress { address, salt }
    CreateAccountOp { destination, starting_balance }
    CreateClaimableBalanceOp { asset, amount, claimants }
    CreateContractArgs { contract_id_preimage, executable }
    CreateContractArgsV2 { contract_id_preimage, executable, constructor_args }
    CreatePassiveSellOfferOp { selling, buying, amount, price }
    ExtendFootprintTtlOp { ext, extend_to }
    InvokeContractArgs { contract_address, function_name, args }
    InvokeHostFunctionOp { host_function, auth }
    LedgerBounds { min_ledger, max_ledger }
    LedgerFootprint { read_only, read_write }
    LiquidityPoolDepositOp { liquidity_pool_id, max_amount_a, max_amount_b, min_price, max_price }
    LiquidityPoolWithdrawOp { liquidity_pool_id, amount, min_amount_a, min_amount_b }
    ManageBuyOfferOp { selling, buying, buy_amount, price, offer_id }
    ManageDataOp { data_name, data_value }
    ManageSellOfferOp { selling, buying, amount, price, offer_id }
    PathPaymentStrictReceiveOp { send_asset, send_max, destination, dest_asset, dest_amount, path }
    PathPaymentStrictSendOp { send_asset, send_amount, destination, dest_asset, dest_min, path }
    PaymentOp { destination, asset, amount }
    PreconditionsV2 { time_bounds, ledger_bounds, min_seq_num, min_seq_age, min_seq_ledger_gap,
        extra_signers }
    RestoreFootprintOp { ext }
    RevokeSponsorshipOpSigner { account_id, signer_key }
    SetOptionsOp { inflation_dest, clear_flags, set_flags, master_weight, low_threshold,
        med_threshold, high_threshold, home_domain, signer }
    SetTrustLineFlagsOp { trustor, asset, clear_flags, set_flags }
    SorobanAddressCredentials { address, nonce, signature_expiration_ledger, signature }
    SorobanAuthorizationEntry { credentials, root_invocation }
    SorobanAuthorizedInvocation { function, sub_invocations }
    SorobanResources { footprint, instructions, disk_read_bytes, write_bytes }
    SorobanResourcesExtV0 { archived_soroban_entries }
    SorobanTransactionData { ext, resources, resource_fee }
    SorobanTransactionMetaExtV1 { ext, total_non_refundable_resource_fee_charged,
        total_refundable_resource_fee_charged, rent_fee_charged }
    TimeBounds { min_time, max_time }
}

variants! {
    ChangeTrustAsset [Native] [CreditAlphanum4 CreditAlphanum12 PoolShare]
    ContractIdPreimage [] [Address Asset]
    HostFunction [] [InvokeContract CreateContract UploadContractWasm CreateContractV2]
    Memo [None] [Text Id Hash Return]
    OperationBody [Inflation EndSponsoringFutureReserves] [CreateAccount Payment
        PathPaymentStrictReceive ManageSellOffer CreatePassiveSellOffer SetOptions ChangeTrust
        AllowTrust AccountMerge ManageData BumpSequence ManageBuyOffer PathPaymentStrictSend
        CreateClaimableBalance ClaimClaimableBalance BeginSponsoringFutureReserves RevokeSponsorship
        Clawback ClawbackClaimableBalance SetTrustLineFlags LiquidityPoolDeposit
        LiquidityPoolWithdraw InvokeHostFunction ExtendFootprintTtl RestoreFootprint]
    Preconditions [None] [Time V2]
    RevokeSponsorshipOp [] [LedgerEntry Signer]
    SorobanAuthorizedFunction [] [ContractFn CreateContractHostFn CreateContractV2HostFn]
    SorobanCredentials [SourceAccount] [Address]
    SorobanTransactionDataExt [V0] [V1]
    SorobanTransactionMetaExt [V0] [V1]
}
