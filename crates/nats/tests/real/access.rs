//! Users, passwords, credential files and certificates, with real servers that ask for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nats::guard::{self, Question};
use nats::{Access, ConnectCause, Place, stream};
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer};
use replica::node::{Answer, Expect, Request, Subject};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::LINEAGE;
use crate::wait_for_trim;
use nats::driver::Driver;
use nats::hints::{Hint, Hints};
use testkit::cluster::NatsServers;

/// An authority, and certificates for the server and for a client.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        for name in ["ca", "other-ca"] {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut parameters = CertificateParams::default();
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            files.write(&format!("{name}.pem"), &parameters.self_signed(&key).unwrap().pem());
            let issuer = Issuer::new(parameters, key);
            if name == "other-ca" {
                break;
            }
            for name in ["server", "client"] {
                let key = rcgen::KeyPair::generate().unwrap();
                let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
                let parameters = CertificateParams::new(names).unwrap();
                let certificate = parameters.signed_by(&key, &issuer).unwrap();
                files.write(&format!("{name}.pem"), &certificate.pem());
                files.write(&format!("{name}.key"), &key.serialize_pem());
            }
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// What a client needs besides a user.
    fn access(&self) -> Access {
        Access {
            authority: Some(self.path("ca.pem")),
            identity: Some((self.path("client.pem"), self.path("client.key"))),
            ..Access::default()
        }
    }

    /// A server with TLS that asks each client for a certificate, and has these users.
    fn server(&self, users: &str) -> Option<NatsServers> {
        let path = |name| self.path(name).display().to_string();
        let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(path);
        NatsServers::start_one(|port, monitor, store: &Path| {
            let store = store.display().to_string();
            format!(
                "server_name: n0\nlisten: \"127.0.0.1:{port}\"\nhttps: \"127.0.0.1:{monitor}\"\n\
                 jetstream {{ store_dir: {store:?}\n sync_interval: always }}\n\
                 tls {{ cert_file: {cert:?}\n key_file: {key:?}\n ca_file: {ca:?}\n \
                 verify: true }}\n{users}\n"
            )
        })
    }
}

fn place(servers: &NatsServers, access: Access) -> Place {
    let address = servers.urls()[0].replace("nats://", "tls://");
    Place { servers: vec![address], name: "test".into(), replicas: 1, access }
}

/// A node can create the stream, use it, and check its server.
async fn works(servers: &NatsServers, place: &Place) {
    let context = nats::connect(place).await.unwrap();
    stream::create(&context, place, LINEAGE).await.unwrap();
    let (mut driver, mut answers) = Driver::start(place.clone());
    driver.request(Request::Tail);
    assert!(matches!(answers.recv().await, Some(Answer::Tail { last: 0, .. })));
    let expect = Expect { tail: 0, claim: 0 };
    let record = Arc::from(*b"claim");
    driver.request(Request::Append { id: 1, subject: Subject::Claims, expect, record });
    assert_eq!(answers.recv().await, Some(Answer::Appended { id: 1, seq: 1 }));
    driver.request(Request::Follow { from: Some(1) });
    assert!(matches!(answers.recv().await, Some(Answer::Record { seq: 1, .. })));
    // Single reads deliver the first records. A consumer delivers this one.
    let expect = Expect { tail: 1, claim: 1 };
    let record = Arc::from(*b"group");
    driver.request(Request::Append { id: 2, subject: Subject::Groups, expect, record });
    let two = [answers.recv().await.unwrap(), answers.recv().await.unwrap()];
    assert!(two.contains(&Answer::Appended { id: 2, seq: 2 }), "{two:?}");
    assert!(two.iter().any(|one| matches!(one, Answer::Record { seq: 2, .. })), "{two:?}");
    driver.request(Request::Trim { below: 2 });
    wait_for_trim(&mut driver, &mut answers, 2).await;
    assert!(driver.problem().is_none());
    let mut hints = Hints::new(place.clone());
    hints.write(7, &Hint::default()).await.unwrap();
    assert_eq!(hints.read().await.unwrap().len(), 1);
    let monitors = servers.monitors();
    let question = Question {
        place: place.clone(),
        monitors: monitors.iter().map(|one| one.replace("http://", "https://")).collect(),
        lineage: Some(LINEAGE),
        stream_bytes_max: 1 << 20,
        allow_colocated: false,
        unsafe_flush: false,
    };
    let found = guard::look(&question).await.unwrap();
    assert!(found.is_safe(), "{found:?}");
}

