//! `lineshaft serve`: the server.

use std::io::Write as _;
use std::process::ExitCode;

use notation::address::{Address, ListenAddress};
use notation::{duration, port, size};
use server::config::sources::{Flag, Sources};
use server::config::{Config, Durability, MessageFormat};
use server::{Drain, Hangup, Messages, Protocol, ServeError, Setup, Started};

use crate::cli::ServeArguments;

/// Serves until a signal ends the server.
pub(crate) fn run(arguments: ServeArguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lineshaft: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn serve(arguments: ServeArguments) -> Result<(), ServeError> {
    let mut sources = sources(arguments);
    let config = sources.load_and_keep()?.config;
    let messages = Messages::install(config.messages);
    end_with_the_first_panic();
    let inherited = server::inherited(Protocol::Beanstalk)?;
    let listeners = server::bind_configured(&config, inherited)?;
    let (sources, hangup, drain) = (Some(sources), Hangup::Reload, Drain::RefuseJobs);
    server::run(Setup { config, listeners, messages, sources, hangup, drain }, announce)
}

/// Makes every panic end the process, except a panic of the web thread. A thread that panics leaves
/// its work half done. If the server continued, it could send a false acknowledgement.
pub(crate) fn end_with_the_first_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        // A panic of the web thread is safe, because this thread changes no jobs. If it panics
        // while it holds the broker's lock, the next thread that locks the broker panics, too, and
        // ends the process.
        if std::thread::current().name() != Some(server::WEB_THREAD) {
            std::process::abort();
        }
    }));
}

fn sources(arguments: ServeArguments) -> Sources {
    let ServeArguments {
        data,
        memory,
        sync,
        beanstalk,
        gearman,
        gearman_http,
        kestrel,
        kestrel_text,
        kestrel_thrift,
        kestrel_admin,
        http,
        tls_certificate,
        tls_key,
        tls_client_ca,
        only,
        max_job_size,
        io_threads,
        config,
        port: _,
    } = arguments;
    let memory = memory.then(|| "memory".to_owned());
    let one = |value: Option<String>| value.map(|value| vec![value]);
    let named = |addresses: Vec<String>| (!addresses.is_empty()).then_some(addresses);
    let flags = [
        ("--data", "data.dir", one(data)),
        ("--memory", "data.sync", one(memory)),
        ("--sync", "data.sync", one(sync)),
        ("--beanstalk", "listen.beanstalk", named(beanstalk)),
        ("--gearman", "listen.gearman", named(gearman)),
        ("--gearman-http", "listen.gearman_http", named(gearman_http)),
        ("--kestrel", "listen.kestrel", named(kestrel)),
        ("--kestrel-text", "listen.kestrel_text", named(kestrel_text)),
        ("--kestrel-thrift", "listen.kestrel_thrift", named(kestrel_thrift)),
        ("--kestrel-admin", "listen.kestrel_admin", named(kestrel_admin)),
        ("--http", "listen.http", named(http)),
        ("--tls-certificate", "tls.certificate", one(tls_certificate)),
        ("--tls-key", "tls.key", one(tls_key)),
        ("--tls-client-ca", "tls.client_ca", one(tls_client_ca)),
        ("--max-job-size", "limits.beanstalk_job_size", one(max_job_size)),
        ("--io-threads", "io_threads", one(io_threads)),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(name, key, values)| values.map(|values| Flag { name, key, values }));
    Sources { flags: flags.collect(), only_named_listeners: only, ..Sources::of_process(config) }
}

