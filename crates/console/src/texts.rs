//! All texts of the pages. Each language has a value for each field, so that the compiler finds a
//! missing translation. Errors of the API, and what clients and the configuration wrote, are not
//! translated.

mod en;
mod zh;

use api::types::{DeathCause, HealthReason, JobState, OperationStatus, Outcome, Queue, Why};

/// A text with one part that is filled in.
pub(crate) type With = fn(&str) -> String;
/// A text with two parts that are filled in.
pub(crate) type WithTwo = fn(&str, &str) -> String;

/// The texts in one language.
pub(crate) struct Texts {
    /// The language of the pages, as HTML writes it.
    pub(crate) tag: &'static str,
    pub(crate) frame: Frame,
    pub(crate) words: Words,
    pub(crate) overview: Overview,
    pub(crate) queues: Queues,
    pub(crate) queue: QueuePage,
    pub(crate) job: JobPage,
    pub(crate) history: HistoryPage,
    pub(crate) actions: Actions,
    pub(crate) connections: Connections,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
    pub(crate) changes: Changes,
    pub(crate) log: LogPage,
    pub(crate) cluster: ClusterPage,
    pub(crate) policies: Policies,
    pub(crate) help: Help,
    pub(crate) login: Login,
}

/// The languages.
pub(crate) static ALL: [&Texts; 2] = [&en::TEXTS, &zh::TEXTS];

/// What all pages have.
pub(crate) struct Frame {
    pub(crate) as_command: &'static str,
    pub(crate) as_http: &'static str,
    pub(crate) overview: &'static str,
    pub(crate) queues: &'static str,
    pub(crate) connections: &'static str,
    pub(crate) operations: &'static str,
    pub(crate) log: &'static str,
    pub(crate) cluster: &'static str,
    pub(crate) policies: &'static str,
    pub(crate) help: &'static str,
    pub(crate) skip: &'static str,
    pub(crate) find_queue: &'static str,
    pub(crate) main: &'static str,
    pub(crate) sign_in: &'static str,
    pub(crate) sign_out: &'static str,
    /// The name of the server's machine is filled in.
    pub(crate) on: With,
    pub(crate) live: &'static str,
    pub(crate) lost: &'static str,
    /// The time of the last answer follows.
    pub(crate) stale: &'static str,
    pub(crate) gone: &'static str,
    pub(crate) language: &'static str,
    pub(crate) colors: &'static str,
    pub(crate) auto: &'static str,
    pub(crate) light: &'static str,
    pub(crate) dark: &'static str,
    pub(crate) to_overview: &'static str,
    pub(crate) first_page: &'static str,
    pub(crate) next_page: &'static str,
    pub(crate) pages: &'static str,
    pub(crate) search: &'static str,
    pub(crate) all: &'static str,
    /// A level of health: ok, warning, critical.
    pub(crate) levels: [&'static str; 3],
    /// A reason for the level. The English text can have details.
    pub(crate) reason: fn(&HealthReason) -> String,
    /// A problem of this kind and title.
    pub(crate) problem: fn(&str, &str) -> String,
    pub(crate) long_name: &'static str,
}

/// Words that many pages use.
pub(crate) struct Words {
    pub(crate) ready: &'static str,
    pub(crate) leased: &'static str,
    pub(crate) delayed: &'static str,
    pub(crate) buried: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) job: &'static str,
    pub(crate) jobs: &'static str,
    pub(crate) age: &'static str,
    pub(crate) priority: &'static str,
    pub(crate) client: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) holds: &'static str,
    pub(crate) waits: &'static str,
    pub(crate) silent_for: &'static str,
    pub(crate) held_for: &'static str,
    pub(crate) time_left: &'static str,
    pub(crate) received: &'static str,
    pub(crate) sent: &'static str,
    pub(crate) memory: &'static str,
    pub(crate) yes: &'static str,
    pub(crate) no: &'static str,
    pub(crate) no_limit: &'static str,
    pub(crate) no_queue: &'static str,
    pub(crate) no_jobs: &'static str,
    pub(crate) default: &'static str,
    pub(crate) line: With,
    pub(crate) puts: &'static str,
    pub(crate) takes: &'static str,
    pub(crate) ends: &'static str,
    pub(crate) given_back: &'static str,
    pub(crate) times_buried: &'static str,
    pub(crate) timeouts: &'static str,
    pub(crate) paused: With,
    pub(crate) more: With,
}

