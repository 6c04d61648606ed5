//! Which roots hold by which rule, on blocks of an endpoint whose chain is not known.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronolith_evm::HeaderForm;
use serde_json::value::RawValue;

use super::fetch::{block_call, receipts_call};
use super::oddity::Oddity;
use super::rules::{Checks, Rule};
use super::verify::Verifier;
use super::wire::{EncodedTx, WholeBlock, WireBlock, WireReceipt, hex, parse_quantity};
use crate::error::{Error, Result};
use crate::jsonrpc::call::Call;
use crate::jsonrpc::endpoint::Endpoint;
use crate::jsonrpc::pool::Pool;
use crate::jsonrpc::settings::EndpointSettings;

/// What was found out about one block.
#[derive(Clone, Debug)]
pub struct Probed {
    pub number: u64,
    /// The form of header that gives its hash.
    pub header: Option<HeaderForm>,
    /// Fields of its header that are not Ethereum's.
    pub extra_fields: Vec<String>,
    pub transactions: usize,
    /// Its logs; none where the endpoint serves no receipts.
    pub logs: Option<usize>,
    /// Whether each of these rules holds; none where it cannot be tried.
    pub bloom: Option<bool>,
    pub receipts_root: Option<bool>,
    pub transactions_root: Option<bool>,
    /// Types of transactions that have no encoding that is known.
    pub unknown_transactions: Vec<String>,
    /// What its blocks hold beside plain transactions.
    pub oddity: Oddity,
}

/// A block as it came.
#[derive(Debug)]
pub struct Recorded {
    pub number: u64,
    /// The answer to `eth_getBlockByNumber` with whole transactions.
    pub block: String,
    /// The answer to `eth_getBlockReceipts`, where the endpoint has it.
    pub receipts: Option<String>,
}

#[derive(Debug)]
pub struct Prober {
    endpoint: Arc<Endpoint>,
}

impl Prober {
    /// For this URL.
    ///
    /// # Errors
    /// `Invalid` where it is not a URL.
    pub fn new(url: &str) -> Result<Self> {
        let pool = Pool::new(0, vec![EndpointSettings::new(url)])?;
        let endpoint = pool.endpoints().first().cloned();
        let endpoint = endpoint.ok_or_else(|| Error::Invalid("no endpoint is given".to_owned()))?;
        Ok(Self { endpoint })
    }

    /// The id of its chain and the number of its newest block.
    ///
    /// # Errors
    /// Where it does not answer.
    pub async fn newest(&self) -> Result<(u64, u64)> {
        let chain_id = self.number("eth_chainId").await?;
        Ok((chain_id, self.number("eth_blockNumber").await?))
    }

    async fn number(&self, method: &'static str) -> Result<u64> {
        let raw = self.request(Call::new(method, "[]")).await?;
        let text: Option<String> = serde_json::from_str(raw.get()).ok();
        let number = text.as_deref().and_then(parse_quantity);
        number.ok_or_else(|| self.endpoint.unavailable(format!("{method}: not a number")))
    }

    async fn request(&self, call: Call) -> Result<Box<RawValue>> {
        let method = call.method;
        match self.endpoint.send_one(call).await? {
            Ok(Some(raw)) => Ok(raw),
            Ok(None) => Err(self.endpoint.unavailable(format!("{method}: no answer"))),
            Err(fault) => {
                let what = format!("{method}: {} ({})", fault.message, fault.code);
                Err(self.endpoint.refused(what, &fault))
            }
        }
    }

    /// A block and its receipts, as they come.
    ///
    /// # Errors
    /// Where the block is not there.
    pub async fn record(&self, number: u64) -> Result<Recorded> {
        let block = self.request(block_call(&hex(number), true)).await?;
        let receipts = self.request(receipts_call(number)).await;
        Ok(Recorded {
            number,
            block: block.get().to_owned(),
            receipts: receipts.ok().map(|raw| raw.get().to_owned()),
        })
    }
}

