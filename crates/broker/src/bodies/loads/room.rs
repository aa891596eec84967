//! How much the loader may load. Bodies that are being loaded, and loaded bodies that clients have
//! not read yet, have a limit together. So a client that asks for many large bodies waits alone.

use std::collections::BTreeMap;

/// The bytes of the bodies that sessions wait for, and of those that their clients still have to
/// read.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The limit. `None`: there is none.
    bytes_max: Option<u64>,
    /// Bytes of the bodies that sessions wait for.
    wanted_bytes: u64,
    /// The part of `wanted_bytes` that threads load now.
    loading_bytes: u64,
    /// Bytes of loaded bodies that clients have not read yet, for each mailbox whose owner reports
    /// them: those of the last report, and those that were loaded since. An owner looks at its
    /// outboxes only after it has learned of a load, so its report alone would come too late.
    unread_bytes: BTreeMap<u32, u64>,
}

impl Room {
    pub(super) fn set_limit(&mut self, bytes_max: u64) {
        self.bytes_max = Some(bytes_max);
    }

    /// A session waits for a body.
    pub(super) fn want(&mut self, bytes: u64) {
        self.wanted_bytes += bytes;
    }

    /// A thread begins to load bodies that sessions wait for.
    pub(super) fn begin(&mut self, bytes: u64) {
        self.loading_bytes += bytes;
    }

    /// A thread has not loaded these bodies, and begins again later.
    pub(super) fn pause(&mut self, bytes: u64) {
        self.loading_bytes -= bytes;
    }

    /// A thread has loaded bodies, or has dropped them because nobody waits for them. `mailbox`:
    /// that of the session that gets them. Its owner must learn of the load after this call.
    pub(super) fn end(&mut self, bytes: u64, mailbox: Option<u32>) {
        self.wanted_bytes -= bytes;
        self.loading_bytes -= bytes;
        if let Some(mailbox) = mailbox
            && let Some(unread) = self.unread_bytes.get_mut(&mailbox)
        {
            *unread += bytes;
        }
    }

    /// The clients of a mailbox have not read this number of bytes of loaded bodies.
    pub(super) fn report(&mut self, mailbox: u32, bytes: u64) {
        self.unread_bytes.insert(mailbox, bytes);
    }

    /// How many bytes may be loaded now. `None`: nothing may be loaded. Otherwise one body may be
    /// loaded even if it is longer.
    pub(super) fn left(&self) -> Option<u64> {
        let Some(max) = self.bytes_max else { return Some(u64::MAX) };
        max.checked_sub(self.loading_bytes + self.all_unread_bytes())
    }

    /// Whether the bodies that sessions wait for exceed the limit, together with those that clients
    /// have not read yet.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes_max.is_some_and(|max| self.wanted_bytes + self.all_unread_bytes() > max)
    }

    fn all_unread_bytes(&self) -> u64 {
        self.unread_bytes.values().sum()
    }
}
