//! Prints the results of `put --wait`, in the order of the jobs.
//!
//! Many jobs run at the same time, and news of them arrives in any order. News of the first
//! unfinished job is printed at once. News of a later job is stored until all jobs before it have
//! ended.

use std::collections::VecDeque;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::server::refusal;
use super::tally::Refusal;
use super::{Pending, Shared};
use crate::client::ClientError;
use crate::client::gearman::{Handle, News, Packet, Replies};

/// Limit of unfinished jobs. Their news stays in memory until it can be printed.
pub(super) const WAITING_MAX: usize = 100;

/// If a job has no news for this long, a person wants to know what `put` waits for.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// Creates a bar for the progress of the first job. It becomes visible when the job's worker
/// reports progress.
pub(super) fn hidden_bar() -> ProgressBar {
    let template = "{msg}{wide_bar} {pos}/{len}, {eta} left";
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.with_style(ProgressStyle::with_template(template).expect("the template is constant"))
}

/// Receives and prints results until the sending thread is done and all its jobs have ended. Fails
/// if the connection breaks, or the reader of the results has closed the output.
pub(super) fn collect(
    mut replies: Replies,
    pending: &mpsc::Receiver<Pending>,
    shared: &Shared,
    with_bar: bool,
) -> Result<()> {
    let output = BufWriter::new(io::stdout().lock());
    let mut printer = Printer { output, shared, with_bar };
    let mut jobs = Jobs::default();
    let (mut hint, mut has_news) = (None, false);
    // Each step takes the next job from the channel, so that the sending thread can send another
    // job. Then the step prints the news of the taken job until this job has ended. The taken job
    // is the first job in `jobs`, because the channel and `jobs` have the same order.
    for next in pending {
        let number = match next {
            Pending::TooBig { number, bytes } => {
                shared.tally().refuse(number, Refusal::TooBig { bytes: Some(bytes) });
                continue;
            }
            Pending::Sent(number) => number,
        };
        if with_bar && !has_news {
            hint.get_or_insert_with(|| hint_if_silent(shared.tally().queue().to_owned()));
        }
        loop {
            let Some(update) = jobs.next_update() else {
                let packet = replies.next_reply().with_context(|| {
                    let unit = shared.tally().noun();
                    format!("no result of {unit} {number} and of later ones")
                })?;
                if !matches!(packet, Packet::Created(_) | Packet::OptionSet) {
                    (hint, has_news) = (None, true);
                }
                jobs.note(packet)?;
                continue;
            };
            let printed = printer.print(number, update).with_context(|| {
                let unit = shared.tally().noun();
                format!(
                    "cannot print the result of {unit} {number}; put stops waiting for it and for later \
                     ones"
                )
            });
            if printed? {
                break;
            }
        }
        jobs.first_has_ended();
    }
    Ok(())
}

/// Says what `put` waits for, unless the returned value is dropped soon.
fn hint_if_silent(queue: String) -> mpsc::Sender<()> {
    let (keep, dropped) = mpsc::channel();
    thread::spawn(move || {
        if dropped.recv_timeout(SILENT_MAX) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "lineshaft: no result yet; if no worker of {queue} runs, start one, for example: lineshaft \
                 work {queue} --protocol gearman -- cat"
            );
        }
    });
    keep
}

/// Submitted jobs, with the news that is not printed yet.
#[derive(Debug, Default)]
struct Jobs {
    /// The jobs in the order of the input.
    jobs: VecDeque<Job>,
}

#[derive(Debug)]
struct Job {
    /// `None` if the server refused the job.
    handle: Option<Handle>,
    /// Number of pieces of news for this job. If this submit joined an earlier submit with the same
    /// key, the number includes the news that the earlier submit got before.
    news_count: u64,
    has_ended: bool,
    /// News that is not printed yet.
    updates: VecDeque<JobUpdate>,
}

#[derive(Debug, PartialEq, Eq)]
enum JobUpdate {
    News(News),
    Refused(Refusal),
}

