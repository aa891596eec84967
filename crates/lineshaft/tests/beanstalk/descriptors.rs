//! Tests a server that has no file descriptor for another connection. It must wait for a free
//! descriptor and serve its clients. It must not retry in a busy loop, as the original does.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::wait;

use crate::programs;

/// The limit of the server's file descriptors. The test opens more connections than this. The
/// system queues the connections that the server cannot accept.
const DESCRIPTORS: usize = 100;

/// The limit of processor time in an idle second, in ticks of 10 milliseconds.
const IDLE_TICKS_MAX: u64 = 20;

#[test]
fn running_out_of_descriptors_delays_no_client_and_passes() -> Result<()> {
    let path = programs::lineshaft_path();
    let path = path.to_str().context("a text path")?;
    let limited = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    let program = Program::like_beanstalkd("/bin/sh", &["-c", &limited, path, "beanstalkd"]);
    let server = program.start()?;
    let mut early = Client::connect(server.address())?;
    early.put(0, 0, 60, b"early")?;

    let connect = |_| TcpStream::connect(server.address());
    let mut crowd: Vec<TcpStream> = (0..DESCRIPTORS * 2).map(connect).collect::<Result<_, _>>()?;
    wait_until_full(&server)?;
    let before = server.processor_ticks()?;
    wait::let_pass(Duration::from_secs(1), "the time spent in an idle second is measured");
    let spent = server.processor_ticks()? - before;
    ensure!(spent <= IDLE_TICKS_MAX, "{spent} ticks of processor time in an idle second");
    early.put(0, 0, 60, b"served all the while")?;
    let stderr_bytes = server.stderr().len();
    ensure!(stderr_bytes < 100_000, "{stderr_bytes} bytes of complaints");

    crowd.truncate(10);
    let mut late = Client::connect(server.address())?;
    late.set_reply_timeout(Duration::from_secs(10))?;
    late.put(0, 0, 60, b"late").context("after the crowd has gone")?;
    Ok(())
}

/// Waits until the server has accepted all connections that it can. No event shows this. So the
/// test checks that the server has many connections, and that their number stays the same for some
/// checks.
fn wait_until_full(server: &Server) -> Result<()> {
    const LOOKS: usize = 20;
    let (mut before, mut same) = (0, 0);
    wait::until_ok("the server accepts no more", || {
        let now = server.descriptor_count()?;
        same = if now == before { same + 1 } else { 0 };
        before = now;
        Ok(now > DESCRIPTORS / 4 && same >= LOOKS)
    })
}
