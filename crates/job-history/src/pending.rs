//! Attempts at jobs that have not left their queue yet. Bounded: the history of some jobs then lacks
//! their first attempts.

use std::collections::{BTreeMap, VecDeque};

use broker::{AttemptEnd, Millis};

use crate::entry::Attempt;

/// A job keeps its last attempts, at most this many.
const ATTEMPTS_MAX: usize = 20;
/// Limit of the memory of all attempts.
const BYTES_MAX: usize = 16 << 20;
/// The memory of a job without its attempts.
const JOB_BYTES: usize = 128;

/// An attempt that has ended.
#[derive(Debug)]
struct Ended {
    attempt: Attempt,
    /// The file that has it. `None`: it is not written yet, or the disk failed.
    file: Option<u32>,
}

/// An attempt that goes on. Its length and its end have no meaning.
#[derive(Debug)]
struct Open {
    attempt: Attempt,
    /// When the session took the job, by the engine's time.
    taken: Millis,
}

/// The attempts at one job.
#[derive(Debug, Default)]
struct Job {
    ended: VecDeque<Ended>,
    open: Option<Open>,
    /// When the last attempt of this process ended.
    last_end: Option<Millis>,
}

/// The attempts, by the number of the job.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    jobs: BTreeMap<u64, Job>,
    bytes: usize,
    /// How many of the attempts each file has. A file that is not here has none.
    in_files: BTreeMap<u32, u64>,
    /// The job at which [`Pending::next_jobs`] goes on.
    next: u64,
}

fn bytes_of(attempt: &Attempt) -> usize {
    size_of::<Ended>() + attempt.worker.len() + attempt.error.len()
}

impl Job {
    fn bytes(&self) -> usize {
        let open = self.open.iter().map(|open| &open.attempt);
        let all = self.ended.iter().map(|ended| &ended.attempt).chain(open);
        JOB_BYTES + all.map(bytes_of).sum::<usize>()
    }

    /// How long ago the last attempt ended when a session took the job.
    fn since_last(&self, taken: Millis, taken_at: u64) -> u64 {
        let last = self.ended.back().map(|last| &last.attempt);
        match (self.last_end, last) {
            (Some(end), _) => taken.since(end),
            // Only the wall clock knows when an attempt of an earlier process ended.
            (None, Some(last)) => {
                taken_at.saturating_sub(last.taken_at.saturating_add(last.took_ms))
            }
            (None, None) => u64::MAX,
        }
    }
}

impl Pending {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The next jobs with attempts, at most this many. After the last job, the first one is next.
    pub(crate) fn next_jobs(&mut self, max: usize) -> Vec<u64> {
        let mut rest = self.jobs.range(self.next..).map(|(job, _)| *job);
        let jobs = rest.by_ref().take(max).collect();
        self.next = rest.next().unwrap_or(0);
        jobs
    }

    /// Whether a file has attempts at jobs that have not left.
    pub(crate) fn are_in(&self, file: u32) -> bool {
        self.in_files.contains_key(&file)
    }

    /// An attempt begins. A lost job counts as ready since its put, but it did not wait while an earlier
    /// session had it.
    pub(crate) fn begin(&mut self, job: u64, taken: Millis, attempt: Attempt) {
        self.change(job, |job| {
            let waited_ms = attempt.waited_ms.min(job.since_last(taken, attempt.taken_at));
            let attempt = Attempt { waited_ms, ..attempt };
            job.open = Some(Open { attempt, taken });
            None
        });
    }

    /// The attempt at a job ends, and the job stays. Returns the attempt. `None`: its beginning is not
    /// known, or it ended before.
    pub(crate) fn end(
        &mut self,
        job: u64,
        at: Millis,
        end: AttemptEnd,
        error: Box<[u8]>,
    ) -> Option<Attempt> {
        let found = self.jobs.get_mut(&job)?;
        let Open { attempt, taken } = found.open.take()?;
        found.last_end = Some(at);
        self.bytes -= bytes_of(&attempt);
        let attempt = Attempt { took_ms: at.since(taken), end: Some(end), error, ..attempt };
        self.add(job, attempt.clone(), None);
        Some(attempt)
    }

    /// Adds an attempt that has ended.
    pub(crate) fn add(&mut self, job: u64, attempt: Attempt, file: Option<u32>) {
        if let Some(file) = file {
            *self.in_files.entry(file).or_default() += 1;
        }
        self.change(job, |job| {
            job.ended.push_back(Ended { attempt, file });
            if job.ended.len() > ATTEMPTS_MAX { job.ended.pop_front() } else { None }
        });
    }

