//! Opens, uses and closes as many connections as the limit on open files allows, again and again.
//! Later rounds must not need more memory than the first one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_socket_linger;
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::{tools, wait};

use crate::programs;

/// The maximum number of connections. A machine has about 28,000 local ports for connections to one
/// address.
const CONNECTIONS_MAX: u64 = 19_000;

/// The number of descriptors that client and server need besides the connections.
const DESCRIPTORS_SPARE: u64 = 500;

/// The memory after two rounds can differ by this many bytes: about fifty bytes for each
/// connection.
const RESIDENT_BYTES_SLACK: u64 = 1 << 20;

/// Limit of further rounds. The test ends earlier if the memory does not grow in a round.
const FURTHER_STORMS_MAX: usize = 4;

/// The number of threads that open connections. With a log, several threads are faster, because
/// their changes share a flush.
const OPENERS: u64 = 16;

#[test]
fn lineshaft_in_memory_forgets_connections() -> Result<()> {
    open_and_tear_down(&programs::lineshaft_in_memory())
}

#[test]
fn lineshaft_with_a_log_forgets_connections() -> Result<()> {
    open_and_tear_down(&programs::lineshaft_durable("data"))
}

fn open_and_tear_down(program: &Program) -> Result<()> {
    let limit = tools::raise_file_limit();
    let count = CONNECTIONS_MAX.min(limit.saturating_sub(DESCRIPTORS_SPARE));
    if count < CONNECTIONS_MAX {
        let reason = format!("the limit on open files, {limit}, allows no more");
        tools::leave_out(&format!("{count} connections instead of {CONNECTIONS_MAX}: {reason}"));
    }
    let server = program.start()?;
    let mut observer = Client::connect(server.address())?;
    storm(&server, &mut observer, count)?;
    let descriptors = server.descriptor_count()?;
    let mut resident_bytes = vec![server.resident_bytes()?];
    for number in 1..=FURTHER_STORMS_MAX {
        storm(&server, &mut observer, count)?;
        let after = server.descriptor_count()?;
        ensure!(after == descriptors, "{descriptors} descriptors, then {after}");
        resident_bytes.push(server.resident_bytes()?);
        // One round can still grow, because an allocator can return memory late. A leak grows in
        // every round.
        if resident_bytes[number] <= resident_bytes[number - 1] + RESIDENT_BYTES_SLACK {
            println!("{count} connections each time, then resident: {resident_bytes:?}");
            return Ok(());
        }
    }
    bail!("memory grows with every {count} connections: {resident_bytes:?}")
}

/// Opens the connections. Each connection does some work and then waits for a job. Then resets all
/// connections, and waits until the server has noticed.
fn storm(server: &Server, observer: &mut Client, count: u64) -> Result<()> {
    let address = server.address();
    let connections: Vec<Vec<TcpStream>> = std::thread::scope(|scope| {
        let open_some = |opener: u64| {
            let numbers = (0..count).filter(move |number| number % OPENERS == opener);
            scope.spawn(move || numbers.map(|number| open(address, number)).collect())
        };
        let openers: Vec<_> = (0..OPENERS).map(open_some).collect();
        let opened = openers.into_iter().map(|opener| opener.join().expect("it does not panic"));
        opened.collect::<Result<_>>()
    })?;
    wait_for(observer, "current-waiting", count)?;
    drop(connections);
    wait_for(observer, "current-connections", 1)?;
    let stats = observer.stats("stats")?;
    for gone in ["current-waiting", "current-workers", "current-producers", "current-jobs-reserved"]
    {
        ensure!(stats[gone] == "0", "{gone} is {} when all clients are gone", stats[gone]);
    }
    ensure!(stats["current-tubes"] == "1", "{} tubes are left", stats["current-tubes"]);
    Ok(())
}

/// Opens a connection. It puts and deletes a job in one of a hundred tubes, and then waits for a
/// job in its own tube.
fn open(server: SocketAddr, number: u64) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(server).with_context(|| format!("connection {number}"))?;
    // With this option, a close resets the connection. So no port stays in the state TIME_WAIT.
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let commands = format!(
        "use shared-{}\r\nput 0 0 60 5\r\nhello\r\nwatch own-{number}\r\nignore default\r\n",
        number % 100
    );
    stream.write_all(commands.as_bytes())?;
    let mut replies = Vec::new();
    let mut buffer = [0; 512];
    while !replies.ends_with(b"WATCHING 1\r\n") {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the server hung up");
        replies.extend_from_slice(&buffer[..count]);
    }
    let replies = String::from_utf8(replies)?;
    let id = replies.lines().find_map(|line| line.strip_prefix("INSERTED "));
    let id = id.with_context(|| format!("no job was put: {replies}"))?;
    stream.write_all(format!("delete {id}\r\nreserve\r\n").as_bytes())?;
    Ok(stream)
}

fn wait_for(observer: &mut Client, key: &str, wanted: u64) -> Result<()> {
    let wanted = wanted.to_string();
    wait::until_ok(&format!("{key} is {wanted}"), || Ok(observer.stats("stats")?[key] == wanted))
        .with_context(|| format!("at the end: {:?}", observer.stats("stats")))
}