async fn refused(servers: &NatsServers, access: Access) -> ConnectCause {
    let place = place(servers, access);
    let error = nats::connect(&place).await.expect_err("the server refuses");
    assert_eq!(error.server, place.servers[0]);
    let (mut driver, mut answers) = Driver::start(place);
    driver.request(Request::Tail);
    assert_eq!(answers.recv().await, Some(Answer::NoTail));
    assert_eq!(driver.problem().unwrap().server, error.server);
    error.cause
}

#[tokio::test]
async fn passwords_and_certificates_are_checked() {
    let files = Files::new();
    // These permissions are in docs/replication.md.
    let users = "authorization { users: [ { user: ann, password: secret, permissions: {\n\
        publish: [\"$JS.API.>\", \"$KV.LS_test_HINTS.>\", \"ls.test.>\"]\n\
        subscribe: [\"_INBOX.>\"] } } ] }";
    let Some(servers) = files.server(users) else { return };
    let user = |name, text| Some(files.write(name, text));
    let ann = Access { user: user("ann", "ann\nsecret\n"), ..files.access() };
    works(&servers, &place(&servers, ann.clone())).await;

    let wrong = Access { user: user("bob", "ann\nSecret\n"), ..files.access() };
    assert!(matches!(refused(&servers, wrong).await, ConnectCause::User));
    assert!(matches!(refused(&servers, files.access()).await, ConnectCause::User));
    let stranger = Access { authority: Some(files.path("other-ca.pem")), ..ann.clone() };
    assert!(matches!(refused(&servers, stranger).await, ConnectCause::Tls(_)));
    refused(&servers, Access { identity: None, ..ann.clone() }).await;
    let missing = Access { authority: Some(files.path("none.pem")), ..ann };
    let cause = refused(&servers, missing).await;
    assert!(matches!(cause, ConnectCause::Access(_)), "{cause}");
}

/// A token that NATS believes, because the issuer signed it.
fn token(issuer: &KeyPair, subject: &KeyPair, claims: Value) -> String {
    let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let body = json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(),
        "name": "test", "sub": subject.public_key(), "nats": claims,
    });
    let [head, body] = [head, body].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signature = issuer.sign(format!("{head}.{body}").as_bytes()).unwrap();
    format!("{head}.{body}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn credential_files_are_accepted() {
    let files = Files::new();
    let operator = KeyPair::new_operator();
    let (account, system) = (KeyPair::new_account(), KeyPair::new_account());
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let claims = json!({
        "type": "operator", "version": 2, "system_account": system.public_key(),
    });
    let of_operator = token(&operator, &operator, claims);
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1,
        "consumer": -1, "max_ack_pending": -1,
    });
    let claims = json!({ "limits": limits, "type": "account", "version": 2 });
    let of_account = token(&operator, &account, claims);
    let claims = json!({ "limits": {
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1,
    }, "type": "account", "version": 2 });
    let of_system = token(&operator, &system, claims);
    let claims = json!({ "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2 });
    let of_user = token(&account, &user, claims);
    let users = format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload {{ {}: {of_account}\n{}: \
         {of_system} }}",
        account.public_key(),
        system.public_key()
    );
    let Some(servers) = files.server(&users) else { return };
    let credentials = |name: &str, key: &KeyPair| {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            key.seed().unwrap()
        );
        Access { credentials: Some(files.write(name, &text)), ..files.access() }
    };
    works(&servers, &place(&servers, credentials("user.creds", &user))).await;
    let wrong = credentials("stranger.creds", &stranger);
    assert!(matches!(refused(&servers, wrong).await, ConnectCause::User));
}
