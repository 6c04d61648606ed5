//! What can be set. Plain data; everything has a default that most archives never change.

use std::time::Duration;

use chronolith_model::{ChainId, ChainProfile, Dataset, DatasetSet, Scope};

use crate::ranges::geometry::Geometry;
use crate::read::cache::Cache;

/// Settings of one archive.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which chain.
    pub chain: ChainId,
    /// What its blocks look like.
    pub profile: ChainProfile,
    /// What is kept of each block.
    pub datasets: DatasetSet,
    /// Which logs are kept.
    pub scope: Scope,
    /// The first block, where the archive must begin with a certain one. Ingest may also begin right
    /// after blocks that were filled, or with the first block of a later range: what lies between
    /// is then filled, and missing until it is.
    pub start_block: Option<u64>,
    /// When segments are cut and merged.
    pub seal: SealSettings,
    /// What queries may cost.
    pub limits: QueryLimits,
    /// How much garbage may lie around.
    pub garbage: GarbageSettings,
    /// Decoded frames, pages and tables that are kept in memory. Archives of one process share one.
    pub cache: Cache,
    /// Names this process; the same name takes over its own lease at once.
    pub instance: String,
    /// How long a silent writer on shared storage keeps its lease.
    pub lease_ttl: Duration,
}

impl Settings {
    /// Defaults for a chain of the EVM family: logs and all transaction hashes.
    #[must_use]
    pub fn evm(chain: ChainId) -> Self {
        Self {
            chain,
            profile: ChainProfile::EVM,
            datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
            scope: Scope::All,
            start_block: None,
            seal: SealSettings::default(),
            limits: QueryLimits::default(),
            garbage: GarbageSettings::default(),
            cache: Cache::of_bytes(192 << 20),
            instance: "default".to_owned(),
            lease_ttl: Duration::from_secs(15),
        }
    }

    /// Defaults for a Stellar network: events, all transaction hashes, and whole ledgers as headers
    /// and bodies. Ranges are counted from ledger 2.
    #[must_use]
    pub fn stellar(chain: ChainId) -> Self {
        let mut settings = Self::evm(chain);
        settings.profile = ChainProfile::STELLAR;
        settings.datasets = DatasetSet::of(&[
            Dataset::Headers,
            Dataset::Logs,
            Dataset::TxHashes,
            Dataset::Transactions,
        ]);
        settings.seal.first_block = 2;
        settings
    }
}

/// When segments are cut and merged. Cuts depend on content alone, so that the same blocks give the
/// same segments however they arrive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealSettings {
    /// The first block of range 0, from which ranges and alignment boundaries are counted.
    pub first_block: u64,
    /// No segment crosses a multiple of this many blocks. Ranges are multiples of it.
    pub grid_blocks: u64,
    /// Blocks of a range; no run crosses its borders. An archive that has ranges keeps theirs.
    pub range_blocks: u64,
    /// A segment is sealed at the first block end at which logs and blocks together reach this.
    /// Somewhat under 64 Ki, so that a sealed segment fits one page of ids.
    pub weight: u64,
    /// Or at which its logs reach this many bytes.
    pub bytes: u64,
    /// A merged segment is this many times heavier than what it is made of.
    pub fan_in: u64,
    /// How many times segments are merged.
    pub merge_tiers: u8,
    /// Batches that may lie unsealed before they are put together.
    pub batches_max: usize,
    /// Packs are put together until they hold this many bytes.
    pub pack_bytes: u64,
    /// Payload that is packed at once with a dictionary: less is packed without one, and again with
    /// one when its pack is finished.
    pub pack_dictionary_bytes: u64,
    /// Keys that are sorted in memory at once where a run that is verified holds something else than
    /// its segments.
    pub verify_keys: u64,
    /// Compression level of sealed frames.
    pub level: i32,
    /// A new dictionary is learnt after this many seals.
    pub seals_per_dictionary: u32,
}

impl Default for SealSettings {
    fn default() -> Self {
        Self {
            first_block: 0,
            grid_blocks: 1_000_000,
            range_blocks: 10_000_000,
            weight: 57_344,
            bytes: 24 << 20,
            fan_in: 16,
            merge_tiers: 2,
            batches_max: 16,
            pack_bytes: 32 << 20,
            pack_dictionary_bytes: 4 << 20,
            verify_keys: 4 << 20,
            level: 2,
            seals_per_dictionary: 16,
        }
    }
}

