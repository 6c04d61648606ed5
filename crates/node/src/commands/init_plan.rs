//! What the answers of `chronolith init` mean, as settings. Nothing is asked or written here.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_source::{CHAINS, KnownChain, known_chain};
use serde_json::{Map, Value, json};

use crate::cli::Keep;
use crate::environment::DATA_DIR;
use crate::settings::{PUBLIC_PORT, PUBLIC_PORTAL};

/// A node, and its chain as far as it is known.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) url: String,
    pub(super) chain_id: Option<u64>,
}

/// Which chains, and where their blocks come from.
#[derive(Clone)]
pub(super) struct Blocks {
    /// Ids of the chains that were named; those of nodes come beside them.
    chains: Vec<u64>,
    pub(super) urls: Vec<Node>,
    /// How many of those, the first ones, came with the chains: each of them asks for its chain.
    asking: usize,
    has_portal: bool,
}

/// The data directory and the public port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) data_dir: PathBuf,
    pub(super) port: u16,
}

/// All answers.
pub(super) struct Plan {
    pub(super) blocks: Blocks,
    pub(super) keep: Keep,
    pub(super) place: Place,
    pub(super) portal_url: Option<String>,
}

/// The parts of a list.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split([',', ' ', '\t']).map(str::trim);
    parts.filter(|part| !part.is_empty())
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// The id of a chain by its name or id.
fn id_of(text: &str) -> Result<u64> {
    if let Some(known) = known_chain(text) {
        return Ok(known.chain_id);
    }
    let unknown = || {
        format!(
            "`{text}` is no known chain: `chronolith config chains` lists them, and any other needs the URL of a node"
        )
    };
    text.parse().with_context(unknown)
}

fn known(chain_id: u64) -> Option<&'static KnownChain> {
    CHAINS.iter().find(|known| known.chain_id == chain_id)
}

fn name_of(chain_id: u64) -> String {
    known(chain_id).map_or_else(|| chain_id.to_string(), |known| known.name.to_owned())
}

impl Blocks {
    /// The answer to the first question.
    pub(super) fn parse_chains(text: &str) -> Result<Self> {
        let mut blocks = Self {
            chains: Vec::new(),
            urls: Vec::new(),
            asking: 0,
            has_portal: false,
        };
        for part in parts(text) {
            if is_url(part) || part.contains('=') {
                blocks.urls.push(Node::parse(part)?);
            } else if part.eq_ignore_ascii_case("all") {
                blocks
                    .chains
                    .extend(CHAINS.iter().map(|known| known.chain_id));
            } else {
                blocks.chains.push(id_of(part)?);
            }
        }
        ensure!(
            !blocks.chains.is_empty() || !blocks.urls.is_empty(),
            "name a chain, or give the URL of a node"
        );
        blocks.asking = blocks.urls.len();
        Ok(blocks)
    }

    /// With the answer to the second question.
    pub(super) fn with_sources(mut self, text: &str) -> Result<Self> {
        for part in parts(text) {
            match part.to_ascii_lowercase().as_str() {
                "portal" => self.has_portal = true,
                "rpc" => {}
                "both" => self.has_portal = true,
                _ => self.urls.push(Node::parse(part)?),
            }
        }
        let needs_urls = parts(text).any(|part| ["rpc", "both"].contains(&part));
        ensure!(
            !needs_urls || !self.urls.is_empty(),
            "give the URLs of your nodes, such as https://rpc.example/key"
        );
        Ok(self)
    }

