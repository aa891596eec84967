//! What the screens ask of the server, and its answers.

use api::types::{
    Connections, History, Job, JobState, Jobs, Operations, Queue, QueueRow, Queues, Server, Why,
};

/// What the screen in front needs, again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Question {
    /// Only the head of the screen.
    #[default]
    Nothing,
    Overview,
    Queues(ListOfQueues),
    Queue {
        name: String,
        state: JobState,
        from: Option<String>,
        limit: usize,
    },
    Job(u64),
    Connections {
        from: Option<String>,
        limit: usize,
    },
    Operations,
}

/// A page of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListOfQueues {
    pub(super) order: Order,
    /// Only queues whose names contain this text, or match it if it has a `*` or a `?`.
    pub(super) search: String,
    pub(super) from: Option<String>,
    pub(super) limit: usize,
}

/// The order of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) key: SortKey,
    pub(super) is_descending: bool,
}

/// What queues can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortKey {
    Name,
    Ready,
    Leased,
    Delayed,
    Buried,
    Age,
    In,
    Out,
    Growth,
    Waiters,
}

impl SortKey {
    /// All keys, each with the key that the user presses and its name in the API.
    pub(super) const ALL: [(char, SortKey, &'static str); 10] = [
        ('n', SortKey::Name, "name"),
        ('r', SortKey::Ready, "ready"),
        ('l', SortKey::Leased, "leased"),
        ('d', SortKey::Delayed, "delayed"),
        ('b', SortKey::Buried, "buried"),
        ('a', SortKey::Age, "age"),
        ('i', SortKey::In, "in"),
        ('o', SortKey::Out, "out"),
        ('g', SortKey::Growth, "growth"),
        ('w', SortKey::Waiters, "waiters"),
    ];

    fn name(self) -> &'static str {
        SortKey::ALL.iter().find(|(_, key, _)| *key == self).map_or("name", |(.., name)| name)
    }
}

impl Order {
    /// The order after the user chose this key. Numbers begin with the largest. The same key again
    /// reverses the order.
    pub(super) fn after(self, key: SortKey) -> Order {
        let is_descending =
            if self.key == key { !self.is_descending } else { key != SortKey::Name };
        Order { key, is_descending }
    }

    /// The value of the parameter `sort`.
    pub(super) fn parameter(self) -> String {
        let sign = if self.is_descending { "-" } else { "" };
        format!("{sign}{}", self.key.name())
    }
}

/// The server as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Head {
    /// As the API shows it.
    Server(Box<Server>),
    /// A server without the API.
    Tubes {
        version: String,
        uptime_s: u64,
        connections: u64,
        is_draining: bool,
        /// Queues whose names are impossible in the beanstalkd protocol.
        unnamed_count: u64,
    },
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// The page does not exist any more: its cursor is not valid.
    Expired,
    Nothing,
    Overview(Box<OverviewContent>),
    Queues(Queues),
    Queue(Box<QueueContent>),
    Job(Box<JobContent>),
    Connections(Connections),
    Operations(Operations),
}

#[derive(Clone, Debug, Default)]
pub(super) struct OverviewContent {
    pub(super) history: History,
    /// The queues with the most ready jobs.
    pub(super) longest: Vec<QueueRow>,
}

#[derive(Clone, Debug)]
pub(super) struct QueueContent {
    pub(super) queue: Queue,
    /// Puts and ends per second since the look before.
    pub(super) rates: Option<(f64, f64)>,
    pub(super) why: Why,
    pub(super) jobs: Jobs,
}

#[derive(Clone, Debug)]
pub(super) struct JobContent {
    pub(super) job: Job,
    /// `None`: the body is too long for the screen.
    pub(super) body: Option<Vec<u8>>,
    /// Why a ready job does not run.
    pub(super) why: Option<Why>,
}

/// A message of the thread that asks the server.
#[derive(Debug)]
pub(super) enum Update {
    /// The answer to a question. The server can refuse one, for example about a queue that is gone.
    Answer { question: Question, head: Head, content: Result<Content, String> },
    /// The server does not answer.
    Trouble(String),
    /// An action was done, or refused.
    Done(Result<String, String>),
}
