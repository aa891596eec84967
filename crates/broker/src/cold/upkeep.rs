//! The upkeep of index files and cold blocks. It builds the missing index files of the log, and
//! makes blocks cold if the records of jobs take too much memory.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::Millis;
use log::{BlockId, Log};

use crate::bodies::loads::{WithCore, under_lock};
use crate::broker::Shared;
use crate::cold::Cooled;
use crate::cold::loads::Read;
use crate::step_thread::Step;

/// After an index file was built, the thread rests this many times as long as the build took. So it
/// takes little of a processor: a build that is not in a hurry rests for about half of its time
/// itself. If memory is short, the thread does not rest.
const RESTS: u32 = 10;
/// A pass over all blocks that found too few jobs is repeated after this time. After each pass that
/// made no block cold, the time doubles, up to the maximum.
const PASS_REST: Duration = Duration::from_secs(1);
const PASS_REST_MAX: Duration = Duration::from_secs(64);
/// One step looks at this many blocks.
const STEP_BLOCKS: u32 = 64;
/// The rows of this many blocks are read together. Then the turns for these blocks follow each other
/// without a pause: see [`crate::bodies::loads::TURN_JOBS`]. A turn after a pause waits for a turn of
/// each I/O thread, so the upkeep would be slower than clients that put jobs.
const READ_BLOCKS: usize = 8;
/// While the records of jobs exceed their limit, this many sealed segments without an index are
/// usual. If there are more, clients put jobs faster than the upkeep can make them cold.
const USUAL_SEGMENTS: usize = 2;
/// See [`crate::Turn::rests`].
const RESTS_MAX: usize = 8;

/// The progress of the upkeep.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    pass: CoolPass,
    /// No index file is built before this moment, unless memory is short.
    rest_until: Option<Instant>,
    /// The next pass over all blocks begins after this moment.
    pass_after: Option<Instant>,
    /// The time between the last pass and the next one.
    pass_rest: Duration,
    /// The memory of the log's indexes and of its table of slots that is in the account.
    log_bytes: u64,
}

/// The progress of a pass over all blocks, which makes some of them cold.
#[derive(Debug, Default)]
pub(crate) struct CoolPass {
    /// The next block.
    at: Option<BlockId>,
    /// The segments that this pass has visited.
    visited: BTreeSet<u32>,
    /// Blocks that can never become cold, because too many of their jobs have ended or changed.
    hopeless: BTreeSet<BlockId>,
    /// Whether this pass has made a block cold.
    has_gained: bool,
    /// The limit was exceeded. Blocks become cold until an eighth of the limit is free.
    pub(crate) is_cooling: bool,
}

impl Shared {
    /// One step of the upkeep thread: makes some blocks cold, or builds an index file.
    pub(crate) fn upkeep_step(&self, upkeep: &mut Upkeep, now: Millis) -> Step {
        let step = self.cool_or_index(upkeep, now);
        self.note_lag(upkeep.pass.is_cooling && step != Step::Idle);
        let log_bytes = |log: &Log| log.index_memory_bytes() + log.slots_memory_bytes();
        let log_bytes = self.log.as_deref().map_or(0, log_bytes);
        self.memory.add_outside(log_bytes as i64 - upkeep.log_bytes as i64);
        upkeep.log_bytes = log_bytes;
        step
    }

    /// Notes how far the upkeep is behind. `is_cooling`: jobs must become cold, and the last step
    /// worked on this.
    pub(crate) fn note_lag(&self, is_cooling: bool) {
        let Some(log) = &self.log else { return };
        let most = USUAL_SEGMENTS + RESTS_MAX;
        let segments = if is_cooling { log.segments_to_index(most) } else { 0 };
        let rests = segments.saturating_sub(USUAL_SEGMENTS) as u32;
        self.upkeep_rests.store(rests, Ordering::Relaxed);
        log.hurry_indexing(rests > 0);
    }

