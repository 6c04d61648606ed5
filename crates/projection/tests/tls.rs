//! Connections to a real server with TLS, and passwords that no log of it holds.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use chronolith_projection::{Database, Passwords, set_up};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use tempfile::TempDir;

const WRITER: &str = "wr:t&r's p@ss/ü";
const READER: &str = "reader-secret-9";

fn openssl(dir: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(dir);
    let output = command.output().expect("openssl comes with PostgreSQL");
    assert!(output.status.success(), "openssl {arguments}: {output:?}");
}

/// An authority, and a certificate that it signed for `localhost` and nothing else.
fn certificates() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let at = dir.path();
    openssl(
        at,
        &format!("req -x509 {key} -keyout root.key -out root.pem -days 2 -subj /CN=root"),
    );
    openssl(
        at,
        &format!("req -x509 {key} -keyout other.key -out other.pem -days 2 -subj /CN=other"),
    );
    openssl(
        at,
        &format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
    );
    std::fs::write(at.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let signed = "x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2";
    openssl(at, &format!("{signed} -out server.pem -extfile names"));
    dir
}

/// A server with these files, which it must own, and with passwords for everybody but its owner.
fn server(dir: &Path, settings: &[&str]) -> TempPostgres {
    let hba = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(dir.join("hba"), hba).unwrap();
    // The server does not run as root.
    if std::fs::metadata(dir).unwrap().uid() == 0 {
        let owned = Command::new("chown")
            .args(["-R", "postgres:"])
            .arg(dir)
            .status();
        assert!(owned.unwrap().success());
    }
    let file = |setting: &str, name: &str| format!("{setting}={}", dir.join(name).display());
    let mut all = vec![file("hba_file", "hba")];
    if dir.join("server.pem").exists() {
        all.push("ssl=on".to_owned());
        all.push(file("ssl_cert_file", "server.pem"));
        all.push(file("ssl_key_file", "server.key"));
    }
    all.extend(settings.iter().map(|one| (*one).to_owned()));
    TempPostgres::start(&TempPostgresOptions {
        settings: all,
        ..TempPostgresOptions::default()
    })
    .unwrap()
}

/// The server for a user, by a name, with what stands behind the question mark.
fn url(server: &TempPostgres, user: &str, host: &str, query: &str) -> String {
    let port = server.url.rsplit(':').next().unwrap();
    let port = port.split('/').next().unwrap();
    format!("postgres://{user}@{host}:{port}/postgres?{query}")
}

async fn is_encrypted(url: &str) -> Result<bool, String> {
    let database = Database::reader(url, 1, &[]).map_err(|error| error.to_string())?;
    let client = database.client().await.map_err(|error| error.to_string())?;
    let read = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    Ok(client.query_one(read, &[]).await.unwrap().get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_believed_by_its_authority_and_its_name() {
    let files = certificates();
    let server = server(files.path(), &[]);
    let root = format!("sslrootcert={}", files.path().join("root.pem").display());
    let other = format!("sslrootcert={}", files.path().join("other.pem").display());
    let passwords = Passwords {
        writer: None,
        reader: Some(READER.to_owned()),
    };
    // Also whoever sets up goes through TLS.
    let admin = url(
        &server,
        "postgres",
        "localhost",
        &format!("sslmode=require&{root}"),
    );
    set_up(&admin, &passwords).await.unwrap();
    let user = format!("sync_reader:{READER}");
    let ask = |host: &str, query: String| {
        let url = url(&server, &user, host, &query);
        async move { is_encrypted(&url).await }
    };
    for mode in ["prefer", "require", "verify-full"] {
        let requested = ask("localhost", format!("sslmode={mode}&{root}")).await;
        assert_eq!(requested, Ok(true), "{mode}");
    }
    // What the server offers is taken, whoever signed it.
    assert_eq!(ask("127.0.0.1", String::new()).await, Ok(true));
    assert_eq!(
        ask("127.0.0.1", "sslmode=disable".to_owned()).await,
        Ok(false)
    );
    for (host, query, advice) in [
        (
            "localhost",
            "sslmode=require".to_owned(),
            "sslrootcert=/path",
        ),
        (
            "localhost",
            format!("sslmode=require&{other}"),
            "sslrootcert=/path",
        ),
        ("localhost", other.clone(), "sslrootcert=/path"),
        (
            "127.0.0.1",
            format!("sslmode=require&{root}"),
            "another host",
        ),
        ("127.0.0.1", root.clone(), "another host"),
    ] {
        let message = ask(host, query.clone()).await.unwrap_err();
        assert!(
            message.contains(advice) && !message.contains(READER),
            "{host} {query}: {message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let files = tempfile::tempdir().unwrap();
    let server = server(files.path(), &[]);
    let passwords = Passwords {
        writer: None,
        reader: Some(READER.to_owned()),
    };
    set_up(&server.url, &passwords).await.unwrap();
    let user = format!("sync_reader:{READER}");
    let plain = is_encrypted(&url(&server, &user, "127.0.0.1", "")).await;
    assert_eq!(plain, Ok(false));
    let required = url(&server, &user, "127.0.0.1", "sslmode=require");
    let message = is_encrypted(&required).await.unwrap_err();
    let reported =
        message.contains("does not support TLS: turn it on there") && !message.contains(READER);
    assert!(reported, "{message}");
}

/// A statement that sets a password may be logged by the server: what it holds is no password.
#[tokio::test(flavor = "multi_thread")]
async fn passwords_work_and_stand_in_no_log() {
    let files = tempfile::tempdir().unwrap();
    // The older form is what a server of an older cluster would make of a password.
    let settings = ["log_statement=all", "password_encryption=md5"];
    let server = server(files.path(), &settings);
    let passwords = Passwords {
        writer: Some(WRITER.to_owned()),
        reader: Some(READER.to_owned()),
    };
    set_up(&server.url, &passwords).await.unwrap();
    let encoded = "wr%3At%26r%27s%20p%40ss%2F%C3%BC";
    for (user, password) in [("indexer_writer", encoded), ("sync_reader", READER)] {
        let right = url(&server, &format!("{user}:{password}"), "127.0.0.1", "");
        let database = Database::reader(&right, 1, &[]).unwrap();
        database.check_version().await.unwrap();
        let wrong = url(&server, &format!("{user}:wrong"), "127.0.0.1", "");
        let message = is_encrypted(&wrong).await.unwrap_err();
        assert!(
            message.contains("password authentication failed"),
            "{message}"
        );
    }
    let log = server.log();
    assert!(
        log.contains("ALTER ROLE indexer_writer LOGIN PASSWORD 'SCRAM-SHA-256$"),
        "{log}"
    );
    for secret in [WRITER, &WRITER.replace('\'', "''"), READER] {
        assert!(!log.contains(secret), "{log}");
    }
}
