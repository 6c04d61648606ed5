//! How a value of each XDR type is made: which fields it has, or which ways it can be.
//!
//! What the fields and the ways hold follows from their types.

use super::maker::{Make, Maker, codes, fields, same_xdr, variants};

fields! {
    // Values of contracts, and the small types that everything else is made of.
    AlphaNum12 { asset_code, issuer }
    AlphaNum4 { asset_code, issuer }
    ClaimantV0 { destination, predicate }
    DecoratedSignature { hint, signature }
    Int128Parts { hi, lo }
    Int256Parts { hi_hi, hi_lo, lo_hi, lo_lo }
    Liabilities { buying, selling }
    LiquidityPoolConstantProductParameters { asset_a, asset_b, fee }
    MuxedAccountMed25519 { id, ed25519 }
    MuxedEd25519Account { id, ed25519 }
    Price { n, d }
    ScContractInstance { executable, storage }
    ScMapEntry { key, val }
    ScNonceKey { nonce }
    Signer { key, weight }
    SignerKeyEd25519SignedPayload { ed25519, payload }
    UInt128Parts { hi, lo }
    UInt256Parts { hi_hi, hi_lo, lo_hi, lo_lo }
    // Ledger entries and their keys.
    AccountEntry { account_id, balance, seq_num, num_sub_entries, inflation_dest, flags,
        home_domain, thresholds, signers, ext }
    AccountEntryExtensionV1 { liabilities, ext }
    AccountEntryExtensionV2 { num_sponsored, num_sponsoring, signer_sponsoring_i_ds, ext }
    AccountEntryExtensionV3 { ext, seq_ledger, seq_time }
    ClaimableBalanceEntry { balance_id, claimants, asset, amount, ext }
    ClaimableBalanceEntryExtensionV1 { ext, flags }
    ContractCodeCostInputs { ext, n_instructions, n_functions, n_globals, n_table_entries, n_types,
        n_data_segments, n_elem_segments, n_imports, n_exports, n_data_segment_bytes }
    ContractCodeEntry { ext, hash, code }
    ContractCodeEntryV1 { ext, cost_inputs }
    ContractDataEntry { ext, contract, key, durability, val }
    DataEntry { account_id, data_name, data_value, ext }
    LedgerEntry { last_modified_ledger_seq, data, ext }
    LedgerEntryExtensionV1 { sponsoring_id, ext }
    LedgerKeyAccount { account_id }
    LedgerKeyClaimableBalance { balance_id }
    LedgerKeyConfigSetting { config_setting_id }
    LedgerKeyContractCode { hash }
    LedgerKeyContractData { contract, key, durability }
    LedgerKeyData { account_id, data_name }
    LedgerKeyLiquidityPool { liquidity_pool_id }
    LedgerKeyOffer { seller_id, offer_id }
    LedgerKeyTrustLine { account_id, asset }
    LedgerKeyTtl { key_hash }
    LiquidityPoolEntry { liquidity_pool_id, body }
    LiquidityPoolEntryConstantProduct { params, reserve_a, reserve_b, total_pool_shares,
        pool_shares_trust_line_count }
    OfferEntry { seller_id, offer_id, selling, buying, amount, price, flags, ext }
    TrustLineEntry { account_id, asset, balance, limit, flags, ext }
    TrustLineEntryExtensionV2 { liquidity_pool_use_count, ext }
    TrustLineEntryV1 { liabilities, ext }
    TtlEntry { key_hash, live_until_ledger_seq }
    // Settings of the network, which are ledger entries.
    ConfigSettingContractBandwidthV0 { ledger_max_txs_size_bytes, tx_max_size_bytes, fee_tx_size1_kb
        }
    ConfigSettingContractComputeV0 { ledger_max_instructions, tx_max_instructions,
        fee_rate_per_instructions_increment, tx_memory_limit }
    ConfigSettingContractEventsV0 { tx_max_contract_events_size_bytes, fee_contract_events1_kb }
    ConfigSettingContractExecutionLanesV0 { ledger_max_tx_count }
    ConfigSettingContractHistoricalDataV0 { fee_historical1_kb }
    ConfigSettingContractLedgerCostExtV0 { tx_max_footprint_entries, fee_write1_kb }
    ConfigSettingContractLedgerCostV0 { ledger_max_disk_read_entries, ledger_max_disk_read_bytes,
        ledger_max_write_ledger_entries, ledger_max_write_bytes, tx_max_disk_read_entries,
        tx_max_disk_read_bytes, tx_max_write_ledger_entries, tx_max_write_bytes,
        fee_disk_read_ledger_entry, fee_write_ledger_entry, fee_disk_read1_kb,
        soroban_state_target_size_bytes, rent_fee1_kb_soroban_state_size_low,
        rent_fee1_kb_soroban_state_size_high, soroban_state_rent_fee_growth_factor }
    ConfigSettingContractParallelComputeV0 { ledger_max_dependent_tx_clusters }
    ConfigSettingScpTiming { ledger_target_close_time_milliseconds,
        nomination_timeout_initial_milliseconds, nomination_timeout_increment_milliseconds,
        ballot_timeout_initial_milliseconds, ballot_timeout_increment_milliseconds }
    ContractCostParamEntry { ext, const_term, linear_term }
    EvictionIterator { bucket_list_level, is_curr_bucket, bucket_file_offset }
    StateArchivalSettings { max_entry_ttl, min_temporary_ttl, min_persistent_ttl,
        persistent_rent_rate_denominator, temp_rent_rate_denominator, max_entries_to_archive,
        live_soroban_state_size_window_sample_size, live_soroban_state_size_window_sample_period,
        eviction_scan_size, starting_eviction_scan_level }
    // Operations, and the other parts of a transaction.
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
    // Results of operations.
    ClaimLiquidityAtom { liquidity_pool_id, asset_sold, amount_sold, asset_bought, amount_bought }
    ClaimOfferAtom { seller_id, offer_id, asset_sold, amount_sold, asset_bought, amount_bought }
    ClaimOfferAtomV0 { seller_ed25519, offer_id, asset_sold, amount_sold, asset_bought,
        amount_bought }
    InflationPayout { destination, amount }
    ManageOfferSuccessResult { offers_claimed, offer }
    PathPaymentStrictReceiveResultSuccess { offers, last }
    PathPaymentStrictSendResultSuccess { offers, last }
    SimplePaymentResult { destination, asset, amount }
    // The other parts of a ledger: consensus messages, upgrades, extensions.
    ConfigUpgradeSetKey { contract_id, content_hash }
    LedgerCloseMetaExtV1 { ext, soroban_fee_write1_kb }
    LedgerCloseValueSignature { node_id, signature }
    LedgerScpMessages { ledger_seq, messages }
    ScpBallot { counter, value }
    ScpEnvelope { statement, signature }
    ScpHistoryEntryV0 { quorum_sets, ledger_messages }
    ScpNomination { quorum_set_hash, votes, accepted }
    ScpQuorumSet { threshold, validators, inner_sets }
    ScpStatement { node_id, slot_index, pledges }
    ScpStatementConfirm { ballot, n_prepared, n_commit, n_h, quorum_set_hash }
    ScpStatementExternalize { commit, n_h, commit_quorum_set_hash }
    ScpStatementPrepare { quorum_set_hash, ballot, prepared, prepared_prime, n_c, n_h }
}

