//! The end of a run. All faults stop. All remaining jobs must be delivered and ended within a
//! bounded number of steps. Every client that waits for the outcome of a job must receive it.

use std::rc::Rc;

use broker::{JobId, Status};

use super::World;
use crate::machine::link::Link;
use crate::machine::storage::CrashKind;
use crate::model::UP;
use crate::protocol::Protocol;
use crate::workload::{Client, packet};
use crate::{Checked, Options};

// Packets of Gearman.
const CAN_DO: u32 = 1;
const GRAB_JOB: u32 = 9;
const WORK_COMPLETE: u32 = 13;
const JOB_ASSIGN: u8 = 11;

/// An answer must come within this many rounds.
const ROUNDS_MAX: u64 = 200;

/// In a cluster, the driver of the stream may first have to give up an older append.
const NODE_ROUNDS_MAX: u64 = 2000;

/// The maximum number of steps of reclaim for each segment of the log.
const RECLAIM_STEPS_MAX: u64 = 2000;

impl World {
    pub(crate) fn finish(&mut self) -> Checked {
        self.trace.note(format_args!("finale"));
        self.storage.disk.plan_nothing();
        self.plan.loads_later = false;
        self.empty_disk();
        self.end_trouble()?;
        self.let_all_arrive()?;
        if self.is_durable() {
            match self.rng.below(3) {
                0 => self.crash(CrashKind::PowerLoss)?,
                1 => self.stop_cleanly()?,
                // If reclaim could not read a segment, it does not continue before the next start.
                // So restart the process.
                _ if self.storage.was_disturbed() => self.crash(CrashKind::Killed)?,
                _ => {}
            }
        }
        // Disconnect the clients that hold a job or could take a job. Clients that only wait for
        // outcomes stay.
        while let Some(index) = self.index_of_taker() {
            self.disconnect(index)?;
        }
        self.lift_restrictions()?;
        self.run_log_until_idle()?;
        if !self.is_modelled() {
            if self.plan.replicated.is_none_or(|plan| !plan.diverse) {
                self.finish_unmodelled()?;
            }
            return self.compare_nodes();
        }
        self.model.may_refuse = false;
        self.check_disk_use()?;
        self.ring()?;
        let client = Client::new(Protocol::Beanstalk, &mut self.rng);
        self.connect(client)?;
        let admitted = if self.model.is_draining { "DRAINING" } else { "INSERTED" };
        self.expect("put 0 0 1 1\r\nx\r\n", admitted)?;
        // Wait until the server has automatically given back the items that thrift clients hold.
        if let Some(last) = self.model.last_auto_abort() {
            self.pass_time(last.saturating_sub(self.now))?;
        }
        self.make_all_ready()?;
        if self.rng.coin() {
            self.work_as_beanstalk()?;
        }
        // A Gearman worker ends the other jobs. The names of their queues are not valid in
        // beanstalkd's protocol.
        let queues: Vec<_> = self.model.queues.keys().map(ToString::to_string).collect();
        self.work_as_gearman(&queues)?;
        if let Some((id, job)) = self.model.jobs.first_key_value() {
            return Err(format!("job {id} is left over: {:?}", job.state));
        }
        while self.has_events() {
            self.with_turn(|world, turn| {
                world.deliver_event(0, turn)?;
                world.deliver_event(1, turn)
            })?;
        }
        self.model.check_outcomes()?;
        self.oracle.check_all_ended()?;
        self.check_deeply()?;
        while !self.links.is_empty() {
            self.disconnect(0)?;
        }
        self.run_log_until_idle()?;
        self.check_disk_use()
    }

    /// Removes all policies, and sets the status `up`. Then no policy refuses a put, and each job
    /// stays in its queue.
    fn lift_restrictions(&mut self) -> Checked {
        self.with_turn(|world, turn| {
            let rules = world.base_rules();
            let _ = turn.set_policies(rules.clone());
            world.oracle.policies_changed(&rules);
            let _ = turn.set_status(Status::Up, 0);
            if world.is_modelled() {
                world.model.set_policies(&Rc::new(rules));
                world.model.set_status(UP);
            }
            Ok(())
        })
    }

    /// The index of a connection that holds a job, or can get one. What a connection has not read yet,
    /// because its put waits for room, can take a job later.
    fn index_of_taker(&self) -> Option<usize> {
        let takes = |place| !self.is_modelled() || !self.model.only_waits(place);
        let has_input = |link: &Link| !link.inbox.is_empty() || !link.to_server.is_empty();
        self.links.iter().position(|link| !link.is_open || has_input(link) || takes(link.place()))
    }

