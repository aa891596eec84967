//! Tests that a web page cannot harm the server, even if its browser runs on the server's machine.
//! Also tests which clients can stop the server over Kestrel's ports.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod chromium;
mod control;
mod pages;
#[path = "../http/request.rs"]
#[allow(dead_code, reason = "shared with the tests of HTTP")]
mod request;
#[path = "../serve/running.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod running;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use testkit::client::Client;

use request::{Peer, get};
use running::{Running, command};

/// The name and the address of each listener.
const PROTOCOLS: [&str; 8] = [
    "beanstalk",
    "gearman",
    "gearman_http",
    "kestrel",
    "kestrel_text",
    "kestrel_thrift",
    "kestrel_admin",
    "http",
];

/// The name of a queue. No page must learn it.
const SECRET: &str = "secret-queue";

/// A server with all listeners, and one job.
struct Target {
    server: Running,
    /// The addresses, in the order of [`PROTOCOLS`].
    addresses: Vec<String>,
}

impl Target {
    fn start(folder: &Path) -> Target {
        let mut starting = command(folder, &["serve", "--memory"]);
        for protocol in PROTOCOLS {
            let variable = format!("LINESHAFT_LISTEN_{}", protocol.to_uppercase());
            starting.env(variable, "127.0.0.1:0");
        }
        let mut server = Running::spawn(starting);
        let address = |protocol: &str| server.address_of(&format!("{protocol} "));
        let addresses = PROTOCOLS.into_iter().map(address).collect();
        let target = Target { server, addresses };
        let mut client = target.client();
        client.expect(&format!("use {SECRET}"), &format!("USING {SECRET}")).unwrap();
        client.put(0, 0, 60, b"job").unwrap();
        target
    }

    fn address(&self, protocol: &str) -> &str {
        let place = PROTOCOLS.iter().position(|known| *known == protocol).unwrap();
        &self.addresses[place]
    }

    fn client(&self) -> Client {
        Client::connect(self.address("beanstalk").parse().unwrap()).unwrap()
    }

    /// The number of connections that the server closed because a browser used a port that is not
    /// for HTTP.
    fn foreign_count(&self) -> u64 {
        let metrics = get(self.address("http"), "/metrics").body;
        let line = "lineshaft_connections_refused_total{reason=\"foreign\"} ";
        let value = metrics.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        value.parse().unwrap()
    }

    /// Checks that the server still runs with its old status, and has only its one job.
    fn check_unharmed(&self) {
        let stats = self.client().stats("stats").unwrap();
        assert_eq!(
            (stats["current-jobs-ready"].as_str(), stats["total-jobs"].as_str()),
            ("1", "1")
        );
        assert_eq!(get(self.address("http"), "/health/ready").body, "ready\n");
        let shown = Peer::connect(self.address("kestrel_admin")).ask("GET", "/stats.json");
        let shown: serde_json::Value = serde_json::from_str(&shown.body).unwrap();
        assert_eq!(shown["labels"]["status"], "Up");
        // The server stops 100 ms after a client's request to stop, but writes its message at once.
        assert!(!self.server.stderr().contains("stopping"), "{}", self.server.stderr());
    }

    /// Sends the request of Kestrel's monitoring. Returns the reported number of gets, which counts
    /// from the last such request.
    fn gets_since_monitoring_asked(&self) -> serde_json::Value {
        let shown = get(self.address("kestrel_admin"), "/stats.json?namespace=mon");
        assert_eq!(shown.status, 200);
        let shown: serde_json::Value = serde_json::from_str(&shown.body).unwrap();
        shown["counters"]["cmd_get"].clone()
    }

    /// Sends the request of monitoring, and then causes one get. The next request of monitoring
    /// must report this get.
    fn count_a_get_after_monitoring_asked(&self) {
        self.gets_since_monitoring_asked();
        let mut kestrel = TcpStream::connect(self.address("kestrel")).unwrap();
        kestrel.write_all(b"GET nothing\r\nquit\r\n").unwrap();
        kestrel.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Checks that no other client's request has reset the numbers for monitoring.
    fn check_numbers_of_monitoring(&self) {
        assert_eq!(self.gets_since_monitoring_asked(), 1);
        assert_eq!(self.gets_since_monitoring_asked(), 0);
    }
}