impl Jobs {
    /// Handles a packet from the server.
    fn note(&mut self, packet: Packet) -> Result<(), ClientError> {
        match packet {
            Packet::Created(handle) => self.push(Some(handle), VecDeque::new()),
            Packet::News(handle, news) => self.add_news(&handle, news),
            Packet::OptionSet => {}
            packet => {
                let update = JobUpdate::Refused(refusal(&packet)?);
                self.push(None, VecDeque::from([update]));
            }
        }
        Ok(())
    }

    fn push(&mut self, handle: Option<Handle>, updates: VecDeque<JobUpdate>) {
        // A submit that joins an unfinished job gets only later news of the job. So begin at the
        // count of the earlier submit.
        let same = self.jobs.iter().filter(|job| !job.has_ended && job.handle == handle);
        let news_count = same.map(|job| job.news_count).max().unwrap_or(0);
        self.jobs.push_back(Job { handle, news_count, has_ended: false, updates });
    }

    /// Adds a piece of news to the right submit. Several submits with the same key can be one job
    /// of the server. Then the server sends each piece of news once for each submit, before it
    /// sends the next piece. So this piece is for the submit that has got the fewest pieces.
    fn add_news(&mut self, handle: &Handle, news: News) {
        let called = |job: &&mut Job| !job.has_ended && job.handle.as_ref() == Some(handle);
        if let Some(job) = self.jobs.iter_mut().filter(called).min_by_key(|job| job.news_count) {
            job.news_count += 1;
            job.has_ended = news.is_end();
            job.updates.push_back(JobUpdate::News(news));
        }
    }

    /// Returns the next unprinted news of the first job.
    fn next_update(&mut self) -> Option<JobUpdate> {
        self.jobs.front_mut()?.updates.pop_front()
    }

    /// Removes the first job, so that the next job is the first.
    fn first_has_ended(&mut self) {
        self.jobs.pop_front();
    }
}

struct Printer<'a> {
    output: BufWriter<StdoutLock<'a>>,
    shared: &'a Shared,
    with_bar: bool,
}

