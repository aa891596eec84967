//! One running command: started with the job as its input, waited for, stopped.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// What the command learns about its job, besides the body.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    pub(super) job_id: u64,
    pub(super) queue: String,
    pub(super) attempt: u64,
}

/// A command that was started.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// Hears when the command has ended.
    ended: Receiver<()>,
}

impl Running {
    /// Starts the command in a process group of its own, so that Ctrl-C in the terminal reaches
    /// only us, and so that its children can be stopped with it.
    pub(super) fn start(
        command: &[OsString],
        environment: &Environment,
        body: Vec<u8>,
    ) -> io::Result<Running> {
        let (program, arguments) =
            command.split_first().expect("the command line requires a command");
        let mut child = Command::new(program)
            .args(arguments)
            .env("LINESHAFT_JOB_ID", environment.job_id.to_string())
            .env("LINESHAFT_QUEUE", &environment.queue)
            .env("LINESHAFT_ATTEMPT", environment.attempt.to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut input = child.stdin.take().expect("the input was piped above");
        // On a thread, since a command may begin to read late, and we have a lease to renew.
        thread::spawn(move || {
            // A command need not read its input; what it did not want is no error.
            drop(input.write_all(&body));
        });
        let pid = Pid::from_child(&child);
        let (sender, ended) = sync_channel(1);
        thread::spawn(move || {
            // NOWAIT leaves the process to be reaped by `wait`: until then its number cannot be
            // given to another process, which a signal of ours would hit.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).err() == Some(Errno::INTR) {}
            // Nobody listens any more when the wait itself has failed.
            let _ = sender.send(());
        });
        Ok(Running { child, ended })
    }

    /// Waits at most `timeout` for the command to end.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        match self.ended.recv_timeout(timeout) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => self.child.wait().map(Some),
        }
    }

    /// Asks the command and its children to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the command and its children.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Fails only when all of them have ended meanwhile.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}
