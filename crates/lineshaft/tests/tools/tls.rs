//! The tools connect to servers that speak TLS.

use testkit::process::Program;
use testkit::tls::certificates::{Authority, Identity};

use crate::{LINESHAFT, Output, Tool};

/// A server with TLS for beanstalk and Gearman clients, and the authority of its certificate.
struct Site {
    beanstalk: testkit::process::Server,
    gearman: testkit::process::Server,
    authority: String,
    identity: Identity,
    folder: tempfile::TempDir,
}

impl Site {
    fn new(arguments: impl Fn(&Authority) -> Vec<String>) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority").unwrap();
        let identity = authority.issue("server").unwrap();
        let mut all = vec!["--memory".to_owned()];
        all.extend(arguments(&authority));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let start = |protocol| {
            Program::serve_on(&[protocol], LINESHAFT, &all).with_tls(&identity).start().unwrap()
        };
        Site {
            beanstalk: start("beanstalk"),
            gearman: start("gearman"),
            authority: authority.file.to_str().unwrap().to_owned(),
            identity: authority.issue("client").unwrap(),
            folder,
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let gearman = arguments.contains(&"gearman");
        let server = if gearman { &self.gearman } else { &self.beanstalk };
        Tool::start(&format!("tls:{}", server.address()), arguments).wait()
    }
}

#[test]
fn tools_put_and_work_through_tls() {
    let site = Site::new(|_| Vec::new());
    let ca = ["--tls-ca", &site.authority];
    for protocol in ["beanstalk", "gearman"] {
        // Many jobs in flight in both directions at a time: the halves of a connection share TLS.
        let jobs = site.folder.path().join("jobs");
        let line = format!("{}\n", "0".repeat(100));
        let lines = line.repeat(5000);
        std::fs::write(&jobs, lines).unwrap();
        let file = ["--file", jobs.to_str().unwrap(), "--protocol", protocol, "mail"];
        let put = site.run(&[&["put"][..], &file, &ca].concat());
        assert_eq!(put.status.code(), Some(0), "{put:?}");
    }
    let stats = site.run(&[&["stats", "mail"][..], &ca].concat());
    assert!(stats.stdout.contains("5,000"), "{stats:?}");
    let peek = site.run(&[&["peek", "-q", "mail"][..], &ca].concat());
    assert_eq!(peek.stdout, "0".repeat(100), "{peek:?}");
    let put =
        ["put", "--wait", "--protocol", "gearman", "upper", "abc", "--tls-ca", &site.authority];
    let server = format!("tls:{}", site.gearman.address());
    let waiting = Tool::start(&server, &put);
    let work = ["work", "upper", "--drain", "--protocol", "gearman", "--tls-ca", &site.authority];
    loop {
        // The worker ends if it comes before the job.
        let worker = [&work[..], &["--", "tr", "a-z", "A-Z"]].concat();
        assert_eq!(site.run(&worker).status.code(), Some(0));
        if waiting.printed("stdout") == "ABC" {
            break;
        }
    }
    assert_eq!(waiting.wait().status.code(), Some(0));
}

#[test]
fn a_tool_trusts_only_known_authorities() {
    let site = Site::new(|_| Vec::new());
    let stats = site.run(&["stats"]);
    assert_eq!(stats.status.code(), Some(1));
    let begin = format!("lineshaft: cannot use TLS with tls:{}: ", site.beanstalk.address());
    assert!(stats.stderr.starts_with(&begin), "{stats:?}");
    assert!(stats.stderr.ends_with("; name the server's authority with --tls-ca\n"), "{stats:?}");
    let other = Authority::new(site.folder.path(), "other").unwrap();
    let stats = site.run(&["stats", "--tls-ca", other.file.to_str().unwrap()]);
    assert_eq!(stats.status.code(), Some(1));
    let missing = site.run(&["stats", "--tls-ca", "/absent"]);
    let expected = "lineshaft: cannot use the certificate of the authority in /absent: ";
    assert!(missing.stderr.starts_with(expected), "{missing:?}");
}

#[test]
fn a_tool_shows_its_certificate() {
    let site = Site::new(|authority| {
        vec!["--tls-client-ca".to_owned(), authority.file.to_str().unwrap().to_owned()]
    });
    let ca = ["--tls-ca", &site.authority];
    let refused = site.run(&[&["stats"][..], &ca].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let Identity { certificate, key } = &site.identity;
    let own =
        ["--tls-certificate", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let stats = site.run(&[&["stats"][..], &ca, &own].concat());
    assert_eq!(stats.status.code(), Some(0), "{stats:?}");
    let half = site.run(&[&["stats"][..], &own[..2]].concat());
    assert_eq!(half.status.code(), Some(2), "{half:?}");
}
