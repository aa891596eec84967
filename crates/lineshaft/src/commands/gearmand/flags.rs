//! The original's flags: names and `--help` texts.

/// One flag.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) short: Option<char>,
    /// The long name without the dashes.
    pub(super) long: &'static str,
    pub(super) takes: Takes,
    /// The help text. It is empty for flags that `--help` does not show.
    pub(super) help: &'static str,
}

/// Whether a flag has a value.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Takes {
    Nothing,
    Value,
}

const fn switch(short: Option<char>, long: &'static str, help: &'static str) -> Flag {
    Flag { short, long, takes: Takes::Nothing, help }
}

const fn value(short: Option<char>, long: &'static str, help: &'static str) -> Flag {
    Flag { short, long, takes: Takes::Value, help }
}

/// A flag of a queue plug-in. It is accepted and ignored, because Lineshaft uses its own log.
const fn plug_in(long: &'static str) -> Flag {
    value(None, long, "")
}

/// All flags.
pub(super) static FLAGS: [Flag; 58] = [
    value(Some('b'), "backlog", "connections that may wait to be accepted"),
    switch(Some('d'), "daemon", "run in the background"),
    switch(None, "exceptions", "tell all clients why a job failed"),
    value(Some('f'), "file-descriptors", "limit of open files"),
    switch(Some('h'), "help", "show this help"),
    value(Some('j'), "job-retries", "attempts before a job fails (default 0: any number)"),
    value(None, "job-handle-prefix", "prefix of handles (default H: and the machine's name)"),
    value(None, "hashtable-buckets", "accepted and ignored"),
    switch(None, "keepalive", "use the values of the next three"),
    value(None, "keepalive-idle", "seconds before the first keep-alive probe"),
    value(None, "keepalive-interval", "seconds between keep-alive probes"),
    value(None, "keepalive-count", "number of keep-alive probes"),
    value(Some('l'), "log-file", "stderr, none, or a file (default /var/log/gearmand.log)"),
    value(Some('L'), "listen", "address, name, or unix:PATH (default: all addresses)"),
    value(Some('p'), "port", "port (default 4730, or GEARMAND_PORT)"),
    value(Some('P'), "pid-file", "file for the process id (default /var/gearmand.pid)"),
    value(Some('r'), "protocol", "http: also take jobs by HTTP"),
    value(None, "http-port", "port for HTTP (default 8080)"),
    switch(Some('R'), "round-robin", "a worker's functions take turns"),
    value(Some('q'), "queue-type", "builtin: in memory (default); others: in Lineshaft's log"),
    value(None, "libsqlite3-db", "the log is kept in FILE.lineshaft"),
    value(None, "libtokyocabinet-file", "the log is kept in FILE.lineshaft"),
    value(None, "data", "folder for the log, for all other queue types"),
    value(None, "config-file", "file with more flags (default /etc/gearmand.conf)"),
    switch(None, "syslog", "write to the system's log"),
    switch(None, "coredump", "allow core dumps"),
    value(Some('t'), "threads", "threads for connections (default 0: suits the machine)"),
    value(Some('u'), "user", "become this user"),
    value(
        None,
        "verbose",
        "FATAL, ALERT, CRITICAL, ERROR (default), WARNING, NOTICE, INFO or DEBUG",
    ),
    switch(Some('V'), "version", "show the version"),
    value(Some('w'), "worker-wakeup", "sleeping workers to wake for a new job (default 0: all)"),
    switch(None, "ssl", "speak only TLS on the port"),
    value(None, "ssl-certificate", "certificate (default /etc/ssl/certs/gearmand.pem)"),
    value(None, "ssl-key", "its private key (default /etc/ssl/certs/gearmand.key)"),
    value(None, "ssl-ca-file", "authority (default /etc/ssl/certs/gearmand-ca.pem)"),
    // The original does not have this flag.
    value(None, "ssl-client-auth", "none (default), optional or required: a client's certificate"),
    switch(None, "check-args", ""),
    // The original does not have this flag. `--daemon` sets it for the background process.
    switch(None, "detached", ""),
    switch(None, "store-queue-on-shutdown", ""),
    plug_in("libsqlite3-table"),
    plug_in("libmemcached-servers"),
    plug_in("libmemcached-prefix"),
    plug_in("libpq-conninfo"),
    plug_in("libpq-table"),
    plug_in("redis-server"),
    plug_in("redis-port"),
    plug_in("redis-password"),
    plug_in("redis-prefix"),
    plug_in("mysql-host"),
    plug_in("mysql-port"),
    plug_in("mysql-user"),
    plug_in("mysql-password"),
    plug_in("mysql-db"),
    plug_in("mysql-table"),
    switch(None, "libtokyocabinet-optimize", ""),
    plug_in("libdrizzle-host"),
    plug_in("libdrizzle-port"),
    plug_in("libdrizzle-db"),
];

/// The `--help` text.
pub(super) fn help() -> String {
    let mut text = "Use: gearmand [OPTIONS]\n\nOptions:\n".to_owned();
    for flag in FLAGS.iter().filter(|flag| !flag.help.is_empty()) {
        let short = flag.short.map_or("    ".to_owned(), |letter| format!("-{letter}, "));
        let argument = if flag.takes == Takes::Value { " ARG" } else { "" };
        let written = format!("{short}--{}{argument}", flag.long);
        text.extend([format!(" {written:<30} {}\n", flag.help)]);
    }
    text
}
