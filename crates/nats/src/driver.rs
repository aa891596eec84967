//! The tasks of a driver: one for appends, one for questions, one that follows, one for a trim.

use std::sync::Arc;

use replica::node::{Answer, Request};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::connect::Connector;
use crate::{ConnectError, Place, append, follow, read};

/// Records that wait for the owner of the node. Each has at most 512 KiB.
const WAITING_MAX: usize = 16;

/// A driver. Its tasks end when it is dropped.
#[derive(Debug)]
pub struct Driver {
    connector: Arc<Connector>,
    appends: mpsc::UnboundedSender<Request>,
    questions: mpsc::UnboundedSender<Request>,
    answers: mpsc::Sender<Answer>,
    tasks: Vec<JoinHandle<()>>,
    follower: Option<JoinHandle<()>>,
    /// The last trim.
    trim: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts a driver on the current runtime of tokio. The receiver gets its answers.
    ///
    /// # Panics
    ///
    /// The place has no servers, or no runtime is running.
    #[must_use]
    pub fn start(place: Place) -> (Driver, mpsc::Receiver<Answer>) {
        assert!(!place.servers.is_empty(), "a driver needs a server");
        let connector = Arc::new(Connector::new(place));
        let (answers, receiver) = mpsc::channel(WAITING_MAX);
        // At most one append is open, and few questions. So these channels need no limit.
        let (appends, open_appends) = mpsc::unbounded_channel();
        let (questions, open_questions) = mpsc::unbounded_channel();
        let tasks = vec![
            tokio::spawn(append::run(connector.clone(), open_appends, answers.clone())),
            tokio::spawn(read::run(connector.clone(), open_questions, answers.clone())),
        ];
        let (follower, trim) = (None, None);
        let driver = Driver { connector, appends, questions, answers, tasks, follower, trim };
        (driver, receiver)
    }

    /// Why the last connection failed, for people. `None`: the last connection worked.
    #[must_use]
    pub fn problem(&self) -> Option<ConnectError> {
        self.connector.problem()
    }

    /// Begins what a node requests.
    pub fn request(&mut self, request: Request) {
        match request {
            // The tasks end only with the driver, so they take every request.
            Request::Append { .. } => drop(self.appends.send(request)),
            Request::Tail | Request::Read { .. } | Request::LastClaim => {
                drop(self.questions.send(request));
            }
            Request::Trim { below } => {
                // A trim can take seconds, and no question may wait for it.
                if self.trim.as_ref().is_none_or(JoinHandle::is_finished) {
                    let connector = self.connector.clone();
                    self.trim = Some(tokio::spawn(read::trim(connector, below)));
                }
            }
            Request::Follow { from } => {
                if let Some(task) = self.follower.take() {
                    task.abort();
                }
                self.follower = from.map(|from| {
                    let (connector, answers) = (self.connector.clone(), self.answers.clone());
                    tokio::spawn(follow::run(connector, from, answers))
                });
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for task in self.tasks.iter().chain(&self.follower).chain(&self.trim) {
            task.abort();
        }
    }
}
