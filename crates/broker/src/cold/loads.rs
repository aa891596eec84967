//! Loads cold blocks, without the broker's lock while it reads: for sessions that need a job, ahead
//! of takes, and for reclaim.

use engine::{Body, JobId, JobList, Millis, QueueId};
use log::{BlockId, BodyReader, IndexError, Log, OwnedRow};

use crate::bodies::loads::{WithCore, under_lock};
use crate::broker::{Shared, lock};
use crate::cold::waits::Search;
use crate::cold::{BODY_HEAD_BYTES, NextBlocks};
use crate::core::Core;

/// An index file is read this often. The disk may fail for a moment.
const READS: usize = 3;
/// One load of a queue reads at most this many blocks.
const LOAD_BLOCKS: usize = 16;
/// The bodies of the jobs of this many blocks are read together.
const READ_BLOCKS: usize = 4;

impl Shared {
    /// Loads cold jobs. Each call of `with_core` takes the broker's lock for one block at most.
    pub(crate) fn load_cold(
        &self,
        load: ColdLoad,
        log: &Log,
        reader: &mut BodyReader,
        with_core: &mut WithCore<'_>,
    ) {
        match load {
            ColdLoad::List(list) => self.load_list(list, log, reader, with_core),
            ColdLoad::Job(search) => {
                if !under_lock(with_core, |core| core.begin_search(search)) {
                    return;
                }
                let found = self.load_job(search.id, log, with_core);
                under_lock(with_core, |core| match found {
                    Found::Nothing => core.wake_for_job(search),
                    Found::Trouble(segment) => core.cold.damage.repeat_later(segment, load),
                    Found::Damage => core.note_unreadable(search),
                });
            }
            ColdLoad::Lost(segment) => self.load_lost(segment, log, with_core),
            ColdLoad::Wake(list) => under_lock(with_core, |core| core.wake_called(list)),
        }
    }

    /// Loads the next blocks of a list.
    fn load_list(
        &self,
        list: JobList,
        log: &Log,
        reader: &mut BodyReader,
        with_core: &mut WithCore<'_>,
    ) {
        // At the limit of memory, only what somebody waits for is loaded.
        let is_full = self.memory.memory().is_full();
        let most = if is_full { 1 } else { LOAD_BLOCKS };
        let NextBlocks { blocks, mut with_bodies, bytes_max: mut bytes_left, mut wanted_from } =
            under_lock(with_core, |core| core.next_blocks(list, most));
        if is_full {
            // A take of one of these jobs does not load the next block ahead.
            (with_bodies, wanted_from) = (0, None);
        }
        let (first, others) = blocks.split_at(blocks.len().min(1));
        // Sessions may wait for the first block.
        for blocks in [first, others] {
            let mut read = self.read_blocks(blocks, log, with_core).into_iter().peekable();
            while read.peek().is_some() {
                let (mut loaded, mut is_over) = (Vec::new(), false);
                let mut count = 0;
                for (id, read) in read.by_ref().take(READ_BLOCKS) {
                    let is_with_bodies = with_bodies > 0;
                    with_bodies = with_bodies.saturating_sub(1);
                    match read {
                        Read::Rows(rows) => {
                            count += usize::from(is_with_bodies);
                            loaded.push(LoadedBlock { id, rows, bodies: Vec::new() });
                        }
                        Read::Later => {
                            // The list stays wanted, and nobody is told that its jobs are there.
                            under_lock(with_core, |core| {
                                core.cold.damage.repeat_later(id.segment, ColdLoad::List(list));
                            });
                            is_over = true;
                            break;
                        }
                        Read::Damaged => under_lock(with_core, |core| core.lose_block(id)),
                    }
                }
                read_bodies(&mut loaded[..count], &mut bytes_left, log, reader);
                for LoadedBlock { id, rows, bodies } in loaded {
                    under_lock(with_core, |core| core.load_block(id, &rows, bodies, log));
                }
                if is_over {
                    return;
                }
                // Sessions that wait for bodies of this queue come first.
                self.load_line(Some(list.queue), reader, with_core);
            }
        }
        under_lock(with_core, |core| core.end_wanted(list, wanted_from));
    }

