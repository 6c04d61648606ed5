//! Flag over environment over file over default, and what the log looks like, seen on the program
//! itself.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::net::TcpStream;
use std::process::{Command, Output};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::Value;
use support::Bench;

/// Every variable that the program looks at.
const VARIABLES: [&str; 6] = [
    "DATA_DIR",
    "PORT",
    "INGEST_INTERVAL_SECS",
    "RUST_LOG",
    "LOG_LEVEL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// A command with these variables and none of the others.
fn with(bench: &Bench, words: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = bench.command(words);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// What `config check` says of a file with flags and variables.
#[track_caller]
fn check(file: &str, flags: &[&str], variables: &[(&str, &str)], expected: &str) {
    let bench = Bench::new(&[], "");
    std::fs::write(&bench.config, file).unwrap();
    let words: Vec<&str> = ["config", "check"].iter().chain(flags).copied().collect();
    let output = with(&bench, &words, variables).output().unwrap();
    let said = said(&output);
    assert!(said.contains(expected), "no `{expected}` in: {said}");
    assert_eq!(output.status.success(), said.contains("is fine"), "{said}");
}

const WITHOUT: &str = r#"{ "chains": ["base"] }"#;
const WITH: &str = r#"{ "dataDir": "/from/file", "chains": [{ "name": "base", "pollMs": 7000 }] }"#;

#[test]
fn the_data_directory_is_by_flag_over_environment_over_file_over_default() {
    let variable = [("DATA_DIR", "/from/environment")];
    let flag = ["--data-dir", "/from/flag"];
    check(WITHOUT, &[], &[], "Data goes to ./data.");
    check(WITH, &[], &[], "Data goes to /from/file.");
    check(WITH, &[], &[("DATA_DIR", "")], "Data goes to /from/file.");
    check(WITH, &[], &variable, "Data goes to /from/environment.");
    check(WITH, &flag, &variable, "Data goes to /from/flag.");
}

#[test]
fn the_port_is_by_flag_over_environment_over_file_over_default() {
    let file = r#"{ "listen": "127.0.0.1:81", "chains": ["base"] }"#;
    let (variable, flag) = ([("PORT", "82")], ["--port", "83"]);
    check(WITHOUT, &[], &[], "The public API listens on 0.0.0.0:8080.");
    check(file, &[], &[], "The public API listens on 127.0.0.1:81.");
    check(
        file,
        &[],
        &variable,
        "The public API listens on 127.0.0.1:82.",
    );
    check(
        file,
        &flag,
        &variable,
        "The public API listens on 127.0.0.1:83.",
    );
    for bad in ["http", "-1", "65536"] {
        let expected = format!("error: PORT: `{bad}` is no port");
        check(file, &[], &[("PORT", bad)], &expected);
    }
    let bad = r#"{ "listen": "here", "chains": ["base"] }"#;
    check(
        bad,
        &[],
        &[],
        "listen: `here` is not an address such as 0.0.0.0:8080",
    );
}

#[test]
fn the_interval_is_by_flag_over_environment_over_file_over_default() {
    let variable = [("INGEST_INTERVAL_SECS", "11")];
    let flag = ["--ingest-interval-secs", "13"];
    check(WITHOUT, &[], &[], "a look every 60s");
    check(WITH, &[], &[], "a look every 7s");
    check(WITH, &[], &variable, "a look every 11s");
    check(WITH, &flag, &variable, "a look every 13s");
    // It is about portals: endpoints are asked as often as their chain wants.
    let endpoint = r#"{ "chains": [{ "chainId": 5, "rpcHttp": ["http://a"] }] }"#;
    check(endpoint, &flag, &variable, "a look every 1s");
}

#[test]
fn a_bad_number_is_refused_by_name() {
    for bad in ["soon", "0", "-1", "1.5", "99999999999999999999"] {
        let variable = [("INGEST_INTERVAL_SECS", bad)];
        let expected = format!("error: INGEST_INTERVAL_SECS: `{bad}` is no number");
        check(WITH, &[], &variable, &expected);
    }
    check(
        WITH,
        &["--ingest-interval-secs", "0"],
        &[],
        "--ingest-interval-secs",
    );
}

#[test]
fn where_the_database_is_can_be_read_and_is_shown_without_its_password() {
    let good = [("PG_URL", "postgres://user:SECRET@db.example:5433/fees")];
    let shown = "Projections go to database fees on db.example:5433.";
    check(WITHOUT, &[], &good, shown);
    let bad = [("PG_URL", "postgres://user:SECRET@db.example:notaport/fees")];
    let named = "db.url, PG_URL: the URL of the database cannot be read, its port is wrong";
    check(WITHOUT, &[], &bad, named);
    // The form of `libpq` without a URL.
    let pairs = "host=db.example user=user password=SECRET dbname=fees port";
    let (good_pairs, bad_pairs) = (format!("{pairs}=5433"), format!("{pairs}=x"));
    let good_pairs = [("PG_URL", good_pairs.as_str())];
    let bad_pairs = [("PG_URL", bad_pairs.as_str())];
    check(WITHOUT, &[], &good_pairs, shown);
    check(WITHOUT, &[], &bad_pairs, named);
    let bench = Bench::new(&[], "");
    std::fs::write(&bench.config, WITHOUT).unwrap();
    for variables in [good, bad, good_pairs, bad_pairs] {
        let output = with(&bench, &["config", "check"], &variables).output();
        let said = said(&output.unwrap());
        assert!(!said.contains("SECRET"), "{said}");
    }
}

/// Where a chain is followed until it is caught up.
async fn chain() -> (Bench, RpcServer) {
    let node = EvmNode::new(EvmSpec::tiny(11), 30);
    let server = RpcServer::start(node, RpcOptions::default()).await.unwrap();
    let finality = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
    (Bench::new(&[server.url()], finality), server)
}

/// Another address of this machine stands for those of its network.
#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_listen_on_the_address_that_is_set_and_no_other() {
    for (listen, is_elsewhere) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let (bench, _server) = chain().await;
        let set = format!(r#""metricsListen": "{listen}""#);
        bench.change(r#""metricsPort": 0"#, &set);
        let running = bench.start();
        assert_eq!(bench.operations("/health/live").await.0, 200);
        let listeners = bench.events("health_listening");
        let (ip, port) = listeners[0]["listen"]
            .as_str()
            .unwrap()
            .rsplit_once(':')
            .unwrap();
        assert_eq!(Some(ip), listen.strip_suffix(":0"));
        let elsewhere = TcpStream::connect(format!("127.0.0.2:{port}"));
        assert_eq!(elsewhere.is_ok(), is_elsewhere, "{listen}");
        running.stop();
    }
}

const RUN: [&str; 2] = ["run", "--until-caught-up"];

/// The levels of all lines of the log, each of which must be JSON.
#[track_caller]
fn levels(output: &Output) -> Vec<String> {
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let level = |line: &str| {
        let line: Value = serde_json::from_str(line).expect(line);
        assert!(line["timestamp"].is_string(), "{line}");
        line["level"].as_str().unwrap().to_owned()
    };
    assert!(output.status.success(), "{log}");
    log.lines().map(level).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_is_by_flag_over_rust_log_over_log_level_over_info() {
    let (bench, _server) = chain().await;
    let seen = |words: &[&str], variables: &[(&str, &str)]| {
        levels(&with(&bench, words, variables).output().unwrap())
    };
    let has = |levels: &[String], level: &str| levels.iter().any(|one| one == level);
    let default = seen(&RUN, &[]);
    assert!(has(&default, "INFO") && !has(&default, "DEBUG"));
    let more = seen(&RUN, &[("LOG_LEVEL", "debug")]);
    assert!(has(&more, "DEBUG"), "{more:?}");
    let less = seen(&RUN, &[("LOG_LEVEL", "debug"), ("RUST_LOG", "warn")]);
    assert!(less.is_empty(), "{less:?}");
    let flagged = [RUN[0], RUN[1], "--log-level", "debug"];
    let flagged = seen(&flagged, &[("LOG_LEVEL", "off"), ("RUST_LOG", "warn")]);
    assert!(has(&flagged, "DEBUG"), "{flagged:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_filter_stops_the_start_and_is_named() {
    let (bench, _server) = chain().await;
    for (name, bad) in [
        ("RUST_LOG", "chronolith=loud"),
        ("RUST_LOG", "a=b=c"),
        ("LOG_LEVEL", "verbose"),
    ] {
        let output = with(&bench, &RUN, &[(name, bad)]).output().unwrap();
        let said = said(&output);
        let expected = format!("error: {name}: `{bad}` is no log");
        assert!(!output.status.success(), "{name}={bad} was taken");
        assert!(said.contains(&expected), "{said}");
    }
}

/// People at a terminal read lines, programs read JSON.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_gets_lines_for_people() {
    let (bench, _server) = chain().await;
    let piped = with(&bench, &RUN, &[]).output().unwrap();
    assert!(levels(&piped).len() > 1);
    // `script` gives a program a terminal and copies what it says there.
    let program = env!("CARGO_BIN_EXE_chronolith");
    let line = format!(
        "'{program}' run --until-caught-up --config '{}'",
        bench.config.display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    for name in VARIABLES {
        script.env_remove(name);
    }
    let output = script.output().expect("`script` of util-linux is needed");
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("following"), "{shown}");
    assert!(!shown.contains(r#""level""#), "{shown}");
}