impl Printer<'_> {
    /// Prints news of a job. Returns true if the job ends with this news.
    fn print(&mut self, number: u64, update: JobUpdate) -> io::Result<bool> {
        let is_end = match &update {
            JobUpdate::News(news) => news.is_end(),
            JobUpdate::Refused(_) => true,
        };
        match update {
            JobUpdate::News(News::Data(data)) => self.write(&data)?,
            JobUpdate::News(News::Complete(data)) => {
                self.write(&data)?;
                self.shared.tally().accept(None);
            }
            JobUpdate::News(News::Warning(text)) => self.warn(number, &text),
            JobUpdate::News(News::Progress(done, of)) => self.show_progress(number, done, of),
            JobUpdate::News(News::Fail) => self.shared.tally().refuse(number, Refusal::Failed),
            JobUpdate::News(News::Exception(text)) => {
                self.warn(number, &text);
                self.shared.tally().refuse(number, Refusal::Failed);
            }
            JobUpdate::Refused(refusal) => {
                if refusal.concerns_later_jobs() {
                    self.shared.stop.store(true, Ordering::Relaxed);
                }
                self.shared.tally().refuse(number, refusal);
            }
        }
        if is_end && self.with_bar {
            self.shared.bar.finish_and_clear();
            self.shared.bar.reset();
        }
        Ok(is_end)
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let output = &mut self.output;
        let mut write = || {
            output.write_all(data)?;
            output.flush()
        };
        // `suspend` keeps the bar locked, and the handler of Ctrl-C waits for the bar. So do not
        // use it without need: the reader of the output may be slow.
        if self.shared.bar.is_hidden() { write() } else { self.shared.bar.suspend(write) }
    }

    /// Writes a warning to standard error, as whole lines. The warning names the job if there are
    /// several jobs.
    fn warn(&self, number: u64, text: &[u8]) {
        let name = self.name(number);
        let end = if text.ends_with(b"\n") { &b""[..] } else { b"\n" };
        let line = [name.as_bytes(), text, end].concat();
        // The warning is lost if standard error is closed. That does no harm.
        self.shared.bar.suspend(|| drop(io::stderr().write_all(&line)));
    }

    fn show_progress(&self, number: u64, done: u64, of: u64) {
        if self.with_bar && of > 0 {
            let bar = &self.shared.bar;
            bar.set_message(self.name(number));
            bar.set_length(of);
            bar.set_position(done.min(of));
            if bar.is_hidden() {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
    }

    fn name(&self, number: u64) -> String {
        match self.shared.tally().noun() {
            "input" => String::new(),
            noun => format!("{noun} {number}: "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(text: &str) -> Handle {
        Handle::from(text.as_bytes())
    }

    fn complete(text: &str) -> News {
        News::Complete(text.as_bytes().to_vec())
    }

    #[test]
    fn news_wait_for_their_turn() {
        let mut jobs = Jobs::default();
        let full = Packet::Error { code: "QUEUE_ERROR".into(), text: "Job queue is full".into() };
        for packet in [
            Packet::Created(handle("H:a:1")),
            full,
            Packet::Created(handle("H:a:2")),
            Packet::News(handle("H:a:2"), complete("two")),
            Packet::News(handle("H:a:9"), complete("unknown")),
        ] {
            jobs.note(packet).unwrap();
        }
        assert_eq!(jobs.next_update(), None, "the first one's worker is silent");
        jobs.note(Packet::News(handle("H:a:1"), complete("one"))).unwrap();
        assert_eq!(jobs.next_update(), Some(JobUpdate::News(complete("one"))));
        jobs.first_has_ended();
        assert_eq!(jobs.next_update(), Some(JobUpdate::Refused(Refusal::QueueFull)));
        jobs.first_has_ended();
        assert_eq!(jobs.next_update(), Some(JobUpdate::News(complete("two"))));
    }

    #[test]
    fn jobs_that_were_joined_hear_the_same() {
        let mut jobs = Jobs::default();
        let data = || Packet::News(handle("H:a:1"), News::Data(b"part".into()));
        jobs.note(Packet::Created(handle("H:a:1"))).unwrap();
        jobs.note(data()).unwrap();
        jobs.note(Packet::Created(handle("H:a:1"))).unwrap();
        for packet in [data(), data()] {
            jobs.note(packet).unwrap();
        }
        for _ in 0..2 {
            jobs.note(Packet::News(handle("H:a:1"), complete("end"))).unwrap();
        }
        for parts in [2, 1] {
            for _ in 0..parts {
                assert_eq!(jobs.next_update(), Some(JobUpdate::News(News::Data(b"part".into()))));
            }
            assert_eq!(jobs.next_update(), Some(JobUpdate::News(complete("end"))));
            jobs.first_has_ended();
        }
        assert_eq!(jobs.next_update(), None);
    }

    #[test]
    fn a_client_that_joins_late_gets_only_later_news() {
        let mut jobs = Jobs::default();
        let news = |text: &str| News::Data(text.as_bytes().to_vec());
        jobs.note(Packet::Created(handle("H:a:1"))).unwrap();
        for text in ["1", "2"] {
            jobs.note(Packet::News(handle("H:a:1"), news(text))).unwrap();
        }
        jobs.note(Packet::Created(handle("H:a:1"))).unwrap();
        let both = [news("3"), news("4"), complete("end")];
        for news in &both {
            for _copy in 0..2 {
                jobs.note(Packet::News(handle("H:a:1"), news.clone())).unwrap();
            }
        }
        let first = [news("1"), news("2")].into_iter().chain(both.clone());
        for expected in first {
            assert_eq!(jobs.next_update(), Some(JobUpdate::News(expected)));
        }
        jobs.first_has_ended();
        for expected in both {
            assert_eq!(jobs.next_update(), Some(JobUpdate::News(expected)));
        }
        assert_eq!(jobs.next_update(), None);
    }

    #[test]
    fn an_answer_without_a_submit_is_an_error() {
        let mut jobs = Jobs::default();
        let large =
            Packet::Error { code: "ARGUMENT_TOO_LARGE".into(), text: "Unique value".into() };
        assert!(jobs.note(large).is_err());
        assert!(jobs.note(Packet::NoJob).is_err());
    }
}
