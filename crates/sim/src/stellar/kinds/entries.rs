//! Ledger entries and their keys.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
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
}

variants! {
    AccountEntryExt [V0] [V1]
    AccountEntryExtensionV1Ext [V0] [V2]
    AccountEntryExtensionV2Ext [V0] [V3]
    ClaimableBalanceEntryExt [V0] [V1]
    ClaimableBalanceEntryExtensionV1Ext [V0] []
    ContractCodeEntryExt [V0] [V1]
    DataEntryExt [V0] []
    LedgerEntryChange [] [Created Updated Removed State Restored]
    LedgerEntryData [] [Account Trustline Offer Data ClaimableBalance LiquidityPool ContractData
        ContractCode ConfigSetting Ttl]
    LedgerEntryExt [V0] [V1]
    LedgerEntryExtensionV1Ext [V0] []
    LedgerKey [] [Account Trustline Offer Data ClaimableBalance LiquidityPool ContractData
        ContractCode ConfigSetting Ttl]
    LiquidityPoolEntryBody [] [LiquidityPoolConstantProduct]
    OfferEntryExt [V0] []
    TrustLineEntryExt [V0] [V1]
    TrustLineEntryExtensionV2Ext [V0] []
    TrustLineEntryV1Ext [V0] [V2]
}
