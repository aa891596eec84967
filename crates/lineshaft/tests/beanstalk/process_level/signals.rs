//! Tests signals: drain mode and the ways to stop.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use testkit::client::Client;
use testkit::process::{Server, ended_by};
use testkit::wait;

use super::for_both;

/// Sends SIGUSR1 and waits until the server reports drain mode.
fn drain(server: &Server, client: &mut Client) -> Result<()> {
    server.signal(Signal::USR1)?;
    wait::until_ok("the server drains", || Ok(client.stats("stats")?["draining"] == "true"))
}

#[test]
fn a_draining_server_takes_no_jobs_and_serves_those_it_has() -> Result<()> {
    for_both(|program| {
        let server = program.start()?;
        let mut client = Client::on_tube(server.address(), "drained")?;
        let id = client.put(0, 0, 60, b"before")?;
        ensure!(client.stats("stats")?["draining"] == "false", "it drains from the start");
        drain(&server, &mut client)?;

        let reply = client.try_put(0, 0, 60, b"after")?;
        ensure!(reply == "DRAINING", "{reply}");
        let reply = client.try_put(0, 0, 60, &vec![b'x'; 65_536])?;
        ensure!(reply == "JOB_TOO_BIG", "{reply}");
        client.send(b"put 0 0 60 2\r\nabXY")?;
        let reply = client.read_line()?;
        ensure!(reply == "EXPECTED_CRLF", "{reply}");

        let job = client.reserve(0)?;
        ensure!(job.is_some_and(|job| job.id == id), "the job from before can be had");
        client.expect(&format!("release {id} 0 0"), "RELEASED")?;
        client.expect("use elsewhere", "USING elsewhere")?;
        let mut newcomer = Client::on_tube(server.address(), "drained")?;
        ensure!(newcomer.reserve(0)?.is_some(), "a new connection is served");

        drain(&server, &mut client)?;
        let reply = client.try_put(0, 0, 60, b"after")?;
        ensure!(reply == "DRAINING", "a second signal changed something: {reply}");
        Ok(())
    })
}

#[test]
fn sigterm_ends_the_server_and_loses_nothing() -> Result<()> {
    for_both(|program| {
        let folder = tempfile::tempdir()?;
        let program = program.clone().with(&["-b".as_ref(), folder.path()]);
        let server = program.start()?;
        let id = Client::connect(server.address())?.put(3, 0, 60, b"kept")?;
        let finished = server.terminate()?;
        // The signal kills the original. A clean exit is also allowed.
        let ended = finished.status.success() || ended_by(finished.status, Signal::TERM);
        ensure!(ended, "{}", finished.status);

        let server = program.start()?;
        let job = Client::connect(server.address())?.peek(&format!("peek {id}"))?;
        ensure!(job.is_some_and(|job| job.body == b"kept"), "the job is gone");
        Ok(())
    })
}

#[test]
fn other_signals_of_the_end_end_it() -> Result<()> {
    for_both(|program| {
        for signal in [Signal::INT, Signal::HUP, Signal::QUIT] {
            let mut server = program.start()?;
            server.signal(signal)?;
            let status = server.wait()?;
            let ended = status.success() || ended_by(status, signal);
            ensure!(ended, "{signal:?}: {status}");
        }
        Ok(())
    })
}
