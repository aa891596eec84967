//! The end of one process and the beginning of the next: crashes, clean stops, recovery, and checks
//! of the recovered jobs.

use std::collections::BTreeSet;

use broker::{Broker, Millis};

use super::World;
use crate::machine::process::Process;
use crate::machine::storage::CrashKind;
use crate::model::{Model, Name, Recovered, Setting};
use crate::oracle::Certain;
use crate::plan::StorageKind;
use crate::seen;
use crate::{Checked, Sabotage};

/// The maximum error of the wall clock at the start of a process, in both directions.
const CLOCK_STEP_MS: u64 = 3_600_000;

/// The log writes its last mark at most this long after the last entry.
const MARK_MS_MAX: u64 = 1000;

/// Limit of consecutive crashes during recovery.
const RECOVERY_CRASHES_MAX: u64 = 3;

impl World {
    /// Crashes the process, and starts another process.
    pub(crate) fn crash(&mut self, kind: CrashKind) -> Checked {
        if self.cluster.is_some() {
            return self.lose_leader(kind);
        }
        self.trace.note(format_args!("{kind:?}"));
        let kind = self.end_disk(kind);
        self.sabotage_tail();
        // Drop the connections without closing their sessions, because a crash closes no session.
        self.links.clear();
        self.start_again(kind)
    }

    /// Crashes the disk. Returns the kind of the crash: `PowerLoss` if a planned power failure has
    /// happened, otherwise `kind`.
    fn end_disk(&mut self, kind: CrashKind) -> CrashKind {
        let disk = &self.storage.disk;
        if kind == CrashKind::PowerLoss || disk.has_crashed() {
            disk.crash();
            CrashKind::PowerLoss
        } else {
            disk.restart();
            CrashKind::Killed
        }
    }

    /// Sabotage: removes the newest bytes of the newest segments, although they were synced.
    fn sabotage_tail(&mut self) {
        if self.options.sabotage != Sabotage::LostTail {
            return;
        }
        for name in self.storage.disk.names() {
            let Some(mut bytes) = self.storage.disk.bytes(&name) else { continue };
            if name.strip_suffix(".seg").is_some()
                && let Some(end) = bytes.iter().rposition(|byte| *byte != 0)
                && end > 8192
            {
                bytes[end - 2000..].fill(0);
                self.storage.disk.set_bytes(&name, bytes);
            }
        }
    }

    /// Closes all connections, stops the broker cleanly, and starts another process.
    pub(crate) fn stop_cleanly(&mut self) -> Checked {
        if self.cluster.is_some() {
            return self.stop_leader();
        }
        self.trace.note(format_args!("clean stop"));
        while !self.links.is_empty() {
            self.disconnect(0)?;
        }
        let closed = self.process.broker.close(Millis(self.now));
        self.model.history.end_group(self.now);
        match closed {
            Ok(()) => {
                let end = self.model.history.len();
                self.storage.note_reply(end, &self.model.history);
                let next = self.model.next_number();
                let disturbed = self.summary.crashed_recoveries;
                let kind = if self.rng.coin() { CrashKind::Killed } else { CrashKind::PowerLoss };
                // A clean stop is durable with any setting of `sync`.
                self.model.history.require_all();
                self.oracle.stopped_cleanly();
                let kind = self.end_disk(kind);
                self.start_again(kind)?;
                // A start that was interrupted may have used ids.
                let undisturbed = self.summary.crashed_recoveries == disturbed;
                let is_known = self.is_modelled() && !self.options.is_sabotaged();
                // A read of a cold item takes the number of a lease, and other reads do not. The
                // model does not compute which items are cold.
                let has_cold_items = self.plan.jobs_bytes_max.is_some() && self.plan.shares[2] > 0;
                let first = self.process.first_id;
                let goes_on = first == next || first > next && has_cold_items;
                if !goes_on && undisturbed && is_known {
                    return Err(format!(
                        "ids go on at {} after a clean stop, not at {next}",
                        self.process.first_id
                    ));
                }
                Ok(())
            }
            Err(failure) if self.storage.was_disturbed() => {
                self.trace.note(format_args!("the stop fails: {failure}"));
                self.crash(CrashKind::PowerLoss)
            }
            Err(failure) => Err(format!("a clean stop failed: {failure}")),
        }
    }