    /// This file has the attempts at a job now that were not written before.
    pub(crate) fn note_written(&mut self, job: u64, file: u32) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        for ended in job.ended.iter_mut().filter(|ended| ended.file.is_none()) {
            ended.file = Some(file);
            *self.in_files.entry(file).or_default() += 1;
        }
    }

    /// A file is deleted. The attempts stay in memory.
    pub(crate) fn forget_file(&mut self, file: u32) {
        self.in_files.remove(&file);
    }

    /// The job has gone, and no history has it.
    pub(crate) fn forget(&mut self, job: u64) {
        self.leave(job, Millis(0));
    }

    /// The job leaves its queue. Returns its attempts. If one goes on, it ends now.
    pub(crate) fn leave(&mut self, job: u64, at: Millis) -> Vec<Attempt> {
        let Some(job) = self.jobs.remove(&job) else { return Vec::new() };
        self.bytes -= job.bytes();
        let last = job.open.map(|Open { attempt, taken }| {
            let took_ms = at.since(taken);
            Attempt { took_ms, ..attempt }
        });
        let ended = job.ended.into_iter().map(|ended| {
            self.count_out(&ended);
            ended.attempt
        });
        ended.chain(last).collect()
    }

    /// An attempt is forgotten.
    fn count_out(&mut self, ended: &Ended) {
        if let Some(file) = ended.file
            && let Some(count) = self.in_files.get_mut(&file)
        {
            *count -= 1;
            if *count == 0 {
                self.in_files.remove(&file);
            }
        }
    }

    /// Changes the attempts at a job. `change` returns an attempt that the job forgets. If all attempts
    /// take too much memory, forgets those of the oldest jobs.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Job) -> Option<Ended>) {
        let is_new = !self.jobs.contains_key(&id);
        let job = self.jobs.entry(id).or_default();
        let before = if is_new { 0 } else { job.bytes() };
        let forgotten = change(job);
        self.bytes = self.bytes + job.bytes() - before;
        if let Some(ended) = forgotten {
            self.count_out(&ended);
        }
        while self.bytes > BYTES_MAX
            && let Some((_, job)) = self.jobs.pop_first()
        {
            self.bytes -= job.bytes();
            for ended in &job.ended {
                self.count_out(ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use broker::FailureCause;

    use super::*;

    fn attempt(taken_at: u64) -> Attempt {
        Attempt {
            taken_at,
            waited_ms: 5,
            took_ms: 0,
            end: None,
            worker: b"worker"[..].into(),
            error: Box::default(),
        }
    }

    #[test]
    fn attempts_end_with_a_failure_or_with_the_job() {
        let mut pending = Pending::default();
        pending.begin(1, Millis(100), attempt(100));
        let failed = AttemptEnd::Failed(FailureCause::TimedOut);
        let ended = pending.end(1, Millis(130), failed, Box::default());
        assert_eq!(ended.unwrap().took_ms, 30);
        let again = pending.end(1, Millis(130), AttemptEnd::Buried, Box::default());
        assert_eq!(again, None, "it has ended");
        pending.begin(1, Millis(200), Attempt { waited_ms: 100, ..attempt(200) });
        let attempts = pending.leave(1, Millis(207));
        let shown: Vec<_> =
            attempts.iter().map(|one| (one.waited_ms, one.took_ms, one.end)).collect();
        assert_eq!(shown, [(5, 30, Some(failed)), (70, 7, None)], "it was taken at 100");
        assert_eq!((pending.leave(1, Millis(300)).len(), pending.bytes()), (0, 0));
    }

    #[test]
    fn lengths_go_by_the_time_of_the_engine() {
        let mut pending = Pending::default();
        pending.begin(1, Millis(100), attempt(9_000));
        pending.end(1, Millis(130), AttemptEnd::Buried, Box::default());
        // The wall clock was set back.
        pending.begin(1, Millis(200), Attempt { waited_ms: 100, ..attempt(1_000) });
        let attempts = pending.leave(1, Millis(250));
        let lengths: Vec<_> = attempts.iter().map(|one| (one.waited_ms, one.took_ms)).collect();
        assert_eq!(lengths, [(5, 30), (70, 50)]);
    }

    #[test]
    fn a_file_is_needed_as_long_as_a_job_has_attempts_in_it() {
        let mut pending = Pending::default();
        pending.begin(1, Millis(0), attempt(0));
        pending.end(1, Millis(0), AttemptEnd::Buried, Box::default());
        pending.note_written(1, 7);
        for file in 8..30 {
            pending.add(1, attempt(1), Some(file));
        }
        let needed: Vec<u32> = (0..40).filter(|file| pending.are_in(*file)).collect();
        assert_eq!(needed, (10..30).collect::<Vec<_>>(), "the last 20 attempts");
        pending.forget_file(20);
        assert!(!pending.are_in(20));
        assert_eq!(pending.leave(1, Millis(9)).len(), ATTEMPTS_MAX);
        assert!((0..40).all(|file| !pending.are_in(file)));
    }

    #[test]
    fn a_job_keeps_its_last_attempts() {
        let mut pending = Pending::default();
        for at in 0..50 {
            pending.begin(1, Millis(at), attempt(at));
            pending.end(1, Millis(at), AttemptEnd::Buried, Box::default());
        }
        let attempts = pending.leave(1, Millis(100));
        assert_eq!((attempts.len(), attempts[0].taken_at), (ATTEMPTS_MAX, 30));
        assert_eq!(pending.bytes(), 0);
    }

    #[test]
    fn the_memory_of_attempts_is_bounded() {
        let mut pending = Pending::default();
        for job in 0..200_000 {
            pending.begin(job, Millis(1), attempt(1));
        }
        assert!(pending.bytes() <= BYTES_MAX as u64);
        assert!(pending.leave(0, Millis(2)).is_empty(), "the oldest job is forgotten first");
        assert_eq!(pending.leave(199_999, Millis(2)).len(), 1);
    }
}
