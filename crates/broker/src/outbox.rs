//! The unsent replies of a connection, in order. Each reply waits until the log has released the
//! reply's position.

use std::collections::VecDeque;

use std::sync::Arc;

use engine::{Body, JobBody, Loading};

use crate::Position;

/// The outbox shares bodies of at least this size with the job, and copies smaller bodies.
const SHARED_BODY_BYTES_MIN: usize = 16 * 1024;

/// The outbox copies replies into buffers of at most this size. So a buffer never grows far: for a
/// client that does not read, growth would copy up to a megabyte in a turn. And a buffer whose first
/// bytes are sent can stay until all are.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// If an empty buffer is larger than this, the outbox frees it at once.
const KEPT_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Replies of one connection, in order.
///
/// A dialect appends replies, and the owner of the socket sends from the front. Replies keep their
/// order, so a reply also waits for the positions of all replies before it. So the outbox needs a
/// list entry only where the position increases (`Hold`).
#[derive(Debug, Default)]
pub struct Outbox {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk that are already sent.
    sent: usize,
    /// Unsent bytes in all chunks.
    len: usize,
    /// What is known about the chunks that the loader loads. `None`: there are none, as in almost all
    /// outboxes.
    loads: Option<Box<Loads>>,
    /// The number of bytes sent so far. `Hold::start` counts from the same origin.
    taken: u64,
    /// From front to back, the fields of the holds never decrease.
    holds: VecDeque<Hold>,
}

#[derive(Debug)]
struct Loads {
    /// The number of chunks at the front that wait for no load, as far as the outbox has looked.
    ready_chunks: usize,
    /// Bytes of the loaded bodies among these chunks. A body counts until all of it is sent.
    loaded_len: usize,
    /// Bytes of the bodies among the other chunks that the loader loads.
    unloaded_len: usize,
}

#[derive(Debug)]
enum Chunk {
    Own(Vec<u8>),
    Shared(Body),
    /// A body that is being loaded. All bytes behind it wait until it is loaded.
    Loading(Arc<Loading>),
}

/// Bytes from `start` on wait for `after`.
#[derive(Copy, Clone, Debug)]
struct Hold {
    start: u64,
    after: Position,
}

impl Loads {
    #[cold]
    fn look_at(&mut self, chunks: &VecDeque<Chunk>) {
        while let Some(chunk) = chunks.get(self.ready_chunks) {
            if let Chunk::Loading(loading) = chunk {
                if loading.body().is_none() {
                    return;
                }
                self.unloaded_len -= loading.len();
                self.loaded_len += loading.len();
            }
            self.ready_chunks += 1;
        }
    }
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(body) => body,
            Self::Loading(loading) => loading.body().map_or(&[], |body: &Body| body),
        }
    }

    /// The length of the chunk. A body has this length even before it is loaded.
    fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(body) => body.len(),
            Self::Loading(loading) => loading.len(),
        }
    }
}

impl Outbox {
    /// Appends a reply, which is not sent before the log has released `after`.
    pub fn reply(&mut self, after: Position, bytes: &[u8]) {
        self.hold_until(after);
        self.append(bytes);
    }

    /// Appends one reply that carries a body between `head` and `tail`.
    pub fn reply_with_body(&mut self, after: Position, head: &[u8], body: &JobBody, tail: &[u8]) {
        self.hold_until(after);
        self.append(head);
        match body {
            JobBody::Resident(body) if body.len() < SHARED_BODY_BYTES_MIN => self.append(body),
            JobBody::Resident(body) => self.push(Chunk::Shared(body.clone())),
            JobBody::Loading(loading) if loading.is_empty() => {}
            JobBody::Loading(loading) => self.push(Chunk::Loading(loading.clone())),
            JobBody::Stored(_) => unreachable!("the broker loads each body that it hands out"),
        }
        self.append(tail);
    }

    fn push(&mut self, chunk: Chunk) {
        self.drop_kept();
        self.len += chunk.len();
        if let Chunk::Loading(loading) = &chunk {
            let ready_chunks = self.chunks.len();
            let first = || Box::new(Loads { ready_chunks, loaded_len: 0, unloaded_len: 0 });
            self.loads.get_or_insert_with(first).unloaded_len += loading.len();
        }
        self.chunks.push_back(chunk);
    }

    fn append(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.chunks.back_mut() {
            Some(Chunk::Own(last)) if last.len() + bytes.len() <= BUFFER_BYTES_MAX => {
                last.extend_from_slice(bytes);
            }
            last => {
                // Behind a full buffer, many more replies will probably follow.
                let is_behind_full = matches!(last, Some(Chunk::Own(_)));
                self.drop_kept();
                self.append_to_new(bytes, if is_behind_full { BUFFER_BYTES_MAX } else { 0 });
            }
        }
    }

