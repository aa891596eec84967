//! Tests Lineshaft as a replacement of the original, in a folder that already has log files of the
//! original.

use std::path::Path;

use anyhow::{Result, ensure};
use testkit::client::Client;

use crate::programs;

/// Puts a job into the original, and deletes it if `delete` is set. Then kills the original, so
/// that its files stay.
fn leave_files_of_the_original(folder: &Path, delete: bool) -> Result<bool> {
    let Some(original) = programs::reference() else { return Ok(false) };
    let server = original.with(&["-b".as_ref(), folder]).start()?;
    let mut client = Client::connect(server.address())?;
    let id = client.put(0, 0, 60, b"left behind")?;
    if delete {
        client.expect(&format!("delete {id}"), "DELETED")?;
    }
    server.kill();
    Ok(true)
}

#[test]
fn jobs_of_the_original_are_not_passed_over() -> Result<()> {
    let folder = tempfile::tempdir()?;
    if !leave_files_of_the_original(folder.path(), false)? {
        return Ok(());
    }
    let lineshaft = programs::lineshaft_as_beanstalkd().with(&["-b".as_ref(), folder.path()]);
    let finished = lineshaft.run_on(0)?;
    ensure!(!finished.status.success(), "it started and left the jobs behind");
    ensure!(finished.stderr.contains("import"), "no way out is named: {}", finished.stderr);
    ensure!(finished.stderr.contains("binlog."), "no file is named: {}", finished.stderr);
    Ok(())
}

#[test]
fn empty_files_of_the_original_do_not_matter() -> Result<()> {
    let folder = tempfile::tempdir()?;
    if !leave_files_of_the_original(folder.path(), true)? {
        return Ok(());
    }
    let lineshaft = programs::lineshaft_as_beanstalkd().with(&["-b".as_ref(), folder.path()]);
    let server = lineshaft.start()?;
    let id = Client::connect(server.address())?.put(0, 0, 60, b"new")?;
    server.kill();
    let server = lineshaft.start()?;
    let job = Client::connect(server.address())?.peek(&format!("peek {id}"))?;
    ensure!(job.is_some(), "the new job is gone");
    Ok(())
}