    /// All chains that were asked for, each once, in the order in which they were named.
    fn ids(&self) -> Vec<u64> {
        let asking = self.urls.iter().take(self.asking);
        let of_nodes = asking.filter_map(|node| node.chain_id);
        let mut ids: Vec<u64> = Vec::new();
        for id in self.chains.iter().copied().chain(of_nodes) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn urls_of(&self, chain_id: u64) -> Vec<&str> {
        let nodes = self.urls.iter();
        let nodes = nodes.filter(|node| node.chain_id == Some(chain_id));
        nodes.map(|node| node.url.as_str()).collect()
    }

    /// Every chain must come from somewhere, and every node be of a chain that is wanted.
    pub(super) fn check(&self) -> Result<()> {
        let ids = self.ids();
        let of_nodes = self.urls.iter().filter_map(|node| node.chain_id);
        for id in of_nodes {
            ensure!(
                ids.contains(&id),
                "{}: a node of this chain is given, and the chain is not asked for: name it with the others, or leave its node out",
                name_of(id)
            );
        }
        for id in ids {
            let name = name_of(id);
            let from_portal = self.has_portal && known(id).is_some();
            if self.urls_of(id).is_empty() && !from_portal {
                match known(id) {
                    Some(_) => bail!("{name}: no source: add portal, or {name}=URL"),
                    None => bail!("{name}: not known to the Portal: give {name}=URL of a node"),
                }
            }
        }
        Ok(())
    }
}

impl Node {
    /// A URL, or a chain with its URL.
    fn parse(text: &str) -> Result<Self> {
        if is_url(text) {
            return Ok(Self {
                url: text.to_owned(),
                chain_id: None,
            });
        }
        match text.split_once('=') {
            Some((chain, url)) if is_url(url) => Ok(Self {
                url: url.to_owned(),
                chain_id: Some(id_of(chain)?),
            }),
            // The text is not repeated: it may be a URL with a key that lacks its scheme.
            _ => bail!("want portal, the URL of a node (http:// or https://), or CHAIN=URL"),
        }
    }
}

impl Place {
    /// A directory, a port, or both.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let (dir, last) = text.rsplit_once([' ', ',']).unwrap_or(("", text));
        let (dir, port) = match last.parse() {
            Ok(port) => (dir, port),
            Err(_) if !last.is_empty() && last.chars().all(|digit| digit.is_ascii_digit()) => {
                bail!("`{last}` is no port from 0 to 65535")
            }
            Err(_) => (text, PUBLIC_PORT),
        };
        let dir = dir.trim_end_matches([' ', ',']);
        let dir = if dir.is_empty() { DATA_DIR } else { dir };
        Ok(Self {
            data_dir: dir.into(),
            port,
        })
    }
}

impl Plan {
    /// The settings file.
    pub(super) fn settings(&self) -> Result<Value> {
        let Place { data_dir, port } = &self.place;
        let data_dir = data_dir
            .to_str()
            .context("the data directory is not UTF-8")?;
        let chains: Vec<Value> = self
            .blocks
            .ids()
            .into_iter()
            .map(|id| self.chain(id))
            .collect();
        let mut settings = Map::new();
        settings.insert("dataDir".to_owned(), json!(data_dir));
        settings.insert("listen".to_owned(), json!(format!("0.0.0.0:{port}")));
        if let Some(url) = &self.portal_url {
            settings.insert("portalUrl".to_owned(), json!(url));
        }
        settings.insert("chains".to_owned(), Value::Array(chains));
        Ok(Value::Object(settings))
    }

    fn chain(&self, id: u64) -> Value {
        let urls = self.blocks.urls_of(id);
        let from_portal = self.blocks.has_portal && known(id).is_some();
        let mut chain = Map::new();
        match known(id) {
            Some(known) => chain.insert("name".to_owned(), json!(known.name)),
            None => chain.insert("chainId".to_owned(), json!(id)),
        };
        if !urls.is_empty() {
            chain.insert("rpcHttp".to_owned(), json!(urls));
        }
        // Without endpoints, the Portal needs no field.
        if from_portal && !urls.is_empty() && self.keep != Keep::Everything {
            let url = self.portal_url.as_deref();
            let url = url.unwrap_or(PUBLIC_PORTAL);
            chain.insert("portal".to_owned(), json!({ "url": url }));
        }
        let datasets: &[&str] = match (self.keep, urls.is_empty()) {
            (Keep::Clock, _) => &["clock"],
            (Keep::Logs, _) => &["logs"],
            (Keep::Everything, true) => &["logs", "tx_hashes"],
            (Keep::Everything, false) => &["headers", "logs", "tx_hashes", "transactions"],
        };
        chain.insert("datasets".to_owned(), json!(datasets));
        Value::Object(chain)
    }

