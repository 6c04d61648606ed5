//! Readers of many answers: those who follow the ranges that refusals name, and those who page.

use serde::Deserialize;
use serde_json::{Value, json};

use super::chains::{Chain, World};
use super::expect::{same_logs, show};
use super::fill::fill;
use super::naive;

/// More answers than this mean that a reader makes no progress.
const STEPS_MAX: usize = 1_000;
/// A limit was met.
const LIMIT: i64 = -32_005;

/// Reads a range that is too large, as existing clients do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Walk {
    /// Block numbers are plain.
    filter: Value,
    /// The shape of the refusals.
    refusal: String,
}

impl Walk {
    pub(crate) async fn run(&self, world: &World, chain: &Chain) -> Result<(), String> {
        let filter = fill(&self.filter, chain);
        let end = filter["toBlock"].as_u64().unwrap();
        let mut from = filter["fromBlock"].as_u64().unwrap();
        let (mut all, mut refusals) = (Vec::new(), 0);
        while from <= end {
            let mut to = end;
            let mut answer = ask(world, chain, &filter, (from, to)).await?;
            if answer.get("error").is_some() {
                refusals += 1;
                let told = self.told(&answer["error"])?;
                if told.0 != from || told.1 < from || told.1 >= to {
                    return Err(format!("asked for {from}-{to}, told {told:?}"));
                }
                to = told.1;
                // What is told must work: no second refusal.
                answer = ask(world, chain, &filter, (from, to)).await?;
            }
            let Some(logs) = answer["result"].as_array() else {
                return Err(format!("{from}-{to}: {}", show(&answer)));
            };
            all.extend(logs.iter().cloned());
            from = to + 1;
        }
        if refusals == 0 {
            return Err("nothing was refused, so this shows nothing".to_owned());
        }
        same_logs(&naive::logs(chain, &filter), &all.into(), "all")
    }

    /// The range that works, which stands there in the two spellings that clients know.
    fn told(&self, error: &Value) -> Result<(u64, u64), String> {
        let strange = || format!("no range can be read from {error}");
        let message = error["message"].as_str().ok_or_else(strange)?;
        if error["code"] != LIMIT || !super::expect::is_like(&self.refusal, message) {
            return Err(strange());
        }
        let behind = |mark: &str| message.split_once(mark).map(|(_, behind)| behind);
        let plain = behind("retry with the range ").ok_or_else(strange)?;
        let plain = plain
            .split([',', ' '])
            .next()
            .and_then(|text| text.split_once('-'));
        let (from, to) = plain.ok_or_else(strange)?;
        let plain: (u64, u64) = (
            from.parse().map_err(|_| strange())?,
            to.parse().map_err(|_| strange())?,
        );
        let hex = format!(
            "this block range should work: [{:#x}, {:#x}]",
            plain.0, plain.1
        );
        match message.contains(&hex) {
            true => Ok(plain),
            false => Err(strange()),
        }
    }
}

async fn ask(
    world: &World,
    chain: &Chain,
    filter: &Value,
    (from, to): (u64, u64),
) -> Result<Value, String> {
    let mut requested = filter.clone();
    requested["fromBlock"] = format!("{from:#x}").into();
    requested["toBlock"] = format!("{to:#x}").into();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [requested] });
    world.post(chain, &call).await?.json()
}

/// Reads a query page by page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pages {
    /// Block numbers are plain.
    filter: Value,
    limit: usize,
    order: String,
    /// Through `rpc` or `rest`.
    over: String,
}

impl Pages {
    pub(crate) async fn run(&self, world: &World, chain: &Chain) -> Result<(), String> {
        let mut filter = fill(&self.filter, chain);
        let (mut all, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let page = match self.over.as_str() {
                "rpc" => self.over_rpc(world, chain, &filter, &cursor).await?,
                _ => self.over_rest(world, chain, &filter, &cursor).await?,
            };
            let Some(logs) = page["logs"].as_array() else {
                return Err(format!("no page: {}", show(&page)));
            };
            pages += 1;
            all.extend(logs.iter().cloned());
            cursor = page["nextCursor"].clone();
            let full = logs.len() == self.limit;
            if logs.len() > self.limit || (!full && !cursor.is_null()) || pages > STEPS_MAX {
                return Err(format!("page {pages} has {} logs", logs.len()));
            }
            if cursor.is_null() {
                break;
            }
        }
        if pages < 3 {
            return Err("too few pages to show anything".to_owned());
        }
        filter["order"] = self.order.clone().into();
        same_logs(&naive::logs(chain, &filter), &all.into(), "all")
    }

    async fn over_rpc(
        &self,
        world: &World,
        chain: &Chain,
        filter: &Value,
        cursor: &Value,
    ) -> Result<Value, String> {
        let mut requested = filter.clone();
        for name in ["fromBlock", "toBlock"] {
            requested[name] = format!("{:#x}", filter[name].as_u64().unwrap()).into();
        }
        (requested["limit"], requested["order"]) = (self.limit.into(), self.order.clone().into());
        requested["cursor"] = cursor.clone();
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "chronolith_getLogs", "params": [requested] });
        let mut answer = world.post(chain, &call).await?.json()?;
        match answer.get_mut("result") {
            Some(page) => Ok(page.take()),
            None => Err(format!("{}: {}", show(&call), show(&answer))),
        }
    }

    async fn over_rest(
        &self,
        world: &World,
        chain: &Chain,
        filter: &Value,
        cursor: &Value,
    ) -> Result<Value, String> {
        let (from, to) = (&filter["fromBlock"], &filter["toBlock"]);
        let mut path = format!(
            "/v1/chains/{}/logs?fromBlock={from}&toBlock={to}&limit={}&order={}",
            chain.id, self.limit, self.order
        );
        if let Some(address) = filter["address"].as_str() {
            path.push_str(&format!("&address={address}"));
        }
        if let Some(cursor) = cursor.as_str() {
            path.push_str(&format!("&cursor={cursor}"));
        }
        world.get(&path).await?.json()
    }
}
