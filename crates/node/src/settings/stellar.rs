//! A Stellar network as a chain: where its ledgers come from, and what does not apply to it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_follower::location::store_options;
use chronolith_follower::settings::StellarSettings;
use chronolith_model::{Dataset, DatasetSet, Verification};
use chronolith_source::stellar::{CoreSettings, LakePlace, LakeSettings, Layout};
use chronolith_stellar::Network;

use super::process::{self, Shared};
use super::raw::{RawChain, RawCore, RawLake, RawStellar};
use super::{
    ChainSettings, Finality, FollowSettings, Mode, alerts, backfill, datasets, mode, ranges,
};

/// The first ledger of every network.
const FIRST_LEDGER: u64 = 2;
/// How often the lake is looked at: a ledger closes about every five seconds.
const POLL_MS: u64 = 2_000;
/// Fetches from a lake that run at the same time.
const IN_FLIGHT: usize = 8;
const IN_FLIGHT_MAX: usize = 256;
/// How long no ledger may come from core: catching up takes minutes before the first comes.
const PATIENCE_SECONDS: u64 = 600;

/// Networks that are known by name.
const NETWORKS: [(&str, &str); 2] = [("pubnet", Network::PUBNET), ("testnet", Network::TESTNET)];

/// A chain that is a Stellar network.
pub(super) fn chain(
    raw: &RawChain,
    stellar: &RawStellar,
    shared: &Shared,
) -> Result<ChainSettings> {
    refuse_others(raw)?;
    let (network_name, network) = network(stellar)?;
    let chain_id = network.chain_id();
    ensure!(
        raw.chain_id.is_none_or(|id| id == chain_id),
        "chainId: it follows from the passphrase, and is {chain_id}: leave it out"
    );
    let start_block = raw.start_block.unwrap_or(FIRST_LEDGER);
    ensure!(
        (FIRST_LEDGER..=u64::from(u32::MAX)).contains(&start_block),
        "startBlock: the first ledger is {FIRST_LEDGER}"
    );
    let mode = mode(raw.mode, raw.start_block, raw.end_block)?;
    if let Mode::Backfill { end_block } = mode {
        ensure!(
            end_block <= u64::from(u32::MAX),
            "endBlock: ledgers have numbers below 2^32"
        );
    }
    let lake = stellar.lake.as_ref();
    let lake = lake.map(|raw| self::lake(raw, &network, start_block).context("stellar.lake"));
    let lake = lake.transpose()?;
    let core = stellar.core.as_ref();
    let core = core.map(|raw| self::core(raw, &network, mode).context("stellar.core"));
    let core = core.transpose()?;
    ensure!(
        lake.is_some() || core.is_some(),
        "stellar: give a lake, or a core, or both: ledgers must come from somewhere"
    );
    let backfill = backfill(&raw.backfill)?;
    let name = raw.name.as_ref().unwrap_or(&network_name);
    let defaults = FollowSettings::of_endpoints(chain_id, name, Vec::new());
    let follow = FollowSettings {
        start_block,
        mode,
        // A ledger is final when it has closed.
        finality: Finality::Finalized,
        datasets: kept(raw.datasets.as_deref())?,
        // No hash covers every event, so a higher level cannot be requested. Each log has its own level.
        level: Verification::Linked,
        poll: Duration::from_millis(raw.poll_ms.unwrap_or(POLL_MS).max(10)),
        backfill,
        tail_bytes: process::tail_bytes(raw.tail_mib)?,
        ranges: ranges::ranges(&raw.ranges, FIRST_LEDGER)?,
        cache: shared.cache.clone(),
        queries: shared.queries.clone(),
        stellar: Some(StellarSettings {
            network,
            network_name,
            lake,
            core,
        }),
        ..defaults
    };
    Ok(ChainSettings {
        follow,
        adfs: None,
        fees: None,
        alerts: alerts::of_chain(raw.alerts_config.as_ref(), shared.alerts)?,
    })
}

/// What is about chains of the EVM family alone.
fn refuse_others(raw: &RawChain) -> Result<()> {
    let given = [
        ("rpcHttp", !raw.rpc_http.is_empty()),
        ("rpcWs", !raw.rpc_ws.is_empty()),
        ("portal", raw.portal.is_some()),
        ("finality", raw.finality.is_some()),
        ("logs", raw.logs.is_some()),
        ("verification", raw.verification.is_some()),
        ("strategy", raw.strategy.is_some()),
        ("contractAddress", raw.contract_address.is_some()),
        ("fees", raw.fees.is_some()),
        ("topicNames", !raw.topic_names.is_empty()),
        ("initialVersion", raw.initial_version.is_some()),
        ("maxCalldataBytes", raw.max_calldata_bytes.is_some()),
    ];
    for (field, given) in given {
        ensure!(
            !given,
            "{field}: it is for chains of the EVM family, and this one is a Stellar network"
        );
    }
    let backfill = &raw.backfill;
    ensure!(
        backfill
            .initial_range
            .or(backfill.min_range)
            .or(backfill.max_range)
            .is_none(),
        "backfill: how much is requested at once follows from the lake's objects"
    );
    Ok(())
}

