//! Parses the original's command line and configuration file. The error messages are the
//! original's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::flags::{FLAGS, Flag, Takes};
use super::verbosity::Verbosity;

/// The default configuration file. It is read if it exists.
const CONFIG_FILE_DEFAULT: &str = "/etc/gearmand.conf";

/// The parsed flags.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Options {
    pub(super) backlog: Option<i32>,
    pub(super) daemon: bool,
    /// True in the background process.
    pub(super) detached: bool,
    pub(super) check_args: bool,
    pub(super) exceptions: bool,
    pub(super) file_descriptors: Option<u64>,
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) job_retries: u8,
    pub(super) handle_prefix: Option<String>,
    pub(super) keepalive: bool,
    pub(super) keepalive_idle_s: Option<u32>,
    pub(super) keepalive_interval_s: Option<u32>,
    pub(super) keepalive_count: Option<u32>,
    pub(super) log_file: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) port: Option<String>,
    pub(super) pid_file: Option<PathBuf>,
    pub(super) protocol: Option<String>,
    pub(super) http_port: Option<String>,
    pub(super) round_robin: bool,
    pub(super) queue_type: Option<String>,
    pub(super) syslog: bool,
    pub(super) coredump: bool,
    /// 0 means that the server chooses a number for the machine.
    pub(super) threads: usize,
    pub(super) user: Option<String>,
    pub(super) verbosity: Verbosity,
    pub(super) worker_wakeup: u32,
    pub(super) ssl: bool,
    pub(super) ssl_certificate: Option<PathBuf>,
    pub(super) ssl_key: Option<PathBuf>,
    pub(super) ssl_ca_file: Option<PathBuf>,
    /// Whether clients need a certificate. The original does not have this flag.
    pub(super) ssl_client_auth: Option<String>,
    /// The file of `-q libsqlite3` or `-q tokyocabinet`.
    pub(super) queue_file: Option<PathBuf>,
    /// Flags of queue plug-ins that the server ignores.
    pub(super) ignored: Vec<&'static str>,
    /// The folder for jobs, instead of the original's queue. The original does not have this flag.
    pub(super) data: Option<PathBuf>,
}

/// A flag with its value.
struct GivenFlag {
    flag: &'static Flag,
    value: String,
}

/// Parses the command line and the configuration file that it names. The command line overrides the
/// file.
pub(super) fn parse(arguments: &[OsString]) -> Result<Options, String> {
    let words: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let given = read_words(&words, UnknownWords::Refuse)?;
    let mut options = Options::default();
    for one in read_file(&given)?.iter().chain(&given) {
        options.apply(one)?;
    }
    Ok(options)
}

/// How to handle words that are not flags.
#[derive(Copy, Clone, Eq, PartialEq)]
enum UnknownWords {
    Refuse,
    /// COMPAT(gearmand): unknown words of the file are ignored, so the file can contain comments.
    Ignore,
}

fn read_file(given: &[GivenFlag]) -> Result<Vec<GivenFlag>, String> {
    let named = given.iter().find(|one| one.flag.long == "config-file");
    let path = named.map_or(CONFIG_FILE_DEFAULT, |one| &one.value);
    match std::fs::read_to_string(Path::new(path)) {
        Ok(text) => {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            read_words(&words, UnknownWords::Ignore)
        }
        Err(_) if named.is_none() => Ok(Vec::new()),
        Err(_) => Err("Could not open configuration file.".to_owned()),
    }
}

fn read_words(words: &[String], unknown_words: UnknownWords) -> Result<Vec<GivenFlag>, String> {
    let mut given: Vec<GivenFlag> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let found = if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            vec![read_long(long, &mut words)?]
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            read_short(short, &mut words)?
        } else if unknown_words == UnknownWords::Ignore {
            continue;
        } else {
            return Err(unrecognised(word));
        };
        for one in found {
            if given.iter().any(|other| std::ptr::eq(other.flag, one.flag)) {
                let long = one.flag.long;
                return Err(format!("option '--{long}' cannot be specified more than once"));
            }
            given.push(one);
        }
    }
    Ok(given)
}

fn unrecognised(word: &str) -> String {
    format!("unrecognised option '{word}'")
}

fn missing(flag: &Flag) -> String {
    format!("the required argument for option '--{}' is missing", flag.long)
}

/// Parses `name`, `name=value`, or `name` with the value as the next word.
fn read_long<'a>(
    text: &str,
    words: &mut impl Iterator<Item = &'a String>,
) -> Result<GivenFlag, String> {
    let (name, value) =
        text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let flag = FLAGS
        .iter()
        .find(|flag| flag.long == name)
        .ok_or_else(|| unrecognised(&format!("--{text}")))?;
    let value = match (flag.takes, value) {
        (Takes::Nothing, None) => String::new(),
        (Takes::Nothing, Some(_)) => {
            return Err(format!("option '--{name}' does not take any arguments"));
        }
        (Takes::Value, Some("")) => {
            return Err(format!(
                "the argument for option '--{name}' should follow immediately after the equal sign"
            ));
        }
        (Takes::Value, Some(value)) => value.to_owned(),
        (Takes::Value, None) => words.next().ok_or_else(|| missing(flag))?.clone(),
    };
    Ok(GivenFlag { flag, value })
}

