//! Where the database is and whether the connection is encrypted, by its URL, and which authorities are trusted.
//!
//! `sslmode` is `disable`, `prefer` (the default) or `require`; `verify-full` is the same as `require`.
//! Under `prefer` the server decides whether there is TLS, so nothing would be gained by checking its
//! certificate, and it is not checked. Under `require`, and wherever `sslrootcert` names an authority, the
//! certificate must be signed by a trusted authority, and be for the host that the URL names.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// The authorities of the machine, by the name that libpq has for them.
const SYSTEM: &str = "system";

/// A database, and how to get there.
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl Target {
    /// What a URL says. No message quotes it, since it may carry a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (rest, request) = Request::split(url)?;
        let mut config = Config::from_str(&rest).map_err(|error| unreadable(&error))?;
        if request.verify_full {
            config.ssl_mode(SslMode::Require);
        }
        // A socket of this machine needs no TLS, and servers offer none there.
        let is_socket = |host: &Host| matches!(host, Host::Unix(_));
        let by_address = !config.get_hostaddrs().is_empty();
        let hosts = config.get_hosts();
        if !by_address && !hosts.is_empty() && hosts.iter().all(is_socket) {
            config.ssl_mode(SslMode::Disable);
        }
        // Whoever names an authority wants nothing that it did not sign.
        if request.root.is_some() && config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(SslMode::Require);
        }
        let tls = connector(config.get_ssl_mode(), request.root.as_deref())?;
        Ok(Self { config, tls })
    }
}

/// Host, port and name of the database at a URL, without user and password.
///
/// # Errors
/// The URL cannot be read.
pub fn place_of(url: &str) -> Result<String> {
    let (rest, _) = Request::split(url)?;
    let config = Config::from_str(&rest).map_err(|error| unreadable(&error))?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => match config.get_hostaddrs().first() {
            Some(address) => address.to_string(),
            None => {
                return Err(Error::Invalid(format!(
                    "the URL of the database names no host: {FORM}"
                )));
            }
        },
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = config.get_dbname().or(config.get_user());
    Ok(format!(
        "{} on {host}:{port}",
        name.unwrap_or("the default one")
    ))
}

/// How URLs look.
const FORM: &str = "it is of the form postgres://user:password@host:5432/database";

/// Why a URL cannot be read. Only the name of a part is repeated: its value may be a password.
fn unreadable(error: &tokio_postgres::Error) -> Error {
    let source = std::error::Error::source(error);
    let why = source.map(ToString::to_string).unwrap_or_default();
    let part = why.strip_prefix("invalid value for option `");
    let part = part.and_then(|rest| rest.strip_suffix('`'));
    let part = part.map(|part| format!(", its {part} is wrong"));
    let part = part.unwrap_or_default();
    Error::Invalid(format!(
        "the URL of the database cannot be read{part}: {FORM}"
    ))
}

/// What is requested in a URL and not known to the driver.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    root: Option<PathBuf>,
    verify_full: bool,
}

impl Request {
    /// Takes it out of a URL.
    fn split(url: &str) -> Result<(String, Self)> {
        let mut request = Self::default();
        // A password may have a question mark in it.
        let from = url.find('@').unwrap_or(0);
        let Some((before, query)) = url
            .split_at_checked(from)
            .and_then(|(user, rest)| Some((user.len() + rest.find('?')?, rest.split_once('?')?.1)))
        else {
            return Ok((url.to_owned(), request));
        };
        let mut kept = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => {
                    let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
                    request.root = (!path.is_empty()).then(|| PathBuf::from(path));
                }
                Some(("sslmode", "verify-full")) => request.verify_full = true,
                Some(("sslmode", "verify-ca" | "allow")) => {
                    let what = "sslmode in the URL of the database: disable, prefer, require or \
                                verify-full";
                    return Err(Error::Invalid(what.to_owned()));
                }
                _ => kept.push(pair),
            }
        }
        let before = url.get(..before).unwrap_or_default();
        let rest = match kept.is_empty() {
            true => before.to_owned(),
            false => format!("{before}?{}", kept.join("&")),
        };
        Ok((rest, request))
    }
}