/// The network's name and what follows from its passphrase.
fn network(raw: &RawStellar) -> Result<(String, Network)> {
    let (name, phrase) = (raw.network.as_deref(), raw.passphrase.as_deref());
    let known = NETWORKS.iter().find(|known| match name {
        Some(name) => known.0 == name,
        None => phrase == Some(known.1),
    });
    match (known, name, phrase) {
        (Some((name, phrase)), _, given) => {
            ensure!(
                given.is_none_or(|given| given == *phrase),
                "stellar.passphrase: {name} has another one: leave it out, or give the network \
                 another name"
            );
            Ok(((*name).to_owned(), Network::new(*phrase)))
        }
        (None, Some(name), Some(phrase)) => {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            ensure!(
                !name.is_empty() && name.chars().all(plain),
                "stellar.network: `{name}` is part of a path: letters, digits, `-`, `_` and `.`"
            );
            ensure!(!phrase.is_empty(), "stellar.passphrase: it is empty");
            Ok((name.to_owned(), Network::new(phrase)))
        }
        (None, Some(name), None) => {
            bail!("stellar.network: `{name}` is not known by name: give its passphrase too")
        }
        (None, None, Some(_)) => {
            bail!("stellar.network: give the network a name beside its passphrase")
        }
        (None, None, None) => bail!("stellar.network: pubnet, testnet, or a name of your own"),
    }
}

fn lake(raw: &RawLake, network: &Network, start_block: u64) -> Result<LakeSettings> {
    let place = match (&raw.url, &raw.dir) {
        (Some(url), None) => lake_url(url, raw)?,
        (None, Some(dir)) => LakePlace::Directory(PathBuf::from(dir)),
        (Some(_), Some(_)) => bail!("url and dir are two places: give one"),
        (None, None) => bail!("give the url or the dir of the lake"),
    };
    ensure!(
        matches!(place, LakePlace::S3 { .. })
            || (raw.endpoint.is_none() && raw.region.is_none() && !raw.anonymous),
        "endpoint, region and anonymous are for lakes in S3"
    );
    let layout = match (raw.ledgers_per_batch, raw.batches_per_partition) {
        (None, None) => None,
        (Some(ledgers), Some(batches)) => Some(Layout::new(ledgers, batches)?),
        _ => bail!("ledgersPerBatch and batchesPerPartition go together"),
    };
    let at_once = raw.in_flight.unwrap_or(IN_FLIGHT);
    ensure!(
        (1..=IN_FLIGHT_MAX).contains(&at_once),
        "inFlight: it is 1 to {IN_FLIGHT_MAX}"
    );
    Ok(LakeSettings {
        place,
        layout,
        network: network.clone(),
        first_ledger: u32::try_from(start_block).unwrap_or(u32::MAX),
        at_once,
        // What is shared by all chains is known when all are.
        hold_bytes: 0,
    })
}

fn core(raw: &RawCore, network: &Network, mode: Mode) -> Result<CoreSettings> {
    ensure!(!raw.binary.is_empty(), "binary: it is empty");
    let patience = raw.patience_seconds.unwrap_or(PATIENCE_SECONDS);
    ensure!(patience >= 1, "patienceSeconds: it is at least 1");
    Ok(CoreSettings {
        binary: PathBuf::from(&raw.binary),
        config: PathBuf::from(&raw.config),
        // Where it is left out, it follows from where the archive is.
        work_dir: raw.work_dir.as_ref().map(PathBuf::from).unwrap_or_default(),
        network: network.clone(),
        last_ledger: match mode {
            Mode::Backfill { end_block } => u32::try_from(end_block).ok(),
            Mode::Auto | Mode::Streaming => None,
        },
        patience: Duration::from_secs(patience),
    })
}

