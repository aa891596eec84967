//! Verifiers of the other side's certificates that refuse long chains.
//!
//! rustls verifies the certificates before the other side has proved that it has a key. It searches a
//! path to an authority among them, and parses each of them again on each way that it tries: 64 KiB of
//! forged certificates, the most that it takes, keep a thread busy for seconds. Nothing can interrupt
//! this, and the thread serves many other connections.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

/// Certificates that the other side may send besides its own. Real chains have one or two, and
/// sometimes the authority's own.
const INTERMEDIATES_MAX: usize = 4;
/// Bytes of all its certificates. One with a large RSA key has about 2 KiB.
const CHAIN_BYTES_MAX: usize = 16 << 10;

/// The other side has sent more certificates than the server looks at.
#[derive(Copy, Clone, Debug, thiserror::Error)]
#[error(
    "the chain of certificates is too long: besides its own, a peer may send {INTERMEDIATES_MAX}, \
     with {CHAIN_BYTES_MAX} bytes in all"
)]
struct LongChain;

fn check_length(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<(), Error> {
    let bytes: usize = end_entity.len() + intermediates.iter().map(|one| one.len()).sum::<usize>();
    if intermediates.len() > INTERMEDIATES_MAX || bytes > CHAIN_BYTES_MAX {
        let reason = OtherError(Arc::new(LongChain));
        return Err(Error::InvalidCertificate(CertificateError::Other(reason)));
    }
    Ok(())
}

/// Verifies the certificates of clients.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    /// The certificate must be for this name. `None`: for any.
    name: Option<ServerName<'static>>,
}

impl ClientVerifier {
    /// Accepts all certificates that `inner` accepts, except long chains.
    pub(crate) fn new(inner: Arc<dyn ClientCertVerifier>) -> ClientVerifier {
        ClientVerifier { inner, name: None }
    }

    /// Accepts only certificates for this name.
    pub(crate) fn for_name(
        inner: Arc<dyn ClientCertVerifier>,
        name: ServerName<'static>,
    ) -> ClientVerifier {
        ClientVerifier { inner, name: Some(name) }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_length(end_entity, intermediates)?;
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        if let Some(name) = &self.name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Verifies the certificates of servers, and their names.
#[derive(Debug)]
pub(crate) struct ServerVerifier(Arc<WebPkiServerVerifier>);

impl ServerVerifier {
    /// Accepts all certificates that `inner` accepts, except long chains.
    pub(crate) fn new(inner: Arc<WebPkiServerVerifier>) -> ServerVerifier {
        ServerVerifier(inner)
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check_length(end_entity, intermediates)?;
        self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::server::WebPkiClientVerifier;
    use testkit::tls::certificates::Authority;

    use super::*;

    fn is_too_long<Verified>(verified: Result<Verified, Error>) -> bool {
        match verified {
            Ok(_) => false,
            Err(Error::InvalidCertificate(CertificateError::Other(reason))) => {
                reason.0.is::<LongChain>()
            }
            Err(other) => panic!("another reason: {other}"),
        }
    }

    #[test]
    fn a_long_chain_is_refused_before_anybody_searches_it() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority").unwrap();
        let identity = authority.issue("one").unwrap();
        let own = CertificateDer::from_pem_file(&identity.certificate).unwrap();
        let root = CertificateDer::from_pem_file(&authority.file).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let client =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let client = ClientVerifier::new(client.unwrap());
        let server = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        let server = ServerVerifier::new(server.unwrap());
        let name = ServerName::try_from("localhost").unwrap();
        let are_refused = |intermediates: &[CertificateDer<'_>]| {
            let now = UnixTime::now();
            let of_client = client.verify_client_cert(&own, intermediates, now);
            let of_server = server.verify_server_cert(&own, intermediates, &name, &[], now);
            [is_too_long(of_client), is_too_long(of_server)]
        };
        let many = vec![root; INTERMEDIATES_MAX + 1];
        assert_eq!(are_refused(&many[1..]), [false; 2]);
        assert_eq!(are_refused(&many), [true; 2]);
        // Nobody reads what is not needed for the path.
        let of_bytes = |bytes: usize| [CertificateDer::from(vec![0; bytes - own.len()])];
        assert_eq!(are_refused(&of_bytes(CHAIN_BYTES_MAX)), [false; 2]);
        assert_eq!(are_refused(&of_bytes(CHAIN_BYTES_MAX + 1)), [true; 2]);
    }
}