fn connector(mode: SslMode, root: Option<&Path>) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::Invalid(format!("TLS: {error}")))?;
    let config = match (root, mode) {
        (None, SslMode::Require) => builder.with_root_certificates(system_roots()?),
        (Some(path), mode) if mode != SslMode::Disable => {
            builder.with_root_certificates(roots_of(path)?)
        }
        _ => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(provider))),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots_of(path: &Path) -> Result<RootCertStore> {
    if path == Path::new(SYSTEM) {
        return system_roots();
    }
    let named = |why: String| Error::Invalid(format!("sslrootcert {}: {why}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(|error| named(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for one in found {
        let one = one.map_err(|error| named(error.to_string()))?;
        roots.add(one).map_err(|error| named(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(named("no certificate is in it".to_owned())),
        false => Ok(roots),
    }
}

fn system_roots() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => Err(Error::Invalid(
            "sslmode=require: this machine has no list of authorities: install ca-certificates, or name one \
             with sslrootcert=/path/to/root.pem in the URL"
                .to_owned(),
        )),
        false => Ok(roots),
    }
}

/// What to do about a server that has no TLS, or a certificate that was refused.
pub(crate) fn advice(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let of_rustls = |error: &(dyn std::error::Error + 'static)| -> Option<rustls::Error> {
        let inner = error.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(|error| error.get_ref());
        let inner = inner.and_then(|error| error.downcast_ref::<rustls::Error>());
        inner.or_else(|| error.downcast_ref()).cloned()
    };
    let mut next = Some(error);
    while let Some(one) = next {
        // The driver has no other sign of that.
        if one.to_string() == "server does not support TLS" {
            return Some("turn it on there, or write sslmode=prefer in the URL");
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = of_rustls(one) {
            return match why {
                CertificateError::UnknownIssuer => Some(
                    "no trusted authority signed it: name its authority with sslrootcert=/path/to/root.pem in the URL",
                ),
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    Some("it is for another host: write one of its names in the URL")
                }
                _ => None,
            };
        }
        next = one.source();
    }
    None
}

/// Accepts any certificate, but the server must have its key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_url() {
        let root = |path: &str| Request {
            root: Some(PathBuf::from(path)),
            verify_full: false,
        };
        for (url, rest, request) in [
            (
                "postgres://u:p@h/d",
                "postgres://u:p@h/d",
                Request::default(),
            ),
            (
                "postgres://u:p@h/d?sslrootcert=/a%20b/c+d.pem",
                "postgres://u:p@h/d",
                root("/a b/c+d.pem"),
            ),
            (
                "postgres://u:p?sslrootcert=x@h/d?sslmode=require&sslrootcert=/r&connect_timeout=3",
                "postgres://u:p?sslrootcert=x@h/d?sslmode=require&connect_timeout=3",
                root("/r"),
            ),
            (
                "postgres://h/d?sslmode=verify-full",
                "postgres://h/d",
                Request {
                    verify_full: true,
                    ..Request::default()
                },
            ),
        ] {
            assert_eq!(
                Request::split(url).unwrap(),
                (rest.to_owned(), request),
                "{url}"
            );
        }
    }

    #[test]
    fn a_place_is_host_and_name_and_an_error_names_no_value() {
        for (url, expected) in [
            ("postgres://u:SECRET@h:5433/d", "d on h:5433"),
            ("postgres://u@h/d?sslmode=verify-full", "d on h:5432"),
            ("postgres://u@h", "u on h:5432"),
            ("postgres://u@/d?host=/run/pg", "d on /run/pg:5432"),
            ("postgres://u:SECRET@h:notaport/d", "its port is wrong"),
            (
                "host=h port=5433 user=u password=SECRET dbname=d",
                "d on h:5433",
            ),
            ("host=h port=x user=u password=SECRET", "its port is wrong"),
            (
                "postgres://u:SECRET@h/d?SECRET=1",
                "cannot be read: it is of the form",
            ),
            ("mysql://SECRET", "cannot be read"),
            ("postgres:///d", "names no host"),
        ] {
            let shown = place_of(url).unwrap_or_else(|error| error.to_string());
            assert!(shown.contains(expected), "{url}: {shown}");
            assert!(!shown.contains("SECRET"), "{shown}");
        }
    }

    #[test]
    fn a_mode_means_what_it_says_and_a_bad_one_is_named_without_the_password() {
        let mode = |query: &str| {
            let target = Target::parse(&format!("postgres://u:hidden@h/d?{query}"));
            target.map(|target| target.config.get_ssl_mode())
        };
        assert_eq!(mode("").unwrap(), SslMode::Prefer);
        assert_eq!(mode("sslmode=disable").unwrap(), SslMode::Disable);
        assert_eq!(mode("sslmode=verify-full").unwrap(), SslMode::Require);
        for (query, expected) in [
            ("sslmode=verify-ca", "require or verify-full"),
            ("sslmode=sometimes", "cannot be read"),
            ("sslrootcert=/no/such/file", "sslrootcert /no/such/file"),
        ] {
            let error = mode(query).unwrap_err().to_string();
            assert!(
                error.contains(expected) && !error.contains("hidden"),
                "{error}"
            );
        }
        let socket = Target::parse("postgres://u@%2Frun%2Fpostgresql/d?sslmode=require");
        assert_eq!(socket.unwrap().config.get_ssl_mode(), SslMode::Disable);
    }
}
