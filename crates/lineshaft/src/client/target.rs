//! A server as the tools connect to it: its address, and TLS if the address begins with `tls:`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notation::address::{Address, ServerName};
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName as TlsName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// The name that the tool expects in the certificate of a server at a unix socket.
const LOCAL_NAME: &str = "localhost";

/// The files that a tool uses for TLS. Without an authority, the tool trusts those of the system.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// The authority of the server's certificate.
    pub authority: Option<PathBuf>,
    /// The tool's own certificate.
    pub certificate: Option<PathBuf>,
    /// The key of the tool's own certificate.
    pub key: Option<PathBuf>,
}

/// Where and how a tool connects.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    address: Address,
    tls: Option<Tls>,
}

#[derive(Clone, Debug)]
struct Tls {
    config: Arc<ClientConfig>,
    name: TlsName<'static>,
}

/// Why a tool cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    /// A file cannot be used.
    #[error("cannot use the {what} in {path}: {reason}")]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system has no authorities.
    #[error(
        "this system has no certificates of authorities; name the server's authority with --tls-ca"
    )]
    NoAuthorities,
    /// A certificate has a name, and this is none.
    #[error("`{0}` cannot be the name in a certificate")]
    Name(String),
}

impl Target {
    /// The target of a server's name. Reads the files if the name begins with `tls:`.
    pub(crate) fn new(
        name: &ServerName,
        default_port: u16,
        files: &TlsFiles,
    ) -> Result<Target, TargetError> {
        let address = name.address(default_port);
        let tls = name.is_tls.then(|| Tls::new(&address, files)).transpose()?;
        Ok(Target { address, tls })
    }

    /// A target without TLS.
    pub(crate) fn plain(address: Address) -> Target {
        Target { address, tls: None }
    }

    /// The address, without the prefix `tls:`.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The settings of TLS, and the name in the server's certificate. `None` if the server does not
    /// speak TLS.
    pub(crate) fn tls(&self) -> Option<(&Arc<ClientConfig>, &TlsName<'static>)> {
        self.tls.as_ref().map(|tls| (&tls.config, &tls.name))
    }

    /// The TLS state of a new connection. `None` if the server does not speak TLS.
    pub(crate) fn tls_connection(&self) -> Option<Result<ClientConnection, rustls::Error>> {
        let (config, name) = self.tls()?;
        Some(ClientConnection::new(config.clone(), name.clone()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.tls.is_some() { "tls:" } else { "" };
        write!(formatter, "{prefix}{}", self.address)
    }
}

impl Tls {
    fn new(address: &Address, files: &TlsFiles) -> Result<Tls, TargetError> {
        let name = address.host().unwrap_or(LOCAL_NAME).to_owned();
        let name = TlsName::try_from(name.clone()).map_err(|_| TargetError::Name(name))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for both versions")
            .with_root_certificates(authorities(files.authority.as_deref())?);
        let config = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let chain = read_certificates(certificate, "certificate")?;
                let secret = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| unusable("key", key, &pem_reason(&error)))?;
                builder
                    .with_client_auth_cert(chain, secret)
                    .map_err(|error| unusable("certificate", certificate, &error.to_string()))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Tls { config: Arc::new(config), name })
    }
}

/// The authorities of this file, or those of the system.
fn authorities(file: Option<&Path>) -> Result<RootCertStore, TargetError> {
    const AUTHORITY: &str = "certificate of the authority";
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        for certificate in read_certificates(file, AUTHORITY)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable(AUTHORITY, file, &error.to_string()))?;
        }
    } else {
        // Some of the system's certificates can be too old for the library.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(TargetError::NoAuthorities);
        }
    }
    Ok(roots)
}

fn read_certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => Err(unusable(what, path, "the file has none")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(what, path, &pem_reason(&error))),
    }
}

fn pem_reason(error: &PemError) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "the file has none".to_owned(),
        error => error.to_string(),
    }
}

fn unusable(what: &'static str, path: &Path, reason: &str) -> TargetError {
    TargetError::File { what, path: path.to_owned(), reason: reason.to_owned() }
}
