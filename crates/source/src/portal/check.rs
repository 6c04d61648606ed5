//! A Portal's blocks against headers that an endpoint showed.
//!
//! A Portal's line proves nothing: its bloom is its own word as much as its logs are. The bloom of a
//! hashed header is the chain's. A header that cannot be hashed is a second word: what contradicts it is
//! not taken, and what fits it is proven no further. Nothing here waits or asks.

use alloy_primitives::{B256, Bloom};
use chronolith_model::{BlockRef, Dataset, Log, Proof, Scope, Tx, Verification};

use crate::evm::{Checks, Headers, Oddity, WireBlock, bloom, is_empty};
use crate::source::{Fetched, Want};

/// Why a Portal is refused, and at which block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) block: BlockRef,
    pub(crate) what: String,
}

/// What a Portal's blocks can be proven to where endpoints show the headers.
pub(crate) fn provable(want: &Want, checks: Checks) -> Proof {
    let all = want.datasets.contains(Dataset::Logs) && want.scope == Scope::All;
    match (checks.header_hash, all && checks.bloom) {
        (false, _) => Proof::CLAIMED,
        (true, false) => Proof::LINKED,
        (true, true) => Proof::of_logs(Verification::Bloom),
    }
}

/// Raises blocks to what the headers prove. Returns the numbers of those that stay open: no log came,
/// and the bloom allows one of the scope.
///
/// # Errors
/// The first block that does not fit its header.
pub(crate) fn check(
    fetched: &mut [Fetched],
    headers: &Headers,
    want: &Want,
    checks: Checks,
) -> Result<Vec<u64>, Refusal> {
    let proof = match (headers.hashed, headers.covers) {
        (false, _) => Proof::CLAIMED,
        (true, false) => Proof::LINKED,
        (true, true) => provable(want, checks),
    };
    let has_bloom = checks.bloom && headers.covers;
    let mut open = Vec::new();
    let mut blooms_filled = checks.blooms_filled;
    for (at, one) in fetched.iter_mut().enumerate() {
        let refusal = |what: &str| Refusal {
            block: one.block.clock.block_ref(),
            what: what.to_owned(),
        };
        let header = headers.headers.get(at);
        let header = header.ok_or_else(|| refusal("no endpoint shows its header"))?;
        let reference = Reference {
            header,
            oddity: checks.oddity,
        };
        reference.check_place(one, want).map_err(refusal)?;
        if want.datasets.contains(Dataset::Logs) && has_bloom {
            let theirs = &header.header().logs_bloom;
            let logs = reference.in_bloom(&one.block.logs);
            check_bloom(logs, theirs, &want.scope).map_err(refusal)?;
            let is_bare = one.block.logs.is_empty() && want.scope != Scope::All;
            if is_bare && (reference.hidden().is_some() || bloom::may_hold(theirs, &want.scope)) {
                open.push(one.block.clock.number);
            }
        }
        let has_bits = !header.header().logs_bloom.is_zero();
        blooms_filled |= has_bits && !one.block.logs.is_empty();
        // A bloom without bits may be one that was never filled. What no root and no bloom covers may be
        // left out by both.
        let is_filled = has_bits || blooms_filled || is_empty(header);
        one.proof = if is_filled && !checks.oddity.may_hide(one.block.clock.number) {
            proof
        } else {
            proof.lower(Proof::LINKED)
        };
    }
    Ok(open)
}

/// A header that an endpoint served, and what its chain's blocks hold.
struct Reference<'a> {
    header: &'a WireBlock,
    oddity: Oddity,
}