/// Prints the addresses of the server, the folder of the jobs, the address of the console, and a
/// first command.
pub(crate) fn announce(started: &Started<'_>) {
    let Started { config, recovery, .. } = started;
    let jobs = recovery.map_or(0, |report| report.jobs);
    let data = data_line(config, jobs);
    let memory = started.memory_bytes.map_or_else(String::new, |bytes| {
        format!("at most {} for jobs and connections", size::rounded(bytes))
    });
    let addresses = |protocol| {
        let addresses: Vec<String> =
            started.addresses(protocol).map(ListenAddress::to_string).collect();
        addresses.join(", ")
    };
    if let Some(report) = recovery
        && report.cut_bytes > 0
    {
        tracing::warn!(
            bytes = report.cut_bytes,
            "cut off a torn write at the end of the log; it held nothing acknowledged"
        );
    }
    if let Some(report) = recovery
        && report.unreadable_blocks > 0
    {
        tracing::warn!(
            blocks = report.unreadable_blocks,
            "the disk cannot read parts of the log's files; the start did not need them"
        );
    }
    if config.messages.format == MessageFormat::Json {
        let [beanstalk, gearman, gearman_http, kestrel, kestrel_text, kestrel_thrift, admin, http] =
            Protocol::ALL.map(addresses);
        tracing::info!(
            beanstalk,
            gearman,
            gearman_http,
            kestrel,
            kestrel_text,
            kestrel_thrift,
            kestrel_admin = admin,
            http,
            data,
            jobs,
            control = control_line(started),
            memory,
            "ready"
        );
        return;
    }
    let mut text = format!("lineshaft {} is ready\n", env!("CARGO_PKG_VERSION"));
    let listeners = Protocol::ALL.map(|protocol| (protocol.name(), addresses(protocol)));
    let data = [
        ("data", data),
        ("memory", memory),
        ("control", control_line(started)),
        ("console", console(started)),
        ("try", example(started)),
    ];
    for (name, value) in listeners.into_iter().chain(data).filter(|(_, value)| !value.is_empty()) {
        text.extend([format!("  {name:<14}  {value}\n")]);
    }
    // Ignore an error: the server must continue if the output is closed.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// A warning if other machines can stop the server; otherwise empty.
fn control_line(started: &Started<'_>) -> String {
    if !started.can_be_stopped_from_elsewhere() {
        return String::new();
    }
    "everybody who connects to Kestrel's ports can stop the server and set its status; set kestrel.control = \"local\" to prevent that"
        .to_owned()
}

fn data_line(config: &Config, jobs: u64) -> String {
    let sync = config.data.sync;
    let promise = match sync {
        Durability::Memory => {
            return "in memory only: all jobs are lost when the server stops".to_owned();
        }
        Durability::Always => "an acknowledged job survives a power failure".to_owned(),
        Durability::Every(time) => {
            format!("a power failure can lose the last {}", duration::format(time))
        }
        Durability::Never => {
            "jobs survive a crash of the server, but not a power failure".to_owned()
        }
    };
    let dir = &config.data.dir;
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
    let count = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
    format!("{} ({count}), sync {sync}: {promise}", dir.display())
}

/// An example command that works. It is empty if no listener without TLS speaks the beanstalkd
/// protocol.
fn example(started: &Started<'_>) -> String {
    let plain = started.addresses(Protocol::Beanstalk).find(|one| !one.is_tls);
    let Some(server) = plain.map(|plain| from_here(&plain.address).to_string()) else {
        return String::new();
    };
    if server == format!("127.0.0.1:{}", port::BEANSTALK) {
        return "lineshaft put hello 'first job'".to_owned();
    }
    format!("lineshaft put --server {server} hello 'first job'")
}

/// The address of the console for a browser. It is empty if no TCP listener speaks HTTP, or the
/// console is off.
fn console(started: &Started<'_>) -> String {
    let is_tcp = |one: &&ListenAddress| matches!(one.address, Address::Tcp { .. });
    let listener = started.addresses(Protocol::Http).find(is_tcp);
    let listener = listener.filter(|_| started.config.http.console);
    listener.map_or_else(String::new, |listener| format!("{}/console", web_address(listener)))
}

/// The beginning of the address of a web page, for a browser on this machine.
pub(crate) fn web_address(listener: &ListenAddress) -> String {
    let scheme = if listener.is_tls { "https" } else { "http" };
    format!("{scheme}://{}", from_here(&listener.address))
}

/// The address with which a client on this machine reaches a listener.
fn from_here(address: &Address) -> Address {
    let Address::Tcp { host, port } = address else { return address.clone() };
    let host = match host.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        other => other,
    };
    Address::Tcp { host: host.to_owned(), port: *port }
}
