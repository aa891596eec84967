//! Lists the jobs of a queue in order, in memory and cold, and changes nothing. No cold job is
//! loaded: the rows of a block are read from its index file, without the broker's lock, and merged
//! with the jobs in memory.
//!
//! A listing has pages. A job that keeps its place appears on exactly one page. A job whose place
//! changes between two pages, or that becomes cold, can be missed or appear twice.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{BlockFacts, Body, Engine, JobBody, JobFacts, JobId, JobList, JobSlot, Millis, State};
use log::{BlockId, BodyError, BodyReader, Log, OwnedRow, SegmentHold};

use crate::core::Core;
use crate::ledger::meta;
use crate::{Broker, Turn};

/// A cursor remembers at most this many blocks whose jobs are not all listed. If more blocks overlap,
/// for example because the jobs of very many segments have mixed priorities, later pages leave out
/// jobs of the others.
pub const OPEN_BLOCKS_MAX: usize = 256;

/// A place in a list of a queue. The default is before the first job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListCursor {
    /// The place of the last job that was listed or passed.
    pub after: Option<(u64, u64)>,
    /// The blocks, as segment and number, that were read and have jobs behind this place.
    pub open: Vec<(u32, u32)>,
    /// All blocks that begin before this place were read.
    pub blocks_from: (u64, u64),
}

/// How much one page can have.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct ListLimits {
    /// Jobs.
    pub rows: usize,
    /// Blocks that are read. If more are needed, the page ends early.
    pub blocks: usize,
}

/// A page of a listing.
#[derive(Debug)]
pub struct JobPage {
    /// The jobs, in the order in which the queue has them.
    pub rows: Vec<JobRow>,
    /// Where the next page begins. `None`: there are no more jobs.
    pub next: Option<ListCursor>,
    /// False if later pages leave out jobs: see [`OPEN_BLOCKS_MAX`].
    pub is_complete: bool,
    /// Jobs that were left out, because the log cannot be read.
    pub unreadable: u64,
}

/// A job of a listing.
#[derive(Debug)]
pub struct JobRow {
    /// The place of the job in the list.
    pub place: (u64, u64),
    /// The job's facts. The state is the state of the list.
    pub facts: JobFacts,
    /// For a delayed job: milliseconds until it is due. Otherwise 0.
    pub time_left_ms: u64,
    /// The key of a submitted job, or empty.
    pub unique: Vec<u8>,
    /// The bytes of the body.
    pub body_len: usize,
    /// The body, or where it is.
    pub body: RowBody,
    /// Whether the whole job is only in the log.
    pub is_cold: bool,
    /// Whether the log has the job.
    pub is_durable: bool,
}

/// The body of a job in a listing.
#[derive(Clone, Debug)]
pub enum RowBody {
    /// The body is in memory.
    Resident(Body),
    /// The body is only in the log: see [`Broker::read_body`].
    Stored(StoredRowBody),
}

/// Where a body is in the log. Keeps the file until it is dropped.
#[derive(Clone, Debug)]
pub struct StoredRowBody {
    segment: u32,
    entry_at: u32,
    _hold: Arc<SegmentHold>,
}

/// A cold job that was read and not listed yet.
struct ColdRow {
    row: OwnedRow,
    facts: JobFacts,
    block: BlockId,
}

/// A block that is to be read.
struct NextBlock {
    id: BlockId,
    /// The place of its first job.
    first: (u64, u64),
    /// The number of its jobs.
    jobs: u32,
}

/// The next step of a listing.
enum Step {
    /// The jobs of this block come next.
    Open(NextBlock),
    /// The slice of work is spent.
    Pause,
    /// The page is full.
    Full,
    /// There are no more jobs.
    End,
}

impl Broker {
    /// A page of the ready, delayed or buried jobs of a queue. Returns `None` if there is no such
    /// queue. Reads index files in the calling thread, but not while it has the lock.
    pub fn list_jobs(
        &self,
        now: Millis,
        (queue, state): (&[u8], State),
        cursor: &ListCursor,
        limits: ListLimits,
    ) -> Option<JobPage> {
        let queue = &*self.turn(now).shown_name(queue);
        let mut listing = Listing::new(state, cursor, limits);
        let opened = cursor
            .open
            .iter()
            .map(|(segment, number)| BlockId { segment: *segment, number: *number });
        // A page always reads the blocks of its cursor. So it also makes progress with a low limit.
        let log = self.shared.log.as_deref();
        // A cursor may name a block of another queue.
        let is_of_queue = |block: &BlockId| {
            let index = log.and_then(|log| log.index(block.segment));
            index.is_some_and(|index| {
                let summary = index.blocks().get(block.number as usize);
                summary.is_some_and(|summary| index.queue_name(summary.queue) == queue)
            })
        };
        for block in opened.take(OPEN_BLOCKS_MAX).filter(is_of_queue) {
            listing.read(block, 0, log);
        }
        loop {
            let step = {
                let mut turn = self.turn(now);
                let queue = turn.core.engine.shown_queue_id(queue)?;
                listing.fill(&mut turn, JobList { queue, state })
            };
            match step {
                Step::Open(block) if listing.blocks_left > 0 => {
                    listing.blocks_left -= 1;
                    listing.blocks_from = successor(block.first);
                    listing.read(block.id, block.jobs, log);
                }
                Step::Pause => {}
                Step::Open(..) | Step::Full => return Some(listing.page(true)),
                Step::End => return Some(listing.page(false)),
            }
        }
    }

