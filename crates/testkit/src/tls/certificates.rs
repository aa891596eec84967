//! Certificates for tests. They are created when a test needs them, and written as PEM files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    /// The file of the authority's own certificate.
    pub file: PathBuf,
}

/// The files of a certificate and of its private key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority in this folder. Its own certificate is `NAME.pem`. The certificates
    /// that it signs are files in the same folder.
    pub fn new(folder: &Path, name: &str) -> Result<Authority> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, parameters.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(parameters, key);
        Ok(Authority { issuer, folder: folder.to_owned(), file })
    }

    /// Signs a certificate for `localhost`, 127.0.0.1, and the nodes of a cluster. `name` is the name
    /// of its files. Replaces older files of this name.
    pub fn issue(&self, name: &str) -> Result<Identity> {
        self.issue_for(name, &["localhost", "127.0.0.1", "lineshaft"])
    }

    /// Signs a certificate like [`Authority::issue`], but for these hosts.
    pub fn issue_for(&self, name: &str, hosts: &[&str]) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts)?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = self.folder.join(format!("{name}.pem"));
        let key_file = self.folder.join(format!("{name}.key"));
        std::fs::write(&certificate, parameters.signed_by(&key, &self.issuer)?.pem())?;
        std::fs::write(&key_file, key.serialize_pem())?;
        Ok(Identity { certificate, key: key_file })
    }
}
