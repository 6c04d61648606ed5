//! `chronolith config`.

use std::path::Path;

use anyhow::Result;
use chronolith_source::CHAINS;

use super::output::print_json;
use crate::cli::ConfigCommand;
use crate::environment::Overrides;
use crate::exit::Exit;
use crate::settings::{ChainSettings, EXAMPLE, Settings, schema};

pub(crate) fn config(what: ConfigCommand, path: &Path, overrides: &Overrides) -> Result<Exit> {
    match what {
        ConfigCommand::Example => print!("{EXAMPLE}"),
        ConfigCommand::Chains => {
            for chain in CHAINS {
                println!("{:<12} {:>10}  {}", chain.name, chain.chain_id, chain.title);
            }
        }
        ConfigCommand::Schema => return print_json(&schema()),
        ConfigCommand::Check => {
            let settings = Settings::load(path, overrides)?;
            let data = settings.data_dir.display();
            println!("{} is fine. Data goes to {data}.", path.display());
            if let Some(remote) = &settings.remote {
                println!("Archives go to {remote}.");
            }
            println!("The public API listens on {}.", settings.listen);
            for chain in &settings.chains {
                println!(
                    "  {} ({}): from block {}, {:?}, finality {:?}, {}, a look every {:?}",
                    chain.name,
                    chain.chain_id,
                    chain.start_block,
                    chain.datasets,
                    chain.finality,
                    comes_from(chain),
                    chain.poll
                );
            }
        }
    }
    Ok(Exit::Done)
}

/// Where its blocks come from, without URLs.
fn comes_from(chain: &ChainSettings) -> String {
    match &chain.stellar {
        None => format!("{} endpoint(s)", chain.endpoints.len()),
        Some(stellar) => stellar.to_string(),
    }
}
