//! The world: one broker, its simulated connections, its clock, and the model of the broker.
//!
//! There are no threads. The world takes one random step after another. So the order of all events
//! is known, and the model gets them in the same order.

mod cluster;
mod crons;
mod disk_faults;
mod finale;
mod lives;
mod log_steps;
mod moves;
mod network;
mod policies;
mod sabotage;
mod steps;

use broker::limits::INDIVISIBLE_UNITS_MAX;
use broker::{JobId, Millis, Position, Turn};
use log::Sync;

use crate::machine::cluster::{Cluster, Replication};
use crate::machine::link::Link;
use crate::machine::process::Process;
use crate::machine::storage::Storage;
use crate::model::{Model, Name, Need, Setting, Tally};
use crate::oracle::{Judgements, LeasedJob, Oracle};
use crate::plan::{Plan, StorageKind};
use crate::rng::Rng;
use crate::seen;
use crate::trace::Trace;
use crate::workload::Known;
use crate::{Checked, Options, RunKind};

/// The wall clock at the beginning of the simulated world: a day in September 2026.
const EPOCH_MS: u64 = 1_790_000_000_000;

/// The engine must finish its own work within this many slices.
const ADVANCES_MAX: u64 = 10_000;

pub(crate) struct World {
    pub(crate) rng: Rng,
    /// Chooses the turns whose slices are short, in half of the runs without a model.
    slices: Option<Rng>,
    pub(crate) plan: Plan,
    pub(crate) options: Options,
    pub(crate) trace: Trace,
    /// The server's clock. It begins at the wall clock's time, and never goes back.
    pub(crate) now: u64,
    pub(crate) process: Process,
    /// The limit of memory in bytes, for each process of the server in this run.
    pub(crate) memory_limit: Option<u64>,
    pub(crate) model: Model,
    pub(crate) oracle: Oracle,
    /// The log's disk, and the changes that must survive a crash. In a cluster, the disk is that of
    /// the node that serves.
    pub(crate) storage: Storage,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) links: Vec<Link>,
    pub(crate) known: Known,
    pub(crate) links_made: u64,
    /// The moves whose replies wait for the log, with the records that the replies depend on.
    pub(crate) unreleased_moves: Vec<(Position, Need)>,
    pub(crate) summary: Summary,
    /// True while the log does its own work until it is idle. Then no new segments begin early,
    /// because reclaim would never end.
    pub(crate) settles: bool,
}

