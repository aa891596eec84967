//! Flags and exit codes.

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::Program;
use testkit::tools;

use super::for_both;
use crate::programs;

fn ensure_exit(program: &Program, arguments: &[&str], code: i32) -> Result<()> {
    let finished = program.clone().with(arguments).run()?;
    ensure!(
        finished.status.code() == Some(code),
        "{arguments:?}: wanted exit code {code}, got {}: {}",
        finished.status,
        finished.stderr
    );
    ensure!(!finished.stderr.is_empty(), "{arguments:?}: an error without a word");
    Ok(())
}

#[test]
fn version_goes_to_stdout() -> Result<()> {
    for_both(|program| {
        let finished = program.clone().with(&["-v"]).run()?;
        ensure!(finished.status.success(), "{}", finished.status);
        ensure!(finished.stdout.contains(|c: char| c.is_ascii_digit()), "{}", finished.stdout);
        ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
        Ok(())
    })
}

#[test]
fn help_goes_to_stderr() -> Result<()> {
    for_both(|program| {
        let finished = program.clone().with(&["-h"]).run()?;
        ensure!(finished.status.success(), "{}", finished.status);
        for flag in ["-b", "-f", "-F", "-l", "-p", "-u", "-z", "-s", "-v", "-V", "-h"] {
            ensure!(finished.stderr.contains(flag), "no {flag} in: {}", finished.stderr);
        }
        ensure!(finished.stdout.is_empty(), "{}", finished.stdout);
        Ok(())
    })
}

#[test]
fn wrong_arguments_exit_with_5() -> Result<()> {
    for_both(|program| {
        ensure_exit(program, &["-x"], 5)?;
        ensure_exit(program, &["stray"], 5)?;
        ensure_exit(program, &["-"], 5)?;
        ensure_exit(program, &["--version"], 5)?;
        ensure_exit(program, &["--", "-v"], 5)?;
        ensure_exit(program, &["-p"], 5)?;
        ensure_exit(program, &["-z", "abc"], 5)?;
        ensure_exit(program, &["-f", "abc"], 5)?;
        ensure_exit(program, &["-s", "abc"], 5)
    })
}

#[test]
fn an_unusable_address_exits_with_111() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plain_file = folder.path().join("plain");
    std::fs::write(&plain_file, "not a socket")?;
    let plain_file = format!("unix:{}", plain_file.display());
    let too_long = format!("unix:{}/{}", folder.path().display(), "x".repeat(108));
    for_both(|program| {
        ensure_exit(program, &["-l", "127.0.0.1", "-p", "notaport"], 111)?;
        ensure_exit(program, &["-l", "no-such-host.invalid", "-p", "0"], 111)?;
        ensure_exit(program, &["-l", &plain_file], 111)?;
        ensure_exit(program, &["-l", &too_long], 111)
    })
}

#[test]
fn a_port_in_use_exits_with_111() -> Result<()> {
    for_both(|program| {
        let server = program.start()?;
        let finished = program.run_on(server.address().port())?;
        ensure!(finished.status.code() == Some(111), "{}", finished.status);
        ensure!(!finished.stderr.is_empty(), "an error without a word");
        Ok(())
    })
}

#[test]
fn an_unknown_user_exits_with_33() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        tools::leave_out("only root may change users");
        return Ok(());
    }
    for_both(|program| {
        let user = ["-u", "no-such-user", "-l", "127.0.0.1", "-p", "0"];
        ensure_exit(program, &user, 33)
    })
}

#[test]
fn an_unusable_folder_exits_with_10() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder")?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    for_both(|program| {
        let local = |path: &str| program.clone().with(&["-b", path, "-l", "127.0.0.1", "-p", "0"]);
        ensure_exit(&local(&path("missing")), &[], 10)?;
        ensure_exit(&local(&path("file")), &[], 10)
    })
}

#[test]
fn a_folder_in_use_exits_with_10() -> Result<()> {
    for_both(|program| {
        let folder = tempfile::tempdir()?;
        let program = program.clone().with(&["-b".as_ref(), folder.path()]);
        let _server = program.start()?;
        let finished = program.run_on(0)?;
        ensure!(finished.status.code() == Some(10), "{}: {}", finished.status, finished.stderr);
        Ok(())
    })
}

#[test]
fn the_largest_job_has_exactly_the_size_given() -> Result<()> {
    for_both(|program| {
        let server = program.clone().with(&["-z", "10"]).start()?;
        let mut client = Client::connect(server.address())?;
        client.put(0, 0, 60, b"0123456789")?;
        let reply = client.try_put(0, 0, 60, b"0123456789a")?;
        ensure!(reply == "JOB_TOO_BIG", "{reply}");
        let stats = client.stats("stats")?;
        ensure!(stats["max-job-size"] == "10", "{}", stats["max-job-size"]);
        Ok(())
    })
}

#[test]
fn size_zero_allows_only_empty_jobs() -> Result<()> {
    for_both(|program| {
        let server = program.clone().with(&["-z0"]).start()?;
        let mut client = Client::connect(server.address())?;
        client.put(0, 0, 60, b"")?;
        let reply = client.try_put(0, 0, 60, b"x")?;
        ensure!(reply == "JOB_TOO_BIG", "{reply}");
        Ok(())
    })
}

#[test]
fn a_size_beyond_a_gibibyte_is_cut_with_a_warning() -> Result<()> {
    for_both(|program| {
        for size in ["1073741825", "-5"] {
            let server = program.clone().with(&["-z", size]).start()?;
            let stats = Client::connect(server.address())?.stats("stats")?;
            ensure!(stats["max-job-size"] == "1073741824", "{}", stats["max-job-size"]);
            ensure!(server.stderr().contains("1073741824"), "no warning: {}", server.stderr());
        }
        Ok(())
    })
}

#[test]
fn flags_can_be_glued_and_old_ones_are_forgiven() -> Result<()> {
    for_both(|program| {
        let server = program.clone().with(&["-c", "-n", "-VVV", "-z20"]).start()?;
        let stats = Client::connect(server.address())?.stats("stats")?;
        ensure!(stats["max-job-size"] == "20", "{}", stats["max-job-size"]);
        Ok(())
    })
}

#[test]
fn the_name_beanstalkd_means_the_subcommand() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let link = folder.path().join("beanstalkd");
    std::os::unix::fs::symlink(programs::lineshaft_path(), &link)?;
    let server = Program::like_beanstalkd(link, &["-z", "30"]).start()?;
    let stats = Client::connect(server.address())?.stats("stats")?;
    let size = stats.get("max-job-size").context("a size")?;
    ensure!(size == "30", "{size}");
    Ok(())
}
