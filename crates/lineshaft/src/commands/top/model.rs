//! What the screens show: the answers of the server, the place in each list, and the open pop-up.

use std::time::{Duration, Instant};

use api::types::{Connections, JobState, Operations, Queues, Role};

use super::action::{Action, Place};
use super::ask::{
    Content, Head, JobContent, ListOfQueues, Order, OverviewContent, Question, QueueContent,
    SortKey, Update,
};
use super::list::List;
use super::prompt::Prompt;

/// If the server's answer comes this much later than usual, the screen says so.
const OLD_AFTER: Duration = Duration::from_secs(3);
/// The rows of a page before the first drawing.
const ROWS_AT_START: usize = 10;

/// The screens, in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Overview,
    Queues,
    Queue,
    Job,
    Connections,
    Operations,
}

impl Screen {
    /// All screens with their names.
    pub(super) const ALL: [(Screen, &'static str); 6] = [
        (Screen::Overview, "Overview"),
        (Screen::Queues, "Queues"),
        (Screen::Queue, "Queue"),
        (Screen::Job, "Job"),
        (Screen::Connections, "Connections"),
        (Screen::Operations, "Operations"),
    ];
}

/// What the user may do here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// The API, with this role.
    Api(Role),
    /// Only the beanstalkd protocol. The text says why.
    Tubes(String),
}

/// The screen of jobs of one queue.
#[derive(Debug)]
pub(super) struct QueueScreen {
    pub(super) name: Option<String>,
    pub(super) state: JobState,
    /// Whether the user has chosen the state. Otherwise it is the first one with jobs.
    pub(super) is_chosen: bool,
    pub(super) jobs: List,
    pub(super) content: Option<QueueContent>,
}

/// The state of the program.
#[derive(Debug)]
pub(super) struct Model {
    /// The address of the server.
    pub(super) address: String,
    pub(super) place: Place,
    pub(super) rights: Rights,
    pub(super) screen: Screen,
    pub(super) head: Option<Head>,
    pub(super) overview: Option<OverviewContent>,
    pub(super) order: Order,
    pub(super) search: String,
    /// Whether the user types the text to search for.
    pub(super) is_searching: bool,
    pub(super) queues: List,
    pub(super) queues_page: Option<Queues>,
    pub(super) queue: QueueScreen,
    pub(super) job: Option<u64>,
    pub(super) job_content: Option<JobContent>,
    /// The first line of the body on the screen.
    pub(super) scroll: usize,
    pub(super) connections: List,
    pub(super) connections_page: Option<Connections>,
    pub(super) operations: List,
    pub(super) operations_page: Option<Operations>,
    /// Why the server does not answer the present question.
    pub(super) refusal: Option<String>,
    pub(super) prompt: Option<Prompt>,
    /// The result of the last action.
    pub(super) note: Option<Result<String, String>>,
    pub(super) is_help: bool,
    /// The rows of the list that fitted at the last drawing.
    pub(super) page_rows: usize,
    trouble: Option<String>,
    /// When the last answer came.
    taken: Option<Instant>,
    old_after: Duration,
    action: Option<Action>,
}

impl Model {
    /// The program at its start, with a text to search for. It expects an answer once per interval.
    pub(super) fn new(
        address: String,
        place: Place,
        rights: Rights,
        search: String,
        interval: Duration,
    ) -> Model {
        let has_api = matches!(rights, Rights::Api(_));
        let screen = if has_api && search.is_empty() { Screen::Overview } else { Screen::Queues };
        Model {
            address,
            place,
            rights,
            screen,
            head: None,
            overview: None,
            order: Order { key: SortKey::Ready, is_descending: true },
            search,
            is_searching: false,
            queues: List::default(),
            queues_page: None,
            queue: QueueScreen {
                name: None,
                state: JobState::Ready,
                is_chosen: false,
                jobs: List::default(),
                content: None,
            },
            job: None,
            job_content: None,
            scroll: 0,
            connections: List::default(),
            connections_page: None,
            operations: List::default(),
            operations_page: None,
            refusal: None,
            prompt: None,
            note: None,
            is_help: false,
            page_rows: ROWS_AT_START,
            trouble: None,
            taken: None,
            old_after: interval + OLD_AFTER,
            action: None,
        }
    }

    /// What the present screen needs.
    pub(super) fn question(&self) -> Question {
        let from = |list: &List| list.from().map(str::to_owned);
        let limit = self.page_rows.max(1);
        match self.screen {
            Screen::Overview => Question::Overview,
            Screen::Queues => Question::Queues(ListOfQueues {
                order: self.order,
                search: self.search.clone(),
                from: from(&self.queues),
                limit,
            }),
            Screen::Queue => match &self.queue.name {
                None => Question::Nothing,
                Some(name) => Question::Queue {
                    name: name.clone(),
                    state: self.queue.state,
                    from: from(&self.queue.jobs),
                    limit,
                },
            },
            Screen::Job => self.job.map_or(Question::Nothing, Question::Job),
            Screen::Connections => Question::Connections { from: from(&self.connections), limit },
            Screen::Operations => Question::Operations,
        }
    }

