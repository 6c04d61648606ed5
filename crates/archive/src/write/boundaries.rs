//! Where segments are cut. A pure function of the blocks: batching does not matter.

use std::sync::Arc;

use chronolith_model::Block;

use super::rows::Rows;
use super::seal::Cut;
use crate::settings::SealSettings;

/// The cuts that are due: each ends at the first block end at which a limit is reached, or where
/// the next alignment boundary begins. The blocks after the last cut stay unsealed.
pub(crate) fn due(rows: &Rows, settings: &SealSettings) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut start = 0;
    for (place, block) in rows.blocks.iter().enumerate() {
        let end = place + 1;
        let (txs_before, rows_before, bytes_before) = rows.before(start);
        let weight = (block.row_end - rows_before + end - start) as u64;
        let hashes = (block.tx_end - txs_before) as u64 * 32;
        let bytes = block.log_bytes_end - bytes_before + hashes;
        let boundary = settings.boundary_begins(block.clock.number.saturating_add(1));
        if weight >= settings.weight || bytes >= settings.bytes || boundary {
            cuts.push(Cut { start, end });
            start = end;
        }
    }
    cuts
}

/// Consecutive blocks, apart where a range ends: no pack crosses its border.
pub(crate) fn by_range<'a>(
    blocks: &'a [Arc<Block>],
    settings: &SealSettings,
) -> impl Iterator<Item = &'a [Arc<Block>]> {
    blocks.chunk_by(|block, _| !settings.range_begins(block.clock.number.saturating_add(1)))
}

/// Which of the last batches to put together when there are too many: the longest tail in which
/// no batch is much heavier than all after it, so that a log is rewritten a logarithmic number of
/// times.
pub(crate) fn tail_to_join(weights: &[u64]) -> usize {
    let mut from = weights.len();
    let mut sum = 0_u64;
    for (place, &weight) in weights.iter().enumerate().rev() {
        if sum > 0 && weight > sum.saturating_mul(2) {
            break;
        }
        sum += weight;
        from = place;
    }
    // At least half of them, or the next batch would bring us back here.
    from.min(weights.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::term::TermKey;
    use chronolith_model::{BlockMeta, Hash32, Log, LogParts, Payload, Proof, Tx};

    fn block(number: u64, logs: u32, data: usize) -> Block {
        let clock = BlockMeta {
            number,
            hash: Hash32([number as u8; 32]),
            parent_hash: Hash32::ZERO,
            timestamp: number,
        };
        let data = vec![7; data];
        let log = |log_index| {
            let parts = LogParts {
                log_index,
                data: &data,
                ..LogParts::default()
            };
            Log::new(&parts).unwrap()
        };
        let txs = vec![Tx {
            index: 0,
            hash: Hash32::ZERO,
        }];
        let logs = (0..logs).map(log).collect();
        Block {
            clock,
            txs,
            logs,
            payload: Payload::default(),
        }
    }

    fn ends(settings: &SealSettings, blocks: &[Block]) -> Vec<usize> {
        let mut rows = Rows::new(TermKey::NONE);
        blocks
            .iter()
            .for_each(|block| rows.push(block, Proof::LINKED));
        due(&rows, settings).iter().map(|cut| cut.end).collect()
    }

    #[test]
    fn cuts_come_at_the_first_block_end_past_a_limit() {
        let settings = SealSettings {
            weight: 10,
            bytes: 1000,
            grid_blocks: 100,
            ..SealSettings::default()
        };
        let light: Vec<Block> = (0..7).map(|number| block(number, 3, 0)).collect();
        assert_eq!(
            ends(&settings, &light),
            [3, 6],
            "by weight: logs and blocks"
        );
        let heavy: Vec<Block> = (0..5).map(|number| block(number, 1, 480)).collect();
        assert_eq!(ends(&settings, &heavy), [2, 4], "by bytes: logs and hashes");
        let border: Vec<Block> = (97..103).map(|number| block(number, 0, 0)).collect();
        assert_eq!(ends(&settings, &border), [3], "at an alignment boundary");
        let later = SealSettings {
            first_block: 2,
            ..settings.clone()
        };
        assert_eq!(ends(&later, &border), [5], "counted from the first block");
        let lowest: Vec<Block> = (0..4).map(|number| block(number, 0, 0)).collect();
        assert_eq!(ends(&later, &lowest), [2], "what lies below is apart");
    }

    #[test]
    fn joining_takes_the_light_tail() {
        assert_eq!(tail_to_join(&[100, 1, 1, 1, 1, 1]), 1);
        assert_eq!(tail_to_join(&[1, 1, 1, 1]), 0);
        assert_eq!(tail_to_join(&[1000, 100, 10, 1]), 2);
    }
}