impl Words {
    pub(crate) fn state(&self, state: JobState) -> &'static str {
        match state {
            JobState::Ready => self.ready,
            JobState::Leased => self.leased,
            JobState::Delayed => self.delayed,
            JobState::Buried => self.buried,
        }
    }
}

pub(crate) struct Overview {
    pub(crate) ready: &'static str,
    pub(crate) leased: &'static str,
    pub(crate) delayed: &'static str,
    pub(crate) buried: &'static str,
    pub(crate) waiting: (&'static str, &'static str),
    pub(crate) queues: &'static str,
    pub(crate) connections: &'static str,
    pub(crate) up: (&'static str, &'static str),
    pub(crate) history: &'static str,
    pub(crate) length: &'static str,
    /// The names of the hour, the day and the month, and of the beginning and middle of a chart.
    pub(crate) spans: [(&'static str, (&'static str, &'static str)); 3],
    pub(crate) now: &'static str,
    pub(crate) no_values: &'static str,
    pub(crate) at_most: With,
    pub(crate) jobs_chart: (&'static str, &'static str),
    pub(crate) work_chart: (&'static str, &'static str),
    pub(crate) put: &'static str,
    pub(crate) handed_out: &'static str,
    pub(crate) ended: &'static str,
    pub(crate) age_chart: (&'static str, &'static str),
    pub(crate) oldest_line: &'static str,
    pub(crate) sync_chart: (&'static str, &'static str),
    pub(crate) sync_line: &'static str,
    pub(crate) longest: (&'static str, &'static str),
    pub(crate) oldest: (&'static str, &'static str),
    pub(crate) growing: (&'static str, &'static str),
    pub(crate) growth: &'static str,
    pub(crate) no_growing: &'static str,
    pub(crate) since_start: &'static str,
    pub(crate) of_jobs: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) puts_refused: &'static str,
    pub(crate) process: &'static str,
    pub(crate) in_use: &'static str,
    pub(crate) server: &'static str,
    pub(crate) version: &'static str,
    pub(crate) started: &'static str,
}

pub(crate) struct Queues {
    pub(crate) part_of_name: &'static str,
    pub(crate) which: &'static str,
    pub(crate) with_jobs: &'static str,
    pub(crate) paused: &'static str,
    pub(crate) unwatched: &'static str,
    pub(crate) count: WithTwo,
    pub(crate) no_match: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) puts: &'static str,
    pub(crate) finishes: &'static str,
    pub(crate) growth: &'static str,
    pub(crate) waiting: &'static str,
    pub(crate) fan_out: &'static str,
}

