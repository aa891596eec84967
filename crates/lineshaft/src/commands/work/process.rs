//! One running command. Starts it with the body as input, reads its output, waits for its end, and
//! stops it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Size of one read of the command's output.
const READ_BYTES: usize = 64 * 1024;

/// Limit of reads from a pipe after the command's end. It is enough to empty a full pipe. Without a
/// limit, a child of the command that continues to write could keep us here for ever.
const LAST_READS_MAX: usize = 32;

/// The environment variables of the command. They do not contain the body, which is the standard
/// input.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) job_id: String,
    pub(super) queue: String,
    /// Variables that only one protocol has.
    pub(super) others: Vec<(&'static str, String)>,
}

/// The destination of the command's standard output and standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outputs {
    /// The output of this program.
    Shown,
    /// [`Running::listen`] returns it to the caller.
    Captured,
}

/// A started command.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// One end of a pipe. A thread that waits for the command has the other end, and closes it when
    /// the command ends. Then this end becomes readable.
    end: PipeReader,
    /// The command's outputs that are still open. Empty if the outputs are not captured.
    pipes: Vec<OutputPipe>,
}

/// One output of the command.
#[derive(Debug)]
struct OutputPipe {
    is_errors: bool,
    pipe: File,
}

/// The command's output since the last read.
#[derive(Debug, Default)]
pub(super) struct CapturedOutput {
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
}

/// Fails if the program does not exist or cannot be executed. Searches the same folders as
/// [`Running::start`].
pub(super) fn look_up(program: &OsStr) -> io::Result<()> {
    let may_run = |path: &Path| {
        access(path, Access::EXEC_OK)?;
        if path.is_dir() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    };
    if program.as_bytes().contains(&b'/') {
        return may_run(Path::new(program));
    }
    // Without PATH, the system searches these folders.
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_found = env::split_paths(&folders).any(|folder| may_run(&folder.join(program)).is_ok());
    if is_found { Ok(()) } else { Err(Errno::NOENT.into()) }
}

impl Running {
    /// Starts the command in a process group of its own. So Ctrl-C in the terminal reaches only us,
    /// and a signal to the group also reaches the command's children.
    pub(super) fn start(
        command: &[OsString],
        environment: &Environment,
        body: Vec<u8>,
        outputs: Outputs,
    ) -> io::Result<Running> {
        let (program, arguments) =
            command.split_first().expect("the command line requires a command");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LINESHAFT_JOB_ID", &environment.job_id)
            .env("LINESHAFT_QUEUE", &environment.queue)
            .envs(environment.others.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .process_group(0);
        if outputs == Outputs::Captured {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let (end, still_runs) = io::pipe()?;
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().expect("the input was piped above");
        // The command can read its input slowly, and the calling thread must not wait for it. So
        // another thread writes the input.
        thread::spawn(move || {
            // The write fails if the command does not read all its input. That is not an error.
            drop(input.write_all(&body));
        });
        let pid = Pid::from_child(&child);
        thread::spawn(move || {
            // With NOWAIT, this thread leaves the process as a zombie until `listen` calls `wait`.
            // So the system cannot reuse the process's id, and our signals cannot reach another
            // process.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).err() == Some(Errno::INTR) {}
            drop(still_runs);
        });
        let output = child.stdout.take().map(OwnedFd::from).map(|pipe| (false, pipe));
        let errors = child.stderr.take().map(OwnedFd::from).map(|pipe| (true, pipe));
        let pipes = [output, errors].into_iter().flatten();
        let pipes = pipes.map(|(is_errors, pipe)| OutputPipe { is_errors, pipe: pipe.into() });
        Ok(Running { child, end, pipes: pipes.collect() })
    }

    /// Waits at most `timeout` until the command writes something or ends. Appends the output to
    /// `output`. Returns the exit status once the command has ended and all its output was read.
    pub(super) fn listen(
        &mut self,
        timeout: Duration,
        output: &mut CapturedOutput,
    ) -> io::Result<Option<ExitStatus>> {
        let (has_ended, _) = self.wait_for_event(timeout, output)?;
        if !has_ended {
            return Ok(None);
        }
        self.read_rest(output)?;
        self.child.wait().map(Some)
    }

    /// Reads the remaining output after the command's end. Reads at least once, because the command
    /// may have written its last output after the last `poll` checked the pipes.
    fn read_rest(&mut self, output: &mut CapturedOutput) -> io::Result<()> {
        for _ in 0..LAST_READS_MAX {
            let (_, may_have_more) = self.wait_for_event(Duration::ZERO, output)?;
            if !may_have_more {
                break;
            }
        }
        Ok(())
    }

    /// Waits at most `timeout` until the command writes or ends, and reads its output once. Returns
    /// whether the command has ended, and whether there may be more output.
    fn wait_for_event(
        &mut self,
        timeout: Duration,
        output: &mut CapturedOutput,
    ) -> io::Result<(bool, bool)> {
        let pipes = self.pipes.iter().map(|pipe| PollFd::new(&pipe.pipe, PollFlags::IN));
        let mut pipes: Vec<PollFd<'_>> = pipes.collect();
        pipes.push(PollFd::new(&self.end, PollFlags::IN));
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut pipes, timeout.as_ref()) {
            Ok(_) => {}
            // A signal interrupted the wait before `poll` checked anything.
            Err(Errno::INTR) => return Ok((false, true)),
            Err(error) => return Err(error.into()),
        }
        let mut ready: Vec<bool> = pipes.iter().map(|pipe| !pipe.revents().is_empty()).collect();
        let has_ended = ready.pop().expect("it was pushed above");
        let has_spoken = ready.contains(&true);
        let mut failure = None;
        let mut ready = ready.into_iter();
        self.pipes.retain_mut(|pipe| {
            let is_ready = ready.next().expect("there is one for each");
            // The pipe is ready, so the read does not block.
            !is_ready || pipe.read(output).unwrap_or_else(|error| failure.replace(error).is_some())
        });
        failure.map_or(Ok((has_ended, has_spoken)), Err)
    }

    /// Sends SIGTERM to the command and its children.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the command and its children.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // This fails only if the whole process group has already ended.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl OutputPipe {
    /// Reads once. Returns false if the pipe is closed.
    fn read(&mut self, output: &mut CapturedOutput) -> io::Result<bool> {
        let to = if self.is_errors { &mut output.errors } else { &mut output.output };
        let length = to.len();
        to.resize(length + READ_BYTES, 0);
        let outcome = self.pipe.read(&mut to[length..]);
        to.truncate(length + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(bytes) => Ok(bytes > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Describes the end of a command, for messages.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_right_before_the_end_is_captured() {
        let command = ["sh", "-c", "printf end; printf why >&2"].map(OsString::from);
        let environment = Environment::default();
        let mut running =
            Running::start(&command, &environment, Vec::new(), Outputs::Captured).unwrap();
        // Wait only for the end, and read no output before it. Then `read_rest` must find all
        // output.
        let mut end = [PollFd::new(&running.end, PollFlags::IN)];
        assert_eq!(poll(&mut end, None).unwrap(), 1);
        let mut output = CapturedOutput::default();
        running.read_rest(&mut output).unwrap();
        assert_eq!((output.output, output.errors), (b"end".to_vec(), b"why".to_vec()));
        assert!(running.child.wait().unwrap().success());
    }
}
