//! The baseline: each ledger one zstd frame, every hash in a map in memory, and a full decode for every
//! transaction that is asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stellar_xdr::{
    GeneralizedTransactionSet, LedgerCloseMeta, Limits, ReadXdr as _, TransactionEnvelope,
    TransactionMeta, TransactionPhase, TransactionResultPair, TxSetComponent, WriteXdr,
};

use crate::lake::ledger_in;

struct Ledgers {
    network_id: [u8; 32],
    frames: Vec<Vec<u8>>,
    places: HashMap<String, usize>,
}

pub(crate) fn serve(lake: &Path) -> Result<ExitCode> {
    let ledgers = Arc::new(Ledgers::load(lake)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let router = Router::new().route("/", post(answer)).with_state(ledgers);
        axum::serve(listener, router).await?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Ledgers {
    fn load(lake: &Path) -> Result<Self> {
        let manifest = std::fs::read_to_string(lake.join(".config.json"))?;
        let manifest: Value = serde_json::from_str(&manifest)?;
        let phrase = manifest.get("networkPassphrase").and_then(Value::as_str);
        let network = chronolith_stellar::Network::new(phrase.context("no passphrase")?);
        let mut loaded = Self {
            network_id: *network.id(),
            frames: Vec::new(),
            places: HashMap::new(),
        };
        for object in objects(lake)? {
            let raw = ledger_in(&object)?;
            let ledger = chronolith_stellar::Ledger::walk(raw.clone())?;
            let place = loaded.frames.len();
            let hashes = ledger.tx_hashes().map(|hash| hash.to_string().split_off(2));
            loaded.places.extend(hashes.map(|hash| (hash, place)));
            loaded.frames.push(zstd::bulk::compress(&raw, 3)?);
        }
        Ok(loaded)
    }

    fn transaction(&self, hash: &str) -> Result<Value> {
        let frame = self.places.get(hash).and_then(|&at| self.frames.get(at));
        let raw = zstd::decode_all(&frame.context("no such transaction")?[..])?;
        let ledger = LedgerCloseMeta::from_xdr(raw, Limits::none())?;
        let (envelopes, applied) = decoded(&ledger)?;
        let is_it =
            |pair: &TransactionResultPair| const_hex::encode(pair.transaction_hash.0) == hash;
        let (pair, meta) = applied
            .iter()
            .find(|(pair, _)| is_it(pair))
            .context("no result")?;
        let wanted = pair.transaction_hash.0;
        let envelope = envelopes
            .iter()
            .find(|envelope| {
                envelope
                    .hash(self.network_id)
                    .is_ok_and(|hash| hash == wanted)
            })
            .context("no envelope")?;
        Ok(json!({
            "status": "SUCCESS",
            "envelopeXdr": base64(*envelope)?,
            "resultXdr": base64(&pair.result)?,
            "resultMetaXdr": base64(*meta)?,
        }))
    }
}

fn objects(lake: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![lake.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "zst") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn base64(value: &impl WriteXdr) -> Result<String> {
    Ok(STANDARD.encode(value.to_xdr(Limits::none())?))
}

type Applied<'a> = Vec<(&'a TransactionResultPair, &'a TransactionMeta)>;

fn decoded(ledger: &LedgerCloseMeta) -> Result<(Vec<&TransactionEnvelope>, Applied<'_>)> {
    let LedgerCloseMeta::V2(ledger) = ledger else {
        anyhow::bail!("the bench makes ledgers of version 2");
    };
    let GeneralizedTransactionSet::V1(set) = &ledger.tx_set;
    let mut envelopes = Vec::new();
    for phase in set.phases.iter() {
        match phase {
            TransactionPhase::V0(components) => {
                for component in components.iter() {
                    let TxSetComponent::TxsetCompTxsMaybeDiscountedFee(component) = component;
                    envelopes.extend(component.txs.iter());
                }
            }
            TransactionPhase::V1(parallel) => {
                let stages = parallel.execution_stages.iter();
                let clusters = stages.flat_map(|stage| stage.0.iter());
                clusters.for_each(|cluster| envelopes.extend(cluster.0.iter()));
            }
        }
    }
    let applied = ledger.tx_processing.iter();
    let applied = applied.map(|tx| (&tx.result, &tx.tx_apply_processing));
    Ok((envelopes, applied.collect()))
}

async fn answer(State(ledgers): State<Arc<Ledgers>>, body: String) -> String {
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    let hash = request.pointer("/params/hash").and_then(Value::as_str);
    match ledgers.transaction(hash.unwrap_or_default()) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string(),
        Err(error) => json!({ "jsonrpc": "2.0", "id": 1, "error": error.to_string() }).to_string(),
    }
}
