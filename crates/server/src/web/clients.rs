//! Shows the connections of the I/O threads to the API.

use std::sync::Arc;

use api::{ConnectionFacts, ConnectionPage, Connections, Later};
use broker::SessionId;
use tokio::sync::oneshot;

use crate::threads::inspections::Inspect;
use crate::threads::mailbox::Inbox;

/// The connections of all I/O threads. The mailboxes of the threads have the same numbers, because
/// the threads were the first to add theirs to the broker.
pub(crate) struct AllConnections(pub(crate) Vec<Arc<Inbox>>);

impl Connections for AllConnections {
    fn threads(&self) -> usize {
        self.0.len()
    }

    fn list(&self, thread: usize, from: u32, rows: usize) -> Later<Option<ConnectionPage>> {
        let (reply, answer) = oneshot::channel();
        self.ask(thread, Inspect::List { from, rows, reply });
        Box::pin(async move { answer.await.ok() })
    }

    fn find(&self, thread: usize, sessions: Vec<SessionId>) -> Later<Option<Vec<ConnectionFacts>>> {
        let (reply, answer) = oneshot::channel();
        self.ask(thread, Inspect::Find { sessions, reply });
        Box::pin(async move { answer.await.ok() })
    }

    fn close(&self, thread: usize, session: SessionId) -> Later<Option<bool>> {
        let (reply, answer) = oneshot::channel();
        self.ask(thread, Inspect::Close { session, reply });
        Box::pin(async move { answer.await.ok() })
    }
}

impl AllConnections {
    fn ask(&self, thread: usize, question: Inspect) {
        if let Some(inbox) = self.0.get(thread) {
            inbox.inspect(question);
        }
    }
}
