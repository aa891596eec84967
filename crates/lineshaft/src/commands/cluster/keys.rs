//! `lineshaft cluster keys`: an authority, and a certificate for each node.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use notation::plain;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::cli::KeysArguments;

/// The name that each node expects of all others. So names and addresses of machines can change.
const NODE: &str = "lineshaft";
/// The authority's own name. A later call signs with the same name.
const AUTHORITY: &str = "Lineshaft cluster authority";
const YEARS: i32 = 10;
const AUTHORITY_FILE: &str = "ca.pem";
const AUTHORITY_KEY_FILE: &str = "ca-key.pem";
const NODE_BYTES_MAX: usize = 64;

/// Writes the files. Never replaces one.
pub(super) fn run(arguments: &KeysArguments) -> Result<ExitCode> {
    let KeysArguments { folder, nodes } = arguments;
    for (at, node) in nodes.iter().enumerate() {
        check_name(node)?;
        if nodes[..at].contains(node) {
            bail!("--node {node} is there twice: each node needs a name of its own");
        }
        for file in files_of(node) {
            refuse_existing(&folder.join(file))?;
        }
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let issuer = authority(folder)?;
    for node in nodes {
        let [certificate_file, key_file] = files_of(node);
        let key = KeyPair::generate()?;
        let mut parameters = valid(CertificateParams::new([NODE.to_owned()])?);
        parameters.distinguished_name.push(DnType::CommonName, node.as_str());
        parameters.key_usages.push(KeyUsagePurpose::DigitalSignature);
        // Each node connects to the others, and accepts their connections.
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, &issuer)?;
        write(&folder.join(key_file), 0o600, &key.serialize_pem())?;
        write(&folder.join(certificate_file), 0o644, &certificate.pem())?;
    }
    print(folder, nodes)?;
    Ok(ExitCode::SUCCESS)
}

fn print(folder: &Path, nodes: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let shown = folder.display().to_string();
    let shown = plain::escaped(&shown);
    for node in nodes {
        let [certificate, key] = files_of(node);
        writeln!(out, "{node}: copy {AUTHORITY_FILE}, {certificate} and {key} to this node")?;
    }
    writeln!(
        out,
        "Keep {shown}/{AUTHORITY_KEY_FILE} in a safe place, and on no node: it can sign \
         certificates for more nodes."
    )
}

fn files_of(node: &str) -> [String; 2] {
    [format!("{node}.pem"), format!("{node}-key.pem")]
}

/// A node's name is a part of file names.
fn check_name(node: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_right = node.bytes().all(is_plain) && !node.starts_with('.') && node != "ca";
    if node.is_empty() || node.len() > NODE_BYTES_MAX || !is_right {
        bail!(
            "`{}` cannot be the name of a node: use letters, digits, `-`, `_` and `.`, at most \
             {NODE_BYTES_MAX}, and not `ca`",
            plain::escaped(node)
        );
    }
    Ok(())
}

