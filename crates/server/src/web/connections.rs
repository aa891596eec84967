//! The connections of one site. Their number has a low limit. At the limit, the site closes the
//! connection that has been idle for longest, to make room for a new connection. So a client with
//! many silent connections cannot keep other clients out.

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
    /// The moment of the last request, or of the connect if there was no request.
    active_at: u64,
    /// The task that serves the connection. Aborting it closes the connection.
    task: Option<AbortHandle>,
}

/// A handle on a connection. Dropping the handle removes the connection from the list.
#[derive(Debug)]
pub(crate) struct Ticket {
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
    fn add(&mut self, most: usize) -> u64 {
        if self.open.len() >= most {
            let open = self.open.iter().enumerate();
            // Connections that have sent no request are closed first.
            let idlest =
                open.min_by_key(|(_, connection)| (connection.has_asked, connection.active_at));
            if let Some(place) = idlest.map(|(place, _)| place)
                && let Some(task) = self.open.swap_remove(place).task
            {
                task.abort();
            }
        }
        self.moment += 1;
        let number = self.moment;
        self.open.push(Connection { number, has_asked: false, active_at: number, task: None });
        number
    }

    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        self.open.iter_mut().find(|connection| connection.number == number)
    }
}

impl Ticket {
    /// Notes that the client has sent a request.
    pub(crate) fn note_request(&self) {
        let mut state = self.connections.lock();
        state.moment += 1;
        let moment = state.moment;
        if let Some(connection) = state.find(self.number) {
            (connection.has_asked, connection.active_at) = (true, moment);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connections.lock().open.retain(|connection| connection.number != self.number);
    }
}
