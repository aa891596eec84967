//! Tests clients that send many requests and read no replies. They must not delay other clients,
//! and the server must not use unlimited memory for them.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::client::Client;
use testkit::process::Program;

use crate::programs;

const READERS: usize = 100;

/// The number of requests from each reader. All their replies together would be more than a
/// gigabyte.
const QUESTIONS: usize = 200;

const BODY_BYTES: usize = 60_000;

/// The limit of the server's memory. It is far less than the size of the replies, and far more than
/// a server needs.
const RESIDENT_BYTES_MAX: u64 = 150 << 20;

#[test]
fn stuck_readers_cost_the_original_nothing() -> Result<()> {
    programs::reference().map_or(Ok(()), |program| readers_get_stuck(&program))
}

#[test]
fn stuck_readers_cost_lineshaft_in_memory_nothing() -> Result<()> {
    readers_get_stuck(&programs::lineshaft_in_memory())
}

#[test]
fn stuck_readers_cost_lineshaft_with_a_log_nothing() -> Result<()> {
    readers_get_stuck(&programs::lineshaft_durable("data"))
}

fn readers_get_stuck(program: &Program) -> Result<()> {
    let server = program.start()?;
    let mut other = Client::on_tube(server.address(), "others")?;
    let id = other.put(0, 0, 60, &vec![b'b'; BODY_BYTES])?;
    let questions = format!("peek {id}\r\n").repeat(QUESTIONS);
    let mut stuck = Vec::new();
    for _ in 0..READERS {
        let mut reader = TcpStream::connect(server.address())?;
        reader.set_write_timeout(Some(Duration::from_secs(5)))?;
        // The server may already have closed this reader's connection. That is correct, too.
        if reader.write_all(questions.as_bytes()).is_ok() {
            stuck.push(reader);
        }
    }
    // The server fills all socket buffers once, which takes some time. If the server waited for the
    // stuck clients, this client would wait for minutes, and give up with an error.
    other.expect("list-tube-used", "USING others")?;
    let started = Instant::now();
    let another = other.put(0, 0, 60, b"not stuck")?;
    other.expect(&format!("delete {another}"), "DELETED")?;
    other.expect("list-tube-used", "USING others")?;
    let waited = started.elapsed();
    let resident_bytes = server.resident_bytes()?;
    ensure!(resident_bytes < RESIDENT_BYTES_MAX, "{resident_bytes} bytes resident");
    println!("{waited:?} for another client, {resident_bytes} bytes resident");

    drop(stuck);
    other.expect(&format!("delete {id}"), "DELETED")
}
