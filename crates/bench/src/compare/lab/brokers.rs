//! Starts NATS and RabbitMQ with their data in a folder.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::port::free_address;
use super::wire::Wire;
use crate::driver::amqp::{DECLARED, declare};
use crate::driver::nats::stream_requests;

/// The time limit for Erlang's table of names to accept its first connection.
const NAMES_START_MAX: Duration = Duration::from_secs(10);

/// The command of a NATS server with JetStream.
pub(super) fn nats(
    program: &Path,
    sync_always: bool,
    address: SocketAddr,
    data: &Path,
) -> anyhow::Result<Command> {
    let config = data.join("nats.conf");
    let sync = if sync_always { ", sync_interval: always" } else { "" };
    let folder = data.display();
    let text = format!("listen: \"{address}\"\njetstream {{ store_dir: \"{folder}\"{sync} }}\n");
    fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    Ok(command)
}

/// Makes the stream of a queue, and its consumer.
pub(super) fn make_stream(address: SocketAddr, queue: &str) -> anyhow::Result<()> {
    let mut wire = Wire::connect(address)?;
    wire.read_lines(1)?;
    for request in stream_requests(queue) {
        wire.send(&request)?;
        let answer = wire.read_text(2)?;
        anyhow::ensure!(!answer.contains("\"error\""), "NATS refused a stream: {answer}");
    }
    Ok(())
}

/// Makes a quorum queue of one server.
pub(super) fn make_quorum_queue(address: SocketAddr, queue: &str) -> anyhow::Result<()> {
    let mut wire = Wire::connect(address)?;
    wire.send(&declare(queue))?;
    wire.read_to(DECLARED)
}

/// Erlang's table of names, which RabbitMQ needs. Dropping it kills the process and waits for its
/// end.
#[derive(Debug)]
pub(super) struct Names {
    child: Child,
    port: u16,
}

impl Names {
    /// Starts the table. Without one of its own, a server would leave a process behind.
    pub(super) fn start() -> anyhow::Result<Self> {
        let address = free_address()?;
        let port = address.port();
        let mut command = Command::new("epmd");
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start epmd, which RabbitMQ needs")?;
        let names = Self { child, port };
        let give_up = Instant::now() + NAMES_START_MAX;
        while TcpStream::connect(address).is_err() {
            anyhow::ensure!(Instant::now() < give_up, "epmd does not accept connections");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(names)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended and was already waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command of a RabbitMQ server without plugins and without a configuration.
pub(super) fn rabbitmq(
    program: &Path,
    names: &Names,
    address: SocketAddr,
    data: &Path,
) -> anyhow::Result<Command> {
    let port = address.port().to_string();
    let mut command = Command::new(program);
    command.env("HOME", data).env("ERL_EPMD_PORT", names.port.to_string());
    command.env("RABBITMQ_NODENAME", format!("bench-{port}@localhost"));
    command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_PORT", port);
    command.env("RABBITMQ_DIST_PORT", free_address()?.port().to_string());
    for (name, file) in [
        ("RABBITMQ_MNESIA_BASE", "mnesia"),
        ("RABBITMQ_LOG_BASE", "log"),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
        ("RABBITMQ_CONFIG_FILE", "none"),
        ("RABBITMQ_CONF_ENV_FILE", "none.conf"),
    ] {
        command.env(name, data.join(file));
    }
    // The script then becomes the server, instead of waiting for it. So the process has the number
    // of the server.
    command.env("RUNNING_UNDER_SYSTEMD", "true");
    Ok(command)
}