    fn cool_or_index(&self, upkeep: &mut Upkeep, now: Millis) -> Step {
        let Some(log) = self.log.as_ref().filter(|log| log.has_indexes()) else {
            return Step::Idle;
        };
        self.repeat_loads(now);
        if !self.turn(now).core.cold.is_on() {
            return Step::Idle;
        }
        let began = Instant::now();
        if upkeep.pass_after.is_none_or(|after| after <= began) {
            upkeep.pass_after = None;
            if self.cool_step(&mut upkeep.pass, &mut |act| act(&mut self.turn(now).core)) {
                return Step::WorkedInHaste;
            }
            let has_gained = std::mem::take(&mut upkeep.pass.has_gained);
            let rest = if has_gained { PASS_REST } else { upkeep.pass_rest * 2 };
            upkeep.pass_rest = rest.clamp(PASS_REST, PASS_REST_MAX);
            upkeep.pass_after = upkeep.pass.is_cooling.then(|| began + upkeep.pass_rest);
        }
        let rests = upkeep.rest_until.is_some_and(|until| began < until);
        if rests && !upkeep.pass.is_cooling {
            return Step::Idle;
        }
        match log.index_step() {
            Ok(None) => Step::Idle,
            Ok(Some(_)) => {
                upkeep.rest_until = Some(Instant::now() + began.elapsed() * RESTS);
                // The new index has blocks that can become cold.
                (upkeep.pass_after, upkeep.pass_rest) = (None, Duration::ZERO);
                Step::WorkedInHaste
            }
            Err(error) => {
                self.note_index_error(error);
                Step::Idle
            }
        }
    }

    /// Makes some blocks of one segment cold, the newest segment first, if the records of jobs take
    /// too much memory. Returns false if they do not, or if the pass has visited all blocks. Each call
    /// of `with_core` takes the broker's lock for one block at most.
    pub(crate) fn cool_step(&self, pass: &mut CoolPass, with_core: &mut WithCore<'_>) -> bool {
        let Some(log) = &self.log else { return false };
        pass.is_cooling = under_lock(with_core, |core| core.has_too_many_jobs(pass.is_cooling));
        if !pass.is_cooling {
            return false;
        }
        let Some(at) = pass.at.take().or_else(|| pass.next_segment(log)) else { return false };
        let Some(index) = log.index(at.segment) else { return true };
        let count = index.blocks().len() as u32;
        let end = count.min(at.number + STEP_BLOCKS);
        let wanted: Vec<BlockId> = under_lock(with_core, |core| {
            let is_wanted = |block: &BlockId| {
                let summary = &index.blocks()[block.number as usize];
                !pass.hopeless.contains(block)
                    && !core.is_cold(*block)
                    && core.has_far_jobs(index.queue_name(summary.queue), summary.list)
            };
            (at.number..end).map(|number| BlockId { number, ..at }).filter(is_wanted).collect()
        });
        for blocks in wanted.chunks(READ_BLOCKS) {
            for (block, read) in self.read_blocks(blocks, log, with_core) {
                let Read::Rows(rows) = read else { continue };
                match under_lock(with_core, |core| core.cool_block(block, &rows)) {
                    Cooled::Yes => pass.has_gained = true,
                    Cooled::NotNow => {}
                    Cooled::Never => {
                        pass.hopeless.insert(block);
                    }
                }
            }
        }
        pass.at = (end < count).then_some(BlockId { number: end, ..at });
        true
    }
}

impl CoolPass {
    /// The newest segment with an index that this pass has not visited. `None`: the pass is over.
    fn next_segment(&mut self, log: &Log) -> Option<BlockId> {
        let indexed = log.indexed();
        if let Some(&first) = indexed.first() {
            self.hopeless = self.hopeless.split_off(&BlockId { segment: first, number: 0 });
        }
        let next = indexed.into_iter().rev().find(|segment| self.visited.insert(*segment));
        if next.is_none() {
            self.visited.clear();
        }
        Some(BlockId { segment: next?, number: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::NewJob;

    use super::*;
    use crate::{Broker, Options};

    const NOW: Millis = Millis(1_000_000);

    #[test]
    fn the_slots_of_the_log_are_in_the_account() {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = Options::without_threads(disk, log::Settings::default());
        let broker = Broker::open(options, NOW).expect("the disk is empty").0;
        let session = broker.turn(NOW).open_session(0);
        let mut upkeep = Upkeep::default();
        let mut used_bytes = || {
            broker.shared.upkeep_step(&mut upkeep, NOW);
            broker.memory_usage().used_bytes
        };
        let before = used_bytes();
        for _ in 0..100 {
            let mut turn = broker.turn(NOW);
            for _ in 0..100 {
                let put = turn.caller(session).put(NewJob::default(), b""[..].into());
                let id = put.value.expect("there is room");
                turn.caller(session).finish(id).value.expect("it is ready");
            }
            drop(turn);
            broker.commit_step(NOW).expect("the disk works");
        }
        let grown = used_bytes() - before;
        assert!((11_250..40_000).contains(&grown), "{grown} bytes for 10,000 slots");
        assert_eq!(used_bytes() - before, grown, "they count once");
    }
}