/// A lake by its URL. Keys of S3 come from the environment, as those of archives do; a public lake is
/// read without them.
fn lake_url(url: &str, raw: &RawLake) -> Result<LakePlace> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        Some("http" | "https") => return Ok(LakePlace::Http(url.to_owned())),
        Some("s3") => {}
        Some("gs") => {
            let place = url.trim_start_matches("gs://");
            bail!(
                "url: gs:// is read in two other ways. A public bucket: url = \
                 \"https://storage.googleapis.com/{place}\". Any other, in its S3 form: url = \"s3://{place}\" \
                 with endpoint = \"https://storage.googleapis.com\" and an HMAC key in AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY"
            )
        }
        _ => bail!("url: it begins with s3://, http:// or https://; a directory goes into dir"),
    }
    let mut options = if raw.anonymous {
        vec![("aws_skip_signature".to_owned(), "true".to_owned())]
    } else {
        store_options()
    };
    let mut put = |name: &str, value: &str| {
        options.retain(|(known, _)| known != name);
        options.push((name.to_owned(), value.to_owned()));
    };
    if let Some(region) = &raw.region {
        put("aws_region", region);
    }
    if let Some(endpoint) = &raw.endpoint {
        put("aws_endpoint", endpoint);
        if endpoint.starts_with("http://") {
            put("aws_allow_http", "true");
        }
    }
    let url = url.to_owned();
    Ok(LakePlace::S3 { url, options })
}

