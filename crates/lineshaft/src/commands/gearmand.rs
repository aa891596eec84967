//! `lineshaft gearmand`, or this program under the name `gearmand`. It takes gearmand's flags and
//! uses its defaults. So scripts that start gearmand can start this program instead.

mod daemon;
mod flags;
mod options;
mod pid_file;
mod queue_type;
mod ssl;
mod verbosity;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use notation::address::{Address, ListenAddress};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::config::{Config, Durability, Gearman};
use server::{
    Bound, Drain, Hangup, Keepalive, MessageFile, Messages, Output, Protocol, ServeError, Setup,
    SocketOptions, Started,
};

use options::Options;
use pid_file::PidFile;

use super::serve::end_with_the_first_panic;
use super::service::{PortError, parse_port};
use super::user::become_user;

const LOG_FILE_DEFAULT: &str = "/var/log/gearmand.log";
const PORT_DEFAULT: &str = "4730";
const HTTP_PORT_DEFAULT: &str = "8080";
const PORT_VARIABLE: &str = "GEARMAND_PORT";
/// The prefix of a UNIX socket's address. The original has no such addresses.
const UNIX: &str = "unix:";
const THREADS_MAX: usize = 64;
/// Number of attempts to bind an address that is in use, one per second. The server that uses the
/// address may be about to end.
const BIND_ATTEMPTS: u32 = 20;

/// Why the server ended, and its exit code. The original's only exit code for failures is 1.
struct Failure {
    code: u8,
    message: String,
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { code: 1, message }
    }
}

/// Runs the server with the original's arguments.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let options = match options::parse(arguments) {
        Ok(options) => options,
        Err(message) => return refuse(&Failure::from(message)),
    };
    if options.check_args {
        return ExitCode::SUCCESS;
    }
    if options.help {
        print!("{}", flags::help());
        return ExitCode::SUCCESS;
    }
    if options.version {
        let (version, home) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_REPOSITORY"));
        println!("\ngearmand 1.1.20 (lineshaft {version}) - {home}");
        return ExitCode::SUCCESS;
    }
    if options.daemon && !options.detached {
        return match daemon::start(arguments) {
            Ok(code) => code,
            Err(error) => refuse(&Failure::from(format!("cannot go to the background: {error}"))),
        };
    }
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Also write the message to the log file. If the log file is standard error, the
            // message is already there.
            if options.log_file.as_deref() != Some("stderr") {
                tracing::error!("{}", failure.message);
            }
            refuse(&failure)
        }
    }
}

fn refuse(failure: &Failure) -> ExitCode {
    complain(&failure.message);
    ExitCode::from(failure.code)
}

/// Writes to standard error. Ignores an error, because the server must continue if standard error
/// is closed.
fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "gearmand: {message}");
}

/// Takes the same steps as the original, in the same order: user, background, queue, log, listen.
/// Only the process id file comes later.
fn serve(options: &Options) -> Result<(), Failure> {
    refuse_unknown_protocol(options)?;
    set_limits(options)?;
    if let Some(user) = &options.user {
        become_user(user).map_err(|error| format!("Could not become user : {error}"))?;
    }
    if options.detached {
        daemon::leave_session().map_err(|error| format!("cannot go to the background: {error}"))?;
    }
    let folder = queue_type::folder(options)?;
    for flag in &options.ignored {
        complain(&format!("--{flag} is ignored: Lineshaft's own log keeps the jobs"));
    }
    if ssl::is_meant_but_off(options) {
        complain("without --ssl nothing is encrypted, even with --ssl-certificate");
    }
    let mut config = configure(options, folder);
    if options.ssl {
        config.tls = ssl::settings(options, |name| std::env::var_os(name).map(PathBuf::from))?;
    }
    let messages = Messages::install_to(log_output(options), config.messages);
    end_with_the_first_panic();
    let listeners = listen(options)?;
    // Write the process id file after the listeners are open. A second server on the same address
    // fails before this line, so it does not remove the first server's file. In the original, a
    // second server removes the first server's file.
    let _pid_file = PidFile::write(options.pid_file.as_deref())?;
    let (hangup, drain) = (Hangup::ReopenMessages, Drain::StopWhenDone);
    let setup = Setup { config, listeners, messages, sources: None, hangup, drain };
    server::run(setup, |started| announce(options, started)).map_err(Failure::from)
}

/// Refuses an unknown protocol. The server has no listener for it, so its clients could not
/// connect.
fn refuse_unknown_protocol(options: &Options) -> Result<(), String> {
    match options.protocol.as_deref() {
        None | Some("http") => Ok(()),
        Some(other) => Err(format!("Unknown protocol module : {other}")),
    }
}

fn set_limits(options: &Options) -> Result<(), String> {
    if options.coredump {
        let maximum = getrlimit(Resource::Core).maximum;
        let raised = Rlimit { current: maximum, maximum };
        setrlimit(Resource::Core, raised)
            .map_err(|error| format!("Could not enable core dumps : {error}"))?;
    }
    if let Some(count) = options.file_descriptors {
        let limit = Rlimit { current: Some(count), maximum: Some(count) };
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| format!("Could not set file descriptors to {count} : {error}"))?;
    }
    Ok(())
}

