//! Files that load, and files that do not, each with its message.

use super::*;
use chronolith_model::Dataset;

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Settings::parse(text, false).expect_err(text);
    let shown = format!("{error:#}");
    assert!(
        shown.contains(expected),
        "{text}\n  said:     {shown}\n  expected: {expected}"
    );
}

#[test]
fn the_example_loads_and_defaults_are_filled_in() {
    let settings = Settings::parse(EXAMPLE, false).unwrap();
    let [chain] = settings.chains.as_slice() else {
        panic!()
    };
    assert_eq!((chain.chain_id, chain.name.as_str()), (31337, "local"));
    assert_eq!(chain.finality, Finality::Depth(5));
    assert!(chain.datasets.contains(Dataset::Headers));
    assert_eq!(chain.scope, Scope::All);
    assert_eq!(settings.drain, Duration::from_secs(10));
    assert!(settings.api_keys.is_none(), "everybody may use the API");
    assert_eq!(settings.access_log, AccessLogTarget::Off);
}

#[test]
fn names_and_spellings() {
    let toml = "data_dir = 'x'\n[[chains]]\nname = 'base'\nrpc_http = ['http://a', { url = 'https://b', in_flight = 3 }]\nstart_block = 7\n";
    let settings = Settings::parse(toml, true).unwrap();
    let [base] = settings.chains.as_slice() else {
        panic!()
    };
    assert_eq!((base.chain_id, base.start_block), (8453, 7));
    assert_eq!(base.finality, Finality::Finalized);
    assert_eq!(
        base.endpoints.get(1).map(|endpoint| endpoint.in_flight),
        Some(3)
    );
    assert_eq!(settings.chain(Some("BASE")).unwrap().chain_id, 8453);
    assert_eq!(settings.chain(Some("8453")).unwrap().chain_id, 8453);
    assert_eq!(settings.chain(None).unwrap().chain_id, 8453);
    let unknown = settings.chain(Some("optimism")).unwrap_err().to_string();
    assert!(
        unknown.contains("no chain optimism") && unknown.contains("base (8453)"),
        "{unknown}"
    );
}