    /// Loads the block of the job with this number, if the job is cold.
    fn load_job(&self, id: JobId, log: &Log, with_core: &mut WithCore<'_>) -> Found {
        let mut found = Found::Nothing;
        // There can be many segments, so this takes the broker's lock only for those that may have the
        // job. Before the search, the caller has made sure that the job does not become cold.
        for segment in log.segments_that_may_have(id.0) {
            if !under_lock(with_core, |core| core.cold.has_absent_jobs_in(segment)) {
                continue;
            }
            let find = || log.index(segment).map_or(Ok(None), |index| index.find(id.0));
            // The job is found in the segment even if the index file cannot be written.
            let rebuild = || log.find_in_segment(segment, id.0);
            let number = match self.read_index((segment, false), with_core, &find, &rebuild) {
                Ok(Some(number)) => number,
                Ok(None) => continue,
                Err(unread) => {
                    found = found.or(unread, segment);
                    continue;
                }
            };
            let block = BlockId { segment, number };
            let (is_cold, is_lost) = under_lock(with_core, |core| {
                (core.is_cold(block), core.cold.damage.is_lost(block))
            });
            if is_lost {
                found = Found::Damage;
            }
            if !is_cold {
                continue;
            }
            match self.read_rows(block, log, with_core) {
                Read::Rows(rows) => {
                    let is_loaded = under_lock(with_core, |core| {
                        core.load_block(block, &rows, Vec::new(), log);
                        core.engine.slot(id).is_ok()
                    });
                    if is_loaded {
                        return Found::Nothing;
                    }
                }
                unread => found = found.or(unread, segment),
            }
        }
        found
    }

    /// Loads these jobs, if they are cold, so that a follower can change them.
    pub(crate) fn load_for_apply(&self, ids: &[JobId]) -> Result<(), NotLoaded> {
        let Some(log) = &self.log else { return Ok(()) };
        let with_core: &mut WithCore<'_> = &mut |act| act(&mut self.turn(Millis(0)).core);
        let is_absent = |core: &mut Core, id: JobId| core.engine.slot(id).is_err();
        let mut absent: Vec<JobId> = under_lock(with_core, |core| {
            // The caller releases the lock before it applies the group. Meanwhile no job leaves the memory.
            core.cold.applying = true;
            let some = core.cold.has_absent_jobs();
            ids.iter().filter(|id| some && is_absent(core, **id)).copied().collect()
        });
        while let Some(id) = absent.pop() {
            let found = self.load_job(id, log, with_core);
            // Another load, or reclaim, may have brought the job meanwhile.
            let is_still_absent = under_lock(with_core, |core| {
                absent.retain(|id| is_absent(core, *id));
                is_absent(core, id)
            });
            match found {
                Found::Trouble(_) if is_still_absent => return Err(NotLoaded::Later(id)),
                Found::Damage if is_still_absent => return Err(NotLoaded::Damaged(id)),
                Found::Nothing | Found::Trouble(_) | Found::Damage => {}
            }
        }
        Ok(())
    }

    /// Loads a cold block of the segment whose jobs reclaim copies next.
    pub(crate) fn load_for_reclaim(&self, segment: u32, now: Millis) -> ForReclaim {
        let Some(log) = &self.log else { return ForReclaim::Ready };
        let (block, rests, has_lost) = {
            let core = &mut self.turn(now).core;
            core.cold.reclaiming = segment;
            let damage = &core.cold.damage;
            let rests = damage.rests(segment, core.engine.now()) && !damage.is_hopeless(segment);
            (core.cold.of_segment(segment).next(), rests, damage.lost_jobs_of(segment) > 0)
        };
        match block {
            Some(_) if rests => ForReclaim::Later,
            Some(block) => {
                let with_core: &mut WithCore<'_> = &mut |act| act(&mut self.turn(now).core);
                match self.read_rows(block, log, with_core) {
                    Read::Rows(rows) => {
                        let no_bodies = Vec::new();
                        under_lock(with_core, |core| core.load_block(block, &rows, no_bodies, log));
                    }
                    Read::Later => return ForReclaim::Later,
                    Read::Damaged => under_lock(with_core, |core| core.lose_block(block)),
                }
                ForReclaim::Worked
            }
            None if has_lost => ForReclaim::Lost,
            None => ForReclaim::Ready,
        }
    }