    /// Starts another process. The first attempts can crash. `worst` is the worst crash so far.
    /// After a power loss, only synced data is certain.
    fn start_again(&mut self, mut worst: CrashKind) -> Checked {
        self.summary.restarts += 1;
        self.storage.undisturb();
        let StorageKind::Durable(sync) = self.plan.storage else {
            return Err("memory does not outlive a process".into());
        };
        // While no server runs, time passes, and somebody may set the wall clock.
        let wall = match self.rng.below(4) {
            0 => self.now + self.rng.below(2 * CLOCK_STEP_MS) - CLOCK_STEP_MS,
            _ => self.now + self.rng.below(3000),
        };
        let crashes =
            if self.rng.one_in(3) { self.rng.between(1, RECOVERY_CRASHES_MAX) } else { 0 };
        for attempt in 0.. {
            if attempt < crashes {
                let call = self.storage.disk.calls() + self.rng.between(1, 30);
                let only_power = self.plan.must_not_be_short();
                if !only_power {
                    self.model.expect_shortage();
                }
                match self.rng.below(6) {
                    _ if only_power => self.storage.disk.crash_at(call),
                    0 | 1 => self.storage.disk.fail_at(call),
                    2 => {
                        let read = self.storage.disk.reads() + self.rng.between(1, 10);
                        self.storage.disk.fail_read_at(read);
                    }
                    _ => self.storage.disk.crash_at(call),
                }
            }
            if !self.storage.is_full {
                // If the disk is full, keep the size of segments. The reserve has segments of the
                // old size, which a log with another size cannot use.
                let segment_bytes = *self.rng.pick(self.plan.segment_bytes);
                self.storage.set_segment_bytes(segment_bytes);
            }
            let options = self.storage.options(sync);
            // In two cases, the process starts with an unknown wall clock (0), and gets the real
            // time after the comparison with the model:
            // - In runs with items. With the real time, expired jobs would end before the
            //   comparison.
            // - If the wall clock was set back before the log's last mark. Simulated clients use the
            //   server's clock for absolute times, so the two clocks must agree.
            let is_back = wall < self.now + MARK_MS_MAX;
            let start = if self.plan.shares[2] > 0 || is_back { 0 } else { wall };
            let opened = Broker::open(options, Millis(start));
            match opened {
                Ok((broker, report)) => {
                    self.trace.note(format_args!("recovered {report:?}"));
                    self.storage.disk.plan_nothing();
                    if self.storage.disk.has_crashed() {
                        // The power failed during a disk call, but the start ignores errors of this
                        // call.
                        drop(broker);
                        worst = self.end_disk(CrashKind::PowerLoss);
                        self.summary.crashed_recoveries += 1;
                        continue;
                    }
                    let (required, written) = self.storage.survives(worst);
                    self.model.history.require(required, written);
                    let is_certain = worst == CrashKind::Killed || sync == log::Sync::Always;
                    // With policies, a queue may have a weaker sync setting. Then its changes are
                    // not certain.
                    let is_certain = is_certain && !self.plan.has_policies();
                    self.oracle
                        .restarted(if is_certain { Certain::Sent } else { Certain::Nothing }, wall);
                    return self.begin(broker, wall, (report.next_id, report.jobs));
                }
                Err(error) if attempt < crashes => {
                    self.trace.note(format_args!("recovery fails: {error}"));
                    self.summary.crashed_recoveries += 1;
                    let kind =
                        if self.rng.coin() { CrashKind::Killed } else { CrashKind::PowerLoss };
                    if self.end_disk(kind) == CrashKind::PowerLoss {
                        worst = CrashKind::PowerLoss;
                    }
                }
                Err(error) => return Err(format!("recovery is refused: {error}")),
            }
        }
        unreachable!("the last attempt is not disturbed")
    }

