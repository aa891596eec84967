//! Opens the source of an import. After the import, moves the source's files into another folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use import::Backlog;
use import::gearmand::Refused;
use rustix::fs::FlockOperation;

use crate::cli::{ImportOptions, ImportSource};
use crate::text::{counted, print_line};

/// The folder for the files of a source that was imported.
pub(crate) const ASIDE: &str = "imported";

/// A source that was read.
pub(super) struct Source {
    /// The kind of the source: the word of the command line, such as `beanstalkd`.
    pub(super) kind: &'static str,
    /// Its path, for records and messages. Empty for standard input.
    pub(super) place: String,
    /// The name of its record. Sources of the same kind and content have the same name.
    pub(super) name: String,
    /// Its jobs.
    pub(super) backlog: Backlog,
    /// The folder that contains its files.
    folder: Option<PathBuf>,
    /// The original's lock file. While it is open, the original server cannot start in the folder.
    _lock: Option<File>,
}

impl Source {
    /// Reads the source. Fails if the source does not exist, or has no files of its kind.
    pub(super) fn open(named: &ImportSource) -> Result<Source> {
        match named {
            ImportSource::Beanstalkd { folder, .. } => {
                let folder = folder.as_deref().expect("the command line requires a folder");
                let lock = lock(folder)?;
                let backlog =
                    import::beanstalkd::open(folder).with_context(|| unreadable(folder))?;
                some(&backlog, folder, "binlog.N")?;
                Ok(Source::of("beanstalkd", folder, Some(folder), backlog)?.locked_by(lock))
            }
            ImportSource::Kestrel { folder, .. } => {
                let backlog = import::kestrel::open(folder).with_context(|| unreadable(folder))?;
                some(&backlog, folder, "of journals")?;
                Source::of("kestrel", folder, Some(folder), backlog)
            }
            ImportSource::Gearmand { file, table, .. } => {
                let backlog =
                    import::gearmand::open(file, table).map_err(|refused| match refused {
                        Refused::Io(error) => anyhow::Error::new(error).context(unreadable(file)),
                        Refused::Content(what) => anyhow::anyhow!("{}: {what}", file.display()),
                    })?;
                Source::of("gearmand", file, file.parent(), backlog)
            }
            ImportSource::Jsonl { file, .. } if file.as_os_str() == "-" => {
                let backlog = import::jsonl::open_stream(&mut io::stdin().lock())
                    .context("cannot read standard input")?;
                let name = name_of("jsonl", &backlog);
                let place = String::new();
                Ok(Source { kind: "jsonl", place, name, backlog, folder: None, _lock: None })
            }
            ImportSource::Jsonl { file, .. } => {
                let backlog = import::jsonl::open(file).with_context(|| unreadable(file))?;
                Source::of("jsonl", file, file.parent(), backlog)
            }
        }
    }

    fn of(
        kind: &'static str,
        path: &Path,
        folder: Option<&Path>,
        backlog: Backlog,
    ) -> Result<Source> {
        let place = fs::canonicalize(path).with_context(|| unreadable(path))?;
        let place = place.display().to_string();
        let name = name_of(kind, &backlog);
        let folder = folder.map(|folder| {
            if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
        });
        Ok(Source { kind, place, name, backlog, folder, _lock: None })
    }

    fn locked_by(self, lock: Option<File>) -> Source {
        Source { _lock: lock, ..self }
    }

    /// What the source is, for messages.
    pub(super) fn shown(&self) -> &str {
        if self.place.is_empty() { "standard input" } else { &self.place }
    }

    /// With `--set-aside`, moves the source's files into the folder [`ASIDE`].
    pub(super) fn set_aside(&mut self, options: &ImportOptions) -> Result<()> {
        let Some(folder) = self.folder.as_ref().filter(|_| options.set_aside) else {
            return Ok(());
        };
        let aside = folder.join(ASIDE);
        fs::create_dir_all(&aside).with_context(|| format!("cannot make {}", aside.display()))?;
        // Move the superseded files first. If the command is killed in between, such a file would
        // otherwise be left without the files that replace it, and its old jobs would come back.
        let Backlog { sources, superseded, .. } = &self.backlog;
        for file in superseded.iter().chain(sources) {
            let to = aside.join(file.file_name().unwrap_or_default());
            if to.exists() {
                bail!("cannot move {} aside: {} exists", file.display(), to.display());
            }
            fs::rename(file, &to)
                .with_context(|| format!("cannot move {} aside", file.display()))?;
        }
        let count = (superseded.len() + sources.len()) as u64;
        if !options.json {
            print_line(&format!("Moved {} into {}.", counted(count, "file"), aside.display()))?;
        }
        Ok(())
    }
}

fn name_of(kind: &str, backlog: &Backlog) -> String {
    format!("{kind}/{:016x}", backlog.fingerprint)
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

fn some(backlog: &Backlog, folder: &Path, what: &str) -> Result<()> {
    if !backlog.sources.is_empty() {
        return Ok(());
    }
    let aside = folder.join(ASIDE);
    let hint = if aside.exists() {
        format!("; files of an earlier import are in {}", aside.display())
    } else {
        String::new()
    };
    bail!("there is no file {what} in {}{hint}", folder.display())
}

/// Locks a folder in the same way as beanstalkd. Fails if a beanstalkd uses the folder.
fn lock(folder: &Path) -> Result<Option<File>> {
    let lock = match File::options().write(true).open(folder.join("lock")) {
        Ok(lock) => lock,
        // A copy of a folder has no lock file, or a lock file that we can only read. No beanstalkd
        // uses a copy.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| unreadable(&folder.join("lock"))),
    };
    match rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(_) => bail!("a beanstalkd uses {}: stop it first", folder.display()),
    }
}
