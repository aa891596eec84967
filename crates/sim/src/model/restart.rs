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

/// What the log can have of jobs that the process ended at its start: see
/// [`LogContents::count_from_puts`] and [`LogContents::count_all_of_gone`].
type Guess<'a> = (bool, Option<&'a BTreeMap<u64, Counts>>);

/// The state that a new process has found.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    pub(crate) log_contents: LogContents,
    /// Delayed jobs of the log that are ready in the process from the start, because they were due.
    pub(crate) ready: BTreeSet<u64>,
    /// The number of jobs in the log, before any job expired.
    pub(crate) in_log: u64,
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
        let LogContents { jobs, queues, .. } = &self.log_contents;
        let mut lost: BTreeSet<&Name> = jobs.values().map(|image| &image.queue).collect();
        lost.extend(queues.keys());
        let mut queues = self.queues.clone();
        queues.retain(|(name, _)| &**name == "default" || lost.contains(name));
        let is_taken = |place: &Place| self.queues.iter().any(|(_, taken)| taken == place);
        let free: Vec<Place> = (0..).filter(|place| !is_taken(place)).take(lost.len()).collect();
        lost.retain(|name| queues.iter().all(|(kept, _)| kept != *name));
        queues.extend(lost.into_iter().cloned().zip(free));
        queues
    }
}

impl Model {
    /// Finds the prefix of the history that explains the recovered state, and the state with which
    /// the process began. Expired jobs have already ended in the recovered state. So this function
    /// starts a trial model after each possible prefix, lets its expired jobs end, and compares the
    /// result.
    pub(crate) fn explain(&self, now: u64, found: &Recovered) -> Result<(Need, Recovered), String> {
        self.history.find(&found.log_contents, now, found.next_id, |end, log_contents| {
            // Of the jobs that the process has ended, it is not known whether the log has the moments
            // when they became ready. These decide whether a job has expired, and which queue expires
            // its jobs first. Nor is it known which counters the log has. With a strict order, jobs
            // that were handed out before come first.
            let newest = self.history.newest_counts(end);
            let counts = |is_newest: bool| is_newest.then_some(&newest);
            let guesses = [(true, false), (false, false), (true, true), (false, true)];
            let explain_with = |(from_puts, is_newest)| {
                self.explain_with(log_contents, found, now, (from_puts, counts(is_newest)))
            };
            let first = explain_with(guesses[0]);
            let explained = guesses[1..]
                .iter()
                .fold(first, |so_far, guess| so_far.or_else(|_| explain_with(*guess)));
            explained.map(|begun| (end, begun))
        })
    }

    /// Checks that a process that began with this state leads to the recovered state. Returns the
    /// state with which it began.
    fn explain_with(
        &self,
        log_contents: &LogContents,
        found: &Recovered,
        now: u64,
        guess: Guess<'_>,
    ) -> Result<Recovered, String> {
        // A process restores a due job as ready. But it restores the due jobs of a block of cold jobs
        // as delayed, if other jobs of the block are not due.
        let mut begun = self.begun(log_contents, found, now, guess);
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
        (from_puts, newest): Guess<'_>,
    ) -> Recovered {
        let mut log_contents = log_contents.clone();
        if from_puts {
            log_contents.count_from_puts(&found.log_contents, &self.history.leased(), now);
        }
        if let Some(newest) = newest {
            log_contents.count_all_of_gone(&found.log_contents, newest);
        }
        log_contents.meet(&found.log_contents, now, self.history.counts_may_be_missing);
        let newest = log_contents.jobs.iter().map(|(id, image)| image.order.max(*id)).max();
        let next_id = found.next_id.max(newest.unwrap_or(0) + 1);
        Recovered { log_contents, next_id, ..found.clone() }
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
