//! `chronolith config`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use chronolith_source::CHAINS;

use crate::cli::ConfigCommand;
use crate::environment::Overrides;
use crate::settings::{EXAMPLE, Settings};

pub(crate) fn config(what: ConfigCommand, path: &Path, overrides: &Overrides) -> Result<ExitCode> {
    match what {
        ConfigCommand::Example => print!("{EXAMPLE}"),
        ConfigCommand::Chains => {
            for chain in CHAINS {
                println!("{:<12} {:>10}  {}", chain.name, chain.chain_id, chain.title);
            }
        }
        ConfigCommand::Check => {
            let settings = Settings::load(path, overrides)?;
            let data = settings.data_dir.display();
            println!("{} is fine. Data goes to {data}.", path.display());
            for chain in &settings.chains {
                println!(
                    "  {} ({}): from block {}, {:?}, finality {:?}, {} endpoint(s), a look every {:?}",
                    chain.name,
                    chain.chain_id,
                    chain.start_block,
                    chain.datasets,
                    chain.finality,
                    chain.endpoints.len(),
                    chain.poll
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
