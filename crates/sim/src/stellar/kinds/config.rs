//! Settings of the network that are ledger entries.

use super::super::maker::{Make, Maker, fields, variants};

fields! {
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
}

variants! {
    ConfigSettingEntry [] [ContractMaxSizeBytes ContractComputeV0 ContractLedgerCostV0
        ContractHistoricalDataV0 ContractEventsV0 ContractBandwidthV0
        ContractCostParamsCpuInstructions ContractCostParamsMemoryBytes ContractDataKeySizeBytes
        ContractDataEntrySizeBytes StateArchival ContractExecutionLanes LiveSorobanStateSizeWindow
        EvictionIterator ContractParallelComputeV0 ContractLedgerCostExtV0 ScpTiming]
}
