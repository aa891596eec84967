//! Restarts the model. After a restart, the model has only the state that was in the log.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Counts, History, Job, JobKind, LogContents, Model, Name, Need, Place, Setting, State,
    StoredJob, StoredState,
};
use crate::Checked;

/// A due job can be ready or still delayed at the start. For up to this many due jobs, the model
/// tries every combination.
const DUE_JOBS_MAX: usize = 6;

/// This many calls of `advance` do all work of a start. No client is connected yet, so an expired
/// job causes no further work for clients.
const TRIAL_ADVANCES: usize = 3;

/// The newest counts of the jobs, and the jobs that were leased, before the start.
type Known<'a> = (&'a BTreeMap<u64, Counts>, &'a BTreeSet<u64>);

/// Of the queues that ended at the start, the model tries up to this many orders.
const ORDERS_MAX: usize = 24;

/// What the model cannot know of the log and of the start, because the process has ended jobs.
#[derive(Clone, Debug)]
struct Guess {
    /// See [`LogContents::count_from_puts`].
    from_puts: bool,
    /// See [`LogContents::count_all_of_gone`].
    counts_are_newest: bool,
    /// See [`Recovered::order_of_ended`].
    order_of_ended: usize,
}

impl Guess {
    /// All guesses, the likely ones first, if this many queues ended at the start.
    fn all(ended: usize) -> impl Iterator<Item = Self> {
        let orders = (1..=ended).product::<usize>().min(ORDERS_MAX);
        (0..4 * orders).map(|at| Self {
            from_puts: at & 1 == 0,
            counts_are_newest: at & 2 != 0,
            order_of_ended: at / 4,
        })
    }
}

/// The state that a new process has found.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    pub(crate) log_contents: LogContents,
    /// Delayed jobs of the log that are ready in the process from the start, because they were due.
    pub(crate) ready: BTreeSet<u64>,
    /// The number of jobs in the log, before any job expired.
    pub(crate) in_log: u64,
    /// A number for each order in which the queues that ended at the start may have had their places.
    /// The places decide which of several queues expires its jobs first.
    pub(crate) order_of_ended: usize,
    /// The next id that the process assigns.
    pub(crate) next_id: u64,
    /// The process's queues, oldest first, and their places. The order depends on the order of the
    /// jobs in the log. The model does not have this order, so it copies the order of the queues
    /// from the process.
    pub(crate) queues: Vec<(Name, Place)>,
}

impl Recovered {
    /// Starts a model with this state, and ends all expired jobs. Checks that the result is the
    /// recovered state `found`.
    fn leads_to(&self, found: &Self, now: u64, setting: &Setting) -> Checked {
        let (mine, in_log) = (self.log_contents.jobs.len() as u64, found.in_log);
        if mine != in_log {
            return Err(format!("the log held {in_log} jobs, not {mine}"));
        }
        let mut trial = Model::reborn(now, setting.clone(), self.clone());
        for _ in 0..TRIAL_ADVANCES {
            trial.advance(now);
        }
        // The order of the jobs in the log decides which queue expires its jobs first, and which
        // order numbers these jobs get in another queue. The model does not have this order, so it
        // copies the observed order numbers.
        trial.adopt_orders(|id| found.log_contents.jobs.get(&id).map(StoredJob::orders));
        let jobs = trial.jobs.iter().map(|(id, job)| (*id, StoredJob::of(job))).collect();
        found.log_contents.compare(&jobs, now)
    }
}

impl Recovered {
    /// The queues before any job expired. When the process ended the expired jobs, it may have
    /// dropped queues and freed their places. It may also have created other queues.
    fn queues_at_the_start(&self) -> Vec<(Name, Place)> {
        let mut queues = self.queues.clone();
        let in_log = self.queues_in_log();
        queues.retain(|(name, _)| &**name == "default" || in_log.contains(name));
        let is_taken = |place: &Place| self.queues.iter().any(|(_, taken)| taken == place);
        let free = (0..).filter(|place| !is_taken(place));
        let mut ended: Vec<&Name> = self.ended_queues().collect();
        let mut order = self.order_of_ended;
        let in_order = std::iter::from_fn(|| {
            let at = order.checked_rem(ended.len())?;
            order /= ended.len();
            Some(ended.remove(at).clone())
        });
        queues.extend(in_order.zip(free));
        queues
    }

    fn queues_in_log(&self) -> BTreeSet<&Name> {
        let LogContents { jobs, queues, .. } = &self.log_contents;
        jobs.values().map(|image| &image.queue).chain(queues.keys()).collect()
    }

    /// The queues of the log that the process has dropped.
    fn ended_queues(&self) -> impl Iterator<Item = &Name> {
        let is_kept = |name: &Name| self.queues.iter().any(|(kept, _)| kept == name);
        self.queues_in_log().into_iter().filter(move |name| !is_kept(name))
    }
}

impl Model {
    /// Finds the prefix of the history that explains the recovered state, and the state with which
    /// the process began. Expired jobs have already ended in the recovered state. So this function
    /// starts a trial model after each possible prefix, lets its expired jobs end, and compares the
    /// result.
    pub(crate) fn explain(&self, now: u64, found: &Recovered) -> Result<(Need, Recovered), String> {
        let leased = self.history.leased();
        self.history.find(&found.log_contents, now, found.next_id, |end, log_contents| {
            // Of the jobs that the process has ended, it is not known whether the log has the moments
            // when they became ready. These decide whether a job has expired. Nor is it known which
            // counters the log has. With a strict order, jobs that were handed out before come first.
            let newest = self.history.newest_counts(end);
            let mut problem = None;
            let ended = Recovered { log_contents: log_contents.clone(), ..found.clone() };
            for guess in Guess::all(ended.ended_queues().count()) {
                match self.explain_with(log_contents, found, now, (&newest, &leased), guess) {
                    Ok(begun) => return Ok((end, begun)),
                    Err(first) => problem = problem.or(Some(first)),
                }
            }
            Err(problem.expect("there is at least one guess"))
        })
    }

