//! Tests `lineshaft put` and `lineshaft work` with Gearman servers.

mod connection;
mod crossing;
mod put;
mod readme;
mod work;

use rustix::process::Signal;

use super::{Output, Tool, World};

/// Starts a worker that runs this shell command.
fn start_worker(world: &World, functions: &[&str], options: &[&str], command: &str) -> Tool {
    let mut arguments = vec!["work", "--protocol", "gearman"];
    arguments.extend(functions);
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", command]);
    world.start(&arguments)
}

/// Ends a worker with Ctrl-C.
fn stop(worker: Tool) -> Output {
    worker.signal(Signal::INT);
    worker.wait()
}

/// Runs the command for all waiting jobs.
fn drain(world: &World, functions: &[&str], command: &str) -> Output {
    start_worker(world, functions, &["--drain"], command).wait()
}