    /// Frees the empty buffer that the outbox has kept, because the next bytes do not go into it.
    /// At the front, it would hide the chunks behind it.
    fn drop_kept(&mut self) {
        if matches!(self.chunks.front(), Some(Chunk::Own(bytes)) if bytes.is_empty()) {
            self.chunks.pop_front();
            debug_assert!(self.loads.is_none(), "a kept buffer is the only chunk");
        }
    }

    /// Appends new buffers with these bytes. Each has at least this capacity.
    fn append_to_new(&mut self, bytes: &[u8], capacity_min: usize) {
        // Never adds an empty chunk. At the front, it would hide the chunks behind it.
        for part in bytes.chunks(BUFFER_BYTES_MAX) {
            let mut buffer = Vec::with_capacity(part.len().max(capacity_min));
            buffer.extend_from_slice(part);
            self.chunks.push_back(Chunk::Own(buffer));
        }
    }

    fn hold_until(&mut self, after: Position) {
        let held = self.holds.back().map_or(Position::NONE, |hold| hold.after);
        if !after.is_reached(held) {
            let start = self.taken + self.len as u64;
            self.holds.push_back(Hold { start, after: held.max(after) });
        }
    }

    /// Whether there are no unsent bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of unsent bytes, including those that wait for a position.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of unsent bytes that take memory: without bodies that are not loaded yet. A body
    /// behind such a body counts as not loaded, too.
    pub fn resident_len(&mut self) -> usize {
        self.len - self.note_loaded().map_or(0, |loads| loads.unloaded_len)
    }

    /// Bytes of the bodies that were loaded for replies, and that wait for no other load. A body
    /// counts until all of it is sent.
    pub fn loaded_len(&mut self) -> usize {
        self.note_loaded().map_or(0, |loads| loads.loaded_len)
    }

    /// Whether a reply waits until its body is loaded.
    #[inline]
    pub fn waits_for_body(&mut self) -> bool {
        self.note_loaded().is_some_and(|loads| loads.unloaded_len > 0)
    }

    /// Looks how far the chunks wait for no load. Looks at each chunk once, and at the first body
    /// that is not loaded.
    #[inline]
    fn note_loaded(&mut self) -> Option<&mut Loads> {
        let loads = self.loads.as_deref_mut()?;
        loads.look_at(&self.chunks);
        Some(loads)
    }

    /// Whether the first chunk is a body that cannot be loaded. Then nothing more can be sent.
    pub fn is_broken(&self) -> bool {
        matches!(self.chunks.front(), Some(Chunk::Loading(loading)) if loading.has_failed())
    }

    /// The first position that unsent bytes wait for, if any.
    pub fn waits_for(&mut self, released: Position) -> Option<Position> {
        self.drop_reached(released);
        self.holds.front().map(|hold| hold.after)
    }

    fn drop_reached(&mut self, released: Position) {
        while self.holds.front().is_some_and(|hold| hold.after.is_reached(released)) {
            self.holds.pop_front();
        }
    }

    /// The next bytes that can be sent, in one piece. Empty if no bytes can be sent now. The caller
    /// sends these bytes, and passes the number of sent bytes to `advance`.
    pub fn sendable(&mut self, released: Position) -> &[u8] {
        self.drop_reached(released);
        let free = match self.holds.front() {
            Some(hold) => (hold.start - self.taken) as usize,
            None => self.len,
        };
        let Some(chunk) = self.chunks.front() else { return &[] };
        // A body that is not loaded yet has no bytes.
        let bytes = chunk.bytes().get(self.sent..).unwrap_or_default();
        &bytes[..bytes.len().min(free)]
    }

    /// Removes `count` bytes from the front, because they were sent.
    pub fn advance(&mut self, count: usize) {
        self.len -= count;
        self.taken += count as u64;
        self.sent += count;
        while let Some(chunk) = self.chunks.front_mut() {
            let chunk_len = chunk.len();
            if self.sent < chunk_len {
                return;
            }
            self.sent -= chunk_len;
            match chunk {
                // A busy connection keeps its small buffer for later replies.
                Chunk::Own(bytes) if self.len == 0 && bytes.capacity() <= KEPT_BUFFER_BYTES_MAX => {
                    bytes.clear();
                    return;
                }
                Chunk::Own(_) | Chunk::Shared(_) | Chunk::Loading(_) => self.drop_first(),
            }
        }
    }

    /// Frees the first chunk, because all its bytes were sent.
    fn drop_first(&mut self) {
        self.note_loaded();
        let first = self.chunks.pop_front();
        let Some(loads) = &mut self.loads else { return };
        loads.ready_chunks -= 1;
        if let Some(Chunk::Loading(loading)) = first {
            loads.loaded_len -= loading.len();
        }
        if loads.loaded_len == 0 && loads.unloaded_len == 0 {
            self.loads = None;
        }
    }

