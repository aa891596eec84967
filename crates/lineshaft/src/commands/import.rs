//! `lineshaft import`: takes over jobs from the files of another server.
//!
//! It writes the jobs directly into the data folder, so the server of this folder must be stopped.
//! Over a protocol, the jobs would lose their numbers, ages, counters, expiry and places, because
//! no protocol can set them.
//!
//! The import writes one chunk of jobs after another. A chunk and the import's [`record`] are one
//! group of the log. So if the import was killed, a second run continues after the last complete
//! chunk, and imports no job twice.

mod drain;
mod record;
mod report;
mod source;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ::log::{Failure, PosixDisk, Settings};
use anyhow::{Context as _, Result, bail};
use broker::offline::{Added, ForeignJob, ImportError, Importer, Numbers};
use broker::{BrokerError, EngineSetup, Millis};
use import::Backlog;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use notation::port;
use server::config::sources::{Flag, Sources};
use server::config::{Config, Durability};
use server::{ServeError, exit};

use crate::cli::{ImportArguments, ImportSource};
use crate::client::Target;
use crate::interrupt::Interrupts;
use crate::text::{complain, counted, print_line, print_value};
use record::{Earlier, Record};
use report::{Outcome, Tally};
use source::Source;

/// Most jobs of one chunk.
const CHUNK_JOBS_MAX: usize = 4096;

/// If an import takes less time than this, it shows no progress bar.
const BAR_AFTER: Duration = Duration::from_millis(700);

/// The exit code after a signal.
const INTERRUPTED: u8 = 130;

/// An error with a special exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Refused {
    code: u8,
    message: String,
}

/// Imports a source and prints a report.
pub(crate) fn run(arguments: ImportArguments) -> Result<ExitCode> {
    arguments.source.refuse_unused_server()?;
    if let ImportSource::Beanstalkd { from: Some(from), server, tubes, options, .. } =
        &arguments.source
    {
        return drain::run(&drain::Request {
            from: Target::new(from, port::BEANSTALK, &server.tls.files())?,
            to: server.beanstalk()?,
            tubes: tubes.clone(),
            dry_run: options.dry_run,
            as_json: options.json,
        });
    }
    // All segments of the log are open at the same time, which can need many file descriptors.
    server::raise_descriptors();
    with_exit_code(import(arguments))
}

/// Prints an error that has a special exit code, and returns this code. Returns other errors
/// unchanged.
pub(super) fn with_exit_code(done: Result<ExitCode>) -> Result<ExitCode> {
    done.or_else(|error| match error.downcast_ref::<Refused>() {
        Some(refused) => {
            complain(&refused.to_string());
            Ok(ExitCode::from(refused.code))
        }
        None => Err(error),
    })
}

