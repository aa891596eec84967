//! `--daemon`: the server goes on in a process of its own, in a session of its own. A running program
//! cannot be split in two safely, so the program is started anew.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

/// What the background process says on its standard output when it serves.
const READY: &[u8] = b"ready\n";

/// Starts the program anew with the same arguments, and waits until it serves or has failed.
pub(super) fn start(arguments: &[OsString]) -> io::Result<ExitCode> {
    let mut child = Command::new(std::env::current_exe()?)
        // Whoever looks for the server in the list of processes looks for this name.
        .arg0("gearmand")
        .arg("--detached")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    let stdout = child.stdout.take().expect("it was asked for");
    stdout.take(READY.len() as u64).read_to_end(&mut said)?;
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// In the background process, first of all: leaves the session of the terminal.
pub(super) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// In the background process, when it serves: lets the foreground one end, and the terminal go.
pub(super) fn tell_ready() {
    // Nobody listens any more if these fail; the server goes on.
    let mut stdout = io::stdout();
    let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