/// Everything that a ledger is put together from again, or what is requested.
fn kept(names: Option<&[String]>) -> Result<DatasetSet> {
    let Some(names) = names else {
        return Ok(DatasetSet::of(&[
            Dataset::Headers,
            Dataset::Logs,
            Dataset::TxHashes,
            Dataset::Transactions,
        ]));
    };
    let kept = datasets::datasets(Some(names), None, None)?;
    ensure!(
        !kept.contains(Dataset::Payload),
        "datasets: payload is not for Stellar: a ledger's bytes are put together from headers and \
         transactions"
    );
    ensure!(
        !kept.bodies_by_logs(),
        "datasets: transactions needs tx_hashes: a ledger is put together from all of them"
    );
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;
    use crate::environment::Overrides;

    /// A file with one chain: the fields of `stellar`, and others of the chain.
    fn parsed(stellar: &str, more: &str) -> Result<ChainSettings> {
        let text = format!(r#"{{"chains":[{{"stellar":{{{stellar}}}{more}}}]}}"#);
        let settings = Settings::parse(&text, false)?;
        Ok(settings.chain(None)?.clone())
    }

    #[test]
    fn a_network_and_a_lake_are_enough() {
        let chain = parsed(r#""network":"pubnet","lake":{"dir":"/lake"}"#, "").unwrap();
        let network = Network::new(Network::PUBNET);
        assert_eq!(chain.chain_id, network.chain_id());
        assert_eq!((chain.name.as_str(), chain.start_block), ("pubnet", 2));
        assert_eq!(chain.finality, Finality::Finalized);
        assert_eq!(chain.level, Verification::Linked);
        assert!(chain.datasets.contains(Dataset::Transactions));
        assert!(!chain.datasets.contains(Dataset::Payload));
        let stellar = chain.follow.stellar.unwrap();
        assert_eq!(stellar.network, network);
        let lake = stellar.lake.unwrap();
        assert!(lake.hold_bytes > 1 << 20, "{}", lake.hold_bytes);
        let by_phrase = format!(
            r#""passphrase":"{}","lake":{{"dir":"x"}}"#,
            Network::TESTNET
        );
        assert_eq!(parsed(&by_phrase, "").unwrap().name, "testnet");
    }

    #[test]
    fn core_works_beside_the_archive_unless_it_is_put_elsewhere() {
        let core = |more: &str| {
            let text = format!(
                r#"{{"dataDir":"/d","chains":[{{"stellar":{{"network":"pubnet",
                "core":{{"binary":"stellar-core","config":"c"{more}}}}}}}]}}"#
            );
            let mut settings = Settings::parse(&text, false).unwrap();
            settings.put_over(&Overrides::default());
            let stellar = settings.chain(None).unwrap().stellar.clone().unwrap();
            (stellar.to_string(), stellar.core.unwrap().work_dir)
        };
        let id = Network::new(Network::PUBNET).chain_id();
        let (shown, beside) = core("");
        assert!(shown.ends_with("from a core"), "{shown}");
        assert_eq!(beside, PathBuf::from(format!("/d/chains/{id}/core")));
        let (_, elsewhere) = core(r#","workDir":"/e""#);
        assert_eq!(elsewhere, PathBuf::from("/e"));
    }

    #[test]
    fn a_lake_in_s3_is_reached_as_set() {
        let options = |more: &str| {
            let lake = format!(r#""network":"testnet","lake":{{"url":"s3://b/p"{more}}}"#);
            let chain = parsed(&lake, "").unwrap();
            match chain.follow.stellar.unwrap().lake.unwrap().place {
                LakePlace::S3 { options, .. } => options,
                other => panic!("{other:?}"),
            }
        };
        let has = |options: &[(String, String)], name: &str, value: &str| {
            options.contains(&(name.to_owned(), value.to_owned()))
        };
        let open = options(r#","anonymous":true,"region":"us-east-2""#);
        assert_eq!(open.len(), 2, "nothing of the environment");
        assert!(has(&open, "aws_skip_signature", "true") && has(&open, "aws_region", "us-east-2"));
        let own = options(r#","endpoint":"http://127.0.0.1:9000""#);
        assert!(has(&own, "aws_endpoint", "http://127.0.0.1:9000"));
        assert!(has(&own, "aws_allow_http", "true"));
    }

    const LAKE: &str = r#""network":"pubnet","lake":{"dir":"x"}"#;

    /// Fields of `stellar`, others of the chain, and what is said of them.
    const BAD: &[(&str, &str, &str)] = &[
        ("", "", "pubnet, testnet, or a name"),
        (r#""network":"mine""#, "", "give its passphrase"),
        (r#""passphrase":"Mine""#, "", "give the network a name"),
        (
            r#""network":"a/b","passphrase":"Mine""#,
            "",
            "part of a path",
        ),
        (
            r#""network":"pubnet","passphrase":"Mine""#,
            "",
            "pubnet has another one",
        ),
        (r#""network":"pubnet""#, "", "give a lake"),
        (
            r#""network":"pubnet","lake":{}"#,
            "",
            "give the url or the dir",
        ),
        (
            r#""network":"pubnet","lake":{"dir":"x","url":"s3://b"}"#,
            "",
            "two places",
        ),
        (
            r#""network":"pubnet","lake":{"url":"gs://b"}"#,
            "",
            "gs:// is read in two other ways",
        ),
        (
            r#""network":"pubnet","lake":{"dir":"x","anonymous":true}"#,
            "",
            "for lakes in S3",
        ),
        (
            r#""network":"pubnet","lake":{"url":"gs://bucket/v1/ledgers"}"#,
            "",
            r#"url = "https://storage.googleapis.com/bucket/v1/ledgers""#,
        ),
        (
            r#""network":"pubnet","lake":{"dir":"x","ledgersPerBatch":1}"#,
            "",
            "go together",
        ),
        (
            r#""network":"pubnet","lake":{"dir":"x","inFlight":0}"#,
            "",
            "inFlight",
        ),
        (
            r#""network":"pubnet","core":{"binary":"x"}"#,
            "",
            "missing field `config`",
        ),
        (
            r#""network":"pubnet","core":{"binary":"","config":"y"}"#,
            "",
            "stellar.core: binary",
        ),
        (
            r#""network":"pubnet","core":{"binary":"x","config":"y","patienceSeconds":0}"#,
            "",
            "patienceSeconds",
        ),
        (LAKE, r#","chainId":1"#, "follows from the passphrase"),
        (LAKE, r#","startBlock":1"#, "the first ledger is 2"),
        (
            LAKE,
            r#","rpcHttp":["http://a"]"#,
            "rpcHttp: it is for chains of the EVM family",
        ),
        (LAKE, r#","finality":{}"#, "finality: it is for chains"),
        (LAKE, r#","fees":true"#, "fees: it is for chains"),
        (LAKE, r#","portal":{"url":"http://a"}"#, "portal"),
        (
            LAKE,
            r#","backfill":{"maxRange":5}"#,
            "follows from the lake's objects",
        ),
        (LAKE, r#","datasets":["payload"]"#, "not for Stellar"),
        (
            LAKE,
            r#","datasets":["logs","transactions"]"#,
            "transactions needs tx_hashes: a ledger",
        ),
        (LAKE, r#","mode":"backfill""#, "needs startBlock"),
    ];

    #[test]
    fn what_makes_no_sense_is_named() {
        for (stellar, more, expected) in BAD {
            let error = parsed(stellar, more).expect_err(stellar);
            let message = format!("{error:#}");
            assert!(message.contains(expected), "{stellar} {more}\n  {message}");
        }
    }

    #[test]
    fn a_range_of_ledgers_has_both_ends() {
        let more = r#","mode":"backfill","startBlock":10000002,"endBlock":20000001"#;
        let chain = parsed(r#""network":"pubnet","lake":{"dir":"x"}"#, more).unwrap();
        let end_block = 20_000_001;
        assert_eq!(chain.start_block, 10_000_002);
        assert_eq!(chain.mode, Mode::Backfill { end_block });
        let past = more.replace("20000001", "4294967296");
        let error = parsed(r#""network":"pubnet","lake":{"dir":"x"}"#, &past).unwrap_err();
        assert!(format!("{error:#}").contains("below 2^32"), "{error:#}");
    }
}
