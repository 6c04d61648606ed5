//! `chronolith config`.

use std::path::Path;

use anyhow::Result;
use chronolith_model::Scope;
use chronolith_projection::{JOB_BLOCKS, place_of};
use chronolith_source::CHAINS;
use const_hex::encode_prefixed;

use super::output::print_json;
use crate::cli::ConfigCommand;
use crate::environment::Overrides;
use crate::exit::Exit;
use crate::projections::has_any;
use crate::settings::{ChainSettings, DatabaseSettings, EXAMPLE, Settings, schema};

pub(crate) fn config(
    what: ConfigCommand,
    named: Option<&Path>,
    overrides: &Overrides,
) -> Result<Exit> {
    match what {
        ConfigCommand::Example => print!("{EXAMPLE}"),
        ConfigCommand::Chains => {
            for chain in CHAINS {
                println!("{:<12} {:>10}  {}", chain.name, chain.chain_id, chain.title);
            }
        }
        ConfigCommand::Schema => return print_json(&schema()),
        ConfigCommand::Check => show(&Settings::load(named, overrides)?)?,
    }
    Ok(Exit::Done)
}

/// The settings with all defaults, without URLs and passwords.
fn show(settings: &Settings) -> Result<()> {
    let (origin, data) = (settings.origin.name(), settings.data_dir.display());
    println!("{origin} is fine. Data goes to {data}.");
    for note in &settings.notes {
        println!("Note: {note}.");
    }
    if let Some(remote) = &settings.remote {
        println!("Archives go to {remote}.");
    }
    println!("The public API listens on {}.", settings.listen);
    show_database(settings)?;
    for chain in &settings.chains {
        show_chain(chain);
    }
    Ok(())
}

/// Where projections go, by host and name.
fn show_database(settings: &Settings) -> Result<()> {
    let DatabaseSettings { writer, reader, .. } = &settings.database;
    match writer {
        Some(url) => println!("Projections go to database {}.", place_of(&url.0)?),
        None if settings.chains.iter().any(has_any) => {
            println!("Projections have no database yet: set PG_URL before `chronolith run`.");
        }
        None => {}
    }
    if let Some(url) = reader {
        println!("They are read from database {}.", place_of(&url.0)?);
    }
    if settings.chains.iter().any(|chain| chain.fees.is_some()) {
        println!("The fee API listens on {}.", settings.fees_listen);
    }
    Ok(())
}

fn show_chain(chain: &ChainSettings) {
    println!(
        "  {} ({}): from block {}, {:?}, {}, finality {:?}, {}, a look every {:?}",
        chain.name,
        chain.chain_id,
        chain.start_block,
        chain.datasets,
        scope(&chain.scope),
        chain.finality,
        comes_from(chain),
        chain.poll
    );
    if let Some(catching_up) = &chain.catching_up {
        println!("    far behind, a look every {:?}", catching_up.poll);
    }
    if let Some(fees) = &chain.fees {
        for contract in &fees.contracts {
            let address = encode_prefixed(contract.address);
            println!("    fees of {address} from block {}", contract.from_block);
        }
        let job_blocks = fees.job_blocks.unwrap_or(JOB_BLOCKS);
        println!("    jobs of {job_blocks} blocks");
    }
    if let Some(adfs) = &chain.adfs {
        println!("    ADFS updates of {}", encode_prefixed(adfs.proxy));
        for (number, version) in &adfs.versions {
            println!("      version {number}: {}", version.signature);
        }
        let known = adfs.implementations.len();
        println!("      {known} implementation(s) with a known version");
    }
}

/// Which logs are kept.
fn scope(scope: &Scope) -> String {
    match scope {
        Scope::All => "all logs".to_owned(),
        Scope::Only(entries) => format!("logs of {} address-topic pair(s)", entries.len()),
    }
}

/// Where its blocks come from, without URLs.
fn comes_from(chain: &ChainSettings) -> String {
    match (&chain.stellar, &chain.portal, chain.endpoints.len()) {
        (Some(stellar), _, _) => stellar.to_string(),
        (None, Some(_), 0) => "from a Portal".to_owned(),
        (None, Some(_), endpoints) => format!("{endpoints} endpoint(s) and a Portal"),
        (None, None, endpoints) => format!("{endpoints} endpoint(s)"),
    }
}
