//! `--daemon`: the server runs in a background process with its own terminal session. The program
//! has threads, so it cannot fork safely. Instead, it starts the same program as a new process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

/// The background process writes this to its standard output when it is ready.
const READY: &[u8] = b"ready\n";

/// Starts the program again with the same arguments, and waits until it is ready or has failed.
pub(super) fn start(arguments: &[OsString]) -> io::Result<ExitCode> {
    let mut child = Command::new(std::env::current_exe()?)
        // Scripts look for this name in the list of processes.
        .arg0("gearmand")
        .arg("--detached")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = Vec::new();
    let stdout = child.stdout.take().expect("it was asked for");
    stdout.take(READY.len() as u64).read_to_end(&mut output)?;
    if output == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The first step of the background process: leaves the terminal's session.
pub(super) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Reports to the foreground process that the server is ready, and releases the terminal. The
/// foreground process then ends.
pub(super) fn report_ready() {
    // These writes fail only if the foreground process is gone. The server continues.
    let mut stdout = io::stdout();
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
