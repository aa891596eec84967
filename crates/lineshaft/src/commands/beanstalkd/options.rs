//! Parses the original's command line. All flags have one letter. A value follows in the same word
//! or in the next word. There are no long flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use notation::address::Address;
use server::config::{Durability, JOB_BYTES_LIMIT, SEGMENT_BYTES};

use crate::commands::service::service_port;

/// The usage text of the original.
pub(super) const USAGE: &str = "\
Use: beanstalkd [OPTIONS]

Options:
 -b DIR   write-ahead log directory
 -f MS    fsync at most once every MS milliseconds (default is -f0);
          use -f0 for \"always fsync\"
 -F       never fsync
 -l ADDR  listen on address (default is 0.0.0.0)
 -p PORT  listen on port (default is 11300)
 -u USER  become user and group
 -z BYTES set the maximum job size in bytes (default is 65535);
          max allowed is 1073741824 bytes
 -s BYTES set the size of each write-ahead log file (default is 10485760)
 -v       show version information
 -V       increase verbosity
 -h       show this help
";

const JOB_BYTES_DEFAULT: u32 = 65_535;
const SEGMENT_BYTES_DEFAULT: u64 = 10_485_760;
/// The longest time between syncs, far above any sensible value. The original has no limit, and
/// reads `-f -1` as 2^64 milliseconds.
const SYNC_MAX: Duration = Duration::from_hours(1);

/// The parsed command line.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Parsed {
    Serve(Options),
    Help,
    Version,
    /// An invalid command line. The message is printed before the usage text.
    Wrong(String),
}

/// The parsed flags.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Options {
    /// `-b`: the folder of the log. `None` means that all jobs stay in memory.
    pub(super) folder: Option<PathBuf>,
    /// `-f`, `-F`: when to sync the log.
    pub(super) sync: Durability,
    /// `-l`
    pub(super) address: Option<String>,
    /// `-p`
    pub(super) port: Option<String>,
    /// `-u`
    pub(super) user: Option<String>,
    /// `-z`
    pub(super) job_bytes_max: u32,
    /// `-s`
    pub(super) segment_bytes: u64,
    /// Number of `-V` flags.
    pub(super) verbosity: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            folder: None,
            // The original's default is 50 ms. A sync at every group is safer, and cheap enough.
            sync: Durability::Always,
            address: None,
            port: None,
            user: None,
            job_bytes_max: JOB_BYTES_DEFAULT,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            verbosity: 0,
        }
    }
}

/// Parses the command line. Also returns warnings, which must be printed first.
pub(super) fn parse(arguments: &[OsString]) -> (Vec<String>, Parsed) {
    let mut notes = Vec::new();
    let mut options = Options::default();
    let mut arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        // The original has no such flag, but it is the first flag that people try.
        if argument == "--help" {
            return (notes, Parsed::Help);
        }
        let Some(flags) = argument.strip_prefix('-').filter(|flags| !flags.is_empty()) else {
            return (notes, Parsed::Wrong(format!("unknown argument: {argument}")));
        };
        for (at, flag) in flags.char_indices() {
            match flag {
                'h' => return (notes, Parsed::Help),
                'v' => return (notes, Parsed::Version),
                'V' => options.verbosity += 1,
                'F' => options.sync = Durability::Never,
                'c' | 'n' => {
                    notes.push(format!("-{flag} flag was removed. binlog is always compacted."));
                }
                'b' | 'f' | 'l' | 'p' | 's' | 'u' | 'z' => {
                    let glued = &flags[at + 1..];
                    let value =
                        if glued.is_empty() { arguments.next() } else { Some(glued.into()) };
                    let Some(value) = value else {
                        let message = format!("flag requires an argument: -{flag}");
                        return (notes, Parsed::Wrong(message));
                    };
                    if let Err(message) = options.set(flag, value, &mut notes) {
                        return (notes, Parsed::Wrong(message));
                    }
                    break;
                }
                _ => return (notes, Parsed::Wrong(format!("unknown flag: {argument}"))),
            }
        }
    }
    (notes, Parsed::Serve(options))
}

impl Options {
    fn set(&mut self, flag: char, value: String, notes: &mut Vec<String>) -> Result<(), String> {
        match flag {
            'b' => self.folder = Some(PathBuf::from(value)),
            'f' => {
                self.sync = match number(&value)? {
                    0 => Durability::Always,
                    millis => Durability::Every(Duration::from_millis(millis).min(SYNC_MAX)),
                }
            }
            'l' => self.address = Some(value),
            'p' => self.port = Some(value),
            's' => {
                self.segment_bytes =
                    number(&value)?.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
            }
            'u' => self.user = Some(value),
            'z' => {
                let bytes = number(&value)?;
                if bytes > JOB_BYTES_LIMIT {
                    notes.push(format!("maximum job size was set to {JOB_BYTES_LIMIT}"));
                }
                self.job_bytes_max = bytes.min(JOB_BYTES_LIMIT) as u32;
            }
            other => unreachable!("-{other} takes no value"),
        }
        Ok(())
    }