pub(crate) struct QueuePage {
    pub(crate) removing: &'static str,
    pub(crate) why: fn(&Why, &Queue) -> String,
    pub(crate) puts_refused: &'static str,
    pub(crate) head_age: &'static str,
    pub(crate) put: &'static str,
    pub(crate) finished: &'static str,
    pub(crate) ready_bytes: &'static str,
    pub(crate) bands: &'static str,
    pub(crate) dead: &'static str,
    pub(crate) cold: (&'static str, &'static str),
    pub(crate) clients: &'static str,
    pub(crate) waiters: &'static str,
    pub(crate) watchers: &'static str,
    pub(crate) workers: &'static str,
    pub(crate) users: &'static str,
    pub(crate) items: [&'static str; 6],
    pub(crate) policy: &'static str,
    pub(crate) defaults: &'static str,
    pub(crate) default_settings: With,
    pub(crate) consumers: &'static str,
    pub(crate) there_are_more: &'static str,
    pub(crate) by_state: &'static str,
    pub(crate) none_of: With,
    pub(crate) caption: With,
    pub(crate) taken: &'static str,
    pub(crate) due_in: &'static str,
    pub(crate) size: &'static str,
    pub(crate) body: &'static str,
    pub(crate) unreadable: With,
    pub(crate) see_log: &'static str,
}

pub(crate) struct JobPage {
    pub(crate) title: With,
    pub(crate) state: &'static str,
    pub(crate) put: &'static str,
    pub(crate) due: &'static str,
    pub(crate) ready_in: &'static str,
    pub(crate) held_by: &'static str,
    pub(crate) a_client: &'static str,
    pub(crate) held_for: With,
    pub(crate) expires: &'static str,
    pub(crate) ttr: &'static str,
    pub(crate) key: &'static str,
    pub(crate) in_log: &'static str,
    pub(crate) so_far: &'static str,
    pub(crate) taken: &'static str,
    pub(crate) kicked: &'static str,
    pub(crate) lost: &'static str,
    pub(crate) attempts: &'static str,
    pub(crate) dead: &'static str,
    pub(crate) died: &'static str,
    pub(crate) removed: &'static str,
    pub(crate) cause: &'static str,
    pub(crate) causes: [&'static str; 8],
    pub(crate) origin: &'static str,
    pub(crate) last_worker: &'static str,
    pub(crate) error: &'static str,
    pub(crate) why: &'static str,
    pub(crate) why_delayed: &'static str,
    pub(crate) why_buried: &'static str,
    pub(crate) why_leased: &'static str,
    pub(crate) no_times: &'static str,
    pub(crate) too_long: &'static str,
    pub(crate) hidden: &'static str,
    pub(crate) save: &'static str,
    pub(crate) shown_as: With,
    pub(crate) as_text: &'static str,
    pub(crate) as_bytes: &'static str,
    pub(crate) only_first: With,
}

impl JobPage {
    /// Why a job is a dead letter.
    pub(crate) fn death(&self, cause: DeathCause) -> &'static str {
        let index = match cause {
            DeathCause::TimedOut => 0,
            DeathCause::Aborted => 1,
            DeathCause::WorkerLeft => 2,
            DeathCause::Released => 3,
            DeathCause::Reported => 4,
            DeathCause::Expired => 5,
            DeathCause::Dropped => 6,
            DeathCause::Operator => 7,
        };
        self.causes[index]
    }
}

/// The pages of jobs that have left their queue.
pub(crate) struct HistoryPage {
    pub(crate) title: &'static str,
    pub(crate) total: With,
    pub(crate) lost: With,
    pub(crate) times: &'static str,
    pub(crate) mean: &'static str,
    pub(crate) by_outcome: &'static str,
    /// In the order of the API.
    pub(crate) outcomes: [&'static str; 10],
    pub(crate) search: &'static str,
    pub(crate) empty: &'static str,
    pub(crate) unreadable: With,
    pub(crate) caption: &'static str,
    pub(crate) how: &'static str,
    pub(crate) left: &'static str,
    pub(crate) waited: &'static str,
    pub(crate) ran: &'static str,
    pub(crate) total_time: &'static str,
    pub(crate) worker: &'static str,
    pub(crate) unknown_worker: &'static str,
    pub(crate) hidden_error: &'static str,
    pub(crate) run_again: &'static str,
    pub(crate) life: &'static str,
    /// The worker, how long the job waited, and how long the worker had it.
    pub(crate) attempt: fn(&str, &str, &str) -> String,
    pub(crate) unknown: With,
    pub(crate) kept: With,
}

impl HistoryPage {
    pub(crate) fn outcome(&self, outcome: Outcome) -> &'static str {
        let place = match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::Dead => 2,
            Outcome::Deleted => 3,
            Outcome::Expired => 4,
            Outcome::Dropped => 5,
            Outcome::Flushed => 6,
            Outcome::Abandoned => 7,
            Outcome::Replaced => 8,
            Outcome::Moved => 9,
        };
        self.outcomes[place]
    }
}

