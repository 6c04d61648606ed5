//! `chronolith-sim serve`: a simulated chain that any client can follow.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{BufWriter, Write as _};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronolith_model::BlockRange;
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, FeesSpec, RateLimit, RpcFault, RpcOptions, RpcServer,
};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use serde_json::Value;

use crate::cli::{SimFees, SimServe};

pub(crate) async fn serve(options: &SimServe) -> Result<()> {
    let mut spec = EvmSpec::mainnet(options.seed);
    spec.chain_id = options.chain_id;
    spec.content.logs_per_block = options.logs_per_block;
    spec.upgrade_every = options.upgrade_every;
    spec.fees = (options.fees.fees > 0).then_some(FeesSpec {
        contract: options.fees.fees_contract,
        per_thousand_blocks: options.fees.fees,
    });
    let (faults, portal_faults) = (Faults::new(options.seed), PortalFaults::new(options.seed));
    if let Some(path) = &options.faults {
        load_faults(path, &faults, &portal_faults)
            .with_context(|| format!("in {}", path.display()))?;
    }
    let node = EvmNode::new(spec, options.blocks);
    write_fees(&node, &options.fees)?;
    let delay = Duration::from_millis(options.delay_ms);
    let rate_limit = options.requests_per_second.map(|calls| RateLimit {
        calls_per_second: calls.get(),
        retry_after_seconds: Some(1),
    });
    let rpc_options = RpcOptions {
        delay,
        rate_limit,
        max_block_range: options.max_block_range.map(NonZeroU64::get),
        max_results: options.max_results.map(NonZeroU64::get),
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start_at(options.listen, node.clone(), rpc_options)
        .await
        .with_context(|| format!("--listen: cannot open {}", options.listen))?;
    let portal_options = PortalOptions {
        delay,
        rate_limit,
        faults: portal_faults.clone(),
        ..PortalOptions::default()
    };
    let at = options.portal_listen;
    let portal = PortalServer::start_at(at, node.clone(), portal_options)
        .await
        .with_context(|| format!("--portal-listen: cannot open {at}"))?;
    println!("http      {}", server.url());
    println!("websocket {}", server.ws_url());
    println!("portal    {}", portal.url());
    println!("chain     {}, head {}", node.chain_id(), node.head().number);
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped?,
        () = node.grow(Duration::from_millis(options.block_time_ms), options.reorg_every) => {}
    }
    println!();
    println!("head      {}", node.head().number);
    write_fees(&node, &options.fees)?;
    let stats = server.stats();
    print_counts("asked", stats.calls);
    print_counts("asked portal", portal.stats().requests);
    println!(
        "too much  {} ranges for their blocks, {} for their logs",
        stats.refused_for_blocks, stats.refused_for_results
    );
    print_counts("faults", faults.injected());
    print_counts("faults of portal", portal_faults.counts());
    Ok(())
}

/// One line for each thing that was counted.
fn print_counts(what: &str, counts: BTreeMap<impl Display, u64>) {
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        println!("{what:<16} {name:<26} {count:>8}");
    }
}

/// Sets the faults of both servers. Those of the Portal stand under `portal`.
fn load_faults(path: &Path, faults: &Faults, portal_faults: &PortalFaults) -> Result<()> {
    let text = std::fs::read_to_string(path).context("cannot read it")?;
    let mut value: Value = serde_json::from_str(&text).context("not JSON")?;
    let object = value.as_object_mut();
    let of_portal = object.and_then(|object| object.remove("portal"));
    let names = RpcFault::NAMED.map(|(_, name)| name).join(", ");
    let known = || format!("the faults of a node are {names}");
    faults.load_json(&value.to_string()).with_context(known)?;
    let Some(of_portal) = of_portal else {
        return Ok(());
    };
    let names = PortalFault::NAMED.map(|(_, name)| name).join(", ");
    let known = || {
        format!("the faults of a portal are {names}, status_503, status_503_retry_after and so on")
    };
    let loaded = portal_faults.load_json(&of_portal.to_string());
    loaded.with_context(known)
}

/// Writes the rows of the chain as it is now, if a file is named.
fn write_fees(node: &EvmNode, options: &SimFees) -> Result<()> {
    let Some(path) = &options.fees_rows else {
        return Ok(());
    };
    let write = || {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        for row in node.fees(BlockRange::new(0, u64::MAX)) {
            writeln!(file, "{}", row.to_json())?;
        }
        file.flush()
    };
    write().with_context(|| format!("--fees-rows: cannot write {}", path.display()))
}