    /// The action that the user has confirmed, once.
    pub(super) fn take_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// The user has confirmed this.
    pub(super) fn start(&mut self, action: Action) {
        self.action = Some(action);
    }

    /// Takes a message of the thread that asks the server. After an error, the last numbers stay.
    pub(super) fn update(&mut self, update: Update, now: Instant) {
        match update {
            Update::Trouble(trouble) => self.trouble = Some(trouble),
            Update::Done(result) => self.note = Some(result),
            Update::Answer { question, head, content } => {
                (self.trouble, self.taken, self.head) = (None, Some(now), Some(head));
                // The answer to an earlier question could be about another queue.
                if question != self.question() {
                    return;
                }
                match content {
                    Ok(content) => {
                        self.refusal = None;
                        self.show(content);
                    }
                    Err(refusal) => self.refusal = Some(refusal),
                }
            }
        }
    }

    fn show(&mut self, content: Content) {
        match content {
            Content::Nothing => {}
            Content::Expired => {
                if let Some(list) = self.list() {
                    list.home();
                }
            }
            Content::Overview(content) => self.overview = Some(*content),
            Content::Queues(page) => {
                let rows = page.items.iter().map(|queue| queue.name.clone()).collect();
                self.queues.set_rows(rows, page.next.clone());
                self.queues_page = Some(page);
            }
            Content::Queue(content) => {
                let jobs = &content.jobs;
                let rows = jobs.items.iter().map(|job| job.id.to_string()).collect();
                self.queue.jobs.set_rows(rows, jobs.next.clone());
                if !self.queue.is_chosen {
                    self.queue.is_chosen = true;
                    self.queue.state = first_state(&content);
                }
                self.queue.content = Some(*content);
            }
            Content::Job(content) => self.job_content = Some(*content),
            Content::Connections(page) => {
                let rows = page.items.iter();
                let rows = rows.map(|row| row.id.clone().unwrap_or_default()).collect();
                self.connections.set_rows(rows, page.next.clone());
                self.connections_page = Some(page);
            }
            Content::Operations(page) => {
                let rows = page.items.iter().map(|row| row.id.to_string()).collect();
                self.operations.set_rows(rows, None);
                self.operations_page = Some(page);
            }
        }
    }

    /// Opens a screen. Without the API, there is only one.
    pub(super) fn open(&mut self, screen: Screen) {
        if matches!(self.rights, Rights::Tubes(_)) && screen != Screen::Queues {
            self.note = Some(Err("this screen needs the HTTP API of Lineshaft".to_owned()));
            return;
        }
        self.refusal = None;
        self.screen = screen;
    }

    /// Opens the screen of a queue.
    pub(super) fn open_queue(&mut self, name: &str) {
        if self.queue.name.as_deref() != Some(name) {
            self.queue = QueueScreen {
                name: Some(name.to_owned()),
                state: JobState::Ready,
                is_chosen: false,
                jobs: List::default(),
                content: None,
            };
        }
        self.open(Screen::Queue);
    }

    /// Opens the screen of a job.
    pub(super) fn open_job(&mut self, id: u64) {
        if self.job != Some(id) {
            (self.job, self.job_content, self.scroll) = (Some(id), None, 0);
        }
        self.open(Screen::Job);
    }

    /// The list of the present screen, if it has one.
    pub(super) fn list(&mut self) -> Option<&mut List> {
        match self.screen {
            Screen::Queues => Some(&mut self.queues),
            Screen::Queue => Some(&mut self.queue.jobs),
            Screen::Connections => Some(&mut self.connections),
            Screen::Operations => Some(&mut self.operations),
            Screen::Overview | Screen::Job => None,
        }
    }

    /// What is wrong with the connection to the server, if something is. The text changes once a
    /// second.
    pub(super) fn alarm(&self, now: Instant) -> Option<String> {
        let age = self.taken.map(|taken| now.saturating_duration_since(taken));
        let old = || {
            age.map_or_else(String::new, |age| {
                format!("; these numbers are {} old", crate::text::seconds(age.as_secs()))
            })
        };
        match &self.trouble {
            Some(trouble) => Some(format!("{trouble}; trying again{}", old())),
            None if age.is_some_and(|age| age > self.old_after) => {
                Some(format!("waiting for the server's reply{}", old()))
            }
            None => None,
        }
    }
}

/// The state whose jobs are shown first: the first one with jobs.
fn first_state(content: &QueueContent) -> JobState {
    let queue = &content.queue;
    let states = [
        (queue.ready, JobState::Ready),
        (queue.leased, JobState::Leased),
        (queue.delayed, JobState::Delayed),
        (queue.buried, JobState::Buried),
    ];
    states.iter().find(|(jobs, _)| *jobs > 0).map_or(JobState::Ready, |(_, state)| *state)
}