    /// Reads a body of a listing, in the calling thread.
    pub fn read_body(&self, body: &StoredRowBody) -> Result<Body, BodyError> {
        let mut read = None;
        self.read_bodies(&[body], |_, body| read = Some(body.map(Body::from)));
        read.expect("the reader returns a result for each entry")
    }

    /// Reads bodies of a listing, in the calling thread, with as few reads as possible. Calls `each`
    /// once for every body, in any order, with the index in `bodies`.
    pub fn read_bodies(
        &self,
        bodies: &[&StoredRowBody],
        mut each: impl FnMut(usize, Result<&[u8], BodyError>),
    ) {
        let mut places: Vec<(u32, u32, usize)> = bodies
            .iter()
            .enumerate()
            .map(|(index, body)| (body.segment, body.entry_at, index))
            .collect();
        places.sort_unstable();
        let mut reader = BodyReader::default();
        for of_segment in places.chunk_by(|one, next| one.0 == next.0) {
            let log = self.shared.log.as_ref().expect("a stored body is in a log");
            let entries: Vec<u32> = of_segment.iter().map(|(_, entry_at, _)| *entry_at).collect();
            // Each segment comes once, so the reader needs no more than one open file.
            reader.close_below(of_segment[0].0);
            reader.read(log, of_segment[0].0, &entries, |at, body| each(of_segment[at].2, body));
        }
    }
}

/// The next place.
fn successor((first, second): (u64, u64)) -> (u64, u64) {
    second.checked_add(1).map_or((first.saturating_add(1), 0), |second| (first, second))
}

/// A page while it is made.
struct Listing {
    state: State,
    rows_max: usize,
    blocks_left: usize,
    after: Option<(u64, u64)>,
    /// Only blocks that begin here or behind this place are still to be opened.
    blocks_from: (u64, u64),
    /// The cold jobs behind `after` that were read, by place.
    cold: BTreeMap<(u64, u64), ColdRow>,
    rows: Vec<JobRow>,
    holds: BTreeMap<u32, Arc<SegmentHold>>,
    is_complete: bool,
    unreadable: u64,
}

impl Listing {
    fn new(state: State, cursor: &ListCursor, limits: ListLimits) -> Self {
        Self {
            state,
            rows_max: limits.rows,
            blocks_left: limits.blocks,
            after: cursor.after,
            blocks_from: cursor.blocks_from,
            cold: BTreeMap::new(),
            rows: Vec::new(),
            holds: BTreeMap::new(),
            is_complete: true,
            unreadable: 0,
        }
    }

    /// Reads the jobs of a block that are behind the last listed place. `jobs`: how many jobs are left
    /// out if the block cannot be read.
    fn read(&mut self, block: BlockId, jobs: u32, log: Option<&Log>) {
        let Some(log) = log else { return };
        // This is not the loader's read: a look notes no damage, and repairs nothing.
        let Ok(rows) = log.read_indexed(block) else {
            self.unreadable += u64::from(jobs);
            return;
        };
        for row in rows {
            // Another block may have a copy of an ended row, at the same place.
            if !log.is_live(row.slot) {
                continue;
            }
            let Ok((facts, _)) = meta::facts(&row.meta(), None) else { continue };
            // The jobs of a block of delayed jobs may be ready now. Then the row does not say so.
            let facts = JobFacts { state: self.state, ..facts };
            let place = BlockFacts::place(&facts);
            if self.after.is_none_or(|after| place > after) {
                self.cold.insert(place, ColdRow { row, facts, block });
            }
        }
    }

