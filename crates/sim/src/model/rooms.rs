//! Puts that wait for room in the model. A put that waits is a request of its connection, which is
//! executed again when the queue may have room, or when its time is over.

use broker::limits::PUT_ENDS_MAX;
use broker::policy::{Unsent, WhenFull};

use super::kestrel::ItemList;
use super::outcome::Notification;
use super::session::Observed;
use super::submit::Submission;
use super::unique::Offer;
use super::{Job, Model, Name, Place, Serial};

/// The request of a connection that waits for room.
#[derive(Clone, Debug)]
pub(super) enum Blocked {
    Put(Box<Job>, Vec<u8>),
    Submit(u32, Vec<Vec<u8>>),
    Set { queue: String, expires: Option<u64>, body: Vec<u8> },
    List(ItemList),
}

/// The wait of a connection.
#[derive(Clone, Debug)]
pub(super) struct RoomWait {
    queue: Name,
    ticket: u64,
    /// When the put began to wait, in this queue or in another one.
    since: u64,
    until: u64,
    place: Place,
    serial: Serial,
    /// The connection has got the event, and has not tried again yet.
    tries: bool,
    /// The time is over. The connection is no longer in the line.
    is_over: bool,
}

impl Model {
    /// Removes the wait of a connection, because it tries its put again, or closes.
    pub(super) fn leave_line(&mut self, place: Place) -> Option<RoomWait> {
        let serial = self.conns[&place].serial;
        let index = self.rooms.iter().position(|wait| wait.serial == serial);
        self.passing = index.map(|_| serial);
        let wait = self.rooms.remove(index?);
        if !wait.is_over {
            self.drop_queue_if_unwanted(&wait.queue);
        }
        Some(wait)
    }

    /// Ends the wait of a connection whose client sends no more. Returns false if the connection does
    /// not wait, or tries again already.
    pub(super) fn cancel_room_wait(&mut self, place: Place) -> bool {
        let serial = self.conns[&place].serial;
        let waits = self.rooms.iter().any(|wait| wait.serial == serial && !wait.tries);
        if waits {
            self.leave_line(place);
        }
        waits
    }

    /// True if connections wait for room in this queue.
    pub(super) fn is_waited_for(&self, queue: &Name) -> bool {
        self.rooms.iter().any(|wait| wait.queue == *queue && !wait.is_over)
    }

    /// True if the room of a queue is for puts that wait, and not for a put of this connection. `None`:
    /// an operator moves a job.
    pub(super) fn room_is_kept(&self, queue: &Name, client: Option<Place>) -> bool {
        let serial = client.map(|place| self.conns[&place].serial);
        self.queues[queue].policy.when_full == WhenFull::Block
            && self.is_waited_for(queue)
            && (serial.is_none() || serial != self.passing)
    }

    /// True if a put must wait. `before` is the wait of an earlier try.
    pub(super) fn must_wait(
        &mut self,
        place: Place,
        before: Option<&RoomWait>,
        name: &str,
        content: (&[u8], &[u8]),
    ) -> bool {
        let since = before.map_or(self.now, |before| before.since);
        self.must_wait_since(place, (before, since), name, content)
    }

    /// True if the next item of a list must wait. `since`: when the first item began to wait.
    pub(super) fn item_must_wait(
        &mut self,
        place: Place,
        before: Option<&RoomWait>,
        (name, item): (&str, &[u8]),
        since: &mut Option<u64>,
    ) -> bool {
        let began = since.unwrap_or(self.now);
        let waits = self.must_wait_since(place, (before, began), name, (item, b""));
        if waits {
            *since = Some(began);
        }
        waits
    }

    fn must_wait_since(
        &mut self,
        place: Place,
        (before, since): (Option<&RoomWait>, u64),
        name: &str,
        (body, unique): (&[u8], &[u8]),
    ) -> bool {
        if before.is_none() {
            self.passing = None;
        }
        let (mut queues, mut aliases) = (Vec::new(), Vec::new());
        self.collect_named(name, &mut queues, &mut aliases);
        queues.sort_by_key(|queue| self.queues[queue].place);
        for queue in queues {
            let policy = self.queues[&queue].policy.clone();
            if policy.when_full != WhenFull::Block || policy.fanout_only {
                continue;
            }
            let before = before.filter(|before| before.queue == queue);
            if before.is_some_and(|before| before.until <= self.now) {
                continue;
            }
            self.guarded(&queue, |model| {
                model.sweep_some(&queue, PUT_ENDS_MAX as u64);
            });
            let ticket = before.map_or(u64::MAX, |before| before.ticket);
            let is_behind = self
                .rooms
                .iter()
                .any(|wait| wait.queue == queue && !wait.is_over && wait.ticket < ticket);
            let until = since + policy.block_for_ms;
            let has_room = !self.is_over_limit(&queue) && !is_behind;
            if has_room || until <= self.now || self.check_size(&queue, body.len()).is_err() {
                continue;
            }
            let offer =
                Offer { job: None, body, unique, client: None, is_watched: false, is_alone: true };
            // A submit to an alias joins no job.
            let joins = aliases.is_empty() && self.joins(&queue, body, unique);
            if joins || self.is_duplicate(&queue, offer) {
                continue;
            }
            let ticket = before.map_or_else(
                || {
                    self.next_room_ticket += 1;
                    self.next_room_ticket
                },
                |before| before.ticket,
            );
            let serial = self.conns[&place].serial;
            let (tries, is_over) = (false, false);
            let wait = RoomWait { queue, ticket, since, until, place, serial, tries, is_over };
            self.rooms.push(wait);
            self.tally.room_waits += 1;
            return true;
        }
        false
    }