variants! {
    // Values of contracts, and the small types that everything else is made of.
    Asset [Native] [CreditAlphanum4 CreditAlphanum12]
    AssetCode [] [CreditAlphanum4 CreditAlphanum12]
    ClaimPredicate [Unconditional] [And Or Not BeforeAbsoluteTime BeforeRelativeTime]
    ClaimableBalanceId [] [ClaimableBalanceIdTypeV0]
    Claimant [] [ClaimantTypeV0]
    ContractExecutable [StellarAsset] [Wasm]
    LiquidityPoolParameters [] [LiquidityPoolConstantProduct]
    MuxedAccount [] [Ed25519 MuxedEd25519]
    PublicKey [] [PublicKeyTypeEd25519]
    ScAddress [] [Account Contract MuxedAccount ClaimableBalance LiquidityPool]
    ScError [] [Contract WasmVm Context Storage Object Crypto Events Budget Value Auth]
    ScVal [Void LedgerKeyContractInstance] [Bool Error U32 I32 U64 I64 Timepoint Duration U128 I128
        U256 I256 Bytes String Symbol Vec Map Address ContractInstance LedgerKeyNonce]
    SignerKey [] [Ed25519 PreAuthTx HashX Ed25519SignedPayload]
    TrustLineAsset [Native] [CreditAlphanum4 CreditAlphanum12 PoolShare]
    // Ledger entries and their keys.
    AccountEntryExt [V0] [V1]
    AccountEntryExtensionV1Ext [V0] [V2]
    AccountEntryExtensionV2Ext [V0] [V3]
    ClaimableBalanceEntryExt [V0] [V1]
    ContractCodeEntryExt [V0] [V1]
    LedgerEntryChange [] [Created Updated Removed State Restored]
    LedgerEntryData [] [Account Trustline Offer Data ClaimableBalance LiquidityPool ContractData
        ContractCode ConfigSetting Ttl]
    LedgerEntryExt [V0] [V1]
    LedgerKey [] [Account Trustline Offer Data ClaimableBalance LiquidityPool ContractData
        ContractCode ConfigSetting Ttl]
    LiquidityPoolEntryBody [] [LiquidityPoolConstantProduct]
    TrustLineEntryExt [V0] [V1]
    TrustLineEntryV1Ext [V0] [V2]
    // Settings of the network, which are ledger entries.
    ConfigSettingEntry [] [ContractMaxSizeBytes ContractComputeV0 ContractLedgerCostV0
        ContractHistoricalDataV0 ContractEventsV0 ContractBandwidthV0
        ContractCostParamsCpuInstructions ContractCostParamsMemoryBytes ContractDataKeySizeBytes
        ContractDataEntrySizeBytes StateArchival ContractExecutionLanes LiveSorobanStateSizeWindow
        EvictionIterator ContractParallelComputeV0 ContractLedgerCostExtV0 ScpTiming]
    // Operations, and the other parts of a transaction.
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
    // Results of operations.
    AccountMergeResult [Malformed NoAccount ImmutableSet HasSubEntries SeqnumTooFar DestFull
        IsSponsor] [Success]
    ClaimAtom [] [V0 OrderBook LiquidityPool]
    ClaimClaimableBalanceResult [Success DoesNotExist CannotClaim LineFull NoTrust NotAuthorized] []
    CreateClaimableBalanceResult [Malformed LowReserve NoTrust NotAuthorized Underfunded] [Success]
    InflationResult [NotTime] [Success]
    InvokeHostFunctionResult [Malformed Trapped ResourceLimitExceeded EntryArchived
        InsufficientRefundableFee] [Success]
    LiquidityPoolDepositResult [Success Malformed NoTrust NotAuthorized Underfunded LineFull
        BadPrice PoolFull] []
    LiquidityPoolWithdrawResult [Success Malformed NoTrust Underfunded LineFull UnderMinimum] []
    ManageBuyOfferResult [Malformed SellNoTrust BuyNoTrust SellNotAuthorized BuyNotAuthorized
        LineFull Underfunded CrossSelf SellNoIssuer BuyNoIssuer NotFound LowReserve] [Success]
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
    // The other parts of a ledger: consensus messages, upgrades, extensions.
    LedgerCloseMetaExt [V0] [V1]
    LedgerUpgrade [] [Version BaseFee MaxTxSetSize BaseReserve Flags Config MaxSorobanTxSetSize]
    ScpHistoryEntry [] [V0]
    ScpStatementPledges [] [Prepare Confirm Externalize Nominate]
}

codes! {
    AllowTrustResult BeginSponsoringFutureReservesResult BumpSequenceResult ChangeTrustResult
    ClaimableBalanceEntryExtensionV1Ext ClawbackClaimableBalanceResult ClawbackResult
    CreateAccountResult DataEntryExt EndSponsoringFutureReservesResult ExtendFootprintTtlResult
    ExtensionPoint LedgerEntryExtensionV1Ext ManageDataResult OfferEntryExt PaymentResult
    RestoreFootprintResult RevokeSponsorshipResult SetOptionsResult SetTrustLineFlagsResult
    TrustLineEntryExtensionV2Ext
}
