//! The connections of one site. Their number has a low limit. At the limit, the site closes the
//! connection that has been idle for longest, to make room for a new connection. So a client with
//! many silent connections cannot keep other clients out. A connection with a request in progress
//! gives way only if no connection is idle, and then the newest one does. So a client that waits for
//! a job keeps its place, and many slow requests cannot keep other clients out, either.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All connections of a site.
#[derive(Debug)]
pub(crate) struct SiteConnections {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Connection>,
    /// The number of connects and requests so far. It serves as a clock.
    moment: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    has_asked: bool,
    /// Whether the client waits for a response, or for the rest of it.
    is_busy: bool,
    /// The moment of the last request, or of the connect if there was no request.
    active_at: u64,
    /// The task that serves the connection. Aborting it closes the connection.
    task: Option<AbortHandle>,
}

impl Connection {
    /// The connection with the lowest rank gives way first: one that has sent no request, then one
    /// that is idle, in the order of their last activity. Then the newest request.
    fn rank(&self) -> (bool, bool, u64) {
        let order = if self.is_busy { u64::MAX - self.active_at } else { self.active_at };
        (self.is_busy, self.has_asked, order)
    }
}

/// A handle on a connection. Dropping the handle removes the connection from the list.
#[derive(Debug)]
pub(crate) struct Ticket {
    connections: Arc<SiteConnections>,
    number: u64,
}

/// A request in progress. Dropping the value ends the request.
#[derive(Debug)]
pub(crate) struct Busy {
    connections: Arc<SiteConnections>,
    number: u64,
}

impl SiteConnections {
    pub(crate) fn new(most: usize) -> SiteConnections {
        SiteConnections { most, state: Mutex::default() }
    }

    /// Adds a connection, and calls `serve`, which starts the connection's task. If there are too
    /// many connections, first closes another connection.
    pub(crate) fn admit(self: &Arc<Self>, serve: impl FnOnce(Ticket) -> AbortHandle) {
        let number = self.lock().add(self.most);
        // Call `serve` without the lock. If the task cannot start, its ticket is dropped, and the
        // drop takes the lock.
        let task = serve(Ticket { connections: self.clone(), number });
        if let Some(connection) = self.lock().find(number) {
            connection.task = Some(task);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the number of the new connection.
    fn add(&mut self, most: usize) -> u64 {
        if self.open.len() >= most {
            let open = self.open.iter().enumerate();
            let first = open.min_by_key(|(_, connection)| connection.rank());
            if let Some(place) = first.map(|(place, _)| place)
                && let Some(task) = self.open.swap_remove(place).task
            {
                task.abort();
            }
        }
        self.moment += 1;
        let number = self.moment;
        let (has_asked, is_busy, active_at) = (false, false, number);
        self.open.push(Connection { number, has_asked, is_busy, active_at, task: None });
        number
    }

    /// Notes that a request begins or ends.
    fn note(&mut self, number: u64, is_busy: bool) {
        self.moment += 1;
        let moment = self.moment;
        if let Some(connection) = self.find(number) {
            (connection.has_asked, connection.is_busy) = (true, is_busy);
            connection.active_at = moment;
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        self.open.iter_mut().find(|connection| connection.number == number)
    }
}

impl Ticket {
    /// Notes that the client has sent a request. The request lasts until the value is dropped.
    pub(crate) fn begin_request(&self) -> Busy {
        let number = self.number;
        self.connections.lock().note(number, true);
        Busy { connections: self.connections.clone(), number }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connections.lock().note(self.number, false);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connections.lock().open.retain(|connection| connection.number != self.number);
    }
}
