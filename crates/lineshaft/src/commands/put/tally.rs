//! The outcome of a `put`: counts, ids, and the refused jobs with the reasons.

use std::fmt::Write;

use serde_json::{Value, json};

use super::server::Facts;
use crate::text;

/// Limit of ranges of job numbers in one message.
const RANGES_SHOWN: usize = 8;

/// Why the server refused a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The body is above the server's limit. `bytes` is its length, if known.
    TooBig { bytes: Option<u64> },
    /// The queue is full by its policy, or the server accepts no jobs now. The server's reply does
    /// not say which.
    Draining,
    /// The server has no room in its memory or on its disk.
    OutOfMemory,
    /// The server failed.
    InternalError,
    /// The Gearman function is full, by `maxqueue` or by its policy.
    QueueFull,
    /// The Gearman server accepts no jobs, and gives no reason.
    QueueError,
    /// The Kestrel server has not stored the item, and gives no reason.
    NotStored,
    /// The server accepted the job, but its worker reported a failure.
    Failed,
}

impl Refusal {
    /// True if the server would refuse later jobs for the same reason.
    pub(super) fn concerns_later_jobs(self) -> bool {
        match self {
            // The item may be too long for the queue.
            Refusal::TooBig { .. } | Refusal::NotStored | Refusal::Failed => false,
            Refusal::Draining
            | Refusal::OutOfMemory
            | Refusal::InternalError
            | Refusal::QueueFull
            | Refusal::QueueError => true,
        }
    }

    fn same_kind(self, other: Refusal) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// All jobs that were refused for one reason.
#[derive(Debug)]
struct Refused {
    /// The reason of the first of these jobs.
    refusal: Refusal,
    count: u64,
    /// Ranges of job numbers: the first and the last number of each.
    ranges: Vec<(u64, u64)>,
}

/// The outcome so far.
#[derive(Debug)]
pub(super) struct Tally {
    queue: String,
    /// The noun for one job: `line`, `argument` or `input`.
    noun: &'static str,
    facts: Facts,
    /// The words between the number of jobs and the queue: `put into` or `done by`.
    verb: &'static str,
    accepted: u64,
    buried: u64,
    ids: Option<(u64, u64)>,
    refused: Vec<Refused>,
    /// If `put` stopped early, the number of the last job that it sent.
    stopped_after: Option<u64>,
}

impl Tally {
    /// An empty tally.
    pub(super) fn new(queue: &str, noun: &'static str, facts: Facts) -> Tally {
        Tally {
            queue: queue.to_owned(),
            noun,
            facts,
            verb: "put into",
            accepted: 0,
            buried: 0,
            ids: None,
            refused: Vec::new(),
            stopped_after: None,
        }
    }

    /// An empty tally for `put --wait`.
    pub(super) fn of_results(queue: &str, noun: &'static str) -> Tally {
        Tally { verb: "done by", ..Tally::new(queue, noun, Facts::default()) }
    }

    /// The queue.
    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// The noun for one job.
    pub(super) fn noun(&self) -> &'static str {
        self.noun
    }

    /// Number of accepted jobs.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Adds an accepted job, or with `--wait` a job that is done. `id` is `None` for Gearman jobs.
    pub(super) fn accept(&mut self, id: Option<u64>) {
        self.accepted += 1;
        if let Some(id) = id {
            let (first, last) = self.ids.unwrap_or((id, id));
            self.ids = Some((first.min(id), last.max(id)));
        }
    }

    /// Adds a job that was accepted, but buried at once.
    pub(super) fn accept_buried(&mut self, id: u64) {
        self.buried += 1;
        self.accept(Some(id));
    }