/// Counts what a run did. Tests check that runs do enough of each kind.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Steps taken.
    pub steps: u64,
    /// Replies that reached clients.
    pub replies: u64,
    /// Starts after a crash or a stop.
    pub restarts: u64,
    /// Crashes in the middle of a recovery.
    pub crashed_recoveries: u64,
    /// Processes that ended because the log failed.
    pub failures: u64,
    /// Steps in which the server loaded stored bodies.
    pub loads: u64,
    /// Index files built.
    pub indexes: u64,
    /// Jobs that became cold.
    pub cooled: u64,
    /// Slices copied by reclaim.
    pub reclaimed: u64,
    /// Requests that a full disk refused.
    pub refusals: u64,
    /// Jobs that existed after restarts.
    pub recovered_jobs: u64,
    /// Requests that a full disk refused in runs with policies that only the oracle judges.
    pub refusals_with_policies: u64,
    /// Changes that a restart lost. No reply had reported these changes.
    pub lost_changes: u64,
    /// What the model saw.
    pub tally: Tally,
    /// Flushes and removals of queues that took several slices.
    pub long_clearings: u64,
    /// Turns in which long operations waited because the log was behind.
    pub held_chores: u64,
    /// Puts that the server refused for lack of memory.
    pub memory_refusals: u64,
    /// The number of the oracle's checks.
    pub judged: Judgements,
    /// Jobs that operators moved to other queues.
    pub moves: u64,
    /// Jobs that operators set aside.
    pub set_asides: u64,
    /// Jobs that operators buried or rescheduled.
    pub changes_by_hand: u64,
    /// Dead letters and buried jobs that an operator brought back.
    pub redrives: u64,
    /// What happened in the clusters.
    pub replication: Replication,
    /// Hash of the whole trace.
    pub hash: u64,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let is_cluster = options.kind == RunKind::Cluster;
        let mut plan = if is_cluster { Plan::of_cluster(&mut rng) } else { Plan::new(&mut rng) };
        if is_cluster {
            plan.choose_gearman(&mut Rng::new(seed.rotate_left(16)));
            plan.choose_yields(&mut Rng::new(seed.rotate_left(48)));
        }
        plan.choose_results(&mut Rng::new(seed.rotate_left(8)));
        plan.choose_bodies(&mut Rng::new(!seed));
        plan.choose_names(&mut Rng::new(seed.rotate_left(48)));
        if is_cluster {
            // Its plan is complete.
        } else if options.sabotage.chooses_rules() {
            plan.limit_hand_outs();
        } else if options.kind == RunKind::Policies {
            plan.judge_policies(&mut Rng::new(seed.rotate_left(56)));
        } else if options.is_sabotaged() {
            // Most sabotages need the model's state.
            plan.unmodelled = None;
        } else {
            plan.choose_moves(&mut Rng::new(seed.rotate_left(32)));
            plan.choose_full_disks(&mut Rng::new(seed.rotate_left(40)));
        }
        let mut trace = Trace::new(options.trace);
        let now = EPOCH_MS + rng.below(100_000);
        trace.note(format_args!("{plan:?}"));
        let setting = Setting {
            max_job_size: plan.max_job_size,
            is_strict: matches!(
                plan.storage,
                StorageKind::Durable(Sync::Always) | StorageKind::Replicated(_)
            ),
            in_memory: plan.storage == StorageKind::Memory,
            started: now,
            wake_max: plan.gearman.wake_max,
            attempts_max: plan.gearman.attempts_max,
            round_robin: plan.gearman.round_robin,
            exceptions: plan.gearman.exceptions,
            packet_bytes_max: plan.packet_bytes_max(),
            item_bytes_max: plan.max_job_size,
            cools: plan.jobs_bytes_max.is_some(),
        };
        let mut storage = Storage::new(rng.next_u64(), &plan, &options);
        let cluster = plan.replicated.map(|plan| {
            let (seed, of_node) = (rng.next_u64(), storage.options_of_node());
            Cluster::new(seed, plan, of_node, now, options.sabotage)
        });
        let mut cluster = cluster.transpose()?;
        let (broker, now) = match &mut cluster {
            Some(cluster) => cluster.first_broker(&mut trace, &mut storage)?,
            None => (storage.first_broker(now)?, now),
        };
        let sees_items = plan.dialects[1..] == [0, 0] && plan.weights.moves == 0;
        let mut oracle = Oracle::new(plan.shares.map(|share| share > 0), sees_items);
        // In diverse runs, operators move jobs.
        let is_plain = plan.replicated.is_some_and(|plan| !plan.diverse);
        if is_plain && plan.shares == [0, 1, 0] {
            oracle.judge_gearman(plan.gearman.wake_max == 0, plan.gearman.attempts_max > 0);
        }
        let memory_limit = plan.unmodelled.and_then(|unmodelled| unmodelled.memory_bytes);
        let memory_limit = memory_limit.map(|bytes| broker.memory_usage().used_bytes + bytes);
        if plan.unmodelled.is_some() {
            oracle.slices_are_short();
        }
        if plan.changes_jobs {
            oracle.policies_change_jobs();
        }
        if memory_limit.is_some() {
            oracle.memory_is_limited();
        }
        broker.set_memory_limit(memory_limit);
        let mut slices = Rng::new(seed.rotate_left(24));
        let mut world = Self {
            memory_limit,
            process: Process::new(broker, &plan, now),
            model: Model::new(now, setting),
            oracle,
            storage,
            cluster,
            rng,
            slices: (plan.unmodelled.is_some() && slices.coin()).then_some(slices),
            plan,
            options,
            trace,
            now,
            links: Vec::new(),
            known: Known::default(),
            links_made: 0,
            unreleased_moves: Vec::new(),
            summary: Summary::default(),
            settles: false,
        };
        world.restore_base_rules()?;
        Ok(world)
    }

    /// True if this run has a model.
    pub(crate) fn is_modelled(&self) -> bool {
        self.plan.unmodelled.is_none()
    }

    /// True if only the oracle may find an error in this run.
    fn is_for_oracle(&self) -> bool {
        !self.is_modelled() || self.options.sabotage.is_for_oracle()
    }

    // --- Turns ---

    /// Takes one turn of the broker at this moment, and then compares broker and model.
    pub(crate) fn with_turn<T>(
        &mut self,
        act: impl FnOnce(&mut World, &mut Turn<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let broker = self.process.broker.clone();
        let mut turn = broker.turn(Millis(self.sabotaged_now()));
        if let Some(slices) = &mut self.slices {
            // As a server does where quiet clients meet busy ones.
            turn.use_short_slices(slices.coin());
        }
        if self.is_modelled() {
            self.model.advance(self.now);
            if !self.model.has_chores() {
                // The model has done all due work, and not only one slice of it.
                turn.catch_up();
            }
        }
        if self.loads_at_once() {
            // The model has done all due work. Some of it can need loads.
            while turn.load_now() {
                turn.catch_up();
            }
        }
        let (milestones, _) = turn.take_milestones();
        self.oracle.check_milestones(&milestones, turn.now().0)?;
        turn.begin_slice();
        let done = act(self, &mut turn)?;
        if self.loads_at_once() {
            // The broker does not load a cold head to put a job, so it could not remove the head if
            // that had expired. The model could. Now both do what is due.
            self.model.advance(self.now);
            turn.catch_up();
            while turn.load_now() {
                turn.catch_up();
            }
        }
        // As in `call`: a timer, too, can move a job when no segment is ready for the entry.
        if broker.congested() && !self.plan.must_not_be_short() {
            self.model.may_refuse = true;
        }
        self.sabotage_copies(&mut turn);
        self.sabotage_jobs(&mut turn);
        let orders = |id| {
            let facts = turn.job_status(JobId(id)).value.ok()?.facts;
            Some((facts.order, facts.buried_order))
        };
        self.model.adopt_orders(orders);
        let queue = |name: &Name| {
            let (queue, facts) =
                (turn.queue_id(name.as_bytes())?, turn.queue_facts(name.as_bytes())?);
            Some((queue.0, facts.created.0))
        };
        self.model.adopt_queues(queue, turn.free_queue_ids().map(|queue| queue.0));
        self.model.note_children();
        if !self.is_for_oracle() {
            self.check_totals(&turn)?;
        }
        if self.oracle.limits_slots() {
            for name in turn.queue_names() {
                let leased = turn.queue_stats(name).map_or(0, |stats| stats.leased as u32);
                self.oracle.check_leased(&String::from_utf8_lossy(name), leased)?;
            }
        }
        if self.oracle.limits_keys() {
            self.check_leased_keys(&turn)?;
        }
        check_slices(&turn, self.plan.slice_units())?;
        drop(turn);
        if let Some(cluster) = &mut self.cluster {
            cluster.turned();
        }
        self.collect_notifications()?;
        Ok(done)
    }

    fn check_leased_keys(&mut self, turn: &Turn<'_>) -> Checked {
        // A body that has left the memory would have to be read from the disk.
        let leased: Vec<_> = turn.leased_jobs().filter(|job| job.body.is_some()).collect();
        let names: Vec<_> = leased.iter().map(|job| String::from_utf8_lossy(job.queue)).collect();
        let leased = leased.iter().zip(&names).map(|(job, queue)| LeasedJob {
            id: job.id.0,
            queue,
            unique: job.unique,
            body: job.body.as_deref().unwrap_or_default(),
        });
        let leased: Vec<_> = leased.collect();
        self.oracle.check_leased_keys(&leased, turn.next_job_id().0)
    }

    /// True if cold jobs are loaded within the turn that needs them.
    pub(super) fn loads_at_once(&self) -> bool {
        self.plan.jobs_bytes_max.is_some() && !self.plan.loads_later
    }

    fn check_totals(&self, turn: &Turn<'_>) -> Checked {
        let totals = turn.totals();
        let seen = [totals.ready, totals.delayed, totals.leased, totals.buried];
        let expected = self.model.count_by_state();
        if seen != expected {
            return Err(format!(
                "ready, delayed, reserved, buried jobs are {seen:?}, the model says {expected:?}"
            ));
        }
        let seen = (totals.queues, totals.sessions);
        let expected = (self.model.queues.len() as u64, self.model.conns.len() as u64);
        if seen != expected {
            let names: Vec<_> = turn.queue_names().map(<[u8]>::escape_ascii).collect();
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let expected_names: Vec<_> = self.model.queues.keys().collect();
            return Err(format!(
                "queues and sessions are {seen:?}, the model says {expected:?}:\n  {names:?}\n  \
                 {expected_names:?}"
            ));
        }
        self.model.check_sleepers()?;
        for link in self.links.iter().filter(|link| link.is_open) {
            let ready =
                |name: &Name| turn.queue_stats(name.as_bytes()).is_some_and(|q| q.ready > 0);
            if let Some(missed) = self.model.sleeps_on(link.place()).iter().find(|name| ready(name))
            {
                return Err(format!("connection {} sleeps through a job of {missed}", link.number));
            }
        }
        Ok(())
    }

    /// Called after a turn. Checks that each open session has the events that the model expects.
    /// Also checks that the alarm is not later than the next due event.
    pub(crate) fn collect_notifications(&mut self) -> Checked {
        self.process.gather();
        self.sabotage_events();
        if self.is_for_oracle() {
            return Ok(());
        }
        self.model.offer_room();
        let process = &self.process;
        for link in self.links.iter().filter(|link| link.is_open) {
            let seen = process.events.iter().flatten().filter(|(id, _)| *id == link.id).count();
            let expected = self.model.letters_to(link.place());
            if seen != expected {
                return Err(format!(
                    "connection {} has {seen} events under way, the model says {expected}",
                    link.number
                ));
            }
        }
        let next = self.model.next_moment(self.now);
        let rings = |moment| process.alarm.is_some_and(|alarm| alarm <= moment);
        match next {
            Some(moment) if !rings(moment) => Err(format!(
                "something is due at {moment}, but the alarm is set to {:?}",
                process.alarm
            )),
            _ => Ok(()),
        }
    }

    // --- Time ---

    /// Lets this many milliseconds pass. Each event happens at its due time or a little later. The
    /// events happen in the order of their due times, because the model cannot compute any other
    /// order.
    pub(crate) fn pass_time(&mut self, millis: u64) -> Checked {
        let target = self.now + millis;
        loop {
            let alarm = self.sabotaged_alarm().filter(|alarm| *alarm <= target);
            let moment = self.model.next_moment(self.now).filter(|moment| *moment <= target);
            let Some(next) = alarm.into_iter().chain(moment).min() else { break };
            let next = next.max(self.now);
            let latest = self.model.next_moment(next).unwrap_or(u64::MAX).min(target + 1) - 1;
            let moment = match self.rng.below(4) {
                0 => self.rng.between(next, latest.max(next)),
                _ => next,
            };
            self.go_to(moment)?;
            self.trace.now = self.now - EPOCH_MS.min(self.now);
            self.ring()?;
        }
        self.go_to(target.max(self.now))?;
        self.trace.now = self.now - EPOCH_MS.min(self.now);
        Ok(())
    }

    /// Lets the engine do all work that is due now. The server does this when its timer fires.
    pub(crate) fn ring(&mut self) -> Checked {
        if self.sabotaged_alarm().is_some_and(|alarm| alarm <= self.now) {
            self.process.alarm = None;
        }
        self.trace.note(format_args!("advance"));
        for _ in 0..ADVANCES_MAX {
            let (more, has_chores) = self.with_turn(|world, turn| {
                if world.is_modelled() {
                    world.model.advance(world.now);
                }
                let mut more = turn.advance();
                world.summary.held_chores += u64::from(turn.has_held_chores());
                // The model does not wait for the load of expired items.
                while !more && world.loads_at_once() && turn.load_now() {
                    more = turn.advance();
                }
                Ok((more, turn.has_chores()))
            })?;
            if self.is_modelled() && more != self.model.has_chores() {
                return Err(format!("the broker has more to do: {more}, not so the model"));
            }
            if !more {
                // Chores can wait until the log has written more, or until a cold job is loaded.
                if !has_chores {
                    self.oracle.settled(self.now);
                }
                return Ok(());
            }
        }
        Err("the broker always has more to do".into())
    }

    /// Compares the complete state of engine and model.
    pub(crate) fn check_deeply(&mut self) -> Checked {
        if self.plan.jobs_bytes_max.is_some() {
            self.with_turn(|_, turn| {
                turn.check_invariants();
                turn.load_all_now();
                Ok(())
            })?;
        }
        if !self.is_modelled() {
            return self.with_turn(|_, turn| {
                turn.check_invariants();
                Ok(())
            });
        }
        if self.is_for_oracle() {
            return Ok(());
        }
        self.with_turn(|world, turn| {
            turn.check_invariants();
            seen::compare(&world.model, turn)
        })
    }
}

/// Checks that no slice of work was too long. The maximum for a piece of input, an event, the end
/// of a session or a step of the engine's own work is two slices plus [`INDIVISIBLE_UNITS_MAX`].
fn check_slices(turn: &Turn<'_>, slice_units: u32) -> Checked {
    let longest = turn.longest_slice();
    let most = 2 * u64::from(slice_units) + INDIVISIBLE_UNITS_MAX;
    if longest > most {
        return Err(format!("a slice of work was {longest} units, more than {most}"));
    }
    Ok(())
}