fn configure(options: &Options, folder: Option<PathBuf>) -> Config {
    let mut config = Config::default();
    config.data.sync = Durability::Memory;
    if let Some(folder) = folder {
        config.data.dir = folder;
        config.data.sync = Durability::Always;
    }
    if options.threads > 0 {
        config.io_threads = options.threads.min(THREADS_MAX);
    }
    config.gearman = Gearman {
        round_robin: options.round_robin,
        job_retries: options.job_retries,
        worker_wakeup: options.worker_wakeup,
        exceptions: options.exceptions,
        handle_prefix: options.handle_prefix.clone(),
        verbosity: Some(options.verbosity.name()),
    };
    config.messages.level = options.verbosity.level();
    config
}

fn log_output(options: &Options) -> Output {
    if options.syslog {
        return Output::Syslog("gearmand");
    }
    let path = match options.log_file.as_deref() {
        Some("stderr") => return Output::Stderr,
        Some("none") => return Output::Nothing,
        Some(path) => path,
        None => LOG_FILE_DEFAULT,
    };
    MessageFile::open(Path::new(path)).map_or_else(
        |error| {
            complain(&format!(
                "Could not open log file \"{path}\", switching to stderr. ({error})"
            ));
            Output::Stderr
        },
        Output::File,
    )
}

fn listen(options: &Options) -> Result<Vec<Bound>, Failure> {
    let mut listeners = server::inherited(Protocol::Gearman)?;
    if listeners.is_empty() {
        let from_environment = std::env::var(PORT_VARIABLE).ok();
        let port = options.port.as_deref().or(from_environment.as_deref()).unwrap_or(PORT_DEFAULT);
        listeners = bind(options, Protocol::Gearman, port)?;
    }
    if options.ssl {
        // COMPAT(gearmand): the HTTP port has no TLS.
        listeners = listeners
            .into_iter()
            .map(|bound| if bound.protocol == Protocol::Gearman { bound.with_tls() } else { bound })
            .collect();
    }
    let has_http = listeners.iter().any(|bound| bound.protocol == Protocol::GearmanHttp);
    if options.protocol.is_some() && !has_http {
        if options.listen.as_ref().is_some_and(|host| host.starts_with(UNIX)) {
            return Err("-r http needs a port, and -L names a unix socket".to_owned().into());
        }
        let port = options.http_port.as_deref().unwrap_or(HTTP_PORT_DEFAULT);
        listeners.extend(bind(options, Protocol::GearmanHttp, port)?);
    }
    Ok(listeners)
}

fn bind(options: &Options, protocol: Protocol, port: &str) -> Result<Vec<Bound>, Failure> {
    let port = parse_port(port)
        .map_err(|PortError| format!("cannot listen: `{port}` is neither a port nor a service"))?;
    let socket_options = socket_options(options);
    let bind = || match &options.listen {
        None => server::bind_all_addresses(protocol, port, &socket_options),
        Some(host) => {
            let address = match host.strip_prefix(UNIX) {
                Some(path) => Address::Unix(path.into()),
                None => Address::Tcp { host: host.clone(), port },
            };
            server::bind(protocol, &address.into(), &socket_options)
        }
    };
    for _ in 1..BIND_ATTEMPTS {
        match bind() {
            Err(ServeError::AddressInUse(address)) => {
                tracing::warn!(%address, "the address is in use, trying again");
                sleep(Duration::from_secs(1));
            }
            result => return Ok(result?),
        }
    }
    Ok(bind()?)
}

fn socket_options(options: &Options) -> SocketOptions {
    let mut socket_options = SocketOptions::default();
    if let Some(backlog) = options.backlog {
        socket_options.backlog = backlog;
    }
    // Keep-alive is always on. The flags set only its times.
    if options.keepalive {
        socket_options.keepalive = Keepalive {
            idle_s: options.keepalive_idle_s,
            interval_s: options.keepalive_interval_s,
            count: options.keepalive_count,
        };
    }
    socket_options
}

fn announce(options: &Options, started: &Started<'_>) {
    let addresses = |protocol| started.addresses(protocol).map(ListenAddress::to_string);
    let http = addresses(Protocol::GearmanHttp).map(|address| format!("http://{address}"));
    let addresses: Vec<String> = addresses(Protocol::Gearman).chain(http).collect();
    let data = &started.config.data;
    let kept = match data.sync {
        Durability::Memory => "in memory".to_owned(),
        sync => format!("in {}, sync {sync}", data.dir.display()),
    };
    complain(&format!(
        "lineshaft {} on {}, jobs {kept}; SIGTERM and SIGINT stop cleanly, SIGUSR1 stops when all jobs \
         are done, SIGHUP reopens the log file",
        env!("CARGO_PKG_VERSION"),
        addresses.join(", "),
    ));
    if options.detached {
        daemon::report_ready();
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let code = match error {
            // The original has no exit code for a failed log. This exit code is for service
            // managers.
            ServeError::LogFailed(_) => error.exit_code(),
            _ => 1,
        };
        Failure { code, message: error.to_string() }
    }
}