/// Parses letters after one dash. If a letter takes a value, the other letters of the word are the
/// value. If no letters follow, the next word is the value.
fn read_short<'a>(
    text: &str,
    words: &mut impl Iterator<Item = &'a String>,
) -> Result<Vec<GivenFlag>, String> {
    let mut given = Vec::new();
    for (at, letter) in text.char_indices() {
        let flag = FLAGS
            .iter()
            .find(|flag| flag.short == Some(letter))
            .ok_or_else(|| unrecognised(&format!("-{}", &text[at..])))?;
        let rest = &text[at + letter.len_utf8()..];
        match flag.takes {
            Takes::Nothing => given.push(GivenFlag { flag, value: String::new() }),
            Takes::Value => {
                let mut next = || words.next().cloned().ok_or_else(|| missing(flag));
                let value = if rest.is_empty() { next()? } else { rest.to_owned() };
                given.push(GivenFlag { flag, value });
                break;
            }
        }
    }
    Ok(given)
}

impl Options {
    fn apply(&mut self, given: &GivenFlag) -> Result<(), String> {
        let GivenFlag { flag, value } = given;
        let text = || Some(value.clone());
        match flag.long {
            "backlog" => self.backlog = i32::try_from(number(given)?).ok(),
            "daemon" => self.daemon = true,
            "detached" => self.detached = true,
            "check-args" => self.check_args = true,
            "exceptions" => self.exceptions = true,
            "file-descriptors" => self.file_descriptors = Some(number(given)?.into()),
            "help" => self.help = true,
            "version" => self.version = true,
            "job-retries" => self.job_retries = u8::try_from(number(given)?).unwrap_or(u8::MAX),
            "job-handle-prefix" => self.handle_prefix = text(),
            "hashtable-buckets" if number(given)? == 0 => {
                return Err("hashtable-buckets has to be greater than 0".to_owned());
            }
            "keepalive" => self.keepalive = true,
            "keepalive-idle" => self.keepalive_idle_s = positive(given)?,
            "keepalive-interval" => self.keepalive_interval_s = positive(given)?,
            "keepalive-count" => self.keepalive_count = positive(given)?,
            "log-file" => self.log_file = text(),
            "listen" => self.listen = text(),
            "port" => self.port = text(),
            "pid-file" => self.pid_file = Some(value.into()),
            "protocol" => self.protocol = text(),
            "http-port" => self.http_port = text(),
            "round-robin" => self.round_robin = true,
            "queue-type" => self.queue_type = text(),
            "syslog" => self.syslog = true,
            "coredump" => self.coredump = true,
            "threads" => self.threads = number(given)? as usize,
            "user" => self.user = text(),
            "verbose" => {
                self.verbosity = Verbosity::parse(value)
                    .ok_or_else(|| "Invalid value for --verbose supplied".to_owned())?;
            }
            "worker-wakeup" => self.worker_wakeup = number(given)?,
            "ssl" => self.ssl = true,
            "ssl-certificate" => self.ssl_certificate = Some(value.into()),
            "ssl-key" => self.ssl_key = Some(value.into()),
            "ssl-ca-file" => self.ssl_ca_file = Some(value.into()),
            "ssl-client-auth" => self.ssl_client_auth = text(),
            "libsqlite3-db" | "libtokyocabinet-file" => self.queue_file = Some(value.into()),
            "data" => self.data = Some(value.into()),
            // Lineshaft has no hash table of fixed size. The configuration file was already read.
            "hashtable-buckets" | "config-file" => {}
            other => self.ignored.push(other),
        }
        Ok(())
    }
}

/// COMPAT(gearmand): the number has 32 bits. A negative number counts down from the largest number.
fn number(given: &GivenFlag) -> Result<u32, String> {
    let (long, value) = (given.flag.long, &given.value);
    let number: Option<i64> = value.parse().ok();
    number
        .filter(|number| (-i64::from(u32::MAX)..=i64::from(u32::MAX)).contains(number))
        .map(|number| number as u32)
        .ok_or_else(|| format!("the argument ('{value}') for option '--{long}' is invalid"))
}

/// Parses a number. If the number is not positive, such as the original's default -1, returns
/// `None`: then the system's default applies.
fn positive(given: &GivenFlag) -> Result<Option<u32>, String> {
    let number = number(given)?.cast_signed();
    Ok(u32::try_from(number).ok().filter(|number| *number > 0))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
