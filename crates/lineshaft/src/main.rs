//! The program `lineshaft`: parses the command line and runs the subcommand.

mod allocator;
mod cli;
mod client;
mod commands;
mod interrupt;
mod text;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use server::config::sources::Mistakes;
use server::exit;

use cli::{Cli, Command, ServeArguments};

type Run = fn(&[OsString]) -> ExitCode;

/// The other servers whose command line this program accepts.
const ORIGINALS: [(&str, Run); 2] =
    [("beanstalkd", commands::beanstalkd::run), ("gearmand", commands::gearmand::run)];

fn main() -> ExitCode {
    allocator::set_up();
    // Do not parse these command lines with clap. The originals have another syntax for the values
    // of flags, and other messages.
    for (original, run) in ORIGINALS {
        if let Some(arguments) = commands::arguments_if_called(original, std::env::args_os()) {
            return run(&arguments);
        }
    }
    match run(Cli::parse_from(arguments())) {
        Ok(code) => code,
        Err(error) if error.is::<clap::Error>() => {
            error.downcast::<clap::Error>().expect("it was seen above").exit()
        }
        // The reader of our output, such as `head`, has closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            text::complain(&format!("{error:#}"));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Returns the command line. If the program was started under the name `kestrel`, adds the
/// subcommand `kestrel`.
fn arguments() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let name = given.first().and_then(|program| Path::new(program).file_name());
    if name.is_none_or(|name| name != "kestrel") {
        return given;
    }
    let program = ["lineshaft", "kestrel"].map(OsString::from);
    program.into_iter().chain(given.into_iter().skip(1)).collect()
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => Ok(commands::serve::run(ServeArguments::default())),
        Some(Command::Serve(arguments)) => Ok(commands::serve::run(arguments)),
        Some(Command::Config(arguments)) => commands::config::run(arguments.command),
        Some(Command::Beanstalkd { arguments }) => Ok(commands::beanstalkd::run(&arguments)),
        Some(Command::Gearmand { arguments }) => Ok(commands::gearmand::run(&arguments)),
        Some(Command::Kestrel(arguments)) => Ok(commands::kestrel::run(arguments)),
        Some(Command::Policy(arguments)) => commands::policy::run(arguments.command),
        Some(Command::Token(arguments)) => commands::token::run(arguments.command),
        Some(Command::Backup(arguments)) => commands::backup::run(arguments),
        Some(Command::Cluster(arguments)) => commands::cluster::run(arguments.command),
        Some(Command::Log(arguments)) => commands::log::run(arguments.command),
        Some(Command::Import(arguments)) => commands::import::run(arguments),
        Some(Command::Export(arguments)) => commands::export::run(arguments),
        Some(Command::Put(arguments)) => commands::put::run(arguments),
        Some(Command::Work(arguments)) => commands::work::run(arguments),
        Some(Command::Stats(arguments)) => commands::stats::run(&arguments),
        Some(Command::Peek(arguments)) => commands::peek::run(&arguments),
        Some(Command::Kick(arguments)) => commands::kick::run(&arguments),
        Some(Command::Delete(arguments)) => commands::delete::run(&arguments),
        Some(Command::Pause(arguments)) => commands::pause::run(&arguments),
        Some(Command::Top(arguments)) => commands::top::run(arguments),
        Some(Command::Status(arguments)) => commands::operator::status(&arguments),
        Some(Command::Jobs(arguments)) => commands::operator::jobs(&arguments),
        Some(Command::History(arguments)) => commands::operator::history(&arguments),
        Some(Command::Connections(arguments)) => commands::operator::connections(&arguments),
        Some(Command::Console(arguments)) => commands::operator::console(&arguments),
        Some(Command::Sessions(arguments)) => commands::operator::sessions(&arguments),
        Some(Command::Complete { prefix, .. }) => Ok(commands::complete::queues(&prefix)),
        Some(Command::Move(arguments)) => commands::operator::move_jobs(&arguments),
        Some(Command::Redrive(arguments)) => commands::operator::redrive(&arguments),
        Some(Command::SetAside(arguments)) => commands::operator::set_aside(&arguments),
        Some(Command::Clear(arguments)) => commands::operator::clear(&arguments),
        Some(Command::Cron(arguments)) => commands::operator::cron(&arguments),
        Some(Command::Why(arguments)) => commands::operator::why(&arguments),
        Some(Command::Ping(arguments)) => commands::operator::ping(&arguments),
        Some(Command::Drain(arguments)) => commands::operator::drain(&arguments),
        Some(Command::Reload(arguments)) => commands::operator::reload(&arguments),
        Some(Command::Doctor(arguments)) => commands::doctor::run(&arguments),
        Some(Command::Completions { shell }) => commands::completions::completions(shell),
        Some(Command::Man { folder }) => commands::completions::man(&folder),
        Some(Command::Bench(arguments)) => bench::run(arguments).map(|()| ExitCode::SUCCESS),
    }
}

/// The exit code of an error that the subcommand did not handle.
fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<bench::Interrupted>() {
        130
    } else if error.is::<Mistakes>() {
        exit::BAD_CONFIGURATION
    } else {
        1
    }
}

/// True if the reader of standard output has closed the pipe. A broken connection to the server has
/// another type, `ClientError`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