    /// What differs from what was asked for.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.keep != Keep::Everything {
            return notes;
        }
        let ids = self.blocks.ids();
        if ids.iter().any(|id| self.blocks.urls_of(*id).is_empty()) {
            notes.push("a Portal alone has no headers and no whole transactions: logs and transaction hashes are kept".to_owned());
        }
        if self.blocks.has_portal && !self.blocks.urls.is_empty() {
            notes.push(
                "the Portal is not used where nodes are: whole blocks come from them".to_owned(),
            );
        }
        notes
    }

    /// What the file says, in one line.
    pub(super) fn summary(&self) -> String {
        let keep = match self.keep {
            Keep::Clock => "block times",
            Keep::Logs => "logs",
            Keep::Everything => "everything",
        };
        let chains = match self.blocks.ids().len() {
            1 => "1 chain".to_owned(),
            several => format!("{several} chains"),
        };
        let Place { data_dir, port } = &self.place;
        format!(
            "{keep} of {chains} into {}, port {port}",
            data_dir.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(chains: &str, from: &str, keep: Keep) -> Result<Plan> {
        let blocks = Blocks::parse_chains(chains)?.with_sources(from)?;
        blocks.check()?;
        Ok(Plan {
            blocks,
            keep,
            place: Place::parse("")?,
            portal_url: None,
        })
    }

    /// The chains that the answers give.
    fn check(answers: (&str, &str, Keep), expected: Value) {
        let (chains, from, keep) = answers;
        let settings = plan(chains, from, keep).unwrap().settings().unwrap();
        assert_eq!(settings["chains"], expected, "{chains} {from}");
        let text = settings.to_string();
        crate::settings::check_text(&text).unwrap();
    }

    #[test]
    fn answers_make_settings_that_load() {
        let clock = json!(["clock"]);
        check(
            ("base, 10", "portal", Keep::Clock),
            json!([{ "name": "base", "datasets": clock }, { "name": "optimism", "datasets": clock }]),
        );
        check(
            ("5=http://a", "rpc", Keep::Logs),
            json!([{ "chainId": 5, "rpcHttp": ["http://a"], "datasets": ["logs"] }]),
        );
        check(
            ("base", "portal,base=https://b/KEY", Keep::Logs),
            json!([{ "name": "base", "rpcHttp": ["https://b/KEY"], "datasets": ["logs"],
                "portal": { "url": PUBLIC_PORTAL } }]),
        );
        check(
            ("base", "both 8453=https://b", Keep::Everything),
            json!([{ "name": "base", "rpcHttp": ["https://b"],
                "datasets": ["headers", "logs", "tx_hashes", "transactions"] }]),
        );
        check(
            ("gnosis", "portal", Keep::Everything),
            json!([{ "name": "gnosis", "datasets": ["logs", "tx_hashes"] }]),
        );
        // A node among the chains asks for its own; more nodes of it may follow.
        check(
            ("base 5=http://a", "portal,5=http://b", Keep::Clock),
            json!([
                { "name": "base", "datasets": clock },
                { "chainId": 5, "rpcHttp": ["http://a", "http://b"], "datasets": clock },
            ]),
        );
        let all = plan("all", "portal", Keep::Clock).unwrap();
        assert_eq!(all.blocks.ids().len(), 30);
        crate::settings::check_text(&all.settings().unwrap().to_string()).unwrap();
    }

    #[test]
    fn answers_that_cannot_be_used_say_what_is_missing() {
        for (chains, from, expected) in [
            ("", "portal", "name a chain"),
            ("atlantis", "portal", "`atlantis` is no known chain"),
            ("base", "rpc", "give the URLs"),
            ("base", "n.example/SECRET", "want portal, the URL of a node"),
            (
                "base,celo",
                "base=http://a",
                "celo: no source: add portal, or celo=URL",
            ),
            ("5", "portal", "5: not known to the Portal: give 5=URL"),
            // Its chain was followed beside those that were asked for.
            (
                "base",
                "portal,10=http://a/SECRET",
                "optimism: a node of this chain is given, and the chain is not asked for",
            ),
            ("all", "portal,5=http://a/SECRET", "5: a node of this chain"),
            ("5=http://a", "7=http://b/SECRET", "7: a node of this chain"),
        ] {
            let error = format!("{:#}", plan(chains, from, Keep::Clock).err().unwrap());
            assert!(error.contains(expected), "{chains} {from}: {error}");
            assert!(!error.contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn a_place_is_a_directory_a_port_or_both() {
        for (text, data_dir, port) in [
            ("", "./data", PUBLIC_PORT),
            ("81", "./data", 81),
            ("/srv/my data", "/srv/my data", PUBLIC_PORT),
            ("/srv/my data 81", "/srv/my data", 81),
            ("/srv/data, 81", "/srv/data", 81),
        ] {
            let expected = Place {
                data_dir: data_dir.into(),
                port,
            };
            assert_eq!(Place::parse(text).unwrap(), expected, "{text}");
        }
        assert!(Place::parse("./data 65536").is_err());
    }
}
