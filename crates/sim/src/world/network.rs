//! The simulated connections: bytes in flight, sessions and their outboxes, and events. Compares
//! every call of a session with the model.

use broker::{Broker, Dialect, Event, JobId, Outbox, Progress, PutRefusal, SessionId, Turn};

use super::World;
use crate::Checked;
use crate::machine::cluster::Cluster;
use crate::machine::link::{Answer, Link};
use crate::machine::process::MAILBOXES;
use crate::model::{Model, Observed};
use crate::workload::Client;

/// The server stops reading from a client that has more than this many unsent bytes.
const OUTBOX_BYTES_MAX: usize = 64 * 1024;

/// A client stops writing when this many of its bytes are in flight.
const UNDER_WAY_BYTES_MAX: usize = 64 * 1024;

impl World {
    pub(crate) fn connect(&mut self, client: Client) -> Checked {
        let mailbox = self.rng.index(MAILBOXES);
        let number = self.links_made;
        self.links_made += 1;
        self.trace.note(format_args!("connection {number} opens: {client:?}"));
        self.with_turn(|world, turn| {
            let session = world.process.open(client.protocol(), turn, mailbox);
            let link = Link::new(number, client, session);
            turn.set_peer(link.id, &link.place().to_string());
            if world.is_modelled() {
                world.model.open_conn(link.place(), link.protocol);
            }
            world.oracle.opened(number, link.protocol);
            world.links.push(link);
            Ok(())
        })
    }

    pub(crate) fn client_writes(&mut self, index: usize) {
        let link = &mut self.links[index];
        if link.client_ended || link.to_server.len() > UNDER_WAY_BYTES_MAX {
            return;
        }
        let bytes = link.client.write(&self.plan, &self.known, self.now, &mut self.rng);
        self.trace.bytes(format_args!("{} <", link.number), &bytes);
        link.to_server.extend(bytes);
    }

    /// True if the server reads from this connection now.
    pub(crate) fn is_read_from(&self, index: usize) -> bool {
        let link = &self.links[index];
        let held_back = self.process.broker.congested() || link.outbox.len() > OUTBOX_BYTES_MAX;
        link.is_open && link.session.wants_input() && !held_back
    }

    /// Delivers up to `max` bytes in flight to the session, or the end of the input.
    pub(crate) fn deliver(&mut self, index: usize, max: usize, turn: &mut Turn<'_>) -> Checked {
        let reads = self.is_read_from(index);
        let link = &mut self.links[index];
        if !link.is_open {
            return Ok(());
        }
        let count = if reads { link.to_server.len().min(max) } else { 0 };
        let bytes: Vec<u8> = link.to_server.drain(..count).collect();
        if !bytes.is_empty() || link.inbox_is_due {
            self.present(index, &bytes, turn)?;
        }
        let link = &mut self.links[index];
        let ends = link.client_ended && link.to_server.is_empty() && !link.end_was_seen;
        if ends && link.is_open && !link.inbox_is_due {
            link.end_was_seen = true;
            let number = link.number;
            self.trace.note(format_args!("{number} sees the end"));
            self.call(
                index,
                turn,
                &[],
                |session, turn, outbox| {
                    turn.begin_slice();
                    session.end_of_input(turn, outbox);
                    0
                },
                Model::end_of_input,
            )?;
        }
        Ok(())
    }

