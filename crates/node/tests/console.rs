//! The console in a real browser: `console/check.mjs` compares what it shows with what the interface
//! answers, before and after a reorg, and tries every form of the description's page. `scripts/need
//! chromium` installs the browser and its driver.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::routing::post;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use support::installed::installed;
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, serve};

const DRIVER: &str = "playwright-1.65.0/node_modules/playwright-core";

fn browser() -> Option<PathBuf> {
    let places = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    places
        .iter()
        .map(PathBuf::from)
        .find(|place| place.exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_what_the_interface_answers() {
    let (Some(browser), Some(driver)) = (browser(), installed(DRIVER)) else {
        println!("skipped: there is no browser; `scripts/need chromium` installs it");
        return;
    };
    let node = EvmNode::new(EvmSpec::tiny(41), 200);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(200).await;
    // The browser's script makes the chain change through this.
    let control = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control_url = format!("http://{}/", control.local_addr().unwrap());
    let changed = node.clone();
    let reorg = move || {
        changed.reorg(2);
        async { r#"{"jsonrpc":"2.0","id":1,"result":true}"# }
    };
    let router = Router::new().route("/", post(reorg));
    let controlling = tokio::spawn(async move { axum::serve(control, router).await });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console/check.mjs");
    let artifacts = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    let base = rpc.base.clone();
    let checked = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("node");
        command
            .arg(script)
            .args([base, control_url])
            .arg(&artifacts)
            .arg("31337");
        command
            .env("PLAYWRIGHT_CORE", driver)
            .env("CHROMIUM", browser);
        let output = command.output().unwrap();
        println!("note: screenshots are in {}", artifacts.display());
        output
    });
    let output = checked.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    controlling.abort();
    running.stop();
}
