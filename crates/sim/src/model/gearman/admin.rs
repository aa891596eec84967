//! Gearman's text commands (spec gearman 5).

use super::super::outcome::News;
use super::super::session::{Expected, Observed};
use super::super::submit::band;
use super::super::{Job, JobKind, Model, Name, Need, Place, State, Tags};
use super::wire::integer;
use super::{handle, named, text};

/// The part of a word before its first NUL, because Gearman's strings end there.
fn visible(word: &str) -> &str {
    word.split('\0').next().unwrap_or_default()
}

const OK: &str = "OK\r\n";
const WORDS_MAX: usize = 5;

fn line(words: &str, need: Need) -> Expected {
    Expected::bytes(words.as_bytes().to_vec(), need)
}

impl Model {
    pub(super) fn execute_line(
        &mut self,
        place: Place,
        bytes: &[u8],
        observed: &mut Observed<'_>,
    ) -> Result<(), String> {
        let words = text(bytes);
        let mut words = words.split(' ');
        let first = visible(words.next().unwrap_or_default());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).map(visible).collect();
        if words.len() >= WORDS_MAX {
            self.close_conn(place);
            return Ok(());
        }
        let full = line("ERR QUEUE_ERROR The+log+has+no+room\r\n", 0);
        let answer = match (first.to_ascii_lowercase().as_str(), &words[..]) {
            ("version", _) => line("OK sim\n", 0),
            ("getpid", _) => line("OK 1\n", 0),
            ("verbose", _) => line("OK ERROR\n", 0),
            ("status", _) => self.status(),
            ("prioritystatus", _) => self.priority_status(),
            ("show", ["jobs"]) => self.show_jobs(),
            ("show", ["unique", "jobs"]) => self.show_unique_jobs(),
            ("show", [_, ..]) => line("ERR UNKNOWN_SHOW_ARGUMENTS\r\n", 0),
            ("maxqueue", [_, ..]) | ("create", ["function", _])
                if self.is_refused(&full, observed)? =>
            {
                return Ok(());
            }
            ("maxqueue", [function, limits @ ..]) => {
                let limits: Vec<u32> = limits
                    .iter()
                    .map(|text| u32::try_from(integer(text.as_bytes()).max(0)).unwrap_or(u32::MAX))
                    .collect();
                let limits = match limits[..] {
                    [] => [0; 3],
                    [all] => [all; 3],
                    [high, normal] => [high, normal, 0],
                    [high, normal, low, ..] => [high, normal, low],
                };
                line(OK, self.limit_queue(function, limits))
            }
            ("create", ["function", name]) => line(OK, self.create_kept_queue(name)),
            ("drop", ["function", name]) => self.drop_function(name),
            ("maxqueue" | "create" | "drop", _) => line(
                &format!(
                    "ERR INVALID_ARGUMENTS \
                     An+incomplete+set+of+arguments+was+sent+to+this+command+{first}\r\n"
                ),
                0,
            ),
            ("cancel", ["job", handle]) => self.cancel(handle),
            ("cancel", [_, _, ..]) => line("ERR UNKNOWN_ERROR\r\n", 0),
            _ => {
                let first = bytes.split(|byte| matches!(byte, b' ' | 0)).next().unwrap_or_default();
                let words = [b"ERR UNKNOWN_COMMAND Unknown+server+command", first, b"\r\n"];
                Expected::bytes(words.concat(), 0)
            }
        };
        observed.take(&answer)
    }

    /// Cancels the job, even if a worker holds it.
    fn cancel(&mut self, handle: &str) -> Expected {
        match named(handle.as_bytes()) {
            Some(id) if self.jobs.contains_key(&id) => line(OK, self.end_job(id, &News::Fail)),
            Some(id) => line("ERR UNKNOWN_JOB\r\n", self.denial(id)),
            None => line("ERR UNKNOWN_JOB\r\n", 0),
        }
    }

    /// Ends the queued jobs of the function. Their clients get the news that the jobs failed.
    fn drop_function(&mut self, name: &str) -> Expected {
        let name = &*self.real_name(name);
        let functions = self.functions();
        let same = functions.iter().find(|function| &***function == name);
        let alike = || functions.iter().find(|function| function.eq_ignore_ascii_case(name));
        let Some(name) = same.or_else(alike) else {
            return line("ERR function not found\r\n", 0);
        };
        let [_, leased] = self.unfinished_in(name);
        if self.workers_of(name) > 0 || leased > 0 {
            let words = "ERR there are still connected workers or executing clients\r\n";
            return line(words, 0);
        }
        let name = name.clone();
        line(OK, self.remove_queue(&name))
    }

    /// The queues that Gearman's commands list, oldest first.
    fn functions(&self) -> Vec<Name> {
        let is_known = |name: &Name| {
            let workers = self.workers_of(name) > 0;
            if &**name == "default" {
                workers || self.unfinished_in(name)[0] > 0
            } else {
                workers || self.queues[name].facts.kept
            }
        };
        self.queues_by_age().into_iter().filter(is_known).collect()
    }

    fn status(&self) -> Expected {
        self.list(|name| {
            let [unfinished, running] = self.unfinished_in(name);
            let workers = self.workers_of(name);
            format!("{}\t{unfinished}\t{running}\t{workers}\n", visible(name))
        })
    }

    fn priority_status(&self) -> Expected {
        self.list(|name| {
            let mut bands = [0; 3];
            for job in self.jobs.values().filter(|job| job.queue == *name) {
                if matches!(job.state, State::Ready | State::Delayed { .. }) {
                    bands[band(job.pri)] += 1;
                }
            }
            let [high, normal, low] = bands;
            let workers = self.workers_of(name);
            format!("{}\t{high}\t{normal}\t{low}\t{workers}\n", visible(name))
        })
    }

    fn list(&self, row: impl Fn(&Name) -> String) -> Expected {
        let mut text: String = self.functions().iter().map(row).collect();
        text.push_str(".\n");
        line(&text, 0)
    }

    /// Lists all submitted jobs, in any order. Cold jobs are missing.
    fn show_jobs(&self) -> Expected {
        self.list_submitted(|id, job, _| {
            let durable = u32::from(job.kind == JobKind::Logged);
            format!("{}\t{}\t0\t{durable}", text(&handle(id)), job.counts.failures)
        })
    }

    fn show_unique_jobs(&self) -> Expected {
        self.list_submitted(|_, _, tags| text(&tags.unique))
    }

    fn list_submitted(&self, row: impl Fn(u64, &Job, &Tags) -> String) -> Expected {
        let submitted = self.jobs.iter().filter_map(|(id, job)| {
            let tags = job.tags.as_ref()?;
            Some((row(*id, job, tags), self.setting.cools && job.can_be_cold()))
        });
        Expected::in_any_order(submitted.collect())
    }
}
