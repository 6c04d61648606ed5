//! What no still chain shows: a tag stands for one block, however fast blocks come.

use std::time::Instant;

use serde_json::{Value, json};

use super::chains::World;
use super::expect::show;
use crate::support::PATIENCE;

/// How many new blocks are waited for.
const BLOCKS: u64 = 5;

impl World {
    /// Asks for `latest` to `latest` again and again while blocks come: both ends are one block, and no
    /// answer holds logs of two.
    pub(crate) async fn latest_is_one_block(&self) -> Result<(), String> {
        let chain = self.chain("young");
        let call = |method: &str, filter: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [filter] });
        let both = call(
            "chronolith_getLogs",
            json!({ "fromBlock": "latest", "toBlock": "latest" }),
        );
        let plain = call("eth_getLogs", json!({ "fromBlock": "latest" }));
        for _ in 0..BLOCKS {
            let mined = chain.mine(1);
            let began = Instant::now();
            loop {
                let answer = self.post(chain, &both).await?.json()?;
                let (from, to) = (&answer["result"]["fromBlock"], &answer["result"]["toBlock"]);
                if !from.is_object() || from != to {
                    return Err(show(&answer));
                }
                let logs = self.post(chain, &plain).await?.json()?;
                let hashes = logs["result"].as_array().ok_or_else(|| show(&logs))?;
                let mut hashes: Vec<&Value> = hashes.iter().map(|log| &log["blockHash"]).collect();
                hashes.dedup();
                if hashes.len() > 1 {
                    return Err(format!("logs of {hashes:?}"));
                }
                if from["number"] == mined {
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "block {mined} does not come");
            }
        }
        Ok(())
    }
}