    fn present(&mut self, index: usize, bytes: &[u8], turn: &mut Turn<'_>) -> Checked {
        let link = &mut self.links[index];
        self.trace.note(format_args!("{} is read {}", link.number, bytes.len()));
        link.inbox_is_due = false;
        link.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut link.inbox);
        let (mut used, mut is_unfinished) = (0, false);
        // The model cannot compute where a session yields to other sessions. So in a run with a
        // model, the session gets the rest of its input at once.
        let (stops, id) = (!self.is_modelled(), self.links[index].id);
        let loads_later = self.plan.loads_later;
        let mut has_caught_up = false;
        self.call(
            index,
            turn,
            bytes,
            |session, turn, outbox| {
                loop {
                    let Progress { used: count, more } =
                        session.input(&inbox[used..], turn, outbox);
                    used += count;
                    if !stops && turn.is_clearing(id) && goes_on(turn) {
                        // A long flush or removal goes on in a later slice. In the model, it ends
                        // within the request.
                        turn.catch_up();
                        has_caught_up = true;
                        if let Some(event) = turn.take_outcome(id) {
                            session.event(event, turn, outbox);
                        }
                        continue;
                    }
                    if !loads_later && let Some(caught_up) = load_within(session, id, turn, outbox)
                    {
                        has_caught_up |= caught_up;
                        continue;
                    }
                    if more && stops {
                        is_unfinished = true;
                        break;
                    }
                    if !more && (count == 0 || used == inbox.len()) {
                        break;
                    }
                }
                used
            },
            |model, place, observed| model.input(place, bytes, observed),
        )?;
        if has_caught_up {
            self.catch_up(turn);
        }
        self.links[index].inbox = inbox[used..].to_vec();
        self.links[index].inbox_is_due |= is_unfinished;
        Ok(())
    }

    /// Lets the model do all due work, because the broker has done so. This can be the expiry of
    /// jobs of any queue.
    fn catch_up(&mut self, turn: &mut Turn<'_>) {
        if self.is_modelled() {
            while turn.load_now() {
                turn.catch_up();
            }
            self.model.advance(self.now);
        }
    }

    /// Passes the same input to session and model, and compares their answers. `sent` is the new
    /// part of the input. The session returns how many bytes of its input it has read.
    fn call(
        &mut self,
        index: usize,
        turn: &mut Turn<'_>,
        sent: &[u8],
        real: impl FnOnce(&mut dyn Dialect, &mut Turn<'_>, &mut Outbox) -> usize,
        model: impl FnOnce(&mut Model, u32, &mut Observed<'_>) -> Checked,
    ) -> Checked {
        let link = &mut self.links[index];
        let (place, number) = (link.place(), link.number);
        let mut outbox = Outbox::default();
        let refused = refused_by_log(&self.process.broker);
        let used = real(&mut *link.session, turn, &mut outbox);
        if self.plan.loads_later {
            turn.load_bodies_now();
        } else {
            turn.load_now();
        }
        // A client can send a put as large as a segment before the broker holds clients back. If no
        // segment is ready for this put, the log refuses the put.
        let must_have_room = self.plan.must_not_be_short();
        if self.process.broker.congested() && !must_have_room {
            self.model.may_refuse = true;
        }
        // With policies, the model could not tell the refusals of the log from others. So it expects
        // them only in the calls that have one.
        if must_have_room {
            self.model.may_refuse = refused_by_log(&self.process.broker) > refused;
        }
        if self.plan.unmodelled.is_some() && self.plan.has_policies() {
            self.summary.refusals_with_policies += refused_by_log(&self.process.broker) - refused;
        }
        let answer = Answer::from(outbox);
        if !answer.bytes.is_empty() {
            self.trace.bytes(format_args!("{number} >"), &answer.bytes);
        }
        self.oracle.observe(number, (sent, used), &answer.bytes, self.now)?;
        if link.session.finished() {
            self.oracle.closed(number, self.now);
        }
        if !self.is_modelled() {
            let link = &mut self.links[index];
            link.accept(&answer, &[]);
            link.is_open = !link.session.finished();
            return Ok(());
        }
        let status = |id| turn.job_status(JobId(id)).value.ok();
        let buries = |id| status(id).map(|status| status.facts.counters.buries);
        let mut observed = Observed::new(&answer.bytes, &buries);
        model(&mut self.model, place, &mut observed)
            .and_then(|()| observed.end())
            .map_err(|error| format!("connection {number}: {error}"))?;
        if must_have_room {
            self.model.may_refuse = false;
        }
        let link = &mut self.links[index];
        link.accept(&answer, &observed.replies);
        link.is_open = !link.session.finished();
        if link.is_open != self.model.is_open(place) {
            return Err(format!("connection {number} is open: {}; not so the model", link.is_open));
        }
        if link.is_open && !link.end_was_seen {
            let idle = self.model.conns[&place].is_idle();
            if link.session.wants_input() != idle {
                return Err(format!("connection {number} is read from: {}, not {idle}", !idle));
            }
        }
        Ok(())
    }

    /// Passes this turn's events for this mailbox to their sessions before the turn ends. Older
    /// events of the mailbox come first.
    pub(crate) fn deliver_events_of_turn(
        &mut self,
        mailbox: usize,
        turn: &mut Turn<'_>,
    ) -> Checked {
        let mut events = Vec::new();
        turn.take_events(mailbox, &mut events);
        self.process.events[mailbox].extend(events);
        while !self.process.events[mailbox].is_empty() {
            self.deliver_event(mailbox, turn)?;
        }
        Ok(())
    }

    /// Delivers the oldest event in a mailbox to its session.
    pub(crate) fn deliver_event(&mut self, mailbox: usize, turn: &mut Turn<'_>) -> Checked {
        let Some((id, event)) = self.process.events[mailbox].pop_front() else { return Ok(()) };
        let Some(index) = self.links.iter().position(|link| link.id == id && link.is_open) else {
            return Ok(());
        };
        self.trace.note(format_args!("{} has an event", self.links[index].number));
        self.summary.long_clearings += u64::from(matches!(event.value, Event::Cleared));
        // As in `present`: in a run with a model, the session does the rest at once, and loads what it
        // needs. In other runs, this takes other steps.
        let is_modelled = self.is_modelled();
        let loads_within = is_modelled && !self.plan.loads_later;
        let mut has_caught_up = false;
        let event = |session: &mut dyn Dialect, turn: &mut Turn<'_>, outbox: &mut Outbox| {
            turn.begin_slice();
            session.event(event, turn, outbox);
            loop {
                while is_modelled && session.has_more() {
                    session.input(&[], turn, outbox);
                }
                if !loads_within {
                    break;
                }
                let Some(caught_up) = load_within(session, id, turn, outbox) else { break };
                has_caught_up |= caught_up;
            }
            0
        };
        self.call(index, turn, &[], event, Model::event)?;
        if has_caught_up {
            self.catch_up(turn);
        }
        let link = &mut self.links[index];
        link.inbox_is_due = !link.inbox.is_empty() || link.is_open && link.session.has_more();
        if link.is_open && link.inbox_is_due && self.rng.coin() {
            self.present(index, &[], turn)?;
        }
        Ok(())
    }

    /// Sends up to `max` bytes of replies that the log has released.
    pub(crate) fn send(&mut self, index: usize, max: usize) -> Result<bool, String> {
        if !self.may_answer()? {
            return Ok(false);
        }
        let released = self.released();
        let link = &mut self.links[index];
        let (bytes, need) = link.send(released, max)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        self.trace.bytes(format_args!("{} leaves", link.number), &bytes);
        self.cluster.as_ref().map_or(Ok(()), Cluster::judge_replies)?;
        let history = &self.model.history;
        if self.storage.may_send(need, history) {
            self.storage.note_reply(need, history);
        } else if !history.counts_may_be_missing {
            // On a full disk, the log omits changes that no client requested. So a reply that
            // depends on such a change promises nothing.
            return Err(format!(
                "connection {} gets a reply that depends on record {need}, which is not written",
                self.links[index].number
            ));
        }
        self.oracle.left(self.links[index].number, bytes.len());
        Ok(true)
    }

    /// Lets a client read. Returns the replies that this read completes.
    pub(crate) fn client_reads(&mut self, index: usize, max: usize) -> Vec<Vec<u8>> {
        let link = &mut self.links[index];
        let bytes = link.receive(max);
        let replies = link.client.read(&bytes, &mut self.known);
        self.summary.replies += replies.len() as u64;
        replies
    }

    /// Closes the connection at once. All bytes in flight are lost.
    pub(crate) fn disconnect(&mut self, index: usize) -> Checked {
        let mut link = self.links.swap_remove(index);
        self.trace.note(format_args!("{} is gone", link.number));
        self.with_turn(|world, turn| {
            world.sabotage_leaving(link.place(), turn);
            turn.begin_slice();
            link.session.close(turn);
            world.oracle.closed(link.number, world.now);
            if link.is_open && world.is_modelled() {
                world.model.close_conn(link.place());
            }
            Ok(())
        })
    }

    /// Closes connections if the session has ended and the client has read all replies.
    pub(crate) fn close_finished(&mut self) -> Checked {
        while let Some(index) = self.links.iter().position(|link| !link.is_open && link.is_quiet())
        {
            self.disconnect(index)?;
        }
        Ok(())
    }

    pub(crate) fn has_events(&self) -> bool {
        self.process.events.iter().any(|events| !events.is_empty())
    }
}

