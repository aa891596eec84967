//! Tests a disk that fails one flush, at every point of a short run. After the failed flush, the
//! server must not acknowledge anything, and must end with exit code 74. After a restart, all
//! acknowledged changes must exist.
//!
//! A retry of the flush would be wrong. The system may have dropped the data that it could not
//! write. The second flush would then succeed without this data.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::{tools, wait};

use crate::programs;

/// Exit code of a server whose disk failed.
const EXIT_DISK: i32 = 74;

/// The number of runs. In the first run, the first flush fails, in the second run the second flush,
/// and so on. Some flushes happen during the start. Most other flushes are for single changes.
const FLUSHES: usize = 12;

/// The failing flush happens within this many changes, although several changes can share a flush.
const CHANGES_MAX: usize = 2_000;

#[test]
fn nothing_is_acknowledged_after_a_failed_flush() -> Result<()> {
    let Some(strace) = tools::find_or_skip("strace") else { return Ok(()) };
    let mut acknowledged = 0;
    for number in 1..=FLUSHES {
        acknowledged +=
            fail_flush(&strace, number).with_context(|| format!("flush {number} failed"))?;
    }
    ensure!(acknowledged > 0, "all of these flushes belong to the start: nothing was tested");
    Ok(())
}

/// Returns the number of changes that were acknowledged before the flush failed.
fn fail_flush(strace: &Path, number: usize) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let data = data.to_str().context("a text path")?;
    let lineshaft = programs::lineshaft_path();
    let lineshaft = lineshaft.to_str().context("a text path")?;
    let inject = format!("inject=fsync,fdatasync:error=EIO:when={number}");
    // With -D, the test's child process is the server and not strace. So the test can end it like
    // any other server.
    let traced = ["-D", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
    let serve = [lineshaft, "serve", "--data", data];
    let program = Program::serve_under(strace, &[&traced[..], &serve[..]].concat());
    // If a flush of the start fails, the start fails, either before or after the server listens.
    // The server has then acknowledged nothing.
    let Ok(mut server) = program.start() else { return Ok(0) };
    let (ids, deleted) = change_until_the_end(&server)?;
    let acknowledged = ids.len() + deleted.len();
    let status = server.wait()?;
    ensure!(
        status.code() == Some(EXIT_DISK),
        "{acknowledged} changes, then {status}: {}",
        server.stderr()
    );

    let server = programs::lineshaft_durable(data).start()?;
    let mut client = Client::connect(server.address())?;
    for id in ids {
        let job = client.peek(&format!("peek {id}"))?;
        ensure!(job.is_some(), "job {id} was acknowledged and is gone");
    }
    for id in deleted {
        let job = client.peek(&format!("peek {id}"))?;
        ensure!(job.is_none(), "job {id} was deleted and is back");
    }
    Ok(acknowledged)
}

/// Puts and deletes jobs until the server closes the connection. Returns two lists of ids:
/// acknowledged jobs without a delete, and jobs with an acknowledged delete. If a delete got no
/// reply, its job is in neither list.
fn change_until_the_end(server: &Server) -> Result<(Vec<u64>, Vec<u64>)> {
    let mut client = Client::connect(server.address())?;
    let (mut ids, mut deleted) = (Vec::new(), Vec::new());
    for number in 0..CHANGES_MAX {
        let Some(id) = put(&mut client) else { return Ok((ids, deleted)) };
        ids.push(id);
        if number % 3 == 0 {
            let id = ids.swap_remove(ids.len() / 2);
            let Ok(reply) = client.command(&format!("delete {id}")) else {
                return Ok((ids, deleted));
            };
            ensure!(reply == "DELETED", "delete: {reply}");
            deleted.push(id);
        }
    }
    anyhow::bail!("the server went on although a flush had failed")
}

/// Puts a job, and retries while the server has no room. Returns `None` if the connection is
/// closed. If the failed flush was for a segment that the server prepares ahead, the server has no
/// room until it has prepared another segment.
fn put(client: &mut Client) -> Option<u64> {
    let mut reply = None;
    wait::until("the server has room", || {
        reply = client.try_put(0, 0, 60, b"acknowledged").ok();
        reply.as_deref() != Some("OUT_OF_MEMORY")
    });
    reply?.strip_prefix("INSERTED ")?.parse().ok()
}
