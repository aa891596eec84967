//! A cluster in the simulated world. To clients, it is one server: the node that serves now. A
//! takeover is for them what a restart is, and its node must have everything that a reply reported.

use broker::{Broker, Position};
use replica::node::End;

use super::World;
use super::steps::Step;
use crate::machine::cluster::{Cluster, Replication};
use crate::machine::process::MAILBOXES;
use crate::machine::storage::{CrashKind, Storage};
use crate::oracle::Certain;
use crate::trace::Trace;
use crate::{Checked, Sabotage};

/// A leader that stops waits this long for the stream.
const STOP_MS_MAX: u64 = 5000;
/// All events for clients are delivered within this many rounds.
const ARRIVALS_MAX: u64 = 10_000;
/// Without faults, the stream accepts everything within this time, and all nodes apply it.
const SETTLE_MS_MAX: u64 = 60_000;

impl Cluster {
    /// The broker of the first leader, and the beginning of its time.
    pub(super) fn first_broker(
        &mut self,
        trace: &mut Trace,
        storage: &mut Storage,
    ) -> Result<(Broker, u64), String> {
        let number = self.elect(trace)?;
        let (broker, _) = self.serve(number)?;
        storage.disk = self.members[number].disk.clone();
        let now = broker.last_time().0;
        Ok((broker, now))
    }
}

impl World {
    /// Goes to a later moment. Meanwhile the nodes of a cluster act.
    pub(super) fn go_to(&mut self, moment: u64) -> Checked {
        if let Some(cluster) = &mut self.cluster {
            cluster.pass(&mut self.trace, moment - self.now)?;
        }
        self.now = moment;
        Ok(())
    }

    /// Takes a step, if the node that serves can take it now.
    pub(super) fn take_of_node(&mut self, step: Step) -> Checked {
        if self.cluster.is_some() {
            let millis = self.rng.below(2);
            self.pass_time(millis)?;
        }
        let is_stopped = self.cluster.as_ref().is_some_and(Cluster::is_stopped);
        let is_of_server = !matches!(
            step,
            Step::Write | Step::Read | Step::HalfClose | Step::Wait | Step::Trouble | Step::Switch
        );
        if is_stopped && is_of_server { Ok(()) } else { self.take(step) }
    }

    /// Whether the server may send now. A leader may send only while it has a lease.
    pub(super) fn may_answer(&self) -> Result<bool, String> {
        self.cluster.as_ref().map_or(Ok(true), Cluster::may_answer)
    }

    /// The position up to which replies can be sent.
    pub(super) fn released(&self) -> Position {
        let serving = self.cluster.as_ref().and_then(|cluster| {
            let process = cluster.process(cluster.serving?)?;
            (self.options.sabotage == Sabotage::GateOff).then_some(process.released)
        });
        match self.options.sabotage {
            Sabotage::EarlyAcks => Position::ALL,
            _ => serving.unwrap_or_else(|| self.storage.released(&self.process.broker)),
        }
    }

    pub(crate) fn replication(&self) -> Replication {
        self.cluster.as_ref().map(Cluster::counted).unwrap_or_default()
    }