    /// Tries to read the lost blocks of a segment again.
    fn load_lost(&self, segment: u32, log: &Log, with_core: &mut WithCore<'_>) {
        for block in under_lock(with_core, |core| core.cold.damage.lost_of(segment)) {
            let (read, rebuild) = (|| log.read_indexed(block), || log.read_block(block));
            let Ok(rows) = self.read_index((segment, true), with_core, &read, &rebuild) else {
                return;
            };
            let Some(index) = log.index(segment) else { return };
            let Some(summary) = index.blocks().get(block.number as usize) else { return };
            let name = index.queue_name(summary.queue);
            under_lock(with_core, |core| core.find_block(block, name, &rows, log));
        }
    }

    /// Begins the loads again whose rest is over. Returns whether there were any.
    pub(crate) fn repeat_loads(&self, now: Millis) -> bool {
        let core = &mut self.turn(now).core;
        let now = core.engine.now();
        let due = core.cold.damage.take_due(now);
        let has_any = !due.is_empty();
        for load in due {
            match load {
                // The list has no blocks any more, or another list has its id. Sessions that still
                // wait for the list look again.
                ColdLoad::List(list) if !core.engine.wants_blocks(list) => core.wake_waiting(list),
                // The session has ended.
                ColdLoad::Job(search) if !core.cold.waits.has(search) => {}
                ColdLoad::List(_) | ColdLoad::Job(_) | ColdLoad::Lost(_) | ColdLoad::Wake(_) => {
                    core.loads.add_cold(load);
                }
            }
        }
        has_any
    }

    /// The rows of these blocks. Blocks that follow each other in a file are read together.
    pub(crate) fn read_blocks(
        &self,
        blocks: &[BlockId],
        log: &Log,
        with_core: &mut WithCore<'_>,
    ) -> Vec<(BlockId, Read)> {
        let mut all = Vec::with_capacity(blocks.len());
        let follows = |one: &BlockId, next: &BlockId| {
            (one.segment, one.number + 1) == (next.segment, next.number)
        };
        for run in blocks.chunk_by(follows) {
            let numbers = run[0].number..run[0].number + run.len() as u32;
            match log.read_indexed_run(run[0].segment, numbers) {
                Ok(rows) => all.extend(run.iter().copied().zip(rows.into_iter().map(Read::Rows))),
                Err(_) => {
                    all.extend(run.iter().map(|id| (*id, self.read_rows(*id, log, with_core))));
                }
            }
        }
        all
    }

    /// The rows of a block. If the index file is damaged, builds it again.
    pub(crate) fn read_rows(
        &self,
        block: BlockId,
        log: &Log,
        with_core: &mut WithCore<'_>,
    ) -> Read {
        // The block is read from the segment even if the index file cannot be written.
        let (read, rebuild) = (|| log.read_indexed(block), || log.read_block(block));
        match self.read_index((block.segment, false), with_core, &read, &rebuild) {
            Ok(rows) => Read::Rows(rows),
            Err(unread) => unread,
        }
    }