/// Loads the cold jobs that a session waits for, and passes the outcomes to the session. In a
/// server, the request would wait for the load. Here the load ends within the request, so that the
/// model need not know of it. Returns whether the broker did all due work for this, or `None` if no
/// job was loaded.
fn load_within(
    session: &mut dyn Dialect,
    id: SessionId,
    turn: &mut Turn<'_>,
    outbox: &mut Outbox,
) -> Option<bool> {
    if !turn.load_now() {
        return None;
    }
    let mut outcome = turn.take_outcome(id);
    // A flush or a removal waits for the load.
    let must_catch_up = outcome.is_none() && turn.is_waiting(id);
    if must_catch_up {
        turn.catch_up();
        outcome = turn.take_outcome(id);
    }
    while let Some(event) = outcome {
        session.event(event, turn, outbox);
        outcome = turn.take_outcome(id);
    }
    Some(must_catch_up)
}

/// Loads the cold jobs that an operation waits for. Returns true if the broker can do some work now.
fn goes_on(turn: &mut Turn<'_>) -> bool {
    turn.load_now();
    turn.next_deadline().is_some_and(|at| at <= turn.now())
}

/// The number of puts that the log has refused since the start of the process.
fn refused_by_log(broker: &Broker) -> u64 {
    let refusals = broker.put_refusals().into_iter();
    refusals.filter(|(refusal, _)| *refusal == PutRefusal::LogFull).map(|(_, count)| count).sum()
}
