//! `lineshaft beanstalkd`, or this program under the name `beanstalkd`. It takes beanstalkd's flags
//! and uses its defaults. So scripts that start beanstalkd can start this program instead.

mod options;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use notation::address::ListenAddress;
use rustix::fs::FlockOperation;
use server::config::{Config, Durability};
use server::{Bound, Drain, Hangup, Messages, Protocol, ServeError, Setup, SocketOptions, Started};

use options::{Options, Parsed, USAGE};

use super::serve::end_with_the_first_panic;
use super::user::{UserError, become_user};

/// The original's version. Clients and scripts compare it.
const VERSION: &str = "beanstalkd 1.12";

/// The original's exit codes.
mod exit {
    pub(super) const LOG_UNUSABLE: u8 = 1;
    pub(super) const USAGE: u8 = 5;
    pub(super) const FOLDER_UNUSABLE: u8 = 10;
    pub(super) const USER_LOOK_UP: u8 = 32;
    pub(super) const USER_UNKNOWN: u8 = 33;
    pub(super) const USER_REFUSED: u8 = 34;
    pub(super) const ADDRESS: u8 = 111;
}

/// Why the server ended, and its exit code.
struct Failure {
    code: u8,
    message: String,
}

/// Runs the server with the original's arguments.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let (notes, parsed) = options::parse(arguments);
    for note in notes {
        complain(&note);
    }
    match parsed {
        Parsed::Help => {
            eprint!("{USAGE}");
            ExitCode::SUCCESS
        }
        Parsed::Version => {
            println!("{VERSION}");
            ExitCode::SUCCESS
        }
        Parsed::Wrong(message) => {
            complain(&message);
            eprint!("{USAGE}");
            ExitCode::from(exit::USAGE)
        }
        Parsed::Serve(options) => match serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                complain(&failure.message);
                ExitCode::from(failure.code)
            }
        },
    }
}

/// Writes to standard error. Ignores an error, because the server must continue if standard error
/// is closed.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "beanstalkd: {message}");
}

/// Takes the same steps as the original, in the same order: listen, become the user, open the log.
fn serve(options: &Options) -> Result<(), Failure> {
    let config = configure(options);
    let messages = Messages::install(config.messages);
    end_with_the_first_panic();
    let listeners = listen(options)?;
    if let Some(user) = &options.user {
        become_user(user)?;
    }
    let _lock = match &options.folder {
        Some(folder) => Some(prepare_folder(folder)?),
        None => None,
    };
    let (hangup, drain) = (Hangup::Stop, Drain::RefuseJobs);
    let setup = Setup { config, listeners, messages, sources: None, hangup, drain };
    server::run(setup, announce)
        .map_err(|error| Failure { code: exit_code(&error), message: error.to_string() })
}

fn configure(options: &Options) -> Config {
    let mut config = Config::default();
    config.limits.beanstalk_job_bytes = options.job_bytes_max;
    config.data.segment_bytes = options.segment_bytes;
    config.data.sync = Durability::Memory;
    if let Some(folder) = &options.folder {
        config.data.dir.clone_from(folder);
        config.data.sync = options.sync;
    }
    config.messages.level = match options.verbosity {
        0 => tracing::Level::WARN,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    config
}

fn listen(options: &Options) -> Result<Vec<Bound>, Failure> {
    let failed = |message: String| Failure { code: exit::ADDRESS, message };
    // The original ignores the names of inherited sockets.
    let mut inherited =
        server::inherited_as(Protocol::Beanstalk).map_err(|error| failed(error.to_string()))?;
    if !inherited.is_empty() {
        if inherited.len() > 1 {
            complain("inherited more than one listen fd; ignoring all but the first one.");
            inherited.truncate(1);
        }
        for (flag, value) in [("-p", &options.port), ("-l", &options.address)] {
            if let Some(value) = value {
                complain(&format!("inherited listen fd; ignoring option: {flag} {value}"));
            }
        }
        return Ok(inherited);
    }
    let address = options.listen_address().map_err(failed)?;
    server::bind(Protocol::Beanstalk, &address.into(), &SocketOptions::default())
        .map_err(|error| failed(error.to_string()))
}

/// Checks that the folder has no jobs of the original, and that no original uses the folder.
/// Returns the lock file. While this file is open, no original can start in the folder.
fn prepare_folder(folder: &Path) -> Result<File, Failure> {
    let failed = |message: String| Failure { code: exit::FOLDER_UNUSABLE, message };
    let shown = folder.display();
    let unusable =
        |error: std::io::Error| failed(format!("failed to lock wal dir {shown}: {error}"));
    std::fs::read_dir(folder).map_err(unusable)?;
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join("lock"))
        .map_err(unusable)?;
    rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| failed(format!("failed to lock wal dir {shown}: a beanstalkd uses it")))?;
    let unreadable =
        |error| failed(format!("cannot check {shown} for jobs of the original: {error}"));
    match import::beanstalkd::file_with_jobs(folder).map_err(unreadable)? {
        None => Ok(lock),
        Some(file) => Err(Failure {
            code: exit::LOG_UNUSABLE,
            message: format!(
                "{} still holds jobs of the original; to take them over, run: \
                 lineshaft import beanstalkd {shown} --data {shown} --set-aside",
                file.display()
            ),
        }),
    }
}

fn announce(started: &Started<'_>) {
    let addresses: Vec<String> =
        started.addresses(Protocol::Beanstalk).map(ListenAddress::to_string).collect();
    let data = &started.config.data;
    let kept = match data.sync {
        Durability::Memory => "in memory".to_owned(),
        sync => format!("in {}, sync {sync}", data.dir.display()),
    };
    complain(&format!(
        "lineshaft {} on {}, jobs {kept}; SIGUSR1 drains, SIGTERM, SIGINT and SIGHUP stop cleanly",
        env!("CARGO_PKG_VERSION"),
        addresses.join(", "),
    ));
}

fn exit_code(error: &ServeError) -> u8 {
    match error {
        ServeError::Folder { .. } => exit::FOLDER_UNUSABLE,
        ServeError::Open(_) if error.exit_code() == server::exit::FOLDER_LOCKED => {
            exit::FOLDER_UNUSABLE
        }
        ServeError::Open(_) => exit::LOG_UNUSABLE,
        other => other.exit_code(),
    }
}

impl From<UserError> for Failure {
    fn from(error: UserError) -> Failure {
        let code = match error {
            UserError::LookUp(..) => exit::USER_LOOK_UP,
            UserError::Unknown(_) => exit::USER_UNKNOWN,
            UserError::Refused(..) => exit::USER_REFUSED,
        };
        Failure { code, message: error.to_string() }
    }
}
