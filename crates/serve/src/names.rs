//! Words for what the model only numbers.

use chronolith_archive::{FailedPhase, LedgerPhase, TxHashPhase};
use chronolith_model::{BlockRef, DatasetSet, Scope};
use serde_json::{Value, json};

/// A block as JSON.
pub(crate) fn block_json(block: BlockRef) -> Value {
    json!({ "number": block.number, "hash": block.hash.to_string() })
}

/// The names of datasets.
pub(crate) fn dataset_names(datasets: DatasetSet) -> Vec<&'static str> {
    datasets.iter().map(|dataset| dataset.name()).collect()
}

/// Which logs are kept, in words.
pub(crate) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "all".to_owned(),
        Scope::Only(entries) => match entries.len() {
            1 => "1 pair of address and topic".to_owned(),
            several => format!("{several} pairs of address and topic"),
        },
    }
}

/// The phase of a range's blocks, as operators of Stellar history know it.
#[must_use]
pub fn ledger_phase_name(phase: LedgerPhase) -> &'static str {
    match phase {
        LedgerPhase::Ingesting => "INGESTING",
        LedgerPhase::Merging => "WRITING_LFS",
        LedgerPhase::Immutable => "IMMUTABLE",
    }
}

/// The phase of a range's hashes, as operators of Stellar history know it.
#[must_use]
pub fn txhash_phase_name(phase: TxHashPhase) -> &'static str {
    match phase {
        TxHashPhase::Ingesting => "INGESTING",
        TxHashPhase::Compacting => "COMPACTING",
        TxHashPhase::BuildingIndex => "BUILDING_RECSPLIT",
        TxHashPhase::VerifyingIndex => "VERIFYING_RECSPLIT",
        TxHashPhase::Complete => "COMPLETE",
    }
}

/// The phase in which a range failed, as operators of Stellar history know it.
#[must_use]
pub fn failed_phase_name(phase: FailedPhase) -> &'static str {
    match phase {
        FailedPhase::Merging => ledger_phase_name(LedgerPhase::Merging),
        FailedPhase::Compacting => txhash_phase_name(TxHashPhase::Compacting),
        FailedPhase::BuildingIndex => txhash_phase_name(TxHashPhase::BuildingIndex),
        FailedPhase::VerifyingIndex => txhash_phase_name(TxHashPhase::VerifyingIndex),
    }
}
