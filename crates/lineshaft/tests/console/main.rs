//! Tests the web console with a real browser.
//!
//! `scripts/install-test-tools.sh` installs the driver of the browser, and axe-core, which checks
//! that people with disabilities can use a page.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod acting;
mod finding;
mod looks;
mod reading;
#[path = "../serve/running.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod running;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use tempfile::TempDir;
use testkit::browser::Browser;

use running::{Running, command, finish};

/// A server with an admin's token, and a browser.
struct World {
    browser: Browser,
    beanstalk: String,
    http: String,
    token: String,
    server: Running,
    _folder: TempDir,
}

impl World {
    /// `None` if the machine has no browser. The server keeps jobs in memory if `arguments` say so.
    #[track_caller]
    fn start(language: &str, arguments: &[&str], configuration: &str) -> Option<World> {
        let browser = Browser::start(language)?;
        let folder = tempfile::tempdir().unwrap();
        let add = ["token", "add", "ann", "--role", "admin", "--file", "tokens.toml"];
        let added = finish(command(folder.path(), &add));
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let token = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let tokens = folder.path().join("tokens.toml");
        let head = format!("[http]\ntokens = {:?}\n", tokens.display().to_string());
        std::fs::write(folder.path().join("lineshaft.toml"), head + configuration).unwrap();
        let usual = ["serve", "--config", "lineshaft.toml", "--beanstalk", "127.0.0.1:0"];
        let mut starting =
            command(folder.path(), &[&usual[..], &["--http", "127.0.0.1:0"], arguments].concat());
        starting.env("LINESHAFT_LISTEN_GEARMAN", "127.0.0.1:0");
        let mut server = Running::spawn(starting);
        let (beanstalk, http) = (server.address(), server.address_of("http"));
        Some(World { browser, beanstalk, http, token, server, _folder: folder })
    }

    /// Loads a page of the console.
    fn go(&self, path: &str) {
        self.browser.go(&format!("http://{}/console{path}", self.http));
    }

    /// Signs in, and comes back to the page.
    #[track_caller]
    fn sign_in(&self) {
        self.browser.click(".person");
        self.browser.wait_for_address("/login");
        self.browser.write("#token", &self.token);
        self.browser.click(".sign-in button");
        self.browser.wait_for_text(".person", "ann");
    }

    /// Sends commands of beanstalk, and waits for a line of reply for each.
    fn send(&self, commands: impl Iterator<Item = String>) {
        Worker::connect(&self.beanstalk).send(commands);
    }
}

/// A connected client of beanstalk.
struct Worker(BufReader<TcpStream>);

impl Worker {
    fn connect(address: &str) -> Worker {
        Worker(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    /// Sends commands without waiting for replies, and reads a line of reply for each.
    fn send(&mut self, commands: impl Iterator<Item = String>) {
        let (mut count, mut bytes) = (0, Vec::new());
        for command in commands {
            count += 1;
            bytes.extend(command.as_bytes());
        }
        let mut stream = self.0.get_ref().try_clone().unwrap();
        let sending = std::thread::spawn(move || stream.write_all(&bytes).unwrap());
        let mut line = String::new();
        for _ in 0..count {
            self.read(&mut line);
        }
        sending.join().unwrap();
    }

    fn read(&mut self, line: &mut String) {
        line.clear();
        assert!(self.0.read_line(line).unwrap() > 0, "the server has closed the connection");
    }

    /// Sends a command, and returns the line of its reply.
    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.line()
    }

    /// The next line of a reply.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.read(&mut line);
        line.trim_end().to_owned()
    }
}

/// The command that puts a job with this body.
fn put(body: &str) -> String {
    format!("put 0 0 60 {}\r\n{body}\r\n", body.len())
}
