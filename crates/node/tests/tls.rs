//! Endpoints whose certificate a private authority signed: both protocols trust what the machine trusts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::Value;
use support::{Bench, DEPTH_5, serve};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn openssl(dir: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(dir);
    let output = command.output().expect("openssl comes with PostgreSQL");
    assert!(output.status.success(), "openssl {arguments}: {output:?}");
}

/// An authority, a certificate that it signed for this machine, and an authority that signed nothing.
fn certificates() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let at = dir.path();
    for name in ["root", "other"] {
        let files = format!("-keyout {name}.key -out {name}.pem");
        openssl(
            at,
            &format!("req -x509 {key} {files} -days 2 -subj /CN={name}"),
        );
    }
    openssl(
        at,
        &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"),
    );
    std::fs::write(at.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let signed = "x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2";
    openssl(at, &format!("{signed} -out server.pem -extfile names"));
    dir
}

/// A plain server behind TLS, until it is dropped.
struct Behind {
    address: SocketAddr,
    /// Clients that did not finish the handshake.
    refused: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Behind {
    /// `url` is that of the plain server.
    async fn start(files: &Path, url: &str) -> Self {
        let server = url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let acceptor = acceptor(files);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refused = Arc::new(AtomicUsize::new(0));
        let counted = refused.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                let counted = counted.clone();
                connections.spawn(async move {
                    let Ok(mut client) = acceptor.accept(stream).await else {
                        counted.fetch_add(1, Ordering::SeqCst);
                        return;
                    };
                    let mut server = TcpStream::connect(server).await.unwrap();
                    // Either side may end it.
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self {
            address,
            refused,
            _serving: serving,
        }
    }
}

fn acceptor(files: &Path) -> TlsAcceptor {
    let certificates = CertificateDer::pem_file_iter(files.join("server.pem")).unwrap();
    let certificates = certificates.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(files.join("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// `wss` trusted a list of its own, without the authorities of a company.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_the_machine_trusts_is_trusted_over_http_and_websocket() {
    let files = certificates();
    let node = EvmNode::new(EvmSpec::tiny(99), 40);
    let server = serve(&node, RpcOptions::default()).await;
    for (authority, is_trusted) in [("root.pem", true), ("other.pem", false)] {
        let http = Behind::start(files.path(), &server.url()).await;
        let ws = Behind::start(files.path(), &server.url()).await;
        let more = format!(r#"{DEPTH_5}, "rpcWs": ["wss://{}/"]"#, ws.address);
        let bench = Bench::new(&[format!("https://{}/", http.address)], &more);
        let authority = files.path().join(authority).display().to_string();
        let running = bench.start_with(&["run"], &[("SSL_CERT_FILE", &authority)]);
        let states = |health: &Value| {
            let rpc = &health["chains"][0]["rpc"];
            let state = |name: &str| rpc[name].as_str().unwrap_or("").to_owned();
            (state("http"), state("ws"))
        };
        let refused = || [&http, &ws].map(|one| one.refused.load(Ordering::SeqCst) > 0);
        if is_trusted {
            let well = |_: u16, health: &Value| {
                let states = states(health);
                let head = &health["chains"][0]["lastSeenBlock"];
                (states.0.as_str(), states.1.as_str()) == ("healthy", "healthy") && *head == 40
            };
            bench.until_health("a chain behind TLS", well).await;
        } else {
            let down = |_: u16, health: &Value| states(health).0 == "down";
            let health = bench.until_health("a refused endpoint", down).await;
            bench.wait("two refused certificates", || refused() == [true, true]);
            assert_eq!(states(&health).1, "connecting");
        }
        running.stop();
    }
}
