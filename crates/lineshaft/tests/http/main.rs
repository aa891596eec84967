//! Tests the HTTP pages of `lineshaft serve`: health, metrics, and the replies to slow or hostile
//! clients.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod access;
mod api;
mod clients;
mod connections;
mod contract;
mod deep_queue;
mod exposition;
mod health;
mod history;
mod kestrel_admin;
mod memory;
mod metrics;
#[path = "../serve/packet.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod packet;
mod past_jobs;
mod request;
#[path = "../serve/running.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod running;
mod traces;

use std::path::Path;

use request::{Answer, get};
use running::{Running, command};

/// A server, and its addresses.
struct Site {
    server: Running,
    beanstalk: String,
    http: String,
}

impl Site {
    /// Starts a server with beanstalk and HTTP on free ports, and with further arguments.
    fn start(folder: &Path, arguments: &[&str]) -> Site {
        Site::start_with(folder, arguments, &[])
    }

    /// Starts a server like `start`, with settings in the environment.
    fn start_with(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Site {
        let usual = ["serve", "--beanstalk", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let mut starting = command(folder, &[&usual, arguments].concat());
        starting.envs(environment.iter().copied());
        let mut server = Running::spawn(starting);
        let (beanstalk, http) = (server.address(), server.address_of("http"));
        Site { server, beanstalk, http }
    }

    fn get(&self, path: &str) -> Answer {
        get(&self.http, path)
    }
}
