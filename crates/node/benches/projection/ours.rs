//! Our side. There is no projection to run: both ways give nothing, and the run says NOT MEASURED. One
//! that has something to run gives it to a [`Race`](crate::race::Race), as Ponder is.

use anyhow::Result;

use crate::database::Server;
use crate::table::Measured;
use crate::workload::Chain;

/// From the node into an empty database and an empty archive.
pub(crate) async fn backfill(_chain: &Chain, _server: &Server) -> Result<Option<Measured>> {
    Ok(None)
}

/// From an archive that holds the chain into an empty database, without one request to the node.
pub(crate) async fn reproject(_chain: &Chain, _server: &Server) -> Result<Option<Measured>> {
    Ok(None)
}