#[test]
fn a_known_name_alone_is_enough() {
    let settings = Settings::parse(r#"{"chains":["base","ethereum"]}"#, false).unwrap();
    let [base, ethereum] = settings.chains.as_slice() else {
        panic!()
    };
    let portal = base.portal.as_ref().unwrap();
    assert!(portal.url.ends_with("/base-mainnet"), "{}", portal.url);
    assert_eq!(base.finality, Finality::Finalized);
    assert!(!base.datasets.contains(Dataset::Headers));
    assert_eq!(ethereum.chain_id, 1);
}

#[test]
fn a_portal_beside_endpoints_is_for_history() {
    let both = |more: &str| {
        let text = format!(
            r#"{{"chains":[{{"chainId":31337,"rpcHttp":["http://a"],"portal":{{"url":"http://b","dataset":"c"}}{more}}}]}}"#
        );
        Settings::parse(&text, false).unwrap().chains.remove(0)
    };
    let chain = both("");
    assert!(chain.portal.is_some() && chain.endpoints.len() == 1);
    assert_eq!(chain.finality, Finality::Depth(64));
    assert_eq!(chain.poll, Duration::from_secs(1));
    assert!(!chain.datasets.contains(Dataset::Headers));
    let whole = both(r#","datasets":["headers","logs"]"#);
    assert!(whole.datasets.contains(Dataset::Headers));
}

#[test]
fn a_portal_alone_is_polled_at_most_once_a_second() {
    let poll = |source: &str, poll_ms: u64| {
        let text = format!(r#"{{"chains":[{{"name":"base","pollMs":{poll_ms}{source}}}]}}"#);
        Settings::parse(&text, false).unwrap().chains[0].poll
    };
    let portal = r#","portal":{"url":"http://b"}"#;
    let both = r#","portal":{"url":"http://b"},"rpcHttp":["http://a"]"#;
    for (source, poll_ms, expected_ms) in [
        ("", 20, 1_000),
        (portal, 999, 1_000),
        (portal, 1_500, 1_500),
        (both, 20, 20),
        (r#","rpcHttp":["http://a"]"#, 1, 10),
    ] {
        let expected = Duration::from_millis(expected_ms);
        assert_eq!(poll(source, poll_ms), expected, "{source} {poll_ms}");
    }
}

/// The example of the ADFS document, with real addresses and URLs.
pub(super) const ORACLE_EXAMPLE: &str = r#"{
      "service": { "queueMaxItems": 10000, "dbWriteBatchRows": 200, "metricsPort": 9464,
        "overflowBackfillWindow": 2000, "guardBackfillWindow": 2000,
        "ordering": { "maxOutOfOrderWaitMs": 1000 } },
      "versions": { "1": { "hasBlockNumber": true, "extraFields": [] },
        "2": { "hasBlockNumber": false, "extraFields": ["sourceAccumulator", "destinationAccumulator"] } },
      "implVersionMap": {
        "0x1111111111111111111111111111111111111111": { "version": 1, "expectedBytecodeHash": "0x2222222222222222222222222222222222222222222222222222222222222222" },
        "0x3333333333333333333333333333333333333333": { "version": 2 } },
      "chains": [ { "chainId": 1, "name": "ethereum",
        "rpcHttp": ["https://one.example", "https://two.example"], "rpcWs": ["wss://one.example"],
        "finality": { "mode": "dual_source", "l2Depth": 30, "l1Confirmations": 12, "maxL1DelaySeconds": 180 },
        "contractAddress": "0x4444444444444444444444444444444444444444",
        "topicNames": { "1": "DataFeedsUpdated(uint256)", "2": "DataFeedsUpdated(uint256,address)" },
        "startBlock": 19000000,
        "alertsConfig": { "noEventsSeconds": 300, "maxLagBlocks": 64 },
        "backfill": { "initialRange": 10000, "minRange": 256, "maxRange": 20000 } } ] }"#;

#[test]
fn the_document_of_the_oracle_team_loads() {
    let settings = Settings::parse(ORACLE_EXAMPLE, false).unwrap();
    let [chain] = settings.chains.as_slice() else {
        panic!()
    };
    assert_eq!(chain.start_block, 19_000_000);
    assert_eq!(chain.backfill.most, 20_000);
    assert!(chain.adfs.is_some());
    let dual = Finality::Dual {
        l2_depth: 30,
        l1_confirmations: 12,
        max_l1_delay_seconds: 180,
    };
    assert_eq!(chain.finality, dual);
}

#[test]
fn thresholds_of_alerts_are_those_of_the_chain_then_of_the_service_then_the_defaults() {
    let of = |file: &str| Settings::parse(file, false).unwrap().chains[0].alerts;
    let plain = of(r#"{"chains":["base"]}"#);
    let default = AlertSettings {
        no_events_seconds: 300,
        max_lag_blocks: 64,
        max_finality_lag_blocks: 64,
        ws_down_seconds: 600,
        rpc_error_ratio: 0.02,
        lock_age_seconds: 300,
        queue_max_items: 10_000,
        out_of_order_wait_max_ms: 1_000,
    };
    assert_eq!(plain, default);
    let lag = of(r#"{"chains":[{"name":"base","alerts_config":{"max_lag_blocks":9}}]}"#);
    assert_eq!((lag.max_lag_blocks, lag.max_finality_lag_blocks), (9, 9));
    let other = of(r#"{"queue":{"maxItems":7},"chains":["base"]}"#);
    assert_eq!(other.queue_max_items, 7);
    let both = of(r#"{"queue":{"maxItems":7},"service":{"queueMaxItems":8},"chains":["base"]}"#);
    assert_eq!(both.queue_max_items, 8);
}

/// Files that do not load, and what is said of each.
const BAD: &[(&str, &str)] = &[
    (
        r#"{ "chains": ["base"], "limits": { "batch": 0 } }"#,
        "limits.batch: 0 is not between 1 and 10000",
    ),
    (
        r#"{ "chains": ["base"], "limits": { "timeoutSeconds": 26 } }"#,
        "limits.timeoutSeconds: 26 is not between 1 and 25",
    ),
    (
        r#"{ "chains": ["base"], "limits": { "blockRange": 0 } }"#,
        "limits.blockRange: 0 blocks hold no log",
    ),
    (
        r#"{ "chains": ["base"], "limits": { "connectionsPerPeer": 1048577 } }"#,
        "limits.connectionsPerPeer: 1048577 is not between 1 and 1048576",
    ),
    (
        r#"{ "chains": ["base"], "planner": { "orPolicy": "guess" } }"#,
        "planner.orPolicy: unknown variant `guess`, expected `refuse` or `block_scan`",
    ),
    (
        r#"{ "chains": [{ "name": "base", "rpcHttp": ["http://a"], "tailMib": 0 }] }"#,
        "tailMib: 0 is not between 1 and 65536",
    ),
    (
        r#"{ "chains": ["base"], "cacheMib": 1 }"#,
        "cacheMib: 1 is not between 8 and 1048576",
    ),
    (
        r#"{ "chains": ["base"], "queue": { "maxItems": 0 } }"#,
        "service.queueMaxItems: 0 would always be exceeded",
    ),
    (
        r#"{"chains":[{"name":"base","alertsConfig":{"noEventsSeconds":0}}]}"#,
        "chains[0]: alertsConfig.noEventsSeconds: 0 would always be exceeded",
    ),
    (
        r#"{"chains":[{"name":"base","alertsConfig":{"rpcErrorRatio":2.0}}]}"#,
        "chains[0]: alertsConfig.rpcErrorRatio: 2 is not above 0 and at most 1",
    ),
    ("", "not JSON"),
    ("{}", "at least one chain"),
    (r#"{"chains":[],"colour":1}"#, "unknown field `colour`"),
    (
        r#"{"chains":["base"],"dataDir":"a","data_dir":"b"}"#,
        "`dataDir` is there twice, as `data_dir` too",
    ),
    (
        r#"{"chains":["nowhere"]}"#,
        "chain nowhere is not known by name",
    ),
    (
        r#"{"chains":[{"chainId":31337}]}"#,
        "rpcHttp: at least one endpoint",
    ),
    (
        r#"{"chains":[{"name":"base","datasets":["headers"]}]}"#,
        "need rpcHttp",
    ),
    (
        r#"{"chains":[{"chainId":31337,"rpcHttp":["http://a"],"portal":{"url":"http://b"}}]}"#,
        "portal.dataset is needed",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"colour":1}]}"#,
        "chains[0].colour: unknown field",
    ),
    (
        r#"{"chains":[{"chainId":"one","rpcHttp":["http://a"]}]}"#,
        "chains[0].chainId: invalid type",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"startBlock":"soon"}]}"#,
        "chains[0].startBlock: invalid type",
    ),
    (r#"{"chains":[{"rpcHttp":["http://a"]}]}"#, "give a chainId"),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["ws://a"]}]}"#,
        "begins with http",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"datasets":["blobs"]}]}"#,
        "`blobs` is none of clock",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"datasets":["transactions"]}]}"#,
        "transactions needs tx_hashes",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"finality":{"mode":"soon"}}]}"#,
        "chains[0].finality.mode: unknown variant `soon`, expected one of `l1_confirmations`, `depth`, `dual_source`",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"finality":{"mode":"dual_source"}}]}"#,
        "l2Depth is needed",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"verification":"perfect"}]}"#,
        "chains[0].verification: unknown variant `perfect`, expected one of `claimed`, `linked`",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"logs":{"addresses":["0x12"]}}]}"#,
        "`0x12` is not 20 bytes",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["${CHRONOLITH_UNSET}"]}]}"#,
        "CHRONOLITH_UNSET is not set",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"]},{"chainId":1,"rpcHttp":["http://b"]}]}"#,
        "there twice",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":"https://n.example/v3/SECRET"}]}"#,
        "invalid type: string \"…\"",
    ),
    (
        r#"{"chains":[{"chainId":8453,"rpcHttp":["http://a"],"finality":{"mode":"dual_source","l2Depth":1,"l1Confirmations":1}}]}"#,
        "chains[0]: finality: dual_source needs the head of its L1: add chain 1 to chains, or its URLs as finality.l1RpcHttp",
    ),
    (
        r#"{"chains":[{"chainId":8453,"rpcHttp":["http://a"],"finality":{"mode":"dual_source","l2Depth":1,"l1Confirmations":1,"l1RpcHttp":["wss://n.example/SECRET"]}}]}"#,
        "finality: l1RpcHttp[0]: a URL begins with http",
    ),
    (
        r#"{"chains":[{"chainId":31337,"rpcHttp":["http://a"],"finality":{"mode":"dual_source","l2Depth":1,"l1Confirmations":1}}]}"#,
        "which chain this one settles on is not known: give l1ChainId",
    ),
    (
        r#"{"chains":[{"chainId":8453,"rpcHttp":["http://a"],"finality":{"mode":"finalized","l1RpcHttp":["http://b"]}}]}"#,
        "for mode dual_source only",
    ),
    (
        r#"{"chains":[{"name":"base","verification":"bloom"}]}"#,
        "a Portal alone proves nothing",
    ),
    (
        r#"{"chains":[{"name":"base","finality":{"mode":"safe"}}]}"#,
        "a portal reports no safe block",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"mode":"sometimes"}]}"#,
        "chains[0].mode: unknown variant `sometimes`, expected one of `auto`, `streaming`, `backfill`",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"mode":"backfill","endBlock":5}]}"#,
        "backfill needs startBlock and endBlock",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"mode":"backfill","startBlock":6,"endBlock":5}]}"#,
        "endBlock: 5 is below startBlock 6",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"ranges":{"size":1500000}}]}"#,
        "ranges.size: 1500000 is neither between 1 and 1000000 nor a multiple of 1000000 up to 16000000",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"ranges":{"size":0}}]}"#,
        "ranges.size: 0 is neither",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"ranges":{"parallel":0}}]}"#,
        "ranges.parallel: 0 is not between 1 and 64",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"ranges":{"size":40,"checkpoint":41}}]}"#,
        "ranges.checkpoint: 41 is not between 1 and ranges.size, 40",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"endBlock":5}]}"#,
        "endBlock is for mode backfill only",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["https://exa mple/SECRET"]}]}"#,
        "chains[0]: rpcHttp[0]: the host of the URL has a space in it",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a","https://a:SECRET/"]}]}"#,
        "chains[0]: rpcHttp[1]: not a URL: invalid port number",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"rpcWs":["http://SECRET"]}]}"#,
        "rpcWs[0]: a URL begins with ws:// or wss://",
    ),
    (
        r#"{"chains":["base"],"apiKeys":{"keys":["chr_SECRET"]}}"#,
        "apiKeys.keys[0]: invalid type: string \"…\"",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":[5]}]}"#,
        "rpcHttp[0]: an endpoint is a URL, or an object with `url`",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":[{"url":"http://SECRET","batch":"many"}]}]}"#,
        "chains[0]: rpcHttp[0].batch: invalid type: string \"…\", expected usize",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":[{"url":"http://a","batch":0}]}]}"#,
        "rpcHttp[0].batch: 0 is not between 1 and 10000",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":[{"url":"http://a","bacth":5}]}]}"#,
        "rpcHttp[0].bacth: unknown field",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":[{"url":"http://a","requestsPerSecond":-1}]}]}"#,
        "rpcHttp[0].requestsPerSecond: -1 is not 0 or more",
    ),
    (
        r#"{"chains":[{"name":"base","portal":{"url":"SECRET.example"}}]}"#,
        "portal.url: a URL begins with http:// or https://",
    ),
    (
        r#"{"portalUrl":"SECRET","chains":["base"]}"#,
        "portalUrl, PORTAL_URL: a URL begins with http",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"fees":{"jobBlcks":5}}]}"#,
        "chains[0]: fees.jobBlcks: unknown field",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"fees":"yes"}]}"#,
        "fees: true, or an object",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"fees":{"contracts":[{"adress":"0x1"}]}}]}"#,
        "fees.contracts[0].adress: unknown field",
    ),
    (
        r#"{"chains":[{"chainId":1,"rpcHttp":["http://a"],"fees":{"contracts":["0x1"]}}]}"#,
        "fees.contracts[0]: `0x1` is not an address",
    ),
];

