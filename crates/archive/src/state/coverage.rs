//! Which blocks some objects hold together, and what they leave open.

use std::sync::Arc;

use chronolith_model::{BlockRange, Dataset, DatasetSet, LogFilter, Scope};

use super::catalog::{PackContent, PackEntry, SegmentEntry};

/// Datasets that a segment lists as kept, and that packs hold.
pub(crate) const PACKED: [Dataset; 3] = [Dataset::Headers, Dataset::Transactions, Dataset::Payload];

/// The blocks of all these ranges, in order and put together where they touch.
pub(crate) fn union(ranges: impl Iterator<Item = BlockRange>) -> Vec<BlockRange> {
    let mut sorted: Vec<BlockRange> = ranges.filter(|range| !range.is_empty()).collect();
    // They nearly always are.
    sorted.sort_by_key(|range| range.start);
    let mut all: Vec<BlockRange> = Vec::new();
    for range in sorted {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// What of some blocks is not among others. Both are in order and do not overlap.
pub(crate) fn minus(wanted: &[BlockRange], held: &[BlockRange]) -> Vec<BlockRange> {
    let (mut open, mut rest) = (Vec::new(), held);
    for range in wanted {
        let mut at = range.start;
        while let [first, behind @ ..] = rest {
            if first.start >= range.end {
                break;
            }
            if at < first.start {
                open.push(BlockRange::new(at, first.start));
            }
            at = at.max(first.end);
            // It may hold blocks of the next one too.
            if first.end > range.end {
                break;
            }
            rest = behind;
        }
        if at < range.end {
            open.push(BlockRange::new(at, range.end));
        }
    }
    open
}

/// Whose transactions' bodies are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodiesOf<'a> {
    All,
    /// Those that logs of a filter name.
    Filter(&'a LogFilter),
    /// Those that logs of a scope name.
    Scope(&'a Scope),
}

impl<'a> BodiesOf<'a> {
    /// Where these datasets are kept with this scope.
    pub(crate) fn kept(datasets: DatasetSet, scope: &'a Scope) -> Self {
        match datasets.bodies_by_logs() {
            true => Self::Scope(scope),
            false => Self::All,
        }
    }

    /// Whether a pack holds a dataset, and of transactions these.
    pub(crate) fn in_pack(self, content: &PackContent, dataset: Dataset) -> bool {
        match (dataset, self) {
            (Dataset::Transactions, Self::Filter(filter)) => content.holds_bodies_of(filter),
            (Dataset::Transactions, Self::Scope(scope)) => content.holds_bodies_in(scope),
            _ => content.holds(dataset),
        }
    }
}

/// Blocks whose segments list something as kept that no pack holds.
pub(crate) fn without_packs<'a>(
    segments: &[&Arc<SegmentEntry>],
    packs: impl Iterator<Item = &'a Arc<PackEntry>> + Clone,
) -> Vec<BlockRange> {
    let by_logs = |entry: &&&Arc<SegmentEntry>| entry.facts.datasets.bodies_by_logs();
    let open = PACKED.into_iter().flat_map(|dataset| {
        let claims = segments.iter();
        let claims = claims.filter(|entry| dataset != Dataset::Transactions || !by_logs(entry));
        let claims = claims.map(|entry| &entry.facts);
        let claims = claims.filter(|facts| facts.datasets.contains(dataset));
        let claimed = union(claims.map(|facts| facts.range));
        match claimed.is_empty() {
            true => Vec::new(),
            false => minus(&claimed, &holding(packs.clone(), dataset, BodiesOf::All)),
        }
    });
    // Each scope has its own.
    let mut scopes: Vec<&Scope> = Vec::new();
    for entry in segments.iter().filter(by_logs) {
        if !scopes.contains(&&entry.facts.scope) {
            scopes.push(&entry.facts.scope);
        }
    }
    let of_logs = scopes.into_iter().flat_map(|scope| {
        let claims = segments.iter().filter(by_logs);
        let claims = claims.filter(|entry| entry.facts.scope == *scope);
        let claimed = union(claims.map(|entry| entry.facts.range));
        let wanted = BodiesOf::Scope(scope);
        minus(
            &claimed,
            &holding(packs.clone(), Dataset::Transactions, wanted),
        )
    });
    union(open.chain(of_logs))
}

/// The blocks of which packs hold a dataset.
pub(crate) fn holding<'a>(
    packs: impl Iterator<Item = &'a Arc<PackEntry>>,
    dataset: Dataset,
    bodies: BodiesOf<'_>,
) -> Vec<BlockRange> {
    let holding = packs.filter(|pack| bodies.in_pack(&pack.content, dataset));
    union(holding.map(|pack| pack.range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges() -> impl Strategy<Value = Vec<BlockRange>> {
        let one =
            (0_u64..60, 0_u64..9).prop_map(|(start, len)| BlockRange::new(start, start + len));
        proptest::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn blocks_are_those_of_sets(wanted in ranges(), held in ranges()) {
            let (all, others) = (union(wanted.iter().copied()), union(held.iter().copied()));
            let open = minus(&all, &others);
            for block in 0..70 {
                let among = |ranges: &[BlockRange]| ranges.iter().any(|range| range.contains(block));
                prop_assert_eq!(among(&all), among(&wanted));
                prop_assert_eq!(among(&open), among(&wanted) && !among(&held));
            }
            prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(open.iter().all(|range| !range.is_empty()));
        }
    }
}