    /// Checks that a process that began with this state leads to the recovered state. Returns the
    /// state with which it began.
    fn explain_with(
        &self,
        log_contents: &LogContents,
        found: &Recovered,
        now: u64,
        known: Known<'_>,
        guess: Guess,
    ) -> Result<Recovered, String> {
        // A process restores a due job as ready. But it restores the due jobs of a block of cold jobs
        // as delayed, if other jobs of the block are not due.
        let mut begun = self.begun(log_contents, found, now, known, guess);
        let due = begun.log_contents.due_at(now);
        begun.ready = due.iter().copied().collect();
        let mut outcome = begun.leads_to(found, now, &self.setting);
        for choice in 0..(1_u32 << due.len().min(DUE_JOBS_MAX)) - 1 {
            if outcome.is_ok() {
                break;
            }
            // The jobs from index `DUE_JOBS_MAX - 1` on are all ready or all delayed.
            let is_chosen = |at: usize| choice >> at.min(DUE_JOBS_MAX - 1) & 1 == 1;
            let chosen = due.iter().enumerate().filter(|(at, _)| is_chosen(*at));
            begun.ready = chosen.map(|(_, id)| *id).collect();
            outcome = begun.leads_to(found, now, &self.setting);
        }
        outcome.map(|()| begun)
    }

    /// The state with which a new process began, before any job expired.
    fn begun(
        &self,
        log_contents: &LogContents,
        found: &Recovered,
        now: u64,
        (newest, leased): Known<'_>,
        guess: Guess,
    ) -> Recovered {
        let mut log_contents = log_contents.clone();
        if guess.from_puts {
            log_contents.count_from_puts(&found.log_contents, leased, now);
        }
        if guess.counts_are_newest {
            log_contents.count_all_of_gone(&found.log_contents, newest);
        }
        log_contents.meet(&found.log_contents, now, self.history.counts_may_be_missing);
        let newest = log_contents.jobs.iter().map(|(id, image)| image.order.max(*id)).max();
        let next_id = found.next_id.max(newest.unwrap_or(0) + 1);
        let order_of_ended = guess.order_of_ended;
        Recovered { log_contents, order_of_ended, next_id, ..found.clone() }
    }

    /// Starts the model again with the recovered state.
    pub(crate) fn restart(&mut self, now: u64, setting: Setting, recovered: Recovered) {
        let mut model = Self::reborn(now, setting, recovered);
        if self.may_refuse {
            model.expect_shortage();
        }
        model.refusals = self.refusals;
        model.tally = self.tally;
        *self = model;
    }

    /// The model of a new process. Leased jobs are ready, and delayed jobs keep their due time.
    /// Pauses and the counters of the process are lost.
    fn reborn(now: u64, setting: Setting, recovered: Recovered) -> Self {
        let mut model = Model::new(now, setting);
        model.rules = recovered.log_contents.rules.clone();
        model.status = recovered.log_contents.status;
        model.claims.clone_from(&recovered.log_contents.claims);
        model.resolve(&"default".into());
        for (name, place) in recovered.queues_at_the_start() {
            let name = model.create_queue(&name);
            model.queue_mut(&name).place = place;
            let facts = recovered.log_contents.queues.get(&name).copied().unwrap_or_default();
            model.queue_mut(&name).facts = facts;
            if facts.is_items {
                model.queue_mut(&name).extra_since = Some(facts.created);
            }
            if facts.is_child {
                model.link_child(&name);
            }
            model.resolve(&name);
        }
        model.next_id = recovered.next_id;
        model.next_lease = recovered.next_id;
        for (id, image) in &recovered.log_contents.jobs {
            let state = match image.state {
                StoredState::Ready => State::Ready,
                StoredState::Delayed { .. } if recovered.ready.contains(id) => State::Ready,
                StoredState::Delayed { due } => State::Delayed { due },
                StoredState::Buried { order } => {
                    model.next_buried = model.next_buried.max(order + 1);
                    State::Buried { order }
                }
            };
            let since = match image.state {
                StoredState::Delayed { due } if state == State::Ready && image.since == 0 => due,
                _ => image.since,
            };
            let job = Job {
                queue: image.queue.clone(),
                pri: image.pri,
                delay: image.delay,
                ttr: image.ttr,
                created: image.created,
                since,
                body: image.body.clone(),
                state,
                counts: image.counts,
                attempts: image.attempts,
                death: image.death.clone(),
                order: image.order,
                tags: image.tags.clone(),
                kind: JobKind::Logged,
                key: image.key,
                group: image.group,
                expires: image.expires,
                watchers: Vec::new(),
                progress: (0, 0),
                warnings: Vec::new(),
                need: 0,
            };
            if job.expires.is_some() || job.death.is_some() {
                model.ensure_extra(&job.queue.clone());
            }
            model.jobs.insert(*id, job);
        }
        model.empty_buckets();
        model.history = History::default();
        let queues = recovered.log_contents.queues.clone();
        let kept = |name: &Name| queues.get(name).is_some_and(|facts| facts.kept && facts.is_child);
        model.unnoted.retain(|name| !kept(name));
        model.history.restart(recovered.log_contents);
        model.note_children();
        model.history.end_start();
        model
    }
}