pub(crate) struct Actions {
    pub(crate) title: &'static str,
    pub(crate) paused: &'static str,
    pub(crate) resumed: &'static str,
    pub(crate) kicked: &'static str,
    pub(crate) ended: &'static str,
    pub(crate) moved: &'static str,
    pub(crate) set_aside_done: &'static str,
    pub(crate) cancelled: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) seconds: (&'static str, &'static str),
    pub(crate) which_jobs: &'static str,
    pub(crate) all_states: &'static str,
    pub(crate) name: &'static str,
    pub(crate) name_to_confirm: &'static str,
    pub(crate) resume: &'static str,
    pub(crate) pause: &'static str,
    pub(crate) kick_all: &'static str,
    pub(crate) redrive: &'static str,
    pub(crate) redrive_one: &'static str,
    pub(crate) set_aside: &'static str,
    pub(crate) rate: (&'static str, &'static str),
    pub(crate) any_cause: &'static str,
    pub(crate) which_cause: &'static str,
    pub(crate) key: &'static str,
    pub(crate) text_in_error: &'static str,
    pub(crate) older: (&'static str, &'static str),
    pub(crate) dry_run: &'static str,
    pub(crate) clear: &'static str,
    pub(crate) force: &'static str,
    pub(crate) kick: &'static str,
    pub(crate) delete: &'static str,
    pub(crate) cancel: &'static str,
    pub(crate) move_jobs: &'static str,
    pub(crate) move_to: &'static str,
    pub(crate) other_queue: &'static str,
    pub(crate) search: &'static str,
    pub(crate) text_in_bodies: &'static str,
    pub(crate) all_jobs: &'static str,
    pub(crate) found: fn(&str, &str, &str) -> String,
    pub(crate) goes_on: &'static str,
    pub(crate) unsearched: With,
    pub(crate) choose: &'static str,
    pub(crate) ticked: &'static str,
}

pub(crate) struct Connections {
    pub(crate) address_begins: &'static str,
    pub(crate) which: &'static str,
    pub(crate) open: With,
    pub(crate) no_match: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) queues: &'static str,
    pub(crate) for_job: &'static str,
    pub(crate) for_work: &'static str,
    pub(crate) for_request: &'static str,
    pub(crate) left: With,
    pub(crate) title: &'static str,
    pub(crate) number: &'static str,
    pub(crate) opened: &'static str,
    pub(crate) unsent: &'static str,
    pub(crate) work: &'static str,
    pub(crate) puts_into: &'static str,
    pub(crate) watches: &'static str,
    pub(crate) registered: &'static str,
    pub(crate) takes_from: &'static str,
    pub(crate) held: (&'static str, &'static str),
    pub(crate) no_consumers: &'static str,
    pub(crate) close: &'static str,
    pub(crate) closed: &'static str,
}

pub(crate) struct Operations {
    pub(crate) empty: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) progress: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) started: &'static str,
    pub(crate) by: &'static str,
    pub(crate) state: &'static str,
    pub(crate) kick: &'static str,
    pub(crate) redrive: &'static str,
    pub(crate) clear: &'static str,
    pub(crate) move_jobs: &'static str,
    pub(crate) remove: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) skipped: With,
    pub(crate) of: WithTwo,
    pub(crate) running: &'static str,
    pub(crate) done: &'static str,
    pub(crate) cancelled: &'static str,
    pub(crate) failed: &'static str,
}

impl Operations {
    pub(crate) fn status(&self, status: OperationStatus) -> &'static str {
        match status {
            OperationStatus::Running => self.running,
            OperationStatus::Done => self.done,
            OperationStatus::Cancelled => self.cancelled,
            OperationStatus::Failed => self.failed,
        }
    }
}

pub(crate) struct Sessions {
    pub(crate) title: &'static str,
    pub(crate) empty: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) name: &'static str,
    pub(crate) role: &'static str,
    pub(crate) from: &'static str,
    pub(crate) began: &'static str,
    pub(crate) ends: &'static str,
    pub(crate) own: &'static str,
    pub(crate) end: &'static str,
    pub(crate) ended: &'static str,
    /// A command follows.
    pub(crate) remark: &'static str,
}

pub(crate) struct Changes {
    pub(crate) title: &'static str,
    pub(crate) empty: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) at: &'static str,
    pub(crate) who: &'static str,
    pub(crate) change: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) status: &'static str,
}

