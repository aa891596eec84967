//! An operator moves jobs to other queues, sets jobs aside, brings dead letters back, and buries and
//! reschedules jobs.

use broker::{Answer, JobId, Position};

use super::World;
use crate::Checked;

/// The queues that jobs are moved to. Clients use them, too, except the last one.
const QUEUES: [&str; 6] = ["a", "b-2", "(c)", "default", "a+x", "moved"];

impl World {
    /// Moves a random job to a random queue, or changes it in another way: makes it a dead letter, or brings
    /// it back if it is one, or buries or reschedules it.
    pub(crate) fn move_a_job(&mut self) -> Checked {
        let Some(session) = self.links.iter().find(|link| link.is_open).map(|link| link.id) else {
            return Ok(());
        };
        let to = *self.rng.pick(&QUEUES);
        let picked = self.rng.next_u64();
        let is_of_model = self.is_modelled() && self.rng.one_in(4);
        let is_redrive = self.rng.one_in(3);
        self.with_turn(|world, turn| {
            let dead = world.model.jobs.iter().filter(|(_, job)| job.death.is_some());
            let dead: Vec<u64> = dead.map(|(id, _)| *id).collect();
            let ids: Vec<u64> = if is_redrive && !dead.is_empty() {
                dead
            } else if is_of_model {
                world.model.jobs.keys().copied().collect()
            } else {
                world.known.ids().collect()
            };
            let Some(at) = picked.checked_rem(ids.len() as u64) else { return Ok(()) };
            let id = JobId(ids[at as usize]);
            if world.model.jobs.contains_key(&id.0) && turn.job_status(id).value.is_err() {
                // A cold job must be loaded first.
                return Ok(());
            }
            if is_redrive {
                let Answer { value, after } = turn.caller(session).redrive(id);
                world.trace.note(format_args!("job {id} comes back: {value:?}"));
                if world.is_modelled() {
                    let need = world.model.redrive(id.0, value)?;
                    world.unreleased_moves.push((after, need));
                }
                if value.is_ok() {
                    world.summary.redrives += 1;
                    world.oracle.redriven(id.0, world.now);
                }
                return Ok(());
            }
            if (picked >> 32).is_multiple_of(4) {
                let Answer { value, after } = turn.caller(session).set_aside_job(id);
                world.trace.note(format_args!("job {id} is set aside: {value:?}"));
                if world.is_modelled() {
                    let need = world.model.set_aside_job(id.0, value)?;
                    world.unreleased_moves.push((after, need));
                }
                if value.is_ok() {
                    world.summary.set_asides += 1;
                    world.oracle.set_aside(id.0, world.now);
                }
                return Ok(());
            }
            if (picked >> 40).is_multiple_of(4) && world.model.is_lasting(id.0) {
                let (pri, delay_s) = ((picked >> 48) as u32 % 4, (picked >> 52) as u32 % 3);
                let buries = (picked >> 56).is_multiple_of(3);
                let mut caller = turn.caller(session);
                let Answer { value, after } = if buries {
                    caller.bury_job(id, pri)
                } else {
                    caller.reschedule_job(id, pri, delay_s)
                };
                world.trace.note(format_args!(
                    "job {id} is changed by hand (bury {buries}, {pri}, {delay_s} s): {value:?}"
                ));
                let need = if buries {
                    world.model.bury_job(id.0, pri, value)?
                } else {
                    world.model.reschedule_job(id.0, (pri, delay_s), value)?
                };
                world.unreleased_moves.push((after, need));
                if value.is_ok() {
                    world.summary.changes_by_hand += 1;
                    world.oracle.changed_by_hand(id.0, world.now);
                }
                return Ok(());
            }
            let Answer { value, after } = turn.caller(session).move_job(id, to.as_bytes());
            world.trace.note(format_args!("job {id} is moved to {to}: {value:?}"));
            if world.is_modelled() {
                let need = world.model.move_job(id.0, to, value)?;
                world.unreleased_moves.push((after, need));
            }
            if value.is_ok() {
                world.summary.moves += 1;
                world.oracle.moved(id.0, to, world.now);
            }
            Ok(())
        })
    }

    /// Sends the replies to moves that the log has released.
    pub(crate) fn release_moves(&mut self, released: Position) -> Checked {
        let is_reached = |(after, _): &mut (Position, _)| after.is_reached(released);
        let moves: Vec<_> = self.unreleased_moves.extract_if(.., is_reached).collect();
        for (_, need) in moves {
            if !self.storage.may_send(need, &self.model.history) {
                return Err(format!("the reply to a move, record {need}, is sent too early"));
            }
            self.storage.note_reply(need, &self.model.history);
        }
        Ok(())
    }
}
