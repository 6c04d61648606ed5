//! How fast clocks come from a simulated Portal on this machine: `portal_speed [blocks] [rounds]`.
//!
//! The Portal runs in the same process and shares its cores: it makes, writes and compresses the
//! lines that are then read.

use std::error::Error;
use std::time::Instant;

use chronolith_model::{BlockRange, DatasetSet, Proof, Scope};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_sim::portal::{PortalEncoding, PortalOptions, PortalServer};
use chronolith_source::portal::{PortalSettings, PortalSource};
use chronolith_source::{Source as _, Want};

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| arguments.next().map_or(Ok(otherwise), |text| text.parse());
    let (blocks, rounds) = (number(400_000)?, number(3)?);
    let node = EvmNode::new(EvmSpec::sparse(1, 0), blocks);
    node.set_finalized_depth(0);
    let want = Want {
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
        proof: Proof::LINKED,
    };
    for encoding in [PortalEncoding::Negotiated, PortalEncoding::Gzip] {
        let options = PortalOptions {
            encoding,
            ..PortalOptions::default()
        };
        let server = PortalServer::start(node.clone(), options).await?;
        let source = PortalSource::new(PortalSettings::new(&server.url(), node.chain_id()))?;
        for _ in 0..rounds {
            let began = Instant::now();
            let fetched = source
                .fetch(BlockRange::new(0, blocks + 1), &want, None)
                .await?;
            let seconds = began.elapsed().as_secs_f64();
            let last = fetched.last().map(|one| one.block.clock.block_ref());
            if last != Some(node.head()) {
                return Err("what came is not the chain".into());
            }
            let a_second = fetched.len() as f64 / seconds;
            let name = server.stats().encodings.into_keys().next().unwrap_or("?");
            println!(
                "{name}: {} blocks in {seconds:.3} s, {a_second:.0} blocks/s",
                fetched.len()
            );
        }
        server.shutdown().await?;
    }
    Ok(())
}