fn import(arguments: ImportArguments) -> Result<ExitCode> {
    let options = arguments.source.options().clone();
    let config = configuration(options.config.clone(), options.data.clone())?;
    if options.data.is_none() && config.data.sync == Durability::Memory {
        let message = "data.sync is \"memory\": the server keeps nothing on disk, and would never read the \
                       jobs; name its data folder with --data DIR, or set data.sync to another value";
        return Err(Refused { code: exit::BAD_CONFIGURATION, message: message.to_owned() }.into());
    }
    let folder = &config.data.dir;
    let mut source = Source::open(&arguments.source)?;
    let ids = report::ids(&source.backlog.jobs);
    if options.dry_run {
        let earlier = earlier_in(folder, &source)?;
        if options.json {
            print_value(&report::value(&source, folder, Outcome::DryRun(&earlier)))?;
        } else {
            report::print_plan(&source, folder, &earlier)?;
        }
        return Ok(report::exit_code(&source.backlog));
    }
    let started = Started { at: Instant::now(), wall: wall() };
    let importer = open(&config, started.wall)?;
    let record = match record::look_up(&importer.records(), &source)? {
        Earlier::Done(record) if !options.again => {
            if options.json {
                print_value(&report::value(&source, folder, Outcome::DoneBefore))?;
            } else {
                print_line(&record.done_before(&source))?;
            }
            close(importer, started)?;
            source.set_aside(&options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Earlier::Changed(record) if !options.again => {
            close(importer, started)?;
            bail!("{}", record.changed_since(&source));
        }
        // Also with `--again`: the interrupted import can have had it, too. A new import would take
        // its jobs without a number twice.
        Earlier::Begun(record) => {
            eprintln!("{}", record.continues());
            record
        }
        earlier @ (Earlier::None | Earlier::Done(_) | Earlier::Changed(_)) => {
            let numbers = importer.numbers(ids.range, ids.ascend);
            let again = !matches!(earlier, Earlier::None);
            let numbers = Numbers { again, ..numbers };
            Record::new(&source, numbers, started.wall.0)
        }
    };
    let tally = Tally::after(record.next);
    let mut run = Run {
        importer,
        source: &source,
        record,
        tally,
        started,
        interrupts: Interrupts::listen(|_| ()).context("cannot listen for signals")?,
        bar: bar(source.backlog.jobs.len() as u64),
    };
    let done = run.take_all();
    run.bar.finish_and_clear();
    let Run { importer, record, tally, .. } = run;
    let is_complete = done.map_err(|error| explain(error, &record, folder))?;
    close(importer, started)?;
    if !is_complete {
        eprintln!(
            "interrupted after {} of {}; run the same command again to continue",
            counted(record.next, "job"),
            source.backlog.jobs.len()
        );
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if options.json {
        print_value(&report::value(&source, folder, Outcome::Done(&tally)))?;
    } else {
        report::print_done(&source, folder, &tally)?;
    }
    source.set_aside(&options)?;
    Ok(report::exit_code(&source.backlog))
}

/// When the import started.
#[derive(Copy, Clone, Debug)]
struct Started {
    at: Instant,
    wall: Millis,
}

impl Started {
    fn elapsed_ms(self) -> u64 {
        self.at.elapsed().as_millis() as u64
    }
}

/// An import that runs.
struct Run<'a> {
    importer: Importer,
    source: &'a Source,
    record: Record,
    tally: Tally,
    started: Started,
    interrupts: Interrupts,
    bar: ProgressBar,
}

impl Run<'_> {
    /// Imports all jobs that are left. Returns false if a signal interrupted the import.
    fn take_all(&mut self) -> Result<bool> {
        let backlog = &self.source.backlog;
        let numbers = self.record.numbers();
        self.importer.reserve(&numbers, self.started.elapsed_ms())?;
        let buried = report::buried_places(&backlog.jobs);
        let chunk_bytes_max = self.importer.chunk_bytes();
        let mut next = usize::try_from(self.record.next)?;
        loop {
            if self.interrupts.count() > 0 {
                return Ok(false);
            }
            if self.started.at.elapsed() > BAR_AFTER && self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            let rest = backlog.jobs.get(next..).unwrap_or_default();
            let count = chunk_of(rest, chunk_bytes_max);
            let bodies: io::Result<Vec<Vec<u8>>> =
                rest[..count].iter().map(|job| backlog.body(job)).collect();
            let bodies = bodies.context("cannot read a body from the source")?;
            let jobs = rest[..count].iter().zip(&bodies).enumerate().map(|(index, (job, body))| {
                let place = buried.get(&(next + index)).copied().unwrap_or(0);
                foreign(backlog, job, body, place)
            });
            let jobs: Vec<ForeignJob<'_>> = jobs.collect();
            next += count;
            let is_last = next >= backlog.jobs.len();
            if is_last {
                let items = backlog.queues.iter().filter(|queue| queue.items);
                let names = items.map(|queue| &*queue.name);
                self.importer.make_item_queues(names, self.started.elapsed_ms())?;
            }
            let record = self.record.after(next as u64, is_last.then(|| wall().0));
            let value = record.encode()?;
            let entry = (self.source.name.as_bytes(), &value[..]);
            let added = self.importer.add(&numbers, &jobs, entry, self.started.elapsed_ms())?;
            self.record = record;
            self.note(rest, &added);
            self.bar.set_position(next as u64);
            if is_last {
                return Ok(true);
            }
        }
    }

    fn note(&mut self, jobs: &[import::Job], added: &[Added]) {
        for (job, added) in jobs.iter().zip(added) {
            self.tally.note(job, *added);
        }
    }
}

/// The number of jobs in the next chunk: at least 1, if `jobs` is not empty.
fn chunk_of(jobs: &[import::Job], bytes_max: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = |job: &&import::Job| {
        bytes += job.body_bytes() + 1024;
        bytes <= bytes_max
    };
    let count = jobs.iter().take(CHUNK_JOBS_MAX).take_while(fits).count();
    count.max(1).min(jobs.len())
}

/// Converts a job of the source into a job for the broker.
fn foreign<'a>(
    backlog: &'a Backlog,
    job: &'a import::Job,
    body: &'a [u8],
    buried: u64,
) -> ForeignJob<'a> {
    let queue = &backlog.queues[job.queue as usize];
    let import::Counters { takes, timeouts, releases, buries, kicks, failures } = job.counters;
    ForeignJob {
        queue: &queue.name,
        items: queue.items,
        id: job.id,
        priority: job.priority,
        state: match job.state {
            import::State::Ready => broker::State::Ready,
            import::State::Delayed => broker::State::Delayed,
            import::State::Buried => broker::State::Buried,
        },
        created: job.created_ms.map(Millis),
        due: Millis(job.due_ms),
        buried,
        ttr_s: job.ttr_s,
        delay_s: job.delay_s,
        counters: broker::Counters { takes, timeouts, releases, buries, kicks, failures },
        expires: job.expires_ms.map(Millis),
        by_clock: job.by_clock,
        tags: job
            .tags
            .as_deref()
            .map(|tags| broker::Tags { unique: &tags.unique, reducer: &tags.reducer }),
        unique: job.unique.as_deref().copied(),
        body,
    }
}

