//! Tests which clients can stop the server, and set its status, over Kestrel's ports.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

use testkit::conformance::thrift::codec::{FRAMED, Value, call, take_reply};

use crate::request::Peer;
use crate::running::{Running, command};

/// A server with Kestrel's listeners. They are on all addresses, or only on the local address.
struct Kestrel {
    server: Running,
    memcache: String,
    text: String,
    /// `None` if this listener is off.
    thrift: Option<String>,
    admin: String,
}

impl Kestrel {
    fn serve(folder: &Path, host: &str, control: &str) -> Kestrel {
        let mut starting = command(folder, &["serve", "--memory", "--beanstalk", "off"]);
        for listener in ["KESTREL", "KESTREL_TEXT", "KESTREL_THRIFT", "KESTREL_ADMIN"] {
            starting.env(format!("LINESHAFT_LISTEN_{listener}"), format!("{host}:0"));
        }
        starting.env("LINESHAFT_KESTREL_CONTROL", control);
        Kestrel::of(Running::spawn(starting), true)
    }

    fn like_the_original(folder: &Path, configuration: &str) -> Kestrel {
        std::fs::write(folder.join("lineshaft.toml"), configuration).unwrap();
        let ports =
            ["--port", "0", "--text-port", "0", "--thrift-port", "off", "--admin-port", "0"];
        let mut starting = command(folder, &["kestrel", "--memory"]);
        for name in ["KESTREL", "KESTREL_TEXT", "KESTREL_THRIFT", "KESTREL_ADMIN"] {
            starting.env_remove(format!("LINESHAFT_LISTEN_{name}"));
        }
        starting.args(ports);
        Kestrel::of(Running::spawn(starting), false)
    }

    fn of(mut server: Running, has_thrift: bool) -> Kestrel {
        let mut address = |name: &str| server.address_of(name).replace("0.0.0.0:", "127.0.0.1:");
        let (memcache, text, admin) =
            (address("kestrel "), address("kestrel_text "), address("kestrel_admin "));
        let thrift = has_thrift.then(|| address("kestrel_thrift "));
        Kestrel { server, memcache, text, thrift, admin }
    }

    fn post(&self, path: &str) -> (u16, String) {
        let answer = Peer::connect(&self.admin).ask("POST", path);
        (answer.status, answer.body)
    }

    /// The first line of the answer. It is empty if the server closes the connection without an
    /// answer.
    fn ask(address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    /// The reply to a call of `set_status`.
    fn set_status(address: &str, status: i32) -> Vec<(i16, Value)> {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&call(FRAMED, "set_status", &[(1, Value::I32(status))])).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        take_reply(FRAMED, &mut answer).unwrap().fields
    }

    fn check_denied(&self) {
        const DENIED: &str = "CLIENT_ERROR not allowed here; see kestrel.control\r\n";
        const DENIED_TEXT: &str = "-Not allowed here; see kestrel.control.\n";
        assert_eq!(Kestrel::ask(&self.memcache, "SHUTDOWN\r\n"), DENIED);
        assert_eq!(Kestrel::ask(&self.memcache, "STATUS quiescent\r\n"), DENIED);
        assert_eq!(Kestrel::ask(&self.memcache, "STATUS\r\n"), "UP\r\n");
        assert_eq!(Kestrel::ask(&self.text, "shutdown\n"), DENIED_TEXT);
        assert_eq!(Kestrel::ask(&self.text, "status readonly\n"), DENIED_TEXT);
        assert_eq!(Kestrel::ask(&self.text, "status\n"), ":UP\n");
        if let Some(thrift) = &self.thrift {
            let told = format!("{:?}", Kestrel::set_status(thrift, 1));
            assert!(told.contains("I32(6)"), "{told}");
            assert_eq!(Kestrel::ask(&self.text, "status\n"), ":UP\n");
        }
        for path in ["/shutdown", "/quiesce.txt"] {
            let (status, text) = self.post(path);
            assert!(status == 403 && text.contains("kestrel.control"), "{status} {text}");
        }
        assert_eq!(self.post("/reload.txt"), (200, "ok\n".to_owned()));
        assert_eq!(Kestrel::ask(&self.memcache, "VERSION\r\n"), "VERSION 2.4.1\r\n");
    }
}

#[test]
fn listeners_that_others_can_reach_let_nobody_stop_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let kestrel = Kestrel::serve(folder.path(), "0.0.0.0", "local");
    kestrel.check_denied();
    assert!(!kestrel.server.stdout().contains("control"), "{}", kestrel.server.stdout());
}

#[test]
fn control_can_be_switched_off_for_this_machine_too() {
    let folder = tempfile::tempdir().unwrap();
    Kestrel::serve(folder.path(), "127.0.0.1", "off").check_denied();
}

#[test]
fn this_machine_may_stop_the_server_over_each_port() {
    let folder = tempfile::tempdir().unwrap();
    let serve = || Kestrel::serve(folder.path(), "127.0.0.1", "local");
    let mut kestrel = serve();
    assert_eq!(Kestrel::ask(&kestrel.memcache, "STATUS readonly\r\n"), "END\r\n");
    assert_eq!(Kestrel::ask(&kestrel.text, "status up\n"), "+0\n");
    let thrift = kestrel.thrift.as_deref().unwrap();
    assert_eq!(Kestrel::set_status(thrift, 2), []);
    assert_eq!(Kestrel::ask(&kestrel.text, "status\n"), ":READONLY\n");
    assert_eq!(Kestrel::ask(&kestrel.text, "shutdown\n"), "+0\n");
    assert_eq!(kestrel.server.wait().code(), Some(0));
    let mut kestrel = serve();
    assert_eq!(Kestrel::ask(&kestrel.memcache, "SHUTDOWN\r\n"), "");
    assert_eq!(kestrel.server.wait().code(), Some(0));
    let mut kestrel = serve();
    assert_eq!(Peer::connect(&kestrel.admin).ask("GET", "/shutdown").status, 405);
    assert_eq!(kestrel.post("/shutdown.txt"), (200, "ok\n".to_owned()));
    assert_eq!(kestrel.server.wait().code(), Some(0));
}

#[test]
fn in_place_of_the_original_everybody_may_and_the_start_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut kestrel = Kestrel::like_the_original(folder.path(), "");
    let said = kestrel.server.stdout();
    assert!(said.contains("can stop the server"), "{said}");
    assert!(said.contains("kestrel.control"), "{said}");
    // Kestrel's scripts send this request, and the server obeys. The server refuses the same
    // request of a browser, because a page of another site may have caused it.
    let mut browser = TcpStream::connect(&kestrel.admin).unwrap();
    let picture = format!(
        "GET /shutdown HTTP/1.0\r\nHost: {}\r\nUser-Agent: Mozilla/5.0\r\n\r\n",
        kestrel.admin
    );
    browser.write_all(picture.as_bytes()).unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 403 "), "{answer}");
    let answer = Peer::connect(&kestrel.admin).ask("GET", "/shutdown.txt");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    assert_eq!(kestrel.server.wait().code(), Some(0));
    let configuration = "[kestrel]\ncontrol = \"local\"\nadmin_get = false\n";
    let kestrel = Kestrel::like_the_original(folder.path(), configuration);
    kestrel.check_denied();
    assert!(!kestrel.server.stdout().contains("can stop the server"));
    assert_eq!(Peer::connect(&kestrel.admin).ask("GET", "/shutdown").status, 405);
}