    /// True if a submit with this key joins a job.
    fn joins(&self, queue: &Name, body: &[u8], unique: &[u8]) -> bool {
        let submission = Submission {
            pri: 0,
            due: 0,
            unsent: Unsent::NOTHING,
            unique: unique.to_vec(),
            reducer: Vec::new(),
            body: body.to_vec(),
            is_foreground: false,
        };
        !unique.is_empty() && self.joinable(queue, &submission).is_some()
    }

    fn collect_named(&self, name: &str, queues: &mut Vec<Name>, aliases: &mut Vec<String>) {
        let Some(destinations) = self.alias(name) else {
            queues.extend(self.queue_named(name).filter(|queue| !queues.contains(queue)));
            return;
        };
        let real = self.real_name(name);
        if !aliases.contains(&real) {
            aliases.push(real);
            for destination in destinations {
                self.collect_named(&destination, queues, aliases);
            }
        }
    }

    /// Lets the first connection of each queue with room try again. Called after each request.
    pub(crate) fn offer_room(&mut self) {
        // A wait that is over no longer keeps its queue in existence.
        let lines = self.rooms.iter().filter(|wait| !wait.is_over);
        let mut queues: Vec<Name> = lines.map(|wait| wait.queue.clone()).collect();
        queues.sort();
        queues.dedup();
        for queue in queues {
            // A reload can have made it a queue that only passes jobs on. Such a queue needs no room.
            let policy = &self.queues[&queue].policy;
            let stores = !policy.fanout_only && policy.alias.is_empty();
            let blocks = stores && policy.when_full == WhenFull::Block;
            if blocks && self.is_over_limit(&queue) {
                continue;
            }
            let line = self.rooms.iter_mut().filter(|wait| wait.queue == queue && !wait.is_over);
            let first = line.min_by_key(|wait| wait.ticket);
            if let Some(first) = first.filter(|first| !first.tries) {
                first.tries = true;
                let place = first.place;
                self.conn(place).notifications.push_back(Notification::Room);
            }
        }
    }

    /// Ends the waits whose time is over.
    pub(super) fn end_room_waits(&mut self) {
        for index in 0..self.rooms.len() {
            let wait = &mut self.rooms[index];
            if wait.is_over || wait.until > self.now {
                continue;
            }
            wait.is_over = true;
            let (tried, place, queue) =
                (std::mem::replace(&mut wait.tries, true), wait.place, wait.queue.clone());
            if !tried {
                self.conn(place).notifications.push_back(Notification::Room);
            }
            self.drop_queue_if_unwanted(&queue);
        }
    }

    /// The moments at which waits for room end.
    pub(super) fn room_moments(&self) -> impl Iterator<Item = u64> {
        self.rooms.iter().filter(|wait| !wait.is_over).map(|wait| wait.until)
    }

    /// Executes the put of a connection again.
    pub(super) fn try_again(
        &mut self,
        place: Place,
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        match self.conn(place).blocked.take().ok_or("room came for no put")? {
            Blocked::Put(job, whole) => self.finish_put(place, *job, &whole, observed),
            Blocked::Submit(kind, arguments) => {
                let arguments: Vec<&[u8]> = arguments.iter().map(|one| &one[..]).collect();
                let answer = self.submit(place, kind, &arguments, observed)?;
                answer.map_or(Ok(()), |answer| observed.take(&answer))
            }
            Blocked::Set { queue, expires, body } => {
                self.store(place, &queue, (expires, &body), observed)
            }
            Blocked::List(list) => self.store_list(place, list, observed),
        }
    }
}

impl Blocked {
    pub(super) fn submit(kind: u32, arguments: &[&[u8]]) -> Self {
        Self::Submit(kind, arguments.iter().map(|one| one.to_vec()).collect())
    }
}
