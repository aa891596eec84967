//! `lineshaft export`: writes the jobs of a data folder as JSON lines, for `lineshaft import jsonl`.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use ::log::PosixDisk;
use anyhow::{Result, bail};
use broker::offline::{self, KeptJob};
use broker::{Millis, State};
use import::{Counters, Job, Tags};
use server::exit;

use super::import::{configuration, refusal, unusable, with_exit_code};
use crate::cli::ExportArguments;
use crate::text::{complain, counted};

/// A job that will be written.
struct Kept {
    queue: Vec<u8>,
    order: u64,
    job: Job,
    body: Vec<u8>,
    /// The job has facts for which a line has no field.
    loses_facts: bool,
}

/// Writes all jobs of the queues, in their order.
pub(crate) fn run(arguments: ExportArguments) -> Result<ExitCode> {
    server::raise_descriptors();
    with_exit_code(export(arguments))
}

fn export(arguments: ExportArguments) -> Result<ExitCode> {
    let config = configuration(arguments.config, arguments.data)?;
    let folder = &config.data.dir;
    let disk = PosixDisk::read_only(folder).map_err(|error| match error.kind() {
        // A server would make the folder. So its error does not fit.
        io::ErrorKind::NotFound => anyhow::Error::new(error)
            .context(format!("cannot read the data folder {}", folder.display())),
        _ => unusable(folder, error),
    })?;
    let wanted: BTreeSet<&[u8]> = arguments.queues.iter().map(|queue| queue.as_bytes()).collect();
    let mut jobs = Vec::new();
    let contents = offline::read(&disk, &mut |kept| {
        if arguments.all || wanted.contains(kept.queue) {
            jobs.push(Kept::of(&kept));
        }
    })
    .map_err(refusal)?;
    if contents.report.segments == 0 && contents.refusal.is_none() {
        bail!("{} has no log", folder.display());
    }
    jobs.sort_by(|one, other| {
        (&one.queue, one.order, one.job.id).cmp(&(&other.queue, other.order, other.job.id))
    });
    let mut out = BufWriter::new(io::stdout().lock());
    for kept in &mut jobs {
        kept.use_wall_clock(contents.wall_ahead_ms);
        let items = contents.item_queues.contains(&kept.queue);
        import::jsonl::write(&mut out, &kept.queue, items, &kept.job, &kept.body)?;
    }
    out.flush()?;
    eprintln!("{} written", counted(jobs.len() as u64, "job"));
    let mut code = ExitCode::SUCCESS;
    for queue in wanted {
        // The jobs are sorted by queue.
        let has_jobs = jobs.binary_search_by(|kept| kept.queue.as_slice().cmp(queue)).is_ok();
        if !has_jobs && !contents.lasting_queues.contains(queue) {
            let (queue, folder) = (String::from_utf8_lossy(queue), folder.display());
            complain(&format!("queue {queue}: {folder} has no job of it; check the name"));
            code = ExitCode::FAILURE;
        }
    }
    let losing = jobs.iter().filter(|kept| kept.loses_facts).count() as u64;
    if losing > 0 {
        eprintln!(
            "lineshaft: {} lost something: failed attempts, facts as a dead letter, or a key for limits or fair \
             shares; the lines have no fields for these",
            counted(losing, "job")
        );
    }
    if let Some(refusal) = contents.refusal {
        eprintln!("lineshaft: only the intact part was read: {refusal}");
        return Ok(ExitCode::from(exit::DAMAGED_DATA));
    }
    Ok(code)
}

impl Kept {
    fn of(kept: &KeptJob<'_>) -> Kept {
        let KeptJob { queue, facts, tags, body } = kept;
        let broker::Counters { takes, timeouts, releases, buries, kicks, failures } =
            facts.counters;
        let is_delayed = facts.state == State::Delayed;
        let job = Job {
            id: Some(facts.id.0),
            state: match facts.state {
                State::Ready | State::Leased => import::State::Ready,
                State::Delayed => import::State::Delayed,
                State::Buried => import::State::Buried,
            },
            priority: facts.priority,
            ttr_s: facts.ttr_s,
            delay_s: facts.delay_s,
            created_ms: Some(facts.created.0),
            due_ms: if is_delayed { facts.due.0 } else { 0 },
            expires_ms: facts.expires.map(|expires| expires.0),
            by_clock: facts.wall.is_some() && (is_delayed || facts.expires.is_some()),
            buried: facts.buried_order,
            counters: Counters { takes, timeouts, releases, buries, kicks, failures },
            tags: tags.map(|tags| {
                Box::new(Tags { unique: tags.unique.to_vec(), reducer: tags.reducer.to_vec() })
            }),
            unique: facts.key.map(Box::new),
            ..Job::default()
        };
        let mut kept = Kept {
            queue: queue.to_vec(),
            order: if facts.order == 0 { facts.id.0 } else { facts.order },
            job,
            body: body.to_vec(),
            loses_facts: facts.death.is_some() || facts.attempts > 0 || facts.group.is_some(),
        };
        // If the client gave a time of the wall clock, write the same time.
        if let Some(Millis(wall)) = facts.wall.filter(|_| kept.job.by_clock) {
            match &mut kept.job.expires_ms {
                Some(expires) => *expires = wall,
                None => kept.job.due_ms = wall,
            }
        }
        kept
    }

    /// Converts times of the log into times of the wall clock. Times that a client gave as
    /// wall-clock times do not change.
    fn use_wall_clock(&mut self, ahead_ms: i64) {
        let Job { created_ms, due_ms, expires_ms, by_clock, .. } = &mut self.job;
        let shift = |time: &mut u64| *time = time.saturating_add_signed(ahead_ms);
        created_ms.iter_mut().for_each(shift);
        if *due_ms > 0 && (!*by_clock || expires_ms.is_some()) {
            shift(due_ms);
        }
        if !*by_clock {
            expires_ms.iter_mut().for_each(shift);
        }
    }
}
