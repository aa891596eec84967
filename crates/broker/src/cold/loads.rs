//! Loads cold blocks, without the broker's lock while it reads: for sessions that need a job, ahead
//! of takes, and for reclaim.

use engine::{BlockFacts, JobId, JobList, Millis, SessionId, State};
use log::{BlockId, IndexError, Log, OwnedRow};

use crate::bodies::loads::WithCore;
use crate::broker::{Shared, lock};
use crate::core::Core;
use crate::ledger::meta;

/// A block that cannot be read is tried this often. The disk may fail for a moment.
const READS: usize = 3;
/// One load of a queue reads at most this many blocks.
const LOAD_BLOCKS: usize = 16;

/// Calls `act` with the broker's lock held.
fn under_lock<T>(with_core: &mut WithCore<'_>, act: impl FnOnce(&mut Core) -> T) -> T {
    let (mut act, mut result) = (Some(act), None);
    with_core(&mut |core| result = act.take().map(|act| act(core)));
    result.expect("the function is called once")
}

impl Shared {
    /// Loads cold jobs. Each call of `with_core` takes the broker's lock for one block.
    pub(crate) fn load_cold(&self, load: ColdLoad, log: &Log, with_core: &mut WithCore<'_>) {
        match load {
            ColdLoad::List(list) => self.load_list(list, log, with_core),
            ColdLoad::Job(id, session) => {
                self.load_job(id, log, with_core);
                under_lock(with_core, |core| core.wake_for_job(session, id));
            }
        }
    }

    /// Loads the next blocks of a list.
    fn load_list(&self, list: JobList, log: &Log, with_core: &mut WithCore<'_>) {
        let blocks = under_lock(with_core, |core| core.next_blocks(list, LOAD_BLOCKS));
        let middle = blocks.len() / 2;
        let mut next = None;
        for (index, id) in blocks.into_iter().enumerate() {
            let rows = self.read_rows(id, log);
            if index <= middle && list.state == State::Ready {
                next = rows.iter().filter_map(ready_place).min();
            }
            under_lock(with_core, |core| core.load_block(id, &rows, log));
        }
        under_lock(with_core, |core| core.end_wanted(list, next));
    }

    /// Loads the block of the job with this number, if the job is cold.
    fn load_job(&self, id: JobId, log: &Log, with_core: &mut WithCore<'_>) {
        for segment in under_lock(with_core, |core| core.cold.segments()) {
            let Some(index) = log.index(segment) else { continue };
            // A damaged index file is built again from its segment.
            let find_again = |_| {
                log.rebuild_index(segment)?;
                log.index(segment).map_or(Ok(None), |index| index.find(id.0))
            };
            let number = match index.find(id.0).or_else(find_again) {
                Ok(Some(number)) => number,
                Ok(None) => continue,
                Err(error) => {
                    self.note_index_error(error);
                    continue;
                }
            };
            let block = BlockId { segment, number };
            if !under_lock(with_core, |core| core.is_cold(block)) {
                continue;
            }
            let rows = self.read_rows(block, log);
            let is_loaded = under_lock(with_core, |core| {
                core.load_block(block, &rows, log);
                core.engine.slot(id).is_ok()
            });
            if is_loaded {
                return;
            }
        }
    }

    /// Loads a cold block of the segment whose jobs reclaim copies next. Returns false if the
    /// segment has none.
    pub(crate) fn load_for_reclaim(&self, segment: u32, now: Millis) -> bool {
        let Some(log) = &self.log else { return false };
        let block = {
            let cold = &mut self.turn(now).core.cold;
            cold.reclaiming = segment;
            cold.of_segment(segment).next()
        };
        let Some(block) = block else { return false };
        let rows = self.read_rows(block, log);
        self.turn(now).core.load_block(block, &rows, log);
        true
    }

    /// The rows of a block. If they cannot be read, the jobs of the block are missing until the
    /// next start, and the error is reported.
    fn read_rows(&self, block: BlockId, log: &Log) -> Vec<OwnedRow> {
        let mut read = log.read_block(block);
        for _ in 1..READS {
            if read.is_err() {
                read = log.read_block(block);
            }
        }
        read.unwrap_or_else(|error| {
            self.note_index_error(error);
            Vec::new()
        })
    }

    /// Stores the first error of an index file.
    pub(crate) fn note_index_error(&self, error: IndexError) {
        if matches!(error, IndexError::Stopped) {
            return;
        }
        lock(&self.index_error).get_or_insert_with(|| error.into());
    }
}

/// The place of a row's job among the ready jobs of its queue.
fn ready_place(row: &OwnedRow) -> Option<(u64, u64)> {
    let (facts, _) = meta::facts(&row.meta(), None).ok()?;
    Some(BlockFacts::ready_place(&facts))
}

/// Cold jobs to load.
#[derive(Copy, Clone, Debug)]
pub(crate) enum ColdLoad {
    /// The next jobs of a list.
    List(JobList),
    /// The job with this number. The session waits for it, and has this mailbox.
    Job(JobId, (u32, SessionId)),
}
