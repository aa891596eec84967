//! The end of a run: all trouble stops, and everything that is left must be delivered and ended
//! within a bounded number of steps.

use crate::storage::Death;
use crate::workload::Client;
use crate::world::World;
use crate::{Checked, Options};

/// Rounds after which an answer must have come.
const ROUNDS_MAX: u64 = 200;

/// Steps of reclaim per segment of the log, at most.
const RECLAIM_STEPS_MAX: u64 = 2000;

impl World {
    pub(crate) fn finish(&mut self) -> Checked {
        self.trace.note(format_args!("finale"));
        self.cellar.disk.plan_nothing();
        self.empty_disk();
        if self.is_durable() {
            match self.rng.below(3) {
                0 => self.die(Death::PowerLoss)?,
                1 => self.stop_cleanly()?,
                // Reclaim does not go on in this life once a segment could not be read.
                _ if self.cellar.was_disturbed() => self.die(Death::Killed)?,
                _ => {}
            }
        }
        while !self.links.is_empty() {
            self.disconnect(0)?;
        }
        self.settle_log()?;
        self.model.may_refuse = false;
        self.check_disk_use()?;
        let client = Client::new(&mut self.rng);
        self.connect(client)?;
        let admitted = if self.model.is_draining { "DRAINING" } else { "INSERTED" };
        self.expect("put 0 0 1 1\r\nx\r\n", admitted)?;
        // Everything in every state becomes ready, and is taken and ended.
        while let Some(tube) = self.model.tube_with_jobs() {
            self.expect(&format!("watch {tube}\r\n"), "WATCHING")?;
            self.expect(&format!("use {tube}\r\n"), "USING")?;
            self.expect(&format!("pause-tube {tube} 0\r\n"), "PAUSED")?;
            self.expect("kick 4294967295\r\n", "KICKED")?;
            self.expect("kick 4294967295\r\n", "KICKED")?;
            loop {
                let reply = self.ask("reserve-with-timeout 0\r\n")?;
                let Some(id) = reply.strip_prefix("RESERVED ") else { break };
                let id = id.split(' ').next().unwrap_or_default();
                self.expect(&format!("delete {id}\r\n"), "DELETED")?;
            }
        }
        self.check_deeply()?;
        self.settle_log()?;
        self.check_disk_use()
    }

    fn expect(&mut self, command: &str, word: &str) -> Checked {
        let reply = self.ask(command)?;
        if reply.starts_with(word) {
            Ok(())
        } else {
            Err(format!("{command:?} was answered with {reply:?}"))
        }
    }

    /// Sends one command on the only connection and waits for its answer.
    fn ask(&mut self, command: &str) -> Result<String, String> {
        self.links[0].to_server.extend(command.as_bytes());
        for _ in 0..ROUNDS_MAX {
            self.with_turn(|world, turn| {
                world.deliver(0, usize::MAX, turn)?;
                Ok(())
            })?;
            while self.has_events() {
                self.with_turn(|world, turn| {
                    world.deliver_event(0, turn)?;
                    world.deliver_event(1, turn)
                })?;
            }
            self.commit()?;
            while self.send(0, usize::MAX)? {
                if let Some(reply) = self.client_reads(0, usize::MAX).pop() {
                    return Ok(String::from_utf8_lossy(&reply).into_owned());
                }
            }
            self.prepare()?;
            self.pass_time(1)?;
        }
        Err(format!("{command:?} was never answered"))
    }

    /// Lets the log do all that it wants to do by itself.
    pub(crate) fn settle_log(&mut self) -> Checked {
        if !self.is_durable() {
            return Ok(());
        }
        for _ in 0..RECLAIM_STEPS_MAX {
            let copied = self.reclaim()?;
            self.commit()?;
            self.prepare()?;
            if !copied {
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