    /// Reads an index file. If that fails, builds the file again from its segment, unless this has
    /// failed a short time ago. `is_due`: builds it again in any case.
    fn read_index<T>(
        &self,
        (segment, is_due): (u32, bool),
        with_core: &mut WithCore<'_>,
        read: &dyn Fn() -> Result<T, IndexError>,
        rebuild: &dyn Fn() -> Result<T, IndexError>,
    ) -> Result<T, Read> {
        let mut result = read();
        for _ in 1..READS {
            if result.is_err() {
                result = read();
            }
        }
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let rests =
            under_lock(with_core, |core| core.cold.damage.rests(segment, core.engine.now()));
        if !rests || is_due {
            let rebuilt = rebuild();
            return under_lock(with_core, |core| match rebuilt {
                Ok(value) => {
                    for load in core.cold.damage.note_success(segment) {
                        core.loads.add_cold(load);
                    }
                    Ok(value)
                }
                // Nobody needs the segment any more, or the broker stops.
                Err(IndexError::Gone { .. } | IndexError::Stopped) => Err(Read::Later),
                Err(error) => {
                    // Want of descriptors passes, and is no damage.
                    let is_read = !matches!(error, IndexError::Write { .. })
                        && !error.is_out_of_descriptors();
                    self.note_index_error(error);
                    core.cold.damage.note_failure(segment, core.engine.now(), is_read);
                    Err(core.cold.damage.unread(segment))
                }
            });
        }
        self.note_index_error(error);
        Err(under_lock(with_core, |core| core.cold.damage.unread(segment)))
    }

    /// Stores the first error of an index file.
    pub(crate) fn note_index_error(&self, error: IndexError) {
        if matches!(error, IndexError::Stopped) || error.is_out_of_descriptors() {
            return;
        }
        lock(&self.index_error).get_or_insert_with(|| error.into());
    }
}

/// A block that was read.
struct LoadedBlock {
    id: BlockId,
    rows: Vec<OwnedRow>,
    /// The bodies of the rows, or nothing. `None`: the body was not read.
    bodies: Vec<Option<Body>>,
}

/// Reads the bodies of the live jobs of blocks, with large reads. Bodies that cannot be read, and
/// bodies beyond `bytes_left`, are left out, because no client waits for them yet. A block can also
/// have live jobs that are in memory, so its facts alone do not bound the bytes.
fn read_bodies(
    blocks: &mut [LoadedBlock],
    bytes_left: &mut u64,
    log: &Log,
    reader: &mut BodyReader,
) {
    for blocks in blocks.chunk_by_mut(|one, next| one.id.segment == next.id.segment) {
        let segment = blocks[0].id.segment;
        let Some(_hold) = log.hold(segment) else { continue };
        // The offset of the entry, the block, and the row.
        let rows = blocks.iter().map(|block| block.rows.len()).sum();
        let mut places: Vec<(u32, usize, usize)> = Vec::with_capacity(rows);
        for (number, block) in blocks.iter_mut().enumerate() {
            block.bodies = vec![None; block.rows.len()];
            let are_live = log.are_live(block.rows.iter().map(|row| row.slot));
            let rows = block.rows.iter().zip(are_live).enumerate().filter(|(_, (_, live))| *live);
            let rows = rows.take_while(|(_, (row, _))| {
                let left = bytes_left.checked_sub(u64::from(row.body_len) + BODY_HEAD_BYTES);
                *bytes_left = left.unwrap_or(0);
                left.is_some()
            });
            places.extend(rows.map(|(index, (row, _))| (row.entry_at, number, index)));
        }
        places.sort_unstable();
        let mut entries: Vec<u32> = places.iter().map(|(entry_at, ..)| *entry_at).collect();
        // Jobs that were put together share an entry, and then also a body.
        entries.dedup();
        let mut next = 0;
        reader.read_ahead(log, segment, &entries, |entry, body| {
            let body = Body::from(body);
            while places.get(next).is_some_and(|(entry_at, ..)| *entry_at < entries[entry]) {
                next += 1;
            }
            while let Some((_, block, row)) =
                places.get(next).filter(|(entry_at, ..)| *entry_at == entries[entry])
            {
                blocks[*block].bodies[*row] = Some(body.clone());
                next += 1;
            }
        });
    }
}

/// The result of a read of a block.
#[derive(Debug)]
pub(crate) enum Read {
    /// All rows of the block.
    Rows(Vec<OwnedRow>),
    /// The block cannot be read now. The broker tries again soon.
    Later,
    /// The block cannot be read after some tries.
    Damaged,
}

