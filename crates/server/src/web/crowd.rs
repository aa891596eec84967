//! The connections of one site. There are few. If there is no room for a new one, the one idle for
//! longest is closed, so that a client with many silent connections cannot keep others out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All connections of a site.
#[derive(Debug)]
pub(crate) struct Crowd {
    most: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    members: Vec<Member>,
    /// Counts events, instead of a clock.
    moment: u64,
}

#[derive(Debug)]
struct Member {
    number: u64,
    has_asked: bool,
    /// When it connected, or sent its last request.
    active_at: u64,
    /// Ends the connection.
    task: Option<AbortHandle>,
}

/// A member. Dropping it removes the connection.
#[derive(Debug)]
pub(crate) struct Ticket {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Crowd {
        Crowd { most, inside: Mutex::default() }
    }

    /// Adds a connection, which `serve` serves in a task, and closes another one if there are too
    /// many.
    pub(crate) fn enter(self: &Arc<Self>, serve: impl FnOnce(Ticket) -> AbortHandle) {
        let number = self.inside().add(self.most);
        // Without the lock, because a task that cannot be spawned drops its ticket.
        let task = serve(Ticket { crowd: self.clone(), number });
        if let Some(member) = self.inside().find(number) {
            member.task = Some(task);
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn add(&mut self, most: usize) -> u64 {
        if self.members.len() >= most {
            let members = self.members.iter().enumerate();
            // Connections without a request go first.
            let idlest = members.min_by_key(|(_, member)| (member.has_asked, member.active_at));
            if let Some(place) = idlest.map(|(place, _)| place)
                && let Some(task) = self.members.swap_remove(place).task
            {
                task.abort();
            }
        }
        self.moment += 1;
        let number = self.moment;
        self.members.push(Member { number, has_asked: false, active_at: number, task: None });
        number
    }

    fn find(&mut self, number: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }
}

impl Ticket {
    /// Notes a request of the client.
    pub(crate) fn note_request(&self) {
        let mut inside = self.crowd.inside();
        inside.moment += 1;
        let moment = inside.moment;
        if let Some(member) = inside.find(self.number) {
            (member.has_asked, member.active_at) = (true, moment);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.crowd.inside().members.retain(|member| member.number != self.number);
    }
}