    /// Ends a run without a model: takes and ends all jobs. After that, there must be memory for
    /// another job.
    fn finish_unmodelled(&mut self) -> Checked {
        self.ring()?;
        if self.oracle.judges_gearman() {
            self.kick_all()?;
            let queues = self.queues_of_broker()?;
            self.work_as_gearman(&queues)?;
        }
        let client = Client::new(Protocol::Beanstalk, &mut self.rng);
        self.connect(client)?;
        // The names of Gearman's functions may not be valid in beanstalkd's protocol.
        for queue in self.queues_of_broker()?.into_iter().filter(|queue| queue.is_ascii()) {
            self.expect(&format!("watch {queue}\r\n"), "WATCHING")?;
            self.expect(&format!("pause-tube {queue} 0\r\n"), "PAUSED")?;
            self.expect(&format!("use {queue}\r\n"), "USING")?;
            while !self.ask(b"kick 1000\r\n")?.starts_with(b"KICKED 0") {}
        }
        for _ in 0..ROUNDS_MAX {
            self.take_all()?;
            self.pass_time(1)?;
        }
        let left = self.with_turn(|_, turn| Ok(turn.totals()))?;
        let left = left.ready + left.delayed + left.leased + left.buried;
        if left > 0 {
            return Err(format!("{left} jobs are left over"));
        }
        self.oracle.check_all_ended()?;
        let admitted = if self.model.is_draining { "DRAINING" } else { "INSERTED" };
        self.expect("put 0 0 1 1\r\nx\r\n", admitted)?;
        self.take_all()?;
        self.check_deeply()
    }

    fn queues_of_broker(&mut self) -> Result<Vec<String>, String> {
        self.with_turn(|_, turn| {
            Ok(turn.queue_names().map(|name| String::from_utf8_lossy(name).into()).collect())
        })
    }

    /// Makes all jobs ready, from any state.
    fn make_all_ready(&mut self) -> Checked {
        for queue in self.model.beanstalk_tubes() {
            self.expect(&format!("pause-tube {queue} 0\r\n"), "PAUSED")?;
        }
        while let Some(id) = self.model.first_set_aside() {
            self.expect(&format!("kick-job {id}\r\n"), "KICKED")?;
        }
        Ok(())
    }

    fn work_as_beanstalk(&mut self) -> Checked {
        for queue in self.model.beanstalk_tubes() {
            self.expect(&format!("watch {queue}\r\n"), "WATCHING")?;
        }
        self.take_all()
    }

    /// Takes and ends all ready jobs of the watched queues.
    fn take_all(&mut self) -> Checked {
        loop {
            let reply = self.ask(b"reserve-with-timeout 0\r\n")?;
            let Some(rest) = reply.strip_prefix(b"RESERVED ") else { return Ok(()) };
            let id = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
            self.expect(&format!("delete {}\r\n", id.escape_ascii()), "DELETED")?;
        }
    }

    /// Makes all scheduled jobs of Gearman ready.
    fn kick_all(&mut self) -> Checked {
        let ids = self.oracle.ids_of_gearman();
        self.with_turn(|world, turn| {
            let session = turn.open_session(0);
            for id in ids {
                // Most jobs are ready, or have ended.
                let _ = turn.caller(session).kick_job(JobId(id));
                world.oracle.kicked(id);
            }
            turn.close_session(session);
            Ok(())
        })?;
        self.ring()
    }

    fn work_as_gearman(&mut self, queues: &[String]) -> Checked {
        let client = Client::new(Protocol::Gearman, &mut self.rng);
        self.connect(client)?;
        let last = self.links.len() - 1;
        for queue in queues {
            self.links[last].to_server.extend(packet(CAN_DO, &[queue.as_bytes()]));
        }
        loop {
            let reply = self.ask(&packet(GRAB_JOB, &[]))?;
            let is_job = reply.get(7) == Some(&JOB_ASSIGN);
            let Some(body) = reply.get(12..).filter(|_| is_job) else { return Ok(()) };
            let handle = body.split(|byte| *byte == 0).next().unwrap_or_default();
            let done = packet(WORK_COMPLETE, &[handle, b"done"]);
            self.links[last].to_server.extend(done);
        }
    }

    fn expect(&mut self, command: &str, word: &str) -> Checked {
        let reply = self.ask(command.as_bytes())?;
        if reply.starts_with(word.as_bytes()) {
            Ok(())
        } else {
            Err(format!("{command:?} was answered with {}", reply.escape_ascii()))
        }
    }

    /// Sends a request on the newest connection and waits for its answer.
    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        let last = self.links.len() - 1;
        self.links[last].to_server.extend(request);
        let most = if self.cluster.is_some() { NODE_ROUNDS_MAX } else { ROUNDS_MAX };
        for _ in 0..most {
            self.with_turn(|world, turn| {
                world.deliver(last, usize::MAX, turn)?;
                Ok(())
            })?;
            while self.has_events() {
                self.with_turn(|world, turn| {
                    world.deliver_event(0, turn)?;
                    world.deliver_event(1, turn)
                })?;
            }
            self.commit()?;
            while self.send(last, usize::MAX)? {
                if let Some(reply) = self.client_reads(last, usize::MAX).pop() {
                    return Ok(reply);
                }
            }
            self.prepare()?;
            self.pass_time(1)?;
        }
        Err(format!("{} was never answered", request.escape_ascii()))
    }

    /// Lets the log do all its own work.
    pub(crate) fn run_log_until_idle(&mut self) -> Checked {
        if !self.is_durable() {
            return Ok(());
        }
        self.settles = true;
        // Reclaim does not look at segments that are not written yet.
        self.settle()?;
        self.commit()?;
        self.prepare()?;
        for _ in 0..RECLAIM_STEPS_MAX {
            let copied = self.reclaim()?;
            self.settle()?;
            self.commit()?;
            self.prepare()?;
            if !copied {
                self.settles = false;
                return Ok(());
            }
        }
        Err("reclaim never ends".into())
    }
}

impl Options {
    pub(crate) fn is_sabotaged(&self) -> bool {
        self.sabotage != crate::Sabotage::None
    }
}
