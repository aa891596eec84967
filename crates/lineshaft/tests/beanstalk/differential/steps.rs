//! Random sequences of commands. A sequence depends only on its seed. A step names a job as a held
//! job or a recent job, and the test finds this job when the step runs. So a sequence without some
//! of its steps is still valid.

use std::fmt;

use testkit::rng::Rng;

/// The number of connections.
pub(crate) const CONNECTIONS: usize = 5;

/// Number of steps in one sequence.
const STEPS: u64 = 300;

/// Bodies are short. The conformance cases test long bodies.
const BODY_BYTES_MAX: u64 = 40;

/// The tubes of the sequences. One is `default`, because only that tube is never destroyed.
const TUBES: [&str; 4] = ["default", "a", "b", "c"];

/// One step of a sequence: an action on one connection.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Number of the connection.
    pub(crate) connection: usize,
    pub(crate) action: Action,
    /// If the next step is of the same connection, both steps are sent in one packet.
    pub(crate) with_next: bool,
}

impl Step {
    /// True if another step can follow in the same packet. No step can follow a pause in the same
    /// packet, because the original ends a pause a moment after its reply. No step can follow a
    /// reserve, because a reserve can wait.
    pub(crate) fn goes_with_next(&self) -> bool {
        let line = match &self.action {
            Action::Line { text, .. } => text.as_str(),
            Action::Put { .. } => "put",
            Action::Wait | Action::Reconnect => return false,
        };
        self.with_next && !line.starts_with("pause-tube")
    }
}

/// An action on a connection.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Sends a line that gets one reply. `{job}` in the line stands for the job's id.
    Line { text: String, job: JobReference },
    /// Sends a put.
    Put { pri: u32, delay_s: u32, ttr_s: u32, body: String },
    /// Reserves without a time limit.
    Wait,
    /// Closes the connection and connects again.
    Reconnect,
}

/// A job that a step looks up when it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobReference {
    /// A job that this connection holds. The number selects one of these jobs.
    Held(usize),
    /// A recent job of any client. 0 is the last job, 1 the job before it, and so on.
    Recent(usize),
    /// A job that never existed.
    Unknown,
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Line { text, .. } => formatter.write_str(text),
            Action::Put { pri, delay_s, ttr_s, body } => {
                write!(formatter, "put {pri} {delay_s} {ttr_s} {} {body}", body.len())
            }
            Action::Wait => formatter.write_str("reserve"),
            Action::Reconnect => formatter.write_str("hang up, connect again"),
        }
    }
}

/// The sequence for a seed.
pub(crate) fn generate(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut steps = Vec::new();
    // Most connections share tubes. Otherwise they would rarely interact.
    for connection in 0..CONNECTIONS {
        let tube = *rng.pick(&TUBES[..2 + (seed % 3) as usize]);
        steps.push(line(connection, format!("use {tube}")));
        steps.push(line(connection, format!("watch {tube}")));
    }
    let mut connection = 0;
    for _ in 0..STEPS {
        if !steps.last().is_some_and(Step::goes_with_next) {
            connection = rng.below(CONNECTIONS as u64) as usize;
        }
        let with_next = rng.one_in(3);
        let action = action(&mut rng);
        steps.push(Step { connection, action, with_next });
    }
    steps
}

fn line(connection: usize, text: String) -> Step {
    let action = Action::Line { text, job: JobReference::Unknown };
    Step { connection, action, with_next: false }
}

fn action(rng: &mut Rng) -> Action {
    match rng.below(100) {
        0..25 => put(rng),
        25..40 => Action::Wait,
        40..41 => Action::Reconnect,
        41..75 => on_a_job(rng),
        75..93 => on_a_tube(rng),
        _ => wrong(rng),
    }
}

fn put(rng: &mut Rng) -> Action {
    let pri = *rng.pick(&[0, 1, 1, 5, 1023, 1024, u32::MAX]);
    // No ttr or delay ends during a sequence, because the test does not compare the servers'
    // clocks.
    let ttr_s = *rng.pick(&[100, 1_000]);
    let delay_s = *rng.pick(&[0, 0, 0, 0, 1_000, 2_000]);
    let length = rng.below(BODY_BYTES_MAX);
    let body = (0..length).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
    Action::Put { pri, delay_s, ttr_s, body }
}

fn on_a_job(rng: &mut Rng) -> Action {
    let job = match rng.below(10) {
        0..6 => JobReference::Held(rng.below(4) as usize),
        6..9 => JobReference::Recent(rng.below(12) as usize),
        _ => JobReference::Unknown,
    };
    let pri = *rng.pick(&[0, 1, 5, 1023, 1024, u32::MAX]);
    let delay_s = *rng.pick(&[0, 0, 0, 3_000]);
    let text = match rng.below(16) {
        0..3 => "delete {job}".to_owned(),
        3..6 => format!("release {{job}} {pri} {delay_s}"),
        6..9 => format!("bury {{job}} {pri}"),
        9 => "touch {job}".to_owned(),
        10..12 => "kick-job {job}".to_owned(),
        12 => "reserve-job {job}".to_owned(),
        13 => "peek {job}".to_owned(),
        _ => "stats-job {job}".to_owned(),
    };
    Action::Line { text, job }
}

fn on_a_tube(rng: &mut Rng) -> Action {
    let tube = *rng.pick(&TUBES);
    let text = match rng.below(32) {
        0..3 => format!("use {tube}"),
        3..7 => format!("watch {tube}"),
        7..9 => format!("ignore {tube}"),
        9..13 => "reserve-with-timeout 0".to_owned(),
        13..15 => "peek-ready".to_owned(),
        15 => "peek-delayed".to_owned(),
        16..18 => "peek-buried".to_owned(),
        18..21 => format!("kick {}", rng.below(4)),
        21..24 => format!("stats-tube {tube}"),
        24 => "stats".to_owned(),
        25 => "list-tubes".to_owned(),
        26 => "list-tubes-watched".to_owned(),
        27 => "list-tube-used".to_owned(),
        28 => format!("pause-tube {tube} 1000"),
        _ => format!("pause-tube {tube} 0"),
    };
    Action::Line { text, job: JobReference::Unknown }
}

/// Lines that the protocol refuses, or that only a lenient parser accepts. No line has a body,
/// waits, or contains a carriage return without a line feed, because the servers differ in these
/// cases on purpose.
fn wrong(rng: &mut Rng) -> Action {
    const LINES: [&str; 34] = [
        "",
        " ",
        "stats ",
        "statsx",
        "stats-tube nobody",
        "stats-tube -x",
        "stats-job",
        "stats-job {job} ",
        "peek",
        "peek-",
        "peek x",
        "peek-readyx",
        "delete",
        "delete -1",
        "delete 18446744073709551616",
        "delete  0",
        "release {job} 1",
        "release {job} 4294967296 0",
        "bury {job}",
        "bury {job} 1 1",
        "touch {job}x",
        "kick",
        "kick x",
        "kick 1x",
        "kick -1",
        "kick-job",
        "use",
        "use two words",
        "use -a",
        "watch a,b",
        "ignore nobody",
        "pause-tube nobody 1",
        "pause-tube a x",
        "reserve-with-timeout 0x",
    ];
    let text = (*rng.pick(&LINES)).to_owned();
    Action::Line { text, job: JobReference::Recent(rng.below(12) as usize) }
}
