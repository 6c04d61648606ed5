//! What stands around the transactions of a ledger: consensus messages, upgrades, extensions.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
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
    LedgerCloseMetaExt [V0] [V1]
    LedgerUpgrade [] [Version BaseFee MaxTxSetSize BaseReserve Flags Config MaxSorobanTxSetSize]
    ScpHistoryEntry [] [V0]
    ScpStatementPledges [] [Prepare Confirm Externalize Nominate]
}
