//! `lineshaft backup`: copies the jobs of a running server into a folder, a tar file, or a tar
//! stream.
//!
//! While this program copies the server's files, the server does not reuse or delete them: see
//! `hold`. The copy contains everything that the server acknowledged before the backup began. After
//! the copy, this program reads the copied files, and checks every group of the log in them.

mod archive;
mod folder;
mod hold;
mod pace;
mod unfinished;

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::log::{BackupDamage, BackupPoint, BackupSource, PosixDisk};
use anyhow::{Context as _, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use notation::size;
use serde_json::json;
use server::config::Durability;
use server::config::sources::Sources;
use server::exit;

use crate::cli::BackupArguments;
use crate::interrupt::Interrupts;
use crate::text::{complain, counted, json_line, print_value};
use hold::ServerHold;
use pace::Pace;
use unfinished::Unfinished;

/// The target that means standard output.
const STREAM: &str = "-";
/// A target with this file extension is a tar file. Any other target is a folder.
const ARCHIVE_END: &str = "tar";
/// The exit code after a signal: the code with which a shell reports SIGINT.
const INTERRUPTED: u8 = 130;

/// The target of a backup.
#[derive(Debug)]
enum Target {
    Folder(PathBuf),
    Archive(PathBuf),
    Stream,
}

impl Target {
    fn of(path: PathBuf) -> Target {
        if path.as_os_str() == STREAM {
            Target::Stream
        } else if path.extension().is_some_and(|end| end == ARCHIVE_END) {
            Target::Archive(path)
        } else {
            Target::Folder(path)
        }
    }
}

/// A running backup.
#[derive(Debug)]
struct Backup<'a> {
    source: BackupSource<'a>,
    point: BackupPoint,
    data: &'a Path,
    pace: Pace,
    bar: ProgressBar,
    interrupts: Interrupts,
}

/// The error if the user interrupted the program.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: there is no backup")]
struct Interrupted;

/// Makes the backup. For a lack of permission, a full disk and damage, it returns the same exit
/// codes as the server.
pub(crate) fn run(arguments: BackupArguments) -> Result<ExitCode> {
    make(arguments).or_else(|error| {
        let code = exit_code(&error);
        complain(&format!("{error:#}"));
        Ok(code)
    })
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain().flat_map(with_inner) {
        if cause.is::<BackupDamage>() {
            return ExitCode::from(exit::DAMAGED_DATA);
        }
        if cause.is::<Interrupted>() {
            return ExitCode::from(INTERRUPTED);
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => return ExitCode::from(exit::NO_PERMISSION),
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                return ExitCode::from(exit::DISK);
            }
            _ => {}
        }
    }
    ExitCode::FAILURE
}

/// A cause, and the error inside of it if it is the I/O error of a reader. The chain of causes leaves
/// this one out.
fn with_inner<'a>(
    cause: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    std::iter::once(cause).chain(inner.map(|inner| inner as &(dyn Error + 'static)))
}

fn make(arguments: BackupArguments) -> Result<ExitCode> {
    let BackupArguments { target, data, config, rate, quiet, json } = arguments;
    let named = target.to_string_lossy().into_owned();
    let target = Target::of(target);
    if matches!(target, Target::Stream) && io::stdout().is_terminal() {
        bail!("a tar stream does not belong on a terminal: redirect it, or name a folder");
    }
    let data = match data {
        Some(data) => data,
        None => match Sources::of_process(config).load() {
            Ok(effective) if effective.config.data.sync == Durability::Memory => {
                bail!(
                    "data.sync is \"memory\": the server keeps nothing on disk, and there is nothing to back up"
                )
            }
            Ok(effective) => effective.config.data.dir,
            Err(mistakes) => {
                complain(&mistakes.to_string());
                return Ok(ExitCode::from(exit::BAD_CONFIGURATION));
            }
        },
    };
    let hold = ServerHold::ask(&data)?;
    // From here on, a signal ends the backup with an error, which removes the unfinished files.
    let interrupts = Interrupts::listen(|_| ())?;
    let disk =
        PosixDisk::read_only(&data).with_context(|| format!("cannot open {}", data.display()))?;
    let point = hold.point();
    let mut backup = Backup {
        source: BackupSource::new(&disk, point),
        point,
        data: &data,
        pace: Pace::new(rate),
        bar: bar(quiet || json),
        interrupts,
    };
    let is_stream = matches!(target, Target::Stream);
    let linked = match target {
        Target::Folder(path) => {
            let unfinished = Unfinished::folder(&path, &data)?;
            let linked = backup.write_folder(unfinished.path(), hold)?;
            unfinished.finish(&path)?;
            linked
        }
        Target::Archive(path) => {
            let unfinished = Unfinished::file(&path)?;
            backup.write_archive(unfinished.path(), hold)?;
            unfinished.finish(&path)?;
            0
        }
        Target::Stream => {
            backup.write_stream(hold)?;
            0
        }
    };
    backup.bar.finish_and_clear();
    let bytes = backup.pace.bytes();
    if json {
        let value = json!({
            "target": named,
            "segments": segments(point),
            "linked": linked,
            "last_segment": point.last(),
            "offset": point.end().offset(),
            "checked_bytes": bytes,
        });
        // Standard output has the backup.
        if is_stream { eprintln!("{}", json_line(&value)?) } else { print_value(&value)? }
    } else if !quiet {
        eprintln!("{}", summary(point, bytes, linked));
    }
    Ok(ExitCode::SUCCESS)
}

fn bar(quiet: bool) -> ProgressBar {
    let template = "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is constant");
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    bar.with_style(style)
}

fn segments(point: BackupPoint) -> u64 {
    u64::from(point.last() - point.first() + 1)
}

fn summary(point: BackupPoint, bytes: u64, linked: u32) -> String {
    let links = match linked {
        0 => String::new(),
        _ => format!(", {} of them by a link", crate::text::count(linked.into())),
    };
    format!(
        "backup: {}{links}, up to offset {} of segment {}; {} read and checked",
        counted(segments(point), "segment"),
        point.end().offset(),
        point.last(),
        size::rounded(bytes)
    )
}

impl Backup<'_> {
    /// The size of all segments together.
    fn bytes(&self) -> Result<u64> {
        let sizes = self.source.segments().map(|number| Ok(self.open(number)?.size()));
        sizes.sum()
    }

    fn open(&self, number: u32) -> Result<::log::SegmentReader> {
        let name = BackupSource::name(number);
        self.source
            .open(number)
            .with_context(|| format!("cannot read {}", self.data.join(name).display()))
    }
}

/// Replaces the error of a closed pipe by an explanation: the reader of the stream, such as `ssh`,
/// has ended. Returns other errors unchanged.
fn explain_closed_pipe(error: anyhow::Error) -> anyhow::Error {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    if causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe) {
        return anyhow!("the reader of the stream has ended: the backup is incomplete");
    }
    error
}