#[test]
fn no_url_is_printed() {
    let text = r#"{"chains":[
      {"chainId":8453,"rpcHttp":["https://a.example/SECRET"],"rpcWs":["wss://b.example/SECRET"],
       "finality":{"mode":"dual_source","l2Depth":1,"l1Confirmations":1,"l1RpcHttp":["https://c.example/SECRET"]}},
      {"chainId":10,"portal":{"url":"https://d.example/SECRET"}}]}"#;
    let shown = format!("{:?}", Settings::parse(text, false).unwrap());
    assert!(shown.contains("chain_id: 8453"), "{shown}");
    for hidden in ["SECRET", "://"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
}

/// L1 is the chain that is followed, else the endpoints that are named for it.
#[test]
fn the_head_of_l1_comes_from_one_place() {
    let dual = |more: &str| {
        format!(
            r#""finality":{{"mode":"dual_source","l2Depth":1,"l1Confirmations":1{more}}},"rpcHttp":["http://a"]"#
        )
    };
    let l1_of = |text: String| {
        let settings = Settings::parse(&text, false).unwrap();
        let l1 = settings.chains[0].l1.clone();
        l1.map(|l1| (l1.chain_id, l1.endpoints.len()))
    };
    let urls = dual(r#","l1RpcHttp":["http://b","http://c"]"#);
    let own = dual(r#","l1ChainId":31337"#);
    let plain = dual("");
    for (text, expected) in [
        (
            format!(r#"{{"chains":[{{"chainId":8453,{urls}}}]}}"#),
            Some((1, 2)),
        ),
        (
            format!(r#"{{"chains":[{{"chainId":8453,{urls}}},"ethereum"]}}"#),
            Some((1, 0)),
        ),
        (
            format!(r#"{{"chains":[{{"chainId":204,{plain}}},"bsc"]}}"#),
            Some((56, 0)),
        ),
        (format!(r#"{{"chains":[{{"chainId":1,{plain}}}]}}"#), None),
        (format!(r#"{{"chains":[{{"chainId":31337,{own}}}]}}"#), None),
    ] {
        assert_eq!(l1_of(text.clone()), expected, "{text}");
    }
}

#[test]
fn metrics_are_on_port_9464_or_where_a_spelling_puts_them() {
    for (more, port) in [
        ("", 9_464),
        (r#""metricsPort":1,"#, 1),
        (r#""metrics_port":2,"#, 2),
        (r#""service":{"metricsPort":3},"#, 3),
        (r#""service":{"metrics_port":4},"#, 4),
        (r#""metrics":{"port":5},"#, 5),
        (
            r#""metrics":{"port":5},"service":{"metricsPort":3},"metricsPort":1,"#,
            1,
        ),
        (r#""metrics":{"port":5},"service":{"metricsPort":3},"#, 3),
    ] {
        let text = format!(r#"{{{more}"chains":["base"]}}"#);
        let settings = Settings::parse(&text, false).unwrap();
        let expected = SocketAddr::from(([0, 0, 0, 0], port));
        assert_eq!(settings.metrics_listen, expected, "{text}");
    }
}

#[test]
fn one_address_may_have_1024_connections_or_as_many_as_are_set() {
    for (limits, expected) in [
        ("{}", Some(1_024)),
        (r#"{ "connectionsPerPeer": 7 }"#, Some(7)),
        (r#"{ "connections_per_peer": 7 }"#, Some(7)),
        (r#"{ "connectionsPerPeer": 0 }"#, None),
    ] {
        let text = format!(r#"{{ "chains": ["base"], "limits": {limits} }}"#);
        let settings = Settings::parse(&text, false).unwrap();
        assert_eq!(settings.limits.connections_per_peer, expected, "{text}");
    }
}

#[test]
fn ranges_have_defaults_and_are_counted_from_the_first_block_of_the_family() {
    let plan = |chain: &str| {
        let text = format!(r#"{{"chains":[{chain}]}}"#);
        Settings::parse(&text, false).unwrap().chains[0].ranges
    };
    let evm = plan(r#""base""#);
    assert_eq!((evm.first, evm.size), (0, 10_000_000));
    assert_eq!((evm.parallel, evm.checkpoint), (2, 1_000));
    let small = plan(r#"{"name":"base","ranges":{"size":40}}"#);
    assert_eq!((small.size, small.checkpoint), (40, 40));
    let stellar = plan(r#"{"stellar":{"network":"pubnet","lake":{"dir":"/lake"}}}"#);
    assert_eq!((stellar.first, stellar.size), (2, 10_000_000));
}

#[test]
fn bad_files_say_where_and_why() {
    for (text, expected) in BAD {
        refused(text, expected);
        let shown = format!("{:#}", Settings::parse(text, false).expect_err(text));
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}

/// The line that cannot be read may hold a key.
#[test]
fn a_toml_error_has_a_position_and_no_line() {
    for (text, position) in [
        ("listen = 'a'\nadminToken = \"SECRET\nx", "line 3, column 2"),
        ("adminToken = SECRET", "line 1, column 14"),
        ("a = 1\na = 'SECRET'", "line 2, column 1"),
    ] {
        let shown = format!("{:#}", Settings::parse(text, true).expect_err(text));
        assert!(shown.starts_with("not TOML: "), "{shown}");
        assert!(shown.contains(position), "{shown}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}

#[test]
fn variables_are_put_in_once() {
    let variable = |name: &str| match name {
        "KEY" => Some("abc".to_owned()),
        "TRAP" => Some("${KEY}".to_owned()),
        _ => None,
    };
    let expanded = |text: &str| {
        let mut value = Value::String(text.to_owned());
        expand(&mut value, &variable).map(|()| value.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(expanded("http://x/${KEY}/y").unwrap(), "http://x/abc/y");
    assert_eq!(expanded("${NOPE:-z}${KEY}").unwrap(), "zabc");
    assert!(expanded("${NOPE}").is_err());
    assert!(expanded("${TRAP}").is_err(), "no second round");
    assert!(expanded("${KEY").is_err());
}

#[test]
fn databases_are_those_of_the_environment_then_of_the_file() {
    let file = r#"{"db":{"url":"postgres://a","readonlyUrl":"postgres://b"},"chains":["base"]}"#;
    let of = |pg_url: Option<&str>, pg_readonly_url: Option<&str>| {
        let mut settings = Settings::parse(file, false).unwrap();
        settings.put_over(&Overrides {
            pg_url: pg_url.map(str::to_owned),
            pg_readonly_url: pg_readonly_url.map(str::to_owned),
            ..Overrides::default()
        });
        let DatabaseSettings { writer, reader, .. } = settings.database;
        [writer, reader].map(|url| url.unwrap().0)
    };
    assert_eq!(of(None, None), ["postgres://a", "postgres://b"]);
    assert_eq!(of(Some("c"), None), ["c", "postgres://b"]);
    assert_eq!(of(None, Some("d")), ["postgres://a", "d"]);
}
