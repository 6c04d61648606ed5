//! Values of contracts, and the small types that everything else is made of.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
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
}

variants! {
    Asset [Native] [CreditAlphanum4 CreditAlphanum12]
    AssetCode [] [CreditAlphanum4 CreditAlphanum12]
    ClaimPredicate [Unconditional] [And Or Not BeforeAbsoluteTime BeforeRelativeTime]
    ClaimableBalanceId [] [ClaimableBalanceIdTypeV0]
    Claimant [] [ClaimantTypeV0]
    ContractExecutable [StellarAsset] [Wasm]
    ExtensionPoint [V0] []
    LiquidityPoolParameters [] [LiquidityPoolConstantProduct]
    MuxedAccount [] [Ed25519 MuxedEd25519]
    PublicKey [] [PublicKeyTypeEd25519]
    ScAddress [] [Account Contract MuxedAccount ClaimableBalance LiquidityPool]
    ScError [] [Contract WasmVm Context Storage Object Crypto Events Budget Value Auth]
    ScVal [Void LedgerKeyContractInstance] [Bool Error U32 I32 U64 I64 Timepoint Duration U128 I128
        U256 I256 Bytes String Symbol Vec Map Address ContractInstance LedgerKeyNonce]
    SignerKey [] [Ed25519 PreAuthTx HashX Ed25519SignedPayload]
    TrustLineAsset [Native] [CreditAlphanum4 CreditAlphanum12 PoolShare]
}