    /// Begins a new process. Checks that it found all changes that the old process promised.
    pub(super) fn begin(
        &mut self,
        broker: Broker,
        wall: u64,
        (next_id, in_log): (u64, u64),
    ) -> Checked {
        let now = broker.last_time().0;
        self.now = now;
        self.note_memory();
        broker.set_memory_limit(self.memory_limit);
        self.process = Process::new(broker.clone(), &self.plan, now);
        self.unreleased_moves.clear();
        let mut turn = broker.turn(Millis(now));
        // The model lets all expired jobs end. The heads of queues can be cold.
        while turn.advance() || self.loads_at_once() && turn.load_now() {
            turn.begin_slice();
        }
        self.oracle.began(turn.policies(), now, self.cluster.is_none());
        if !self.is_modelled() {
            turn.check_invariants();
            drop(turn);
            let setting = Setting { started: now, ..self.model.setting.clone() };
            self.model = Model::new(now, setting);
            self.storage.begin(self.process.broker.released().written_segment());
            self.collect_first_notifications()?;
            self.restore_base_rules()?;
            return self.pass_time(wall.saturating_sub(now));
        }
        if self.plan.jobs_bytes_max.is_some() {
            // The start leaves jobs only in the log. The comparison needs all of them.
            turn.check_invariants();
            turn.load_all_now();
        }
        let log_contents = seen::log_contents(&turn, self.model.history.ids().into_iter());
        let totals = turn.totals();
        let total = totals.ready + totals.delayed + totals.buried + totals.leased;
        if total != log_contents.jobs.len() as u64 || totals.leased > 0 {
            return Err(format!(
                "{total} jobs were recovered, {} of them held, but only {} were ever put",
                totals.leased,
                log_contents.jobs.len()
            ));
        }
        turn.check_invariants();
        let place = |name: &[u8]| turn.queue_id(name).map_or(0, |queue| queue.0);
        let names = turn.queue_names();
        let queues =
            names.map(|name| (String::from_utf8_lossy(name).into(), place(name))).collect();
        drop(turn);
        let found = Recovered {
            log_contents,
            ready: BTreeSet::new(),
            in_log,
            order_of_ended: 0,
            next_id,
            queues,
        };
        let (end, recovered) = self.model.explain(now, &found)?;
        self.summary.recovered_jobs += total;
        self.summary.lost_changes += (self.model.history.len() - end) as u64;
        self.trace.note(format_args!(
            "of {} changes {end} survived, {} were required; {total} jobs",
            self.model.history.len(),
            self.model.history.required(),
        ));
        let next_id = recovered.next_id;
        if next_id < self.model.next_id {
            return Err(format!("id {next_id} is dealt again after a restart"));
        }
        let setting = Setting { started: now, ..self.model.setting.clone() };
        self.model.restart(now, setting, recovered);
        if let Some(name) = self.model.unwanted_queue() {
            return Err(format!("{name} was recovered, though nothing keeps it"));
        }
        self.process.first_id = self.model.next_id;
        self.storage.begin(self.process.broker.released().written_segment());
        self.collect_first_notifications()?;
        self.restore_base_rules()?;
        self.pass_time(wall.saturating_sub(now))
    }

    /// Adds to the summary the number of requests that the ending process refused for lack of
    /// memory.
    pub(crate) fn note_memory(&mut self) {
        self.summary.memory_refusals += self.process.broker.memory_usage().refused;
    }

    fn collect_first_notifications(&mut self) -> Checked {
        self.ring()?;
        self.check_deeply()
    }
}

impl Model {
    /// A queue that nothing keeps in existence. The server should have dropped it.
    fn unwanted_queue(&self) -> Option<Name> {
        self.queues.keys().find(|name| !self.is_wanted(name)).cloned()
    }
}