impl Recorded {
    /// Tries every rule on it.
    ///
    /// # Errors
    /// Where it is not a block of an EVM chain.
    pub fn probe(&self) -> Result<Probed> {
        let malformed = |error: serde_json::Error| {
            Error::Invalid(format!("block {} cannot be read: {error}", self.number))
        };
        let block: WholeBlock<true> = serde_json::from_str(&self.block).map_err(malformed)?;
        let block = WireBlock::from(block);
        let receipts = self.receipts.as_deref().map(serde_json::from_str);
        let receipts: Option<Vec<WireReceipt>> = receipts.transpose().map_err(malformed)?;
        let header = block.hashed().map(|(form, _)| *form);
        let extra = block.fields.extra.names().map(str::to_owned);
        let txs = block.encoded_txs().unwrap_or_default().iter();
        let unknown: BTreeSet<String> = txs
            .filter_map(|tx| match tx {
                EncodedTx::Unknown(why) => Some(why.clone()),
                EncodedTx::Bytes { .. } => None,
            })
            .collect();
        let state_sync = Oddity::StateSync {
            rooted_from: u64::MAX,
        };
        // Of those by which as many rules hold the last counts: a plain chain.
        let oddities = [Oddity::BlockReceipt, state_sync, Oddity::None];
        let tried = oddities.map(|oddity| (oddity, tried(&block, receipts.as_deref(), oddity)));
        let count = |(_, rules): &(Oddity, [Option<bool>; 3])| {
            rules.iter().filter(|holds| **holds == Some(true)).count()
        };
        let best = tried.into_iter().max_by_key(count);
        let (oddity, [bloom, receipts_root, transactions_root]) =
            best.expect("three oddities are tried");
        Ok(Probed {
            number: self.number,
            header,
            extra_fields: extra.collect(),
            transactions: block.tx_hashes.len(),
            logs: receipts.map(|all| all.iter().map(|one| one.logs.len()).sum()),
            bloom,
            receipts_root,
            transactions_root,
            unknown_transactions: unknown.into_iter().collect(),
            oddity,
        })
    }
}

/// Whether bloom, receipts root and transactions root of a block hold, with one oddity; none where that
/// cannot be tried.
fn tried(block: &WireBlock, receipts: Option<&[WireReceipt]>, oddity: Oddity) -> [Option<bool>; 3] {
    let verifier = Verifier::new(Checks {
        oddity,
        ..Checks::ALL
    });
    let holds = |rule| Some(verifier.holds(rule, block, receipts?));
    let transactions = verifier.holds(Rule::TransactionsRoot, block, &[]);
    [
        holds(Rule::Bloom),
        holds(Rule::ReceiptsRoot),
        Some(transactions),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A recorded block of a chain is probed to what its recording says.
    #[test]
    fn a_recorded_block_shows_its_rules() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/evm-chains");
        if !folder.is_dir() {
            println!("skipped: recorded blocks of chains are absent");
            return;
        }
        let probed = |name: &str, number: u64| {
            let read = |what: &str| {
                std::fs::read_to_string(folder.join(format!("{name}/{number}.{what}.json"))).ok()
            };
            let recorded = Recorded {
                number,
                block: read("block").unwrap(),
                receipts: read("receipts"),
            };
            recorded.probe().unwrap()
        };
        let arbitrum = probed("42161-arbitrum", 150_000_000);
        assert_eq!(arbitrum.header, Some(HeaderForm::Ethereum));
        assert_eq!(arbitrum.receipts_root, Some(true));
        assert_eq!(arbitrum.transactions_root, Some(true));
        assert!(
            arbitrum
                .extra_fields
                .iter()
                .any(|field| field == "sendRoot")
        );
        let mumbai = probed("80001-polygon-mumbai", 135_808);
        assert!(matches!(mumbai.oddity, Oddity::StateSync { .. }));
        assert_eq!(
            (mumbai.bloom, mumbai.receipts_root),
            (Some(true), Some(true))
        );
        let cronos = probed("25-cronos", 10_000);
        assert_eq!(cronos.header, None);
        assert_eq!(
            (cronos.bloom, cronos.receipts_root),
            (Some(true), Some(false))
        );
        let classic = probed("42161-arbitrum", 19_000_174);
        assert_eq!(classic.receipts_root, Some(false));
        assert_eq!(classic.transactions_root, Some(true));
    }
}
