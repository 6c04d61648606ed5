//! Where segments are cut. A pure function of the blocks: batching does not matter.

use super::rows::Rows;
use super::seal::Cut;
use crate::settings::SealSettings;

/// The cuts that are due: each ends at the first block end at which a limit is reached, or where
/// the next cell of the grid begins. The blocks behind the last cut stay unsealed.
pub(crate) fn due(rows: &Rows, settings: &SealSettings) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut start = 0;
    for (place, block) in rows.blocks.iter().enumerate() {
        let end = place + 1;
        let (txs_before, rows_before, bytes_before) = rows.before(start);
        let weight = (block.row_end - rows_before + end - start) as u64;
        let hashes = (block.tx_end - txs_before) as u64 * 32;
        let bytes = block.log_bytes_end - bytes_before + hashes;
        let grid = (block.clock.number + 1) % settings.grid_blocks.max(1) == 0;
        if weight >= settings.weight || bytes >= settings.bytes || grid {
            cuts.push(Cut { start, end });
            start = end;
        }
    }
    cuts
}

/// Which of the last batches to put together when there are too many: the longest tail in which
/// no batch is much heavier than all behind it, so that a log is rewritten a logarithmic number of
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

    #[test]
    fn joining_takes_the_light_tail() {
        assert_eq!(tail_to_join(&[100, 1, 1, 1, 1, 1]), 1);
        assert_eq!(tail_to_join(&[1, 1, 1, 1]), 0);
        assert_eq!(tail_to_join(&[1000, 100, 10, 1]), 2);
    }
}
