//! Questions of operators about connections, and orders to close one. Only the thread that owns a
//! connection can answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use api::{ConnectionFacts, ConnectionPage};
use broker::SessionId;
use tokio::sync::oneshot;

/// A question to an I/O thread.
#[derive(Debug)]
pub(crate) enum Inspect {
    /// Which connections have places from `from` on?
    List { from: u32, rows: usize, reply: oneshot::Sender<ConnectionPage> },
    /// Which connections have these sessions?
    Find { sessions: Vec<SessionId>, reply: oneshot::Sender<Vec<ConnectionFacts>> },
    /// Close the connection with this session. Does it exist?
    Close { session: SessionId, reply: oneshot::Sender<bool> },
}

/// The questions that a thread has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    /// Whether the list may have questions. A thread checks this in each round, and the list only
    /// if somebody asks.
    has_some: AtomicBool,
    list: Mutex<Vec<Inspect>>,
}

impl Inspections {
    /// Adds a question. The caller must wake the thread.
    pub(crate) fn ask(&self, question: Inspect) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        self.has_some.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::SeqCst)
    }

    /// Takes all questions. Only the thread itself calls this.
    pub(crate) fn take(&self) -> Vec<Inspect> {
        if !self.has_some() {
            return Vec::new();
        }
        self.has_some.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
