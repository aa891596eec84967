//! How a node shows NATS who it is, and how it knows the servers.

use std::io;
use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;
use async_nats::rustls::RootCertStore;
use async_nats::rustls::pki_types::pem::PemObject as _;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The largest of these files. The certificates of all public authorities have some 250 KB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The files that a connection needs. They are read again for each connection, so a renewed
/// certificate or password needs no restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// A credentials file, as `nsc` writes it: the user's JWT and key.
    pub credentials: Option<PathBuf>,
    /// A file with two lines: the name of a user, and a password.
    pub user: Option<PathBuf>,
    /// The authority of the servers' certificates (PEM). `None`: those of the system.
    pub authority: Option<PathBuf>,
    /// The client's certificate, and its private key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {path} (cluster.{setting}): {source}")]
    Read {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file has other contents.
    #[error("cannot use {path} (cluster.{setting}): {problem}")]
    Contents {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Two settings exclude each other.
    #[error("set either cluster.nats_credentials or cluster.nats_user, not both")]
    TwoUsers,
}

/// The contents of the files that are not about TLS.
enum User {
    Nobody,
    Credentials(String),
    Password(String, String),
}

impl Access {
    /// Reads all files, and checks that they are what they should be.
    ///
    /// # Errors
    ///
    /// A file is missing or has other contents, or the settings contradict each other.
    pub fn check(&self) -> Result<(), AccessError> {
        if let User::Credentials(text) = self.read_user()? {
            self.with_credentials(ConnectOptions::new(), &text)?;
        }
        if let Some(path) = &self.authority {
            authorities(path)?;
        }
        if let Some((certificate, key)) = &self.identity {
            certificates("nats_certificate", certificate)?;
            let setting = "nats_key";
            let bytes = read(setting, key)?;
            PrivateKeyDer::from_pem_slice(&bytes)
                .map_err(|error| contents(setting, key, error.to_string()))?;
        }
        Ok(())
    }

    /// Adds what the files contain to the options of a connection.
    pub(crate) fn apply(&self, mut options: ConnectOptions) -> Result<ConnectOptions, AccessError> {
        options = match self.read_user()? {
            User::Nobody => options,
            User::Credentials(text) => self.with_credentials(options, &text)?,
            User::Password(user, password) => options.user_and_password(user, password),
        };
        // The library reads these files itself, but it says less about a wrong one.
        if let Some(path) = &self.authority {
            authorities(path)?;
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let Some((certificate, key)) = &self.identity {
            let (certificate, key) = (certificate.clone(), key.clone());
            options = options.add_client_certificate(certificate, key).require_tls(true);
        }
        Ok(options)
    }

    fn read_user(&self) -> Result<User, AccessError> {
        match (&self.credentials, &self.user) {
            (None, None) => Ok(User::Nobody),
            (Some(_), Some(_)) => Err(AccessError::TwoUsers),
            (Some(path), None) => Ok(User::Credentials(read_text("nats_credentials", path)?)),
            (None, Some(path)) => {
                let text = read_text("nats_user", path)?;
                let mut lines = text.lines();
                match (lines.next(), lines.next(), lines.next()) {
                    (Some(user), Some(password), None) if !user.is_empty() => {
                        Ok(User::Password(user.to_owned(), password.to_owned()))
                    }
                    _ => {
                        let problem = "it must have two lines: the user's name, and the password";
                        Err(contents("nats_user", path, problem.to_owned()))
                    }
                }
            }
        }
    }

    fn with_credentials(
        &self,
        options: ConnectOptions,
        text: &str,
    ) -> Result<ConnectOptions, AccessError> {
        options.credentials(text).map_err(|error| {
            let path = self.credentials.as_deref().unwrap_or(Path::new(""));
            contents("nats_credentials", path, error.to_string())
        })
    }
}

/// The authorities of a file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, AccessError> {
    let setting = "nats_ca";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(setting, path)? {
        roots.add(certificate).map_err(|error| contents(setting, path, error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(
    setting: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, AccessError> {
    let bytes = read(setting, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| contents(setting, path, error.to_string()))?;
    if all.is_empty() {
        return Err(contents(setting, path, "it has no certificate in PEM form".to_owned()));
    }
    Ok(all)
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, AccessError> {
    let path = path.to_owned();
    operator_file::read_regular(&path, FILE_BYTES_MAX).map_err(|source| AccessError::Read {
        setting,
        path,
        source,
    })
}

fn read_text(setting: &'static str, path: &Path) -> Result<String, AccessError> {
    String::from_utf8(read(setting, path)?)
        .map_err(|_| contents(setting, path, "it is not a text".to_owned()))
}

fn contents(setting: &'static str, path: &Path, problem: String) -> AccessError {
    AccessError::Contents { setting, path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_files_are_named_with_their_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            Some(path)
        };
        Access::default().check().expect("nothing is needed");
        let right = Access { user: file("right", "ann\nsecret\n"), ..Access::default() };
        right.check().expect("two lines");
        let none = Access::default;
        for (access, what) in [
            (Access { user: file("u", "ann secret\n"), ..none() }, "nats_user): it must have two"),
            (Access { user: file("u3", "a\nb\nc\n"), ..none() }, "nats_user): it must have two"),
            (Access { credentials: file("c", "no"), ..none() }, "cluster.nats_credentials)"),
            (Access { authority: file("a", "no"), ..none() }, "nats_ca): it has no certificate"),
            (
                Access { authority: Some("/none".into()), ..none() },
                "cannot read /none (cluster.nats_ca)",
            ),
            (
                Access { user: Some("/dev/zero".into()), ..none() },
                "cannot read /dev/zero (cluster.nats_user): it is not a regular file",
            ),
            (Access { credentials: file("d", "no"), ..right.clone() }, "not both"),
        ] {
            let error = access.check().expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
            assert!(access.apply(ConnectOptions::new()).is_err(), "{error}");
        }
    }
}
