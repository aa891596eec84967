//! Certificates of TLS listeners. This module reads and checks their files, at the start and at
//! each reload. `tls_stream` handles the connections.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{CertificateError, Error as RustlsError, RootCertStore, ServerConfig};

use crate::config::{ClientAuth, Tls};
use crate::net::verifiers::ClientVerifier;

/// Why the server cannot use the TLS files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The configuration does not name a file that TLS needs.
    #[error("TLS needs a {0}; name one")]
    Unset(&'static str),
    /// A file cannot be read.
    #[error("cannot read the {what} {path}: {source}")]
    Read {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file contains no certificate or key.
    #[error("{path}: contains no {what}; add one in PEM format{}", hint(what))]
    Missing {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file is damaged, or contains something that the server does not support.
    #[error("{path}: cannot use the {what}: {reason}")]
    Unusable {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Key and certificate do not match.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
}

/// The largest file with certificates or a key. The certificates of all public authorities have some
/// 250 KB. The bound is for a file without an end.
const FILE_BYTES_MAX: u64 = 16 << 20;

const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";
const CLIENT_CA: &str = "certificate of the clients' authority";

/// The library reports this for a certificate of version 1, which `openssl x509 -req` makes by
/// default.
const OLD_VERSION: &str = "UnsupportedCertVersion";

fn hint(what: &str) -> &'static str {
    if what == KEY { ", without a passphrase" } else { "" }
}

/// The certificates for new connections, shared by all listeners.
#[derive(Debug)]
pub(crate) struct Certificates {
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads the files.
    pub(crate) fn load(settings: &Tls) -> Result<Certificates, TlsError> {
        Ok(Certificates { current: RwLock::new(read(settings)?) })
    }

    /// Reads the files again. If the server cannot use one of the files, nothing changes.
    pub(crate) fn reload(&self, settings: &Tls) -> Result<(), TlsError> {
        let read = read(settings)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// The certificates for a new connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(settings: &Tls) -> Result<Arc<ServerConfig>, TlsError> {
    let certificate = settings.certificate.as_deref().ok_or(TlsError::Unset(CERTIFICATE))?;
    let key = settings.key.as_deref().ok_or(TlsError::Unset(KEY))?;
    let chain = read_certificates(certificate, CERTIFICATE)?;
    let key_content = read_key(key)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = client_verifier(settings, &provider)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for both versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key_content)
        .map_err(|error| match error {
            RustlsError::InconsistentKeys(_) => {
                TlsError::Mismatch { key: key.to_owned(), certificate: certificate.to_owned() }
            }
            RustlsError::InvalidCertificate(reason) => {
                unusable(certificate, CERTIFICATE, explain(&reason))
            }
            error => unusable(key, KEY, error),
        })?;
    Ok(Arc::new(config))
}

/// Describes an error in the server's own certificate. Uses only the reason, because the library's
/// whole message says that a peer sent the certificate.
fn explain(reason: &CertificateError) -> String {
    let reason = reason.to_string();
    if reason.contains(OLD_VERSION) {
        "it has version 1, but version 3 is needed; with openssl x509, add -extfile with a subjectAltName"
            .to_owned()
    } else {
        reason
    }
}

fn client_verifier(
    settings: &Tls,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(path) = settings.client_ca.as_deref() else {
        // `client_auth` without an authority must not mean that clients need no certificate.
        let is_asked = settings.client_auth.needs_authority();
        return if is_asked { Err(TlsError::Unset(CLIENT_CA)) } else { Ok(Arc::new(NoClientAuth)) };
    };
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path, CLIENT_CA)? {
        roots.add(certificate).map_err(|error| unusable(path, CLIENT_CA, error))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match settings.client_auth {
        ClientAuth::None => return Ok(Arc::new(NoClientAuth)),
        ClientAuth::Optional => builder.allow_unauthenticated(),
        ClientAuth::Auto | ClientAuth::Required => builder,
    };
    let verifier = builder.build().map_err(|error| unusable(path, CLIENT_CA, error))?;
    Ok(Arc::new(ClientVerifier::new(verifier)))
}

/// Reads a private key.
pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read_file(path, KEY)?).map_err(|error| not_pem(path, KEY, error))
}

/// Reads the certificates of a file. There is at least one.
pub(crate) fn read_certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = read_file(path, what)?;
    let certificates: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&content).collect();
    match certificates {
        Ok(none) if none.is_empty() => Err(not_pem(path, what, PemError::NoItemsFound)),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(not_pem(path, what, error)),
    }
}

fn read_file(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    operator_file::read_any(path, FILE_BYTES_MAX).map_err(|source| TlsError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

fn not_pem(path: &Path, what: &'static str, error: PemError) -> TlsError {
    match error {
        PemError::NoItemsFound => TlsError::Missing { what, path: path.to_owned() },
        error => unusable(path, what, error),
    }
}

pub(crate) fn unusable(path: &Path, what: &'static str, reason: impl ToString) -> TlsError {
    TlsError::Unusable { what, path: path.to_owned(), reason: reason.to_string() }
}
