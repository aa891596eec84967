//! The connections of one site. Their number has a low limit. At the limit, the site closes the
//! connection that has been idle for longest, to make room for a new connection. So a client with
//! many silent connections cannot keep other clients out. A connection with a request in progress
//! gives way only if no connection is idle, and then the newest one does. So a client that waits for
//! a job keeps its place, and many slow requests cannot keep other clients out, either. A request whose
//! body still arrives gives way before those that wait for a response: everybody can send a body
//! slowly, but only clients that the server knows can wait for long.
//!
//! In a cluster, the client of another node takes three descriptors: those of its connection, and its
//! link. So its place is taken until both have ended, and both give way together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
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

/// What the client of a connection does. The lowest value gives way first.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Activity {
    /// It has sent no request.
    Silent,
    /// Its last request has ended.
    Idle,
    /// It sends the body of a request.
    Sending,
    /// It waits for a response, or for the rest of it.
    Waiting,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    activity: Activity,
    /// The moment at which the last request began or ended, or of the connect if there was no request.
    active_at: u64,
    /// The task that serves the connection. Aborting it closes the connection.
    task: Option<AbortHandle>,
    /// Dropping it ends the link of the client. `None`: the client is not that of another node.
    link: Option<oneshot::Sender<()>>,
}

impl Connection {
    /// The connection with the lowest rank gives way first. Of those without a request in progress, it is
    /// the one that has been so for longest. Of the others, it is the newest request.
    fn rank(&self) -> (Activity, u64) {
        let order = match self.activity {
            Activity::Silent | Activity::Idle => self.active_at,
            Activity::Sending | Activity::Waiting => u64::MAX - self.active_at,
        };
        (self.activity, order)
    }
}

/// A handle on a connection. Dropping the handle removes the connection from the list.
#[derive(Debug)]
pub(crate) struct Ticket {
    connections: Arc<SiteConnections>,
    number: u64,
}

/// The place of a client of another node, for its link.
#[derive(Debug)]
pub(crate) struct LinkPlace {
    /// Keeps the connection in the list, also after its task has ended.
    _ticket: Arc<Ticket>,
    lost: oneshot::Receiver<()>,
}

impl LinkPlace {
    /// Completes when the connection has given way to another one.
    pub(crate) async fn lost(&mut self) {
        // Nobody sends anything: the other end is dropped.
        let _ = (&mut self.lost).await;
    }
}

/// A request in progress. Dropping the value ends the request.
#[derive(Debug)]
pub(crate) struct Busy {
    connections: Arc<SiteConnections>,
    number: u64,
}

/// The body of a request that still arrives. Dropping the value says that it has arrived.
#[derive(Debug)]
pub(crate) struct Arriving {
    connections: Arc<SiteConnections>,
    number: u64,
    /// When the request began.
    began: u64,
}

impl SiteConnections {
    pub(crate) fn new(most: usize) -> SiteConnections {
        SiteConnections { most, state: Mutex::default() }
    }

    /// Adds a connection, and calls `serve`, which starts the connection's task. If there are too
    /// many connections, first closes another connection. The connection stays in the list until the
    /// task and the caller have dropped their tickets.
    pub(crate) fn admit(
        self: &Arc<Self>,
        serve: impl FnOnce(Arc<Ticket>) -> AbortHandle,
    ) -> Arc<Ticket> {
        let number = self.lock().add(self.most);
        let ticket = Arc::new(Ticket { connections: self.clone(), number });
        // Call `serve` without the lock, which other tasks may need.
        let task = serve(ticket.clone());
        if let Some(connection) = self.lock().find(number) {
            connection.task = Some(task);
        }
        ticket
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
        let (activity, active_at) = (Activity::Silent, number);
        self.open.push(Connection { number, activity, active_at, task: None, link: None });
        number
    }

    /// Notes that a request begins or ends. Returns the moment.
    fn note(&mut self, number: u64, activity: Activity) -> u64 {
        self.moment += 1;
        let moment = self.moment;
        if let Some(connection) = self.find(number) {
            (connection.activity, connection.active_at) = (activity, moment);
        }
        moment
    }

    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        self.open.iter_mut().find(|connection| connection.number == number)
    }
}

impl Ticket {
    /// The place for the link of this client, which is that of another node.
    pub(crate) fn place_of_link(self: Arc<Self>) -> LinkPlace {
        let (link, lost) = oneshot::channel();
        // If the connection has given way already, nobody keeps `link`.
        if let Some(connection) = self.connections.lock().find(self.number) {
            connection.link = Some(link);
        }
        LinkPlace { _ticket: self, lost }
    }

    /// Notes that the client has sent the head of a request. The request lasts until the first value
    /// is dropped, and its body arrives until the second one is.
    pub(crate) fn begin_request(&self) -> (Busy, Arriving) {
        let number = self.number;
        let began = self.connections.lock().note(number, Activity::Sending);
        let arriving = Arriving { connections: self.connections.clone(), number, began };
        (Busy { connections: self.connections.clone(), number }, arriving)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connections.lock().note(self.number, Activity::Idle);
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // The response can be there before the body, and even the next request can.
        if let Some(connection) = self.connections.lock().find(self.number)
            && connection.active_at == self.began
        {
            connection.activity = Activity::Waiting;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connections.lock().open.retain(|connection| connection.number != self.number);
    }
}