    /// Lists jobs, until the page is full or a block must be read.
    fn fill(&mut self, turn: &mut Turn<'_>, list: JobList) -> Step {
        turn.begin_slice();
        loop {
            if self.rows.len() >= self.rows_max {
                return Step::Full;
            }
            if turn.slice_is_spent() {
                return Step::Pause;
            }
            let core = &mut *turn.core;
            let from = self.after.map_or((0, 0), successor);
            let resident = core.engine.job_from(list, from);
            let known = self.cold.first_key_value().map(|(place, _)| *place);
            let next = [resident.map(|(place, _)| place), known].into_iter().flatten().min();
            let block = core.next_block(list, self.blocks_from);
            if let Some(block) = block
                && next.is_none_or(|next| block.first <= next)
            {
                return Step::Open(block);
            }
            let Some(place) = next else { return Step::End };
            self.after = Some(place);
            let cold = self.cold.remove(&place);
            if let Some((_, slot)) = resident.filter(|(found, _)| *found == place) {
                self.add_resident(core, slot, place);
            } else if let Some(cold) = cold {
                self.add_cold(core, cold, place);
            }
        }
    }

    fn add_resident(&mut self, core: &Core, slot: JobSlot, place: (u64, u64)) {
        let engine = &core.engine;
        let body = match engine.body(slot) {
            JobBody::Resident(body) => Some(RowBody::Resident(body)),
            JobBody::Stored(_) | JobBody::Loading(_) => {
                let location = core.ledger.locations.get(slot);
                location.and_then(|location| {
                    self.stored(core, location.log_slot.segment, location.entry_at)
                })
            }
        };
        // A segment with a live job can always be held.
        let Some(body) = body else { return };
        let facts = JobFacts { state: self.state, ..engine.facts(slot) };
        self.rows.push(JobRow {
            place,
            time_left_ms: time_left(engine, &facts),
            facts,
            unique: engine.tags(slot).map_or_else(Vec::new, |tags| tags.unique.to_vec()),
            body_len: engine.body(slot).len(),
            body,
            is_cold: false,
            is_durable: engine.is_durable(slot),
        });
    }

    /// Adds a job of a block, if it still exists and is still cold. Otherwise it has ended, or the
    /// memory has it.
    fn add_cold(&mut self, core: &Core, cold: ColdRow, place: (u64, u64)) {
        let ColdRow { row, facts, .. } = cold;
        let is_live = core.ledger.log().is_some_and(|log| log.is_live(row.slot));
        if !is_live || core.engine.slot(JobId(row.id)).is_ok() {
            return;
        }
        let Some(body) = self.stored(core, row.slot.segment, row.entry_at) else { return };
        let tags = meta::facts(&row.meta(), None).ok().and_then(|(_, tags)| tags);
        self.rows.push(JobRow {
            place,
            time_left_ms: time_left(&core.engine, &facts),
            facts,
            unique: tags.map_or_else(Vec::new, |tags| tags.unique.to_vec()),
            body_len: row.body_len as usize,
            body,
            is_cold: true,
            is_durable: true,
        });
    }

    fn stored(&mut self, core: &Core, segment: u32, entry_at: u32) -> Option<RowBody> {
        let log = core.ledger.log()?;
        let hold = match self.holds.entry(segment) {
            Entry::Occupied(held) => held.get().clone(),
            Entry::Vacant(held) => held.insert(Arc::new(log.hold(segment)?)).clone(),
        };
        Some(RowBody::Stored(StoredRowBody { segment, entry_at, _hold: hold }))
    }

    fn page(mut self, has_more: bool) -> JobPage {
        let open: BTreeSet<(u32, u32)> =
            self.cold.values().map(|cold| (cold.block.segment, cold.block.number)).collect();
        let mut open: Vec<_> = open.into_iter().collect();
        if open.len() > OPEN_BLOCKS_MAX {
            open.truncate(OPEN_BLOCKS_MAX);
            self.is_complete = false;
        }
        let next = has_more.then_some(ListCursor {
            after: self.after,
            open,
            blocks_from: self.blocks_from,
        });
        let Self { rows, is_complete, unreadable, .. } = self;
        JobPage { rows, next, is_complete, unreadable }
    }
}

fn time_left(engine: &Engine, facts: &JobFacts) -> u64 {
    if facts.state == State::Delayed { facts.due.since(engine.now()) } else { 0 }
}

impl Core {
    /// The first cold block that begins at this place or behind it.
    fn next_block(&mut self, list: JobList, from: (u64, u64)) -> Option<NextBlock> {
        let (first, slot) = self.engine.block_from(list, from)?;
        let (_, facts) = self.engine.block(slot)?;
        let id = *self.cold.places.get(&slot)?;
        Some(NextBlock { id, first, jobs: facts.jobs() })
    }
}
