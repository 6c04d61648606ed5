//! `versions`: which implementation of an ADFS contract is which version.

use anyhow::Result;

use super::projections::{ByCommand, print_json, tell};
use crate::cli::VersionsCommand;
use crate::exit::Exit;
use crate::settings::Settings;

pub(crate) async fn versions(settings: &Settings, what: &VersionsCommand) -> Result<Exit> {
    let by = ByCommand::new(settings)?;
    let acts = by.acts(settings);
    match what {
        VersionsCommand::List(wanted) => {
            let all = acts.versions(wanted.chain.as_deref()).await?;
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
            let chain = wanted.chain.as_deref();
            let told = acts.add_version(chain, implementation, *version).await?;
            let said = if told.new { "" } else { " already" };
            let line = format!(
                "{}: {} is version {version}{said}",
                told.name, told.implementation
            );
            tell(wanted, &told, &line)
        }
        VersionsCommand::Remove {
            implementation,
            wanted,
        } => {
            let chain = wanted.chain.as_deref();
            let told = acts.remove_version(chain, implementation).await?;
            let line = match told.removed {
                true => format!(
                    "{}: nothing is said of {} any more",
                    told.name, told.implementation
                ),
                false => format!("{}: nobody added {}", told.name, told.implementation),
            };
            tell(wanted, &told, &line)
        }
    }
}
