//! `versions`: which implementation of an ADFS contract is which version.

use anyhow::{Context as _, Result};
use chronolith_projection::adfs::{add_version, list_versions, remove_version};
use serde_json::json;

use super::projections::{chain_of, print_json, tell};
use crate::cli::VersionsCommand;
use crate::exit::Exit;
use crate::hex::{hex, parse_hex};
use crate::projecting::{database_of, who};
use crate::settings::Settings;

pub(crate) async fn versions(settings: &Settings, what: &VersionsCommand) -> Result<Exit> {
    let database = database_of(settings)?;
    match what {
        VersionsCommand::List(wanted) => {
            let all = list_versions(&database, chain_of(settings, wanted)?).await?;
            if wanted.json {
                return print_json(&all);
            }
            if all.is_empty() {
                println!("no implementation was seen or added");
            }
            for one in &all {
                let since = match one.activated_block {
                    Some(block) => format!("since block {block}"),
                    None => "not seen yet".to_owned(),
                };
                let by = one.operator.as_deref();
                let by = by.map_or_else(String::new, |by| format!(", added by {by}"));
                println!(
                    "chain {}: {} is version {}, {since}{by}",
                    one.chain_id, one.implementation, one.version
                );
            }
            Ok(Exit::Done)
        }
        VersionsCommand::Add {
            implementation,
            version,
            wanted,
        } => {
            let chain = settings.chain(wanted.chain.as_deref())?;
            let adfs = chain.adfs.as_ref();
            let adfs =
                adfs.with_context(|| format!("chain {} has no contractAddress", chain.name))?;
            let address = address_of(implementation)?;
            let named = (&address, *version);
            let new = add_version(&database, chain.chain_id, adfs, named, &who()).await?;
            let said = if new { "" } else { " already" };
            let line = format!(
                "{}: {} is version {version}{said}",
                chain.name,
                hex(&address)
            );
            let told = json!({ "chainId": chain.chain_id, "implementation": hex(&address),
                "version": version, "new": new });
            tell(wanted, &told, &line)
        }
        VersionsCommand::Remove {
            implementation,
            wanted,
        } => {
            let chain = settings.chain(wanted.chain.as_deref())?;
            let address = address_of(implementation)?;
            let removed = remove_version(&database, chain.chain_id, &address, &who()).await?;
            let line = match removed {
                true => format!(
                    "{}: nothing is said of {} any more",
                    chain.name,
                    hex(&address)
                ),
                false => format!("{}: nobody added {}", chain.name, hex(&address)),
            };
            let told = json!({ "chainId": chain.chain_id, "implementation": hex(&address),
                "removed": removed });
            tell(wanted, &told, &line)
        }
    }
}

fn address_of(implementation: &str) -> Result<[u8; 20]> {
    let bytes = parse_hex(implementation);
    let address = bytes.and_then(|bytes| <[u8; 20]>::try_from(bytes.as_ref()).ok());
    address.with_context(|| {
        format!("--implementation: `{implementation}` is not an address: 0x and 40 digits")
    })
}
