//! `chronolith versions`, and what a chain with an ADFS contract needs before it starts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_sim::evm::adfs::AdfsSpec;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::json;
use support::Bench;

const FIRST: &str = "0x1111111111111111111111111111111111111111";
const STRANGER: &str = "0x2222222222222222222222222222222222222222";

fn bench(node: &str, url: &str) -> Bench {
    let contract = r#", "contractAddress": "0xadadadadadadadadadadadadadadadadadadadad",
        "topicNames": { "1": "DataFeedsUpdated(uint256)" }"#;
    let bench = Bench::new(&[node.to_owned()], contract);
    let more = format!(
        r#""db": {{ "url": "{url}" }}, "versions": {{ "1": {{ "hasBlockNumber": true }} }},
           "implVersionMap": {{ "{FIRST}": {{ "version": 1 }} }}, "chains""#
    );
    bench.change(r#""chains""#, &more);
    bench
}

#[test]
fn a_contract_without_a_database_is_refused() {
    let bench = bench("http://127.0.0.1:1", "");
    bench.refused(&["run"], "there is no database for them: set PG_URL");
    bench.refused(&["versions", "list"], "there is no database");
}

/// An address that is mistyped has no code, and no update would ever come from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_contract_without_code_is_refused() {
    let node = EvmNode::new(EvmSpec::tiny(32), 30);
    let node = RpcServer::start(node, RpcOptions::default()).await.unwrap();
    let bench = bench(&node.url(), "postgres://nobody@127.0.0.1:1/none");
    let message = "there is no contract at 0xadadadadadadadadadadadadadadadadadadadad: correct contractAddress";
    bench.refused(&["run"], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_added_listed_and_must_fit_the_settings() {
    let server = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let spec = EvmSpec {
        adfs: Some(AdfsSpec { upgrade_every: 15 }),
        ..EvmSpec::tiny(31)
    };
    let node = EvmNode::new(spec, 30);
    let node = RpcServer::start(node, RpcOptions::default()).await.unwrap();
    let bench = bench(&node.url(), &server.url);
    bench.say(&["db", "init"]);
    assert_eq!(bench.json(&["versions", "list", "--json"]), json!([]));
    let add = |implementation, version| {
        let given = ["versions", "add", "--implementation", implementation];
        [&given[..], &["--version", version, "--json"]].concat()
    };
    let added = bench.json(&add(STRANGER, "1"));
    let expected =
        json!({ "chainId": 31337, "implementation": STRANGER, "version": 1, "new": true });
    assert_eq!(added, expected);
    assert_eq!(bench.json(&add(STRANGER, "1"))["new"], false);
    bench.refused(&add(STRANGER, "2"), "the settings say nothing");
    bench.refused(&add("0x22", "1"), "is not an address");
    let listed = bench.json(&["versions", "list", "--json"]);
    assert_eq!(listed[0]["implementation"], STRANGER);
    assert_eq!(listed[0]["activatedBlock"], serde_json::Value::Null);
    assert!(
        listed[0]["operator"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
    // What never was in force may be taken back.
    let remove = ["versions", "remove", "--implementation", STRANGER, "--json"];
    let removed = bench.json(&remove);
    assert_eq!(removed["removed"], true, "{removed}");
    assert_eq!(bench.json(&remove)["removed"], false);
    assert_eq!(bench.json(&["versions", "list", "--json"]), json!([]));
    assert_eq!(bench.json(&add(STRANGER, "1"))["new"], true);
    let message = bench.say(&["versions", "list"]);
    assert!(
        message.contains("version 1, not seen yet, added by"),
        "{message}"
    );
    // The settings say otherwise by now: nothing is started.
    let mapped = format!(
        r#""2": {{ "hasBlockNumber": true }} }}, "implVersionMap": {{ "{STRANGER}": {{ "version": 2 }} }}"#
    );
    bench.change(
        &format!(
            r#"}} }},
           "implVersionMap": {{ "{FIRST}": {{ "version": 1 }} }}"#
        ),
        &format!("}}, {mapped}"),
    );
    bench.change(
        r#""1": "DataFeedsUpdated(uint256)""#,
        r#""1": "DataFeedsUpdated(uint256)", "2": "DataFeedsUpdated(uint256)""#,
    );
    bench.refused(
        &["run"],
        "the settings say version 2, and version 1 was added",
    );
}
