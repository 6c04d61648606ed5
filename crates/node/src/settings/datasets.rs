//! Which datasets of a chain are kept.

use anyhow::{Context as _, Result, ensure};
use chronolith_model::{Dataset, DatasetSet};
use chronolith_source::portal::PortalSettings;

/// The datasets that are requested, or those that the source has whole.
pub(super) fn datasets(
    names: Option<&[String]>,
    portal: Option<&PortalSettings>,
    portal_alone: Option<&PortalSettings>,
) -> Result<DatasetSet> {
    match names {
        Some(names) => named(names, portal_alone),
        // What a portal has whole.
        None if portal.is_some() => Ok(DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes])),
        None => Ok(DatasetSet::of(&[
            Dataset::Headers,
            Dataset::Logs,
            Dataset::TxHashes,
        ])),
    }
}

fn named(names: &[String], portal_alone: Option<&PortalSettings>) -> Result<DatasetSet> {
    let find = |name: &String| {
        let found = Dataset::ALL.into_iter().find(|one| one.name() == name);
        let known = Dataset::ALL.map(Dataset::name).join(", ");
        found.with_context(|| format!("datasets: `{name}` is none of {known}"))
    };
    let found: Vec<Dataset> = names.iter().map(find).collect::<Result<_>>()?;
    let set = DatasetSet::of(&found);
    ensure!(
        !set.bodies_by_logs() || set.contains(Dataset::Logs),
        "datasets: transactions needs tx_hashes, or logs that name some"
    );
    let whole = set.contains(Dataset::Headers) || set.contains(Dataset::Transactions);
    ensure!(
        !whole || portal_alone.is_none(),
        "datasets: headers and transactions need rpcHttp, a portal does not deliver all of them"
    );
    Ok(set)
}