    /// The address for the listener.
    pub(super) fn listen_address(&self) -> Result<Address, String> {
        let host = self.address.as_deref().unwrap_or("0.0.0.0");
        if let Some(path) = host.strip_prefix("unix:") {
            return Address::parse_unix(path).map_err(|error| error.to_string());
        }
        let port = self.port.as_deref().unwrap_or("11300");
        let port = match number(port) {
            // COMPAT(beanstalkd): only the lower 16 bits of the number count.
            Ok(port) => port as u16,
            Err(_) => service_port(port).ok_or_else(|| {
                format!("cannot listen: `{port}` is neither a port nor a service")
            })?,
        };
        Ok(Address::Tcp { host: host.to_owned(), port })
    }
}

/// Parses a number. COMPAT(beanstalkd): leading spaces and a sign are accepted. A negative or too
/// large number becomes the largest number.
fn number(text: &str) -> Result<u64, String> {
    let trimmed = text.trim_start();
    let (is_negative, digits) = match trimmed.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("invalid size: {text}"));
    }
    let value = digits.parse::<u64>().unwrap_or(u64::MAX);
    Ok(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Parsed {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&arguments).1
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Parsed::Serve(options) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn wrong(line: &str) -> String {
        match parsed(line) {
            Parsed::Wrong(message) => message,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn values_are_glued_or_apart() {
        let apart = options("-b /d -f 10 -l 1.2.3.4 -p 5 -u me -z 7 -s 1048576 -V -V");
        assert_eq!(apart, options("-b/d -f10 -l1.2.3.4 -p5 -ume -z7 -s1048576 -VV"));
        assert_eq!(apart.folder, Some("/d".into()));
        assert_eq!(apart.sync, Durability::Every(Duration::from_millis(10)));
        assert_eq!(apart.user.as_deref(), Some("me"));
        assert_eq!((apart.job_bytes_max, apart.segment_bytes, apart.verbosity), (7, 1 << 20, 2));
        assert_eq!(apart.listen_address(), Ok(Address::Tcp { host: "1.2.3.4".into(), port: 5 }));
        assert_eq!(options("-Vp5").port.as_deref(), Some("5"));
    }

    #[test]
    fn the_defaults_are_the_originals() {
        let options = options("");
        let address = Address::Tcp { host: "0.0.0.0".into(), port: 11300 };
        assert_eq!(options.listen_address(), Ok(address));
        assert_eq!((options.job_bytes_max, options.segment_bytes), (65_535, 10_485_760));
        assert_eq!((options.folder, options.sync), (None, Durability::Always));
    }

    #[test]
    fn the_last_of_both_sync_flags_wins() {
        assert_eq!(options("-f10 -F").sync, Durability::Never);
        assert_eq!(options("-F -f0").sync, Durability::Always);
        assert_eq!(options("-f -1").sync, Durability::Every(SYNC_MAX));
    }

    #[test]
    fn help_and_version_come_first() {
        assert_eq!(parsed("-hx"), Parsed::Help);
        assert_eq!(parsed("-F --help"), Parsed::Help);
        assert_eq!(parsed("-v -h"), Parsed::Version);
        assert_eq!(parsed("-z10 -Vv"), Parsed::Version);
    }

    #[test]
    fn flags_that_the_original_refuses_are_refused() {
        assert_eq!(wrong("foo"), "unknown argument: foo");
        assert_eq!(wrong("-"), "unknown argument: -");
        assert_eq!(wrong("-x"), "unknown flag: -x");
        assert_eq!(wrong("--version"), "unknown flag: --version");
        assert_eq!(wrong("-- -v"), "unknown flag: --");
        assert_eq!(wrong("-V -p"), "flag requires an argument: -p");
        for line in ["-zabc", "-f abc", "-s 10k", "-f 1x"] {
            assert!(wrong(line).starts_with("invalid size: "), "{line}");
        }
    }

    #[test]
    fn too_large_a_job_size_is_cut_with_a_note() {
        for line in ["-z1073741825", "-z-5", "-z99999999999999999999"] {
            let (notes, parsed) = parse(&[OsString::from(line)]);
            assert_eq!(notes, ["maximum job size was set to 1073741824"]);
            let Parsed::Serve(options) = parsed else { panic!("{parsed:?}") };
            assert_eq!(options.job_bytes_max, 1 << 30);
        }
        assert_eq!(options("-z0").job_bytes_max, 0);
    }

    #[test]
    fn removed_flags_are_noted_and_skipped() {
        let (notes, parsed) = parse(&["-cn".into(), "-p7".into()]);
        assert_eq!(notes[0], "-c flag was removed. binlog is always compacted.");
        assert_eq!(notes[1], "-n flag was removed. binlog is always compacted.");
        assert!(matches!(parsed, Parsed::Serve(_)));
    }

    #[test]
    fn addresses_are_the_originals_forms() {
        let unix = options("-l unix:/tmp/s -p 1").listen_address();
        assert_eq!(unix, Ok(Address::Unix("/tmp/s".into())));
        let wrapped = options("-p 70000").listen_address();
        assert_eq!(wrapped, Ok(Address::Tcp { host: "0.0.0.0".into(), port: 4464 }));
        assert!(options("-p notaport").listen_address().is_err());
        let long = format!("-l unix:/{}", "p".repeat(107));
        assert!(options(&long).listen_address().is_err());
    }
}