pub(crate) struct LogPage {
    pub(crate) in_memory: &'static str,
    pub(crate) errors: [&'static str; 4],
    pub(crate) on_disk: &'static str,
    pub(crate) bytes_needed: &'static str,
    pub(crate) files: &'static str,
    pub(crate) needed: &'static str,
    pub(crate) kept: &'static str,
    pub(crate) segments: &'static str,
    pub(crate) from_to: WithTwo,
    pub(crate) room: &'static str,
    pub(crate) written: &'static str,
    pub(crate) entries: &'static str,
    pub(crate) copies: &'static str,
    pub(crate) bytes: &'static str,
    pub(crate) bytes_of_clients: &'static str,
    pub(crate) only_in_log: &'static str,
    pub(crate) bodies: &'static str,
    pub(crate) whole_jobs: &'static str,
    pub(crate) unreadable: &'static str,
    pub(crate) in_memory_too: &'static str,
    /// The work of the last start.
    pub(crate) recovery: (&'static str, &'static str),
    pub(crate) took: &'static str,
    pub(crate) read: &'static str,
    pub(crate) by_index: &'static str,
    pub(crate) of: WithTwo,
    pub(crate) cut: &'static str,
    pub(crate) stopped: &'static str,
    pub(crate) backup: &'static str,
    pub(crate) backup_remark: &'static str,
    pub(crate) back_up: &'static str,
    pub(crate) to_copy: &'static str,
    pub(crate) to_check: &'static str,
}

pub(crate) struct ClusterPage {
    pub(crate) alone: &'static str,
    pub(crate) lead: &'static str,
    pub(crate) name: &'static str,
    pub(crate) leader: &'static str,
    pub(crate) epoch: &'static str,
    pub(crate) group: &'static str,
    pub(crate) check: &'static str,
    pub(crate) safe: &'static str,
    pub(crate) unsafe_: &'static str,
    pub(crate) ago: With,
    pub(crate) stream: &'static str,
    pub(crate) used: &'static str,
    pub(crate) size: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) records: &'static str,
    pub(crate) from_to: WithTwo,
    pub(crate) nodes: &'static str,
    pub(crate) node: &'static str,
    pub(crate) state: &'static str,
    /// A node leads, follows, starts, is silent.
    pub(crate) states: [&'static str; 4],
    pub(crate) durable: &'static str,
    pub(crate) behind: &'static str,
    pub(crate) address: &'static str,
    pub(crate) version: &'static str,
    pub(crate) node_is_silent: WithTwo,
    pub(crate) servers: &'static str,
    pub(crate) server: &'static str,
    pub(crate) answers: &'static str,
    pub(crate) flushes: &'static str,
    pub(crate) replica: &'static str,
    pub(crate) to_check: &'static str,
    pub(crate) to_promote: &'static str,
}

pub(crate) struct Policies {
    pub(crate) name: &'static str,
    pub(crate) button: &'static str,
    pub(crate) gets: &'static str,
    pub(crate) rules: &'static str,
    pub(crate) later_wins: &'static str,
    pub(crate) empty: &'static str,
    pub(crate) file: &'static str,
    pub(crate) reload_remark: &'static str,
    pub(crate) reload: &'static str,
    pub(crate) reloaded: &'static str,
}

pub(crate) struct Help {
    pub(crate) words: &'static str,
    /// The words, and what they mean.
    pub(crate) meanings: [(&'static str, &'static str); 6],
    pub(crate) keys: &'static str,
    /// The keys, and what they do.
    pub(crate) uses: [(&'static str, &'static str); 11],
    pub(crate) use_keys: &'static str,
    pub(crate) programs: &'static str,
    /// The text before and after the address of the API.
    pub(crate) api: (&'static str, &'static str),
    pub(crate) job_number: &'static str,
    pub(crate) show_job: &'static str,
    pub(crate) problems: &'static str,
}

pub(crate) struct Login {
    pub(crate) token: &'static str,
    pub(crate) how: &'static str,
    /// Who signs in with a one-time code: the name and the role.
    pub(crate) by_code: WithTwo,
    pub(crate) without: &'static str,
    pub(crate) signed_out: &'static str,
    pub(crate) again: &'static str,
}