/// The authority of the folder, or a new one.
fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>> {
    let (file, key_file) = (folder.join(AUTHORITY_FILE), folder.join(AUTHORITY_KEY_FILE));
    let mut parameters = valid(CertificateParams::default());
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters.distinguished_name.push(DnType::CommonName, AUTHORITY);
    match fs::read_to_string(&key_file) {
        Ok(text) => {
            let key = KeyPair::from_pem(&text);
            let key = key.with_context(|| format!("cannot use {}", key_file.display()))?;
            if !file.exists() {
                bail!("{} is missing beside {}", file.display(), key_file.display());
            }
            Ok(Issuer::new(parameters, key))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if file.exists() {
                bail!(
                    "{} has no key: copy {} from the place where you keep it, or name a new folder",
                    file.display(),
                    key_file.display()
                );
            }
            let key = KeyPair::generate()?;
            let certificate = parameters.self_signed(&key)?;
            write(&key_file, 0o600, &key.serialize_pem())?;
            write(&file, 0o644, &certificate.pem())?;
            Ok(Issuer::new(parameters, key))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", key_file.display())),
    }
}

/// From the beginning of the last year, so that a wrong clock does not matter.
fn valid(mut parameters: CertificateParams) -> CertificateParams {
    let year = this_year();
    parameters.not_before = date_time_ymd(year - 1, 1, 1);
    parameters.not_after = date_time_ymd(year + YEARS, 1, 1);
    parameters
}

fn this_year() -> i32 {
    /// The mean length of a year in the calendar.
    const YEAR_S: u64 = 31_556_952;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    1970 + (since_1970.map_or(0, |time| time.as_secs()) / YEAR_S) as i32
}

fn refuse_existing(path: &Path) -> Result<()> {
    if path.exists() {
        bail!("{} exists: remove it first, or use another name", path.display());
    }
    Ok(())
}

fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    fn make(folder: &Path, nodes: &[&str]) -> Result<ExitCode> {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        run(&KeysArguments { folder: folder.to_owned(), nodes })
    }

    fn roots(folder: &Path) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let file = folder.join(AUTHORITY_FILE);
        roots.add(CertificateDer::from_pem_file(file).expect("it is PEM")).expect("an authority");
        Arc::new(roots)
    }

    fn identity(
        folder: &Path,
        node: &str,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let [certificate, key] = files_of(node).map(|file| folder.join(file));
        let chain = vec![CertificateDer::from_pem_file(certificate).expect("it is PEM")];
        (chain, PrivateKeyDer::from_pem_file(key).expect("it is PEM"))
    }

    /// Connects one node to another, as the links between nodes do.
    fn connect(client: (&Path, &str), server: (&Path, &str)) -> Result<(), rustls::Error> {
        let provider = || Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(server.0), provider());
        let (chain, key) = identity(server.0, server.1);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier.build().expect("it has an authority"))
            .with_single_cert(chain, key)?;
        let mut server = ServerConnection::new(Arc::new(config))?;
        let (chain, key) = identity(client.0, client.1);
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots(client.0))
            .with_client_auth_cert(chain, key)?;
        let name = ServerName::try_from(NODE).expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name)?;
        for _ in 0..4 {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("it is memory");
            server.read_tls(&mut Cursor::new(&bytes)).expect("it is memory");
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).expect("it is memory");
            client.read_tls(&mut Cursor::new(&bytes)).expect("it is memory");
            client.process_new_packets()?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        Ok(())
    }

    #[test]
    fn nodes_of_one_authority_trust_each_other_also_those_that_come_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let ours = folder.path().join("ours");
        make(&ours, &["north", "south"]).expect("new files");
        make(&ours, &["west"]).expect("the authority signs again");
        for (client, server) in [("north", "south"), ("west", "north"), ("south", "west")] {
            connect((&ours, client), (&ours, server)).expect("they trust each other");
        }
        let theirs = folder.path().join("theirs");
        make(&theirs, &["north"]).expect("new files");
        connect((&theirs, "north"), (&ours, "south")).expect_err("another authority");
        let mode = |file: &str| fs::metadata(ours.join(file)).expect("it exists").permissions();
        assert_eq!(mode("north-key.pem").mode() & 0o777, 0o600);
        assert_eq!(mode(AUTHORITY_KEY_FILE).mode() & 0o777, 0o600);
    }

    #[test]
    fn nothing_is_replaced_and_wrong_names_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        make(folder, &["a"]).expect("new files");
        let refused = |nodes: &[&str], what: &str| {
            let error = make(folder, nodes).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(&["b", "a"], "a.pem exists");
        assert!(!folder.join("b.pem").exists(), "nothing was written");
        refused(&["b", "b"], "is there twice");
        for name in ["", "../x", ".x", "ca", "two words", &"x".repeat(65)] {
            refused(&[name], "cannot be the name of a node");
        }
        fs::remove_file(folder.join(AUTHORITY_KEY_FILE)).expect("it exists");
        refused(&["b"], "has no key");
    }
}
