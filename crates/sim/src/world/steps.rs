//! Chooses the next step of the world.

use super::World;
use crate::Checked;
use crate::machine::process::MAILBOXES;
use crate::machine::storage::CrashKind;
use crate::workload::Client;

/// The number of steps between two complete comparisons.
pub(super) const STEPS_BETWEEN_DEEP_CHECKS: u64 = 64;

/// The frequency of loads, if they are steps of their own. A load takes about as long as a few
/// requests.
const LOAD_WEIGHT: u64 = 60;

/// The simulated server reads this many bytes at once. The number is far lower than the size of a
/// segment, as in the real server. The log can hold clients back only between reads, so one read
/// must not fill a segment.
const READ_BYTES_MAX: usize = 16_000;

#[derive(Copy, Clone, Debug)]
pub(crate) enum Step {
    Connect,
    Write,
    Deliver,
    Event,
    Send,
    Read,
    Wait,
    HalfClose,
    Disconnect,
    Commit,
    Prepare,
    Reclaim,
    Crash(CrashKind),
    CleanStop,
    PlanCrash,
    PlanFailure,
    PlanReadFailure,
    FillDisk,
    EmptyDisk,
    Drain,
    Policies,
    Move,
    Load,
    Trouble,
    Switch,
}

impl World {
    /// Takes this many random steps.
    pub(crate) fn run(&mut self, steps: u64) -> Checked {
        self.set_crons()?;
        for _ in 0..steps {
            self.summary.steps += 1;
            self.step()?;
            if self.summary.steps.is_multiple_of(STEPS_BETWEEN_DEEP_CHECKS) {
                self.check_deeply()?;
                self.let_all_arrive()?;
                self.set_note()?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        let weights = &self.plan.weights;
        let step = self.rng.weighted(&[
            (weights.connect, Step::Connect),
            (weights.write, Step::Write),
            (weights.deliver, Step::Deliver),
            (weights.event, Step::Event),
            (weights.send, Step::Send),
            (weights.read, Step::Read),
            (weights.wait, Step::Wait),
            (weights.half_close, Step::HalfClose),
            (weights.disconnect, Step::Disconnect),
            (weights.commit, Step::Commit),
            (weights.prepare, Step::Prepare),
            (weights.reclaim, Step::Reclaim),
            (weights.kill, Step::Crash(CrashKind::Killed)),
            (weights.power, Step::Crash(CrashKind::PowerLoss)),
            (weights.clean_stop, Step::CleanStop),
            (weights.plan_crash, Step::PlanCrash),
            (weights.plan_failure, Step::PlanFailure),
            (weights.fill_disk, Step::FillDisk),
            (weights.empty_disk, Step::EmptyDisk),
            (weights.plan_read_failure, Step::PlanReadFailure),
            (weights.drain, Step::Drain),
            (weights.policies * u64::from(self.plan.changes_policies()), Step::Policies),
            (weights.moves, Step::Move),
            (LOAD_WEIGHT * u64::from(self.plan.loads_later), Step::Load),
            (weights.trouble, Step::Trouble),
            (weights.switch, Step::Switch),
        ]);
        self.take_of_node(step)?;
        self.close_finished()?;
        self.look_at_nodes()
    }

    /// Takes a random step that does not involve the log.
    pub(crate) fn any_client_step(&mut self) -> Checked {
        let step =
            *self.rng.pick(&[Step::Write, Step::Deliver, Step::Event, Step::Send, Step::Read]);
        self.take(step)
    }

    pub(super) fn take(&mut self, step: Step) -> Checked {
        match step {
            Step::Connect => {
                if (self.links.len() as u64) < self.plan.clients_max {
                    let client = Client::any(&self.plan, &mut self.rng);
                    self.connect(client)?;
                }
            }
            Step::Deliver => self.deliver_to_some()?,
            Step::Event => {
                if self.has_events() {
                    let mailbox = self.rng.index(MAILBOXES);
                    self.with_turn(|world, turn| world.deliver_event(mailbox, turn))?;
                }
            }
            Step::Wait => {
                let millis = match self.rng.below(10) {
                    0 => self.rng.below(3000),
                    1 => 1000,
                    2 => 0,
                    _ => self.rng.below(40),
                };
                self.pass_time(millis)?;
            }
            Step::Commit => self.commit()?,
            Step::Prepare => self.prepare()?,
            Step::Reclaim => drop(self.reclaim()?),
            Step::Crash(kind) => self.crash(kind)?,
            Step::CleanStop => self.stop_cleanly()?,
            Step::PlanCrash | Step::PlanFailure | Step::PlanReadFailure => self.plan_fault(step),
            Step::Drain => {
                self.trace.note(format_args!("drain"));
                self.process.broker.drain();
                self.model.is_draining = true;
            }
            Step::Policies => self.change_policies()?,
            Step::Move => self.move_a_job()?,
            Step::Load => self.load()?,
            Step::Trouble => self.trouble()?,
            Step::Switch => self.switch()?,
            Step::FillDisk => self.fill_disk()?,
            Step::EmptyDisk => self.empty_disk(),
            Step::Write | Step::Send | Step::Read | Step::HalfClose | Step::Disconnect => {
                if !self.links.is_empty() {
                    let index = self.rng.index(self.links.len());
                    self.take_at_link(step, index)?;
                }
            }
        }
        Ok(())
    }

    fn take_at_link(&mut self, step: Step, index: usize) -> Checked {
        match step {
            Step::Write => self.client_writes(index),
            Step::Send => {
                let max = *self.rng.pick(&[1, 7, 1000, 100_000]);
                self.send(index, max)?;
            }
            Step::Read => {
                if !self.links[index].client.is_slow || self.rng.one_in(5) {
                    let max = *self.rng.pick(&[1, 30, 5000, 100_000]);
                    self.client_reads(index, max);
                }
            }
            Step::HalfClose => self.links[index].client_ended = true,
            _ => self.disconnect(index)?,
        }
        Ok(())
    }

    /// Delivers bytes on one or several connections, all in one turn.
    fn deliver_to_some(&mut self) -> Checked {
        if self.links.is_empty() {
            return Ok(());
        }
        let count = self.rng.between(1, 3).min(self.links.len() as u64);
        self.with_turn(|world, turn| {
            for _ in 0..count {
                let index = world.rng.index(world.links.len());
                let max = *world.rng.pick(&[1, 2, 10, 100, 5000, READ_BYTES_MAX, READ_BYTES_MAX]);
                world.deliver(index, max, turn)?;
            }
            if world.rng.one_in(3) {
                let mailbox = world.rng.index(MAILBOXES);
                world.deliver_events_of_turn(mailbox, turn)?;
            }
            Ok(())
        })
    }
}