impl Reference<'_> {
    /// Clock and transactions must be those of the header.
    fn check_place(&self, one: &Fetched, want: &Want) -> Result<(), &'static str> {
        let (meta, header) = (&one.block.clock, self.header);
        let theirs = (header.number(), header.header().timestamp);
        if meta.hash.0 != header.hash.0 || meta.parent_hash.0 != header.header().parent_hash.0 {
            return Err("the endpoints have another block there");
        }
        if (meta.number, meta.timestamp) != theirs {
            return Err("its number or time is not that of its header");
        }
        let txs = &one.block.txs;
        let own = self.oddity.of_block(header.tx_hashes.len(), header.hash);
        let is_own = |tx: &Tx| own == Some((tx.index, B256::from(tx.hash.0)));
        let is_named = |tx: &Tx| {
            let hash = header.tx_hashes.get(tx.index as usize);
            hash == Some(&B256::from(tx.hash.0)) || is_own(tx)
        };
        if !txs.iter().all(is_named) {
            return Err("a transaction that the endpoints do not have there");
        }
        let all = want.datasets.contains(Dataset::TxHashes);
        let listed = txs.iter().filter(|tx| !is_own(tx)).count();
        if all && listed != header.tx_hashes.len() {
            return Err("a transaction is missing");
        }
        Ok(())
    }

    /// The index of the transaction whose logs are in no bloom, where the header lists one.
    fn hidden(&self) -> Option<u32> {
        let hidden = self.oddity.hidden(self.header.number(), self.header.hash)?;
        let mut hashes = self.header.tx_hashes.iter();
        u32::try_from(hashes.position(|hash| *hash == hidden)?).ok()
    }

    /// The logs that the bloom is made of.
    fn in_bloom<'l>(&self, logs: &'l [Log]) -> impl Iterator<Item = &'l Log> {
        let hidden = self.hidden();
        let is_in = move |log: &&Log| Some(log.tx_index()) != hidden;
        logs.iter().filter(is_in)
    }
}

