//! Answers questions of operators about the connections of this thread, and closes connections for
//! them.

use api::{ConnectionFacts, ConnectionPage};
use broker::Millis;

use super::{CloseReason, IoThread};
use crate::threads::inspections::Inspect;

/// At most this many connections are shown in a round. More would delay other clients.
const ROWS_MAX: usize = 200;

impl IoThread {
    /// Answers all questions that have arrived. If nobody waits for an answer any more, it is
    /// dropped.
    pub(super) fn inspect(&mut self) {
        for question in self.inbox.inspections.take() {
            match question {
                Inspect::List { from, rows, reply } => {
                    let _ = reply.send(self.list_connections(from, rows.min(ROWS_MAX)));
                }
                Inspect::Find { sessions, reply } => {
                    let places =
                        sessions.iter().filter_map(|session| self.places.get(session).copied());
                    let places: Vec<u32> = places.collect();
                    let facts = places.into_iter().filter_map(|place| self.facts(place));
                    let _ = reply.send(facts.collect());
                }
                Inspect::Close { session, reply } => {
                    let place = self.places.get(&session).copied();
                    if let Some(place) = place {
                        tracing::info!(connection = place, "closed by an operator");
                        self.leave(place, CloseReason::Failed);
                    }
                    let _ = reply.send(place.is_some());
                }
            }
        }
    }

    fn list_connections(&mut self, from: u32, rows_max: usize) -> ConnectionPage {
        let mut page = ConnectionPage::default();
        for place in from..self.connections.end() {
            if page.rows.len() == rows_max {
                page.next = Some(place);
                break;
            }
            page.rows.extend(self.facts(place));
        }
        page
    }

    fn facts(&mut self, place: u32) -> Option<ConnectionFacts> {
        let now_ms = self.now_ms;
        let connection = self.connections.get(place)?;
        Some(ConnectionFacts {
            place,
            session: connection.session,
            protocol: connection.protocol().name(),
            address: connection.peer().shown_with_port(),
            is_tls: connection.is_tls(),
            opened: Millis(connection.opened_at),
            idle_ms: now_ms.saturating_sub(connection.heard_at),
            received_bytes: connection.received_bytes,
            sent_bytes: connection.sent_bytes,
            unsent_bytes: connection.outbox.len() as u64,
        })
    }
}