    pub(super) fn note_durable(&mut self) -> Checked {
        match &mut self.cluster {
            Some(cluster) => match cluster.serving {
                Some(number) => cluster.note_durable(&mut self.trace, number),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    // --- Faults ---

    pub(super) fn trouble(&mut self) -> Checked {
        match &mut self.cluster {
            Some(cluster) => {
                // The power of the node that serves can fail.
                self.storage.is_disturbed = true;
                cluster.trouble(&mut self.trace)
            }
            None => Ok(()),
        }
    }

    pub(super) fn end_trouble(&mut self) -> Checked {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        self.trace.note(format_args!("all faults end"));
        cluster.end_trouble();
        // A node may have been deposed, or it lives on although it does not lead any more.
        self.wait_for(SETTLE_MS_MAX, "a leader without a rival", Cluster::is_in_order)?;
        self.cluster.as_mut().map_or(Ok(()), Cluster::judge_all)
    }

    // --- What clients miss ---

    /// Delivers all events, and then lets the oracle check that no client misses the outcome of a job,
    /// and that no worker sleeps although there is a job for it.
    pub(super) fn let_all_arrive(&mut self) -> Checked {
        let is_stopped = self.cluster.as_ref().is_some_and(Cluster::is_stopped);
        if !self.oracle.judges_gearman() || is_stopped {
            return Ok(());
        }
        for _ in 0..ARRIVALS_MAX {
            self.load()?;
            if !self.has_events() {
                return self.oracle.check_all_told(self.now);
            }
            self.with_turn(|world, turn| {
                (0..MAILBOXES).try_for_each(|mailbox| world.deliver_event(mailbox, turn))
            })?;
        }
        Err(format!("after {ARRIVALS_MAX} rounds, there are still events for clients"))
    }

    /// In some cases, clients get everything before their connections end.
    fn end_connections(&mut self) -> Checked {
        if self.oracle.judges_gearman() && self.rng.coin() {
            self.let_all_arrive()?;
        }
        self.links.clear();
        Ok(())
    }

    /// The node that serves ends at once.
    pub(super) fn lose_leader(&mut self, kind: CrashKind) -> Checked {
        self.end_connections()?;
        if let Some(cluster) = &mut self.cluster
            && let Some(number) = cluster.serving
        {
            cluster.end(&mut self.trace, number, kind);
        }
        self.take_over()
    }

    /// The node that serves stops, and names a successor.
    pub(super) fn stop_leader(&mut self) -> Checked {
        let hangs = self.cluster.as_ref().is_some_and(Cluster::yields);
        self.trace.note(format_args!("clean stop, the folder hangs: {hangs}"));
        self.end_connections()?;
        for _ in 0..STOP_MS_MAX {
            if self.is_accepted() || self.cluster.as_ref().is_some_and(Cluster::has_ended) {
                break;
            }
            self.go_to(self.now + 1)?;
        }
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let Some(number) = cluster.serving else { return self.take_over() };
        let stream = self.process.broker.stream().ok_or("the broker is not that of a node")?;
        if !stream.is_settled() {
            return self.lose_leader(CrashKind::Killed);
        }
        cluster.resign(&mut self.trace, self.process.broker.next_number())?;
        for _ in 0..STOP_MS_MAX {
            if cluster.has_ended() {
                break;
            }
            cluster.pass(&mut self.trace, 1)?;
            self.now += 1;
        }
        let end = cluster.process(number).and_then(|process| process.end.clone());
        let kind = if self.rng.coin() { CrashKind::Killed } else { CrashKind::PowerLoss };
        // The process of a node whose folder hangs ends, and does not wait for it.
        if end == Some(End::Resigned) && !hangs {
            let now = broker::Millis(self.now);
            let closed = self.process.broker.close(now);
            if let Err(failed) = closed
                && !self.storage.disk.has_crashed()
            {
                return Err(format!("a clean stop failed: {failed}"));
            }
            self.oracle.stopped_cleanly();
        }
        cluster.end(&mut self.trace, number, kind);
        self.take_over()
    }

    // --- Takeovers ---

    /// Called after each step. If the process that serves has ended or yields, another node takes over.
    pub(super) fn look_at_nodes(&mut self) -> Checked {
        match &self.cluster {
            Some(cluster) if cluster.has_ended() => self.lose_leader(CrashKind::Killed),
            Some(cluster) if cluster.yields() => self.stop_leader(),
            _ => Ok(()),
        }
    }

    /// A node that has claimed begins to serve, although the old leader may live on.
    pub(super) fn switch(&mut self) -> Checked {
        // The process that serves may have just ended.
        self.look_at_nodes()?;
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        match cluster.successor() {
            Some(number) => self.serve(number),
            None => Ok(()),
        }
    }

    fn take_over(&mut self) -> Checked {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let number = cluster.elect(&mut self.trace)?;
        self.serve(number)
    }

    fn serve(&mut self, number: usize) -> Checked {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let (broker, first) = cluster.serve(number)?;
        let (next, used) = (broker.next_number(), self.process.broker.next_number());
        self.trace.note(format_args!("node {number} serves, ids from {first}"));
        if next < used {
            return Err(format!("id {next} is assigned again: ids below {used} were used"));
        }
        self.links.clear();
        self.storage.disk = cluster.members[number].disk.clone();
        // What happens to this disk may have been planned while its node followed.
        self.storage.is_disturbed |= self.plan.replicated.is_some_and(|plan| plan.is_faulty);
        self.summary.restarts += 1;
        let now = broker.last_time().0;
        // With policies, a queue may have a weaker sync setting. Then its changes are not certain.
        let is_certain = !self.plan.has_policies();
        let certain = if is_certain { Certain::Sent } else { Certain::Nothing };
        self.oracle.restarted(certain, now);
        let jobs = broker.stream().map_or(0, |stream| stream.at().jobs);
        self.begin(broker, now, (next, jobs))?;
        self.set_crons()
    }

    // --- The end of a run ---

    /// Whether the stream has accepted all groups of the node that serves.
    fn is_accepted(&self) -> bool {
        let stream = self.process.broker.stream();
        stream.is_none_or(|stream| stream.is_settled())
    }

    /// Lets time pass until this is true.
    fn wait_for(
        &mut self,
        most_ms: u64,
        what: &str,
        is_done: impl Fn(&Cluster) -> bool,
    ) -> Checked {
        for _ in 0..most_ms / 10 {
            self.look_at_nodes()?;
            if self.cluster.as_ref().is_none_or(&is_done) {
                return Ok(());
            }
            self.commit()?;
            self.prepare()?;
            self.pass_time(10)?;
        }
        Err(format!("there is not {what} after {most_ms} ms"))
    }

    /// Lets the stream accept everything.
    pub(super) fn settle(&mut self) -> Checked {
        if self.cluster.is_none() {
            return Ok(());
        }
        for _ in 0..SETTLE_MS_MAX {
            if self.is_accepted() {
                return Ok(());
            }
            self.pass_time(1)?;
        }
        Err("the stream does not accept everything".into())
    }

    /// All nodes must have the same, in memory and in their folders.
    pub(super) fn compare_nodes(&mut self) -> Checked {
        self.settle()?;
        self.wait_for(SETTLE_MS_MAX, "agreement", Cluster::agrees)?;
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        cluster.check_folders()
    }
}