    /// Frees memory kept for later replies, on an idle connection.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.chunks = VecDeque::new();
            self.holds = VecDeque::new();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(position: u64) -> Position {
        Position::durable(log::Position(position))
    }

    /// Everything that can be sent, in pieces of at most `piece` bytes.
    fn drain(outbox: &mut Outbox, released: u64, piece: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let bytes = outbox.sendable(at(released));
            if bytes.is_empty() {
                return sent;
            }
            let count = bytes.len().min(piece);
            sent.extend_from_slice(&bytes[..count]);
            outbox.advance(count);
        }
    }

    #[test]
    fn a_reply_waits_for_its_position_and_for_those_before_it() {
        let mut outbox = Outbox::default();
        outbox.reply(at(0), b"free ");
        outbox.reply(at(10), b"held ");
        outbox.reply(at(0), b"behind ");
        outbox.reply(at(5), b"lower ");
        outbox.reply(at(20), b"later");
        assert_eq!(drain(&mut outbox, 0, 100), b"free ");
        assert_eq!(outbox.waits_for(at(0)), Some(at(10)));
        assert_eq!(drain(&mut outbox, 9, 100), b"");
        assert_eq!(drain(&mut outbox, 10, 3), b"held behind lower ");
        assert_eq!(outbox.waits_for(at(10)), Some(at(20)));
        assert_eq!(drain(&mut outbox, 30, 100), b"later");
        assert!(outbox.is_empty() && outbox.waits_for(at(30)).is_none());
    }

    #[test]
    fn sent_bytes_take_no_memory_while_others_wait() {
        let mut outbox = Outbox::default();
        let reply = [b'r'; 1000];
        outbox.reply(at(0), &reply);
        for released in 0..10_000 {
            outbox.reply(at(released + 1), &reply);
            assert_eq!(drain(&mut outbox, released, 400), reply);
            let held: usize = outbox.chunks.iter().map(|chunk| chunk.bytes().len()).sum();
            assert!(held <= 2 * BUFFER_BYTES_MAX, "{held} bytes for one reply");
        }
    }

    #[test]
    fn no_buffer_grows_with_the_number_of_replies() {
        let mut outbox = Outbox::default();
        let mut all = Vec::new();
        for at_reply in 0..1_000 {
            let reply = vec![at_reply as u8; 1 + at_reply * 7 % 1_000];
            outbox.reply(at(0), &reply);
            all.extend_from_slice(&reply);
        }
        let large = vec![b'L'; 3 * BUFFER_BYTES_MAX];
        outbox.reply(at(0), &large);
        outbox.reply(at(0), b"behind");
        all.extend([&large[..], b"behind"].concat());
        for chunk in &outbox.chunks {
            let Chunk::Own(bytes) = chunk else { panic!("all bytes were copied") };
            assert!(bytes.len() <= BUFFER_BYTES_MAX, "{} bytes", bytes.len());
        }
        assert!(outbox.chunks.len() < 2 * all.len() / BUFFER_BYTES_MAX);
        assert!(drain(&mut outbox, 0, 40_000) == all);
    }

    #[test]
    fn a_reply_that_need_only_be_written_leaves_sooner_but_not_before_its_turn() {
        let written = |position| Position::written(log::Position(position));
        let mut outbox = Outbox::default();
        outbox.reply(written(10), b"weak ");
        outbox.reply(at(20), b"strong ");
        outbox.reply(written(30), b"behind");
        let released =
            |written: u64, durable| Position::written(log::Position(written)).max(at(durable));
        assert_eq!(outbox.sendable(released(9, 5)), b"");
        assert_eq!(outbox.waits_for(released(9, 5)), Some(written(10)));
        assert_eq!(outbox.sendable(released(35, 5)), b"weak ");
        outbox.advance(5);
        assert_eq!(outbox.sendable(released(35, 19)), b"");
        assert_eq!(outbox.sendable(released(25, 20)), b"strong ");
        assert_eq!(outbox.sendable(released(30, 20)), b"strong behind");
    }

    #[test]
    fn a_body_without_a_head_leaves() {
        let mut outbox = Outbox::default();
        let body: Body = vec![b'x'; SHARED_BODY_BYTES_MIN].into();
        outbox.reply_with_body(at(0), b"", &body.clone().into(), b"");
        assert_eq!(drain(&mut outbox, 0, usize::MAX), body.to_vec());
    }

    #[test]
    fn a_long_reply_leaves_although_a_short_one_has_left_its_buffer() {
        let mut outbox = Outbox::default();
        let long = vec![b'L'; 2 * BUFFER_BYTES_MAX];
        for _ in 0..2 {
            outbox.reply(at(0), b"short");
            assert_eq!(drain(&mut outbox, 0, usize::MAX), b"short");
            outbox.reply(at(0), &long);
            assert!(drain(&mut outbox, 0, usize::MAX) == long);
            outbox.reply(at(0), b"short");
            assert_eq!(drain(&mut outbox, 0, usize::MAX), b"short");
            outbox.reply_with_body(at(0), b"", &JobBody::Resident(long.clone().into()), b"");
            assert!(drain(&mut outbox, 0, usize::MAX) == long);
            assert_eq!((outbox.len(), outbox.resident_len(), outbox.loaded_len()), (0, 0, 0));
        }
    }

    #[test]
    fn a_body_that_is_loading_holds_back_what_is_behind_it() {
        let mut outbox = Outbox::default();
        let loading = Arc::new(Loading::new(4));
        outbox.reply_with_body(at(0), b"<", &JobBody::Loading(loading.clone()), b">");
        outbox.reply(at(0), b"next");
        assert_eq!((drain(&mut outbox, 0, 100), outbox.len()), (b"<".to_vec(), 9));
        loading.finish(Some(b"body"[..].into()));
        assert_eq!(drain(&mut outbox, 0, 3), b"body>next");
        let failed = Arc::new(Loading::new(4));
        outbox.reply_with_body(at(0), b"<", &JobBody::Loading(failed.clone()), b">");
        failed.finish(None);
        assert!(!outbox.is_broken(), "bytes before it can leave");
        assert_eq!(drain(&mut outbox, 0, 100), b"<");
        assert!(outbox.is_broken() && !outbox.is_empty());
    }

    #[test]
    fn a_body_takes_memory_when_it_is_loaded_and_until_it_is_sent() {
        let lens = |outbox: &mut Outbox| (outbox.len(), outbox.resident_len(), outbox.loaded_len());
        let mut outbox = Outbox::default();
        let [first, second] = [40, 50].map(|len| Arc::new(Loading::new(len)));
        for loading in [&first, &second] {
            outbox.reply_with_body(at(0), b"<", &JobBody::Loading(loading.clone()), b">");
        }
        assert_eq!(lens(&mut outbox), (94, 4, 0));
        second.finish(Some(vec![b'2'; 50].into()));
        assert!(outbox.waits_for_body());
        assert_eq!(lens(&mut outbox), (94, 4, 0), "it cannot leave before the first one");
        first.finish(Some(vec![b'1'; 40].into()));
        assert!(!outbox.waits_for_body());
        assert_eq!(lens(&mut outbox), (94, 94, 90));
        outbox.advance(1);
        assert_eq!(outbox.sendable(at(0)).len(), 40);
        outbox.advance(39);
        assert_eq!(lens(&mut outbox), (54, 54, 90));
        outbox.advance(1);
        assert_eq!(lens(&mut outbox), (53, 53, 50));
        assert_eq!(drain(&mut outbox, 0, 7).len(), 53);
        assert_eq!(lens(&mut outbox), (0, 0, 0));
        outbox.reply(at(0), b"small");
        outbox.reply_with_body(at(0), b"", &JobBody::Resident(vec![b'L'; 40_000].into()), b"");
        assert_eq!(lens(&mut outbox), (40_005, 40_005, 0));
    }

    proptest! {
        #[test]
        fn bytes_leave_as_appended_and_never_early(
            replies in prop::collection::vec((0..40u64, 0..40usize, any::<bool>()), 1..60),
            piece in 1..30_000usize,
        ) {
            let mut outbox = Outbox::default();
            let (mut all, mut holds) = (Vec::new(), Vec::new());
            let mut sent = Vec::new();
            for (step, (after, len, large)) in replies.into_iter().enumerate() {
                let body: Body = if large { vec![b'L'; SHARED_BODY_BYTES_MIN + len].into() }
                    else { vec![b's'; len].into() };
                outbox.reply_with_body(at(after), b"head ", &body.clone().into(), b"\r\n");
                holds.push((all.len(), after));
                all.extend_from_slice(b"head ");
                all.extend_from_slice(&body);
                all.extend_from_slice(b"\r\n");
                let released = step as u64;
                sent.extend(drain(&mut outbox, released, piece));
                let free = holds.iter().find(|hold| hold.1 > released).map_or(all.len(), |m| m.0);
                prop_assert_eq!(sent.len(), free);
                prop_assert_eq!(outbox.len(), all.len() - sent.len());
            }
            sent.extend(drain(&mut outbox, 100, piece));
            prop_assert!(sent == all);
            prop_assert!(outbox.is_empty());
        }
    }
}