    /// Adds a refused job. Must be called in the order of the jobs' numbers.
    pub(super) fn refuse(&mut self, number: u64, refusal: Refusal) {
        let known = self.refused.iter().position(|refused| refused.refusal.same_kind(refusal));
        let index = known.unwrap_or_else(|| {
            self.refused.push(Refused { refusal, count: 0, ranges: Vec::new() });
            self.refused.len() - 1
        });
        let refused = &mut self.refused[index];
        refused.count += 1;
        match refused.ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => refused.ranges.push((number, number)),
        }
    }

    /// Records that no job after this number was sent.
    pub(super) fn stopped_after(&mut self, number: u64) {
        self.stopped_after = Some(number);
    }

    /// True if the server accepted all jobs of the input, and buried none.
    pub(super) fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.stopped_after.is_none() && self.buried == 0
    }

    /// The summary, such as `1,234 jobs put into mail (ids 1…1234)`.
    pub(super) fn summary(&self) -> String {
        let ids = match self.ids {
            None => String::new(),
            Some((first, last)) if first == last => format!(" (id {first})"),
            Some((first, last)) if last - first + 1 == self.accepted => {
                format!(" (ids {first}…{last})")
            }
            Some((first, last)) => format!(" (ids between {first} and {last})"),
        };
        let count = text::counted(self.accepted, "job");
        format!("{count} {} {}{ids}", self.verb, self.queue)
    }

    /// The summary as JSON.
    pub(super) fn json(&self) -> Value {
        let refused: u64 = self.refused.iter().map(|refused| refused.count).sum();
        let (first, last) = self.ids.unzip();
        json!({
            "queue": self.queue,
            "put": self.accepted,
            "buried": self.buried,
            "refused": refused,
            "first_id": first,
            "last_id": last,
            "stopped_after": self.stopped_after,
        })
    }

    /// Returns one line with advice for each kind of failure.
    pub(super) fn refusals(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.refused.iter().map(|refused| self.describe(refused)).collect();
        if self.buried > 0 {
            let count = text::counted(self.buried, "job");
            lines.push(format!(
                "{count} buried at once, because the server has no memory for more ready jobs \
                 (BURIED); kick them later: lineshaft kick {} --all",
                self.queue
            ));
        }
        if let Some(after) = self.stopped_after {
            lines.push(format!("put sent nothing after {} {}", self.noun, text::count(after)));
        }
        lines
    }

    fn describe(&self, refused: &Refused) -> String {
        let which = self.which(refused);
        match refused.refusal {
            Refusal::TooBig { bytes } => {
                let size = match bytes {
                    Some(bytes) if refused.count == 1 => {
                        format!("{} bytes is more", text::count(bytes))
                    }
                    _ => "more".to_owned(),
                };
                let limit = match self.facts.body_bytes_max {
                    Some(limit) => format!(" the {} bytes", text::count(limit)),
                    None => String::new(),
                };
                format!(
                    "{which} refused: {size} than{limit} the server takes (JOB_TOO_BIG); raise its \
                     limit (--max-job-size or limits.beanstalk_job_size; beanstalkd: -z), or store \
                     the data elsewhere and put its address into the job"
                )
            }
            Refusal::Draining if self.facts.is_draining => format!(
                "{which} refused: the server is in drain mode (DRAINING); `lineshaft drain --end` or a \
                 restart ends it; or put the jobs into another server"
            ),
            Refusal::Draining => format!(
                "{which} refused: {} is full, or the server's status forbids writes, or its drain mode has \
                 just begun (DRAINING); let workers finish some jobs, raise the limits of the queue's \
                 policy, or try again later or on another server",
                self.queue
            ),
            Refusal::OutOfMemory => format!(
                "{which} refused: the server has no room for more jobs (OUT_OF_MEMORY); let workers \
                 finish some, or make room on its disk, then try again"
            ),
            Refusal::InternalError => {
                format!("{which} refused: the server failed (INTERNAL_ERROR); see its messages")
            }
            Refusal::QueueFull => format!(
                "{which} refused: {} is full (QUEUE_ERROR); let workers finish some of its jobs, or raise its \
                 limits: the server's command `maxqueue`, or its policy",
                self.queue
            ),
            Refusal::QueueError => format!(
                "{which} refused: the server takes no jobs (QUEUE_ERROR): it drains, its status forbids \
                 writes, or its disk is full; try again later"
            ),
            Refusal::NotStored => format!(
                "{which} refused (NOT_STORED): {} is full, or the item is too long for its policy, or the \
                 server drains or has no room",
                self.queue
            ),
            Refusal::Failed => format!("{which} failed: the worker reported a failure"),
        }
    }

    /// Names the refused jobs, such as `line 3`, or `lines 3, 7–9 and 120 more`.
    fn which(&self, refused: &Refused) -> String {
        if self.noun == "input" {
            return "the input".to_owned();
        }
        let plural = if refused.count == 1 { "" } else { "s" };
        let mut text = format!("{}{plural}", self.noun);
        let mut shown = 0;
        for (index, (first, last)) in refused.ranges.iter().take(RANGES_SHOWN).enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            let range = match last - first {
                0 => first.to_string(),
                _ => format!("{first}–{last}"),
            };
            write!(text, "{separator}{range}").expect("writing to a string does not fail");
            shown += last - first + 1;
        }
        if shown < refused.count {
            let more = text::count(refused.count - shown);
            write!(text, " and {more} more").expect("writing to a string does not fail");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        Tally::new("mail", "line", Facts { body_bytes_max: Some(65_535), is_draining: false })
    }

    #[test]
    fn the_summary_names_ids() {
        let mut tally = tally();
        assert_eq!(tally.summary(), "0 jobs put into mail");
        tally.accept(Some(7));
        assert_eq!(tally.summary(), "1 job put into mail (id 7)");
        tally.accept(Some(8));
        assert_eq!(tally.summary(), "2 jobs put into mail (ids 7…8)");
        tally.accept(Some(10));
        assert_eq!(tally.summary(), "3 jobs put into mail (ids between 7 and 10)");
        assert!(tally.is_complete());
        let shown = tally.json();
        assert_eq!(
            (&shown["put"], &shown["first_id"], &shown["last_id"]),
            (&3.into(), &7.into(), &10.into())
        );
    }

    #[test]
    fn refused_lines_are_named_in_ranges() {
        let mut tally = tally();
        tally.refuse(2, Refusal::TooBig { bytes: Some(70_000) });
        for number in [5, 6, 7, 9] {
            tally.refuse(number, Refusal::Draining);
        }
        tally.stopped_after(9);
        let lines = tally.refusals();
        assert!(lines[0].starts_with(
            "line 2 refused: 70,000 bytes is more than the 65,535 bytes the server takes"
        ));
        assert!(lines[0].contains("raise its limit (--max-job-size or "), "{}", lines[0]);
        assert!(lines[1].starts_with("lines 5–7, 9 refused: mail is full, or the server's status"));
        assert_eq!(lines[2], "put sent nothing after line 9");
        assert!(!tally.is_complete());
    }

    #[test]
    fn a_long_list_of_lines_is_shortened() {
        let mut tally = tally();
        for number in 1..=20 {
            tally.refuse(number * 2, Refusal::TooBig { bytes: None });
        }
        assert!(tally.refusals()[0].starts_with("lines 2, 4, 6, 8, 10, 12, 14, 16 and 12 more "));
    }
}