/// All logs together make the bloom; some of them only bits that it has.
fn check_bloom<'l>(
    logs: impl Iterator<Item = &'l Log>,
    theirs: &Bloom,
    scope: &Scope,
) -> Result<(), &'static str> {
    let mut computed = Bloom::ZERO;
    for log in logs {
        bloom::add(&mut computed, log.emitter());
        log.topics()
            .for_each(|topic| bloom::add(&mut computed, topic));
    }
    if *theirs & computed != computed {
        return Err("a log that the bloom of the header rules out");
    }
    if *scope == Scope::All && *theirs != computed {
        return Err("a log is missing by the bloom of the header");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chronolith_model::{Block, BlockMeta, DatasetSet, Hash32, LogParts, Payload, ScopeEntry};
    use serde_json::json;

    use super::*;
    use crate::evm::chains::checks_of;

    /// A block of Polygon's sprints, and one of Celo.
    const NUMBER: u64 = 64;
    const HASH: B256 = B256::repeat_byte(7);
    const EMITTER: [u8; 20] = [9; 20];

    fn hidden() -> B256 {
        let oddity = checks_of(137).oddity;
        oddity.hidden(NUMBER, HASH).unwrap()
    }

    /// The header of an endpoint that lists these transactions, with a bloom of no log.
    fn header(txs: &[B256]) -> WireBlock {
        let zero = B256::ZERO.to_string();
        let block = json!({
            "number": format!("0x{NUMBER:x}"), "hash": HASH.to_string(), "parentHash": zero,
            "timestamp": "0x1", "logsBloom": Bloom::ZERO.to_string(), "stateRoot": zero,
            "transactionsRoot": zero, "receiptsRoot": zero, "sha3Uncles": zero,
            "miner": "0x0000000000000000000000000000000000000000", "difficulty": "0x1",
            "gasLimit": "0x1", "gasUsed": "0x0", "extraData": "0x",
            "transactions": txs.iter().map(B256::to_string).collect::<Vec<String>>(),
        });
        serde_json::from_str(&block.to_string()).unwrap()
    }

    /// A Portal's block with these transactions; the last of them has a log, where there is to be one.
    fn portals(txs: &[B256], logs: usize) -> Fetched {
        let txs = txs.iter().zip(0..).map(|(hash, index)| Tx {
            index,
            hash: Hash32(hash.0),
        });
        let txs: Vec<Tx> = txs.collect();
        let log = LogParts {
            tx_index: txs.len().saturating_sub(1) as u32,
            emitter: &EMITTER,
            ..LogParts::default()
        };
        Fetched {
            block: Block {
                clock: BlockMeta {
                    number: NUMBER,
                    hash: Hash32(HASH.0),
                    parent_hash: Hash32([0; 32]),
                    timestamp: 1,
                },
                txs,
                logs: (0..logs).map(|_| Log::new(&log).unwrap()).collect(),
                payload: Payload::default(),
            },
            proof: Proof::CLAIMED,
            endpoint: "Portal".into(),
        }
    }

    fn want(scope: Scope) -> Want {
        Want {
            datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
            scope,
            proof: Proof::CLAIMED,
        }
    }

    fn checked(
        one: Fetched,
        header: WireBlock,
        scope: Scope,
        chain: u64,
    ) -> Result<(Proof, Vec<u64>), Refusal> {
        let mut fetched = [one];
        let headers = Headers {
            headers: vec![header],
            hashed: true,
            covers: true,
        };
        let open = check(&mut fetched, &headers, &want(scope), checks_of(chain))?;
        Ok((fetched[0].proof, open))
    }

    /// An honest Portal of Polygon was blamed again and again for logs that are in no bloom.
    #[test]
    fn state_syncs_fit_their_header_and_prove_no_more_than_links() {
        let txs = [B256::repeat_byte(1), hidden()];
        let taken = checked(portals(&txs, 1), header(&txs), Scope::All, 137);
        assert_eq!(taken, Ok((Proof::LINKED, Vec::new())));
        let refused = checked(portals(&txs, 1), header(&txs), Scope::All, 1);
        assert!(refused.unwrap_err().what.contains("rules out"));
        // A log of a plain transaction is in the bloom on Polygon too.
        let plain = [hidden(), B256::repeat_byte(1)];
        let refused = checked(portals(&plain, 1), header(&plain), Scope::All, 137);
        assert!(refused.unwrap_err().what.contains("rules out"));
        // That both show no state sync proves nothing.
        let taken = checked(
            portals(&plain[1..], 0),
            header(&plain[1..]),
            Scope::All,
            137,
        );
        assert_eq!(taken, Ok((Proof::LINKED, Vec::new())));
    }

    /// No bloom says whether a state sync has a log of a narrow scope; the endpoints do.
    #[test]
    fn a_state_sync_without_logs_of_a_scope_stays_open() {
        let scope = Scope::only(vec![ScopeEntry {
            emitter: Some(EMITTER.to_vec().into()),
            topic0: None,
        }]);
        let txs = [hidden()];
        let taken = checked(portals(&txs, 0), header(&txs), scope.clone(), 137);
        assert_eq!(taken, Ok((Proof::LINKED, vec![NUMBER])));
        // Endpoint and Portal both say that there is none.
        let taken = checked(portals(&[], 0), header(&[]), scope, 137);
        assert_eq!(taken, Ok((Proof::LINKED, Vec::new())));
    }

    #[test]
    fn a_receipt_of_the_block_itself_is_behind_its_transactions() {
        let (txs, own) = ([B256::repeat_byte(1)], [B256::repeat_byte(1), HASH]);
        let scope = || Scope::only(Vec::new());
        let taken = checked(portals(&own, 0), header(&txs), scope(), 42_220);
        assert_eq!(taken, Ok((Proof::LINKED, Vec::new())));
        let refused = checked(portals(&own, 0), header(&txs), scope(), 1);
        assert!(refused.unwrap_err().what.contains("do not have there"));
        // It stands for no transaction that the header lists.
        let refused = checked(portals(&[], 0), header(&txs), scope(), 42_220);
        assert!(refused.unwrap_err().what.contains("missing"));
    }
}