/// What the search for a job by its number found, besides the job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Found {
    Nothing,
    /// An index of this segment cannot be read now.
    Trouble(u32),
    /// The job, or a list that may have it, cannot be read after some tries.
    Damage,
}

/// Why a job could not be loaded.
pub(crate) enum NotLoaded {
    /// Its segment cannot be read now.
    Later(JobId),
    /// Its segment is damaged.
    Damaged(JobId),
}

impl Found {
    fn or(self, unread: Read, segment: u32) -> Self {
        match (self, unread) {
            (Self::Damage, _) | (_, Read::Damaged) => Self::Damage,
            (_, Read::Later) => Self::Trouble(segment),
            (found, Read::Rows(_)) => found,
        }
    }
}

/// What reclaim can do with a segment.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum ForReclaim {
    /// Copy its jobs: none of them is cold.
    Ready,
    /// Call [`Shared::load_for_reclaim`] again at once.
    Worked,
    /// Call it again later: a block cannot be read now.
    Later,
    /// Write its jobs again that are in memory. The others are lost.
    Lost,
}

/// Cold jobs to load.
#[derive(Copy, Clone, Debug)]
pub(crate) enum ColdLoad {
    /// The next jobs of a list.
    List(JobList),
    /// The job that a session searches for.
    Job(Search),
    /// The lost blocks of this segment: see [`crate::cold::damage`].
    Lost(u32),
    /// Nothing: the jobs of this list are there, but many sessions waited for them. The next of
    /// these sessions are told.
    Wake(JobList),
}

impl ColdLoad {
    /// The queue of the jobs, if all of them are in one queue.
    pub(crate) fn queue(self) -> Option<QueueId> {
        match self {
            Self::List(list) => Some(list.queue),
            Self::Job(_) | Self::Lost(_) | Self::Wake(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::NewJob;

    use super::*;
    use crate::{Broker, Options, Turn};

    const NOW: Millis = Millis(1_000_000);

    #[test]
    fn a_search_asks_the_broker_only_about_segments_that_may_have_the_job() {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let settings = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
        let options = Options::without_threads(disk, settings);
        let options = Options { jobs_bytes_max: Some(0), head_jobs: 1, ..options };
        let broker = Broker::open(options, NOW).expect("the disk is empty").0;
        let session = broker.turn(NOW).open_session(0);
        let put = |turn: &mut Turn<'_>| {
            let put = turn.caller(session).put(NewJob::default(), b"a body"[..].into());
            put.value.expect("there is room")
        };
        for _ in 0..200 {
            let mut turn = broker.turn(NOW);
            (0..100).for_each(|_| _ = put(&mut turn));
            drop(turn);
            broker.commit_step(NOW).expect("the disk works");
            broker.prepare_step().expect("the disk works");
        }
        while broker.index_step().expect("the disk works") {}
        while broker.cool_step(NOW) {}
        let shared = &*broker.shared;
        let log = shared.log.as_ref().expect("there is a log");
        assert!(log.indexed().len() > 3 && broker.cold_jobs() > 10_000);
        let search = |id: JobId| {
            let search = broker.turn(NOW).core.cold.waits.for_job(id, session, 0);
            let mut turns = 0;
            let with_core: &mut WithCore<'_> = &mut |act| {
                turns += 1;
                act(&mut broker.turn(NOW).core);
            };
            shared.load_cold(ColdLoad::Job(search), log, &mut shared.reader(), with_core);
            (turns, broker.turn(NOW).core.engine.slot(id).is_ok())
        };
        let (turns, is_found) = search(JobId(10_000));
        assert!(turns <= 5 && is_found, "{turns} turns");
        let mut turn = broker.turn(NOW);
        let ended = put(&mut turn);
        turn.caller(session).finish(ended).value.expect("it is ready");
        drop(turn);
        assert_eq!(search(ended), (2, false), "the beginning and the end of the search");
    }
}