impl SealSettings {
    /// Where ranges begin and how long they are.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry {
            first: self.first_block,
            size: self.range_blocks.max(1),
        }
    }

    /// Whether this block begins at an alignment boundary.
    pub(crate) fn boundary_begins(&self, block: u64) -> bool {
        let from_first = block.checked_sub(self.first_block);
        from_first.is_some_and(|blocks| blocks.is_multiple_of(self.grid_blocks.max(1)))
    }

    /// Whether a range ends where this block begins.
    pub(crate) fn range_begins(&self, block: u64) -> bool {
        let from_first = block.checked_sub(self.first_block);
        from_first.is_some_and(|blocks| blocks.is_multiple_of(self.range_blocks.max(1)))
    }

    /// Refuses what the format cannot hold.
    pub(crate) fn check(&self) -> crate::error::Result<()> {
        let tiers = u32::from(self.merge_tiers);
        let heaviest = self
            .fan_in
            .checked_pow(tiers)
            .and_then(|scale| scale.checked_mul(self.weight));
        let fits = heaviest.is_some_and(|heaviest| heaviest <= 1 << 30);
        let ranges =
            self.grid_blocks > 0 && self.range_blocks.is_multiple_of(self.grid_blocks.max(1));
        let message = match () {
            () if self.weight == 0 || self.bytes == 0 => "weight and bytes must be above 0",
            () if self.fan_in < 2 => "fan_in must be at least 2",
            () if !fits => {
                "a merged segment would exceed 2^30 rows: lower fan_in, merge_tiers or weight"
            }
            () if !ranges || self.range_blocks == 0 => {
                "range_blocks must be a multiple of grid_blocks"
            }
            () if self.range_blocks > 1 << 24 => "a range holds at most 2^24 blocks",
            () => return Ok(()),
        };
        Err(crate::error::Error::Invalid(format!(
            "seal settings: {message}"
        )))
    }
}

/// What one query may cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryLimits {
    /// Logs in an answer that asked for no limit of its own.
    pub results_max: usize,
    /// Bytes of logs in an answer.
    pub bytes_max: u64,
    /// Logs that may be looked at.
    pub candidates_max: u64,
    /// Alternatives in one clause.
    pub or_terms_max: usize,
    /// What happens above that.
    pub or_policy: OrPolicy,
    /// How long it may take.
    pub timeout: Duration,
    /// Segments that are read at the same time.
    pub concurrency: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            results_max: 10_000,
            bytes_max: 64 << 20,
            candidates_max: 50_000_000,
            or_terms_max: 1_000,
            or_policy: OrPolicy::Refuse,
            timeout: Duration::from_secs(10),
            concurrency: 8,
        }
    }
}

/// What happens to a clause with too many alternatives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrPolicy {
    /// The query is refused.
    Refuse,
    /// The clause is not looked up but checked on every log of the range.
    BlockScan,
}

/// How much garbage may lie around, and how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GarbageSettings {
    /// Objects stay this long after nothing names them, for readers in other processes.
    pub grace: Duration,
    /// Bytes of segments, packs and runs that nothing names.
    pub orphan_segment_bytes_max: u64,
    /// Catalogs that nothing names.
    pub orphan_state_records_max: u64,
    /// Batches that were sealed since and not yet removed.
    pub stale_batch_keys_max: u64,
}

impl Default for GarbageSettings {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(300),
            orphan_segment_bytes_max: 32 << 30,
            orphan_state_records_max: 500_000,
            stale_batch_keys_max: 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_ten_million_blocks() {
        let seal = SealSettings::default();
        assert_eq!(seal.range_blocks, 10_000_000);
        seal.check().unwrap();
    }

    #[test]
    fn cells_and_ranges_are_counted_from_the_first_block() {
        let seal = Settings::stellar(ChainId(1)).seal;
        seal.check().unwrap();
        let boundaries: Vec<u64> = (0..3_000_003)
            .filter(|&at| seal.boundary_begins(at))
            .collect();
        assert_eq!(boundaries, [2, 1_000_002, 2_000_002, 3_000_002]);
        assert!(seal.range_begins(10_000_002) && !seal.range_begins(10_000_000));
        let evm = SealSettings::default();
        assert!(
            evm.boundary_begins(0) && evm.boundary_begins(7_000_000) && !evm.boundary_begins(2)
        );
    }
}