fn bar(jobs: u64) -> ProgressBar {
    let target = ProgressDrawTarget::hidden();
    let style =
        ProgressStyle::with_template("import {wide_bar} {human_pos}/{human_len}, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(jobs), target);
    bar.with_style(style.expect("the template is constant"))
}

/// The configuration of the server that will use the folder.
pub(super) fn configuration(file: Option<PathBuf>, data: Option<String>) -> Result<Config> {
    let mut sources = Sources::of_process(file);
    if let Some(folder) = data {
        sources.flags.push(Flag { name: "--data", key: "data.dir", values: vec![folder] });
    }
    let wrong = |error| Refused { code: exit::BAD_CONFIGURATION, message: format!("{error}") };
    Ok(sources.load().map_err(wrong)?.config)
}

fn open(config: &Config, wall: Millis) -> Result<Importer> {
    let data = &config.data;
    let disk = PosixDisk::new(&data.dir).map_err(|error| unusable(&data.dir, error))?;
    // Sync each chunk, even if the server's setting does not require it. Otherwise a power failure
    // could lose jobs that were reported as imported.
    let sync = ::log::Sync::Always;
    let settings = Settings {
        segment_bytes: data.segment_bytes,
        bytes_max: data.bytes_max,
        sync,
        ..Settings::default()
    };
    let engine =
        EngineSetup { hash_seed: RandomState::new().hash_one(0), ..EngineSetup::default() };
    let (importer, _) = Importer::open(Arc::new(disk), settings, engine, wall).map_err(refusal)?;
    Ok(importer)
}

/// Closes the folder. If this fails, the exit code is that of a server whose log fails.
fn close(importer: Importer, started: Started) -> Result<()> {
    let failed = |error: Failure| Refused {
        code: exit::DISK,
        message: format!("cannot close the log: {error}"),
    };
    Ok(importer.close(started.elapsed_ms()).map_err(failed)?)
}

/// Reads from the folder whether the source was imported before. Changes nothing.
fn earlier_in(folder: &Path, source: &Source) -> Result<Earlier> {
    if !folder.exists() {
        return Ok(Earlier::None);
    }
    let disk = PosixDisk::read_only(folder).map_err(|error| unusable(folder, error))?;
    let contents = broker::offline::read(&disk, &mut |_| ()).map_err(refusal)?;
    let records: Vec<_> = contents.imports.into_iter().collect();
    record::look_up(&records, source)
}

/// The error if the data folder cannot be used. The exit code is that of a server that does not start
/// for the same reason.
pub(super) fn unusable(folder: &Path, source: io::Error) -> anyhow::Error {
    let error = ServeError::Folder { dir: folder.to_owned(), source };
    Refused { code: error.exit_code(), message: error.to_string() }.into()
}

/// The error if the log of a folder cannot be opened. The exit code is that of a server that does
/// not start for the same reason.
pub(super) fn refusal(error: BrokerError) -> anyhow::Error {
    let code = match &error {
        BrokerError::Log(error) => super::log::exit_code(error),
        BrokerError::Meta(_) | BrokerError::Restore(_) => exit::DAMAGED_DATA,
        BrokerError::Cluster(_) => exit::BAD_CONFIGURATION,
        BrokerError::Thread(_) => exit::SYSTEM,
    };
    Refused { code, message: error.to_string() }.into()
}

/// Adds to an error how many jobs are already in the folder.
fn explain(error: anyhow::Error, record: &Record, folder: &Path) -> anyhow::Error {
    let (next, folder) = (counted(record.next, "job"), folder.display());
    let kept =
        format!("{next} of the source are in {folder}; run the same command again to continue");
    match error.downcast::<ImportError>() {
        Ok(error @ ImportError::Full) => {
            let message = format!("{error}: free disk space, or raise data.max_bytes. {kept}");
            Refused { code: exit::DISK, message }.into()
        }
        Ok(error @ (ImportError::Failed(_) | ImportError::Reclaim(_))) => {
            Refused { code: exit::DISK, message: format!("{error}. {kept}") }.into()
        }
        Ok(error @ ImportError::Job(_)) => anyhow::Error::new(error).context(kept),
        Err(error) => error.context(kept),
    }
}

/// The time of the wall clock.
fn wall() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Millis(since.map_or(0, |since| since.as_millis() as u64))
}
