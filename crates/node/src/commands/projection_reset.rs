//! `projection rewind` and `projection reset`.

use anyhow::{Context as _, Result};
use chronolith_follower::chain::open_reader;
use chronolith_projection::{Order, TakenBack};
use chronolith_serve::ChainId;
use serde_json::json;

use super::output::print_result;
use crate::cli::{Reasoned, ResetProjection};
use crate::exit::Exit;
use crate::projecting::{database_of, take_back, who};
use crate::settings::{ChainSettings, Settings};

/// `projection rewind`, for where the archive was rewound and the database was not.
pub(super) async fn rewind(settings: &Settings, args: &Reasoned) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let archive = open_reader(chain, &settings.place(chain)).await?;
    let database = database_of(settings)?;
    database.check_version().await?;
    let taken = take_back(&database, &archive, chain, &args.reason).await?;
    let answer = json!({ "chainId": ChainId(chain.chain_id), "database": taken });
    print_result(&args.wanted, &answer, &line_of(chain, &taken))
}

/// `projection reset`.
pub(super) async fn reset(settings: &Settings, args: &ResetProjection) -> Result<Exit> {
    let chain = settings.chain(args.wanted.chain.as_deref())?;
    let name = args.projection.as_deref();
    let name = name.context("which one? Give --projection fees or --projection adfs")?;
    let database = database_of(settings)?;
    database.check_version().await?;
    let operator = who();
    let order = Order {
        operator: &operator,
        reason: &args.reason,
    };
    let done = chronolith_projection::reset(&database, chain.chain_id, name, order).await?;
    let line = if done.known {
        format!(
            "{}: no row of {name} is left; `chronolith run` rebuilds all of them",
            chain.name
        )
    } else {
        format!("{}: nothing was known of {name}", chain.name)
    };
    let answer =
        json!({ "chainId": ChainId(chain.chain_id), "projection": name, "known": done.known });
    print_result(&args.wanted, &answer, &line)
}

/// The result in the database, in a line.
pub(super) fn line_of(chain: &ChainSettings, taken: &TakenBack) -> String {
    if taken.safe_now < taken.safe_before {
        format!(
            "{}: rows above {} are not final any more; {} blocks with rows were dropped",
            chain.name, taken.safe_now, taken.dropped_blocks
        )
    } else {
        format!(
            "{}: all that is final in the database is in the archive",
            chain.name
        )
    }
}
