//! Random sequences of packets and admin commands. A sequence depends only on its seed. A step
//! names a job as a held job or a recent job, and the test finds this job when the step runs. So a
//! sequence without some of its steps is still valid.

use std::fmt;

use testkit::rng::Rng;

use super::message::kind;

/// The number of connections.
pub(crate) const CONNECTIONS: usize = 5;

/// Number of steps in one sequence.
const STEPS: u64 = 300;

/// Functions with jobs.
const FUNCTIONS: [&str; 3] = ["f0", "f1", "f2"];

/// Functions that are created and dropped, but get no jobs, because the original loses the jobs of
/// a dropped function.
const EMPTY_FUNCTIONS: [&str; 2] = ["empty0", "empty1"];

/// One step of a sequence: an action on one connection.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Number of the connection.
    pub(crate) connection: usize,
    pub(crate) action: Action,
}

/// An action on a connection.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Sends a packet. `{job}` as an argument stands for the job's handle.
    Packet { kind: u32, arguments: Vec<String>, job: JobReference },
    /// Sends a line. `{job}` in the line stands for the job's handle.
    Line { text: String, job: JobReference },
    /// Closes the connection and connects again.
    Reconnect,
}

/// A job that a step looks up when it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobReference {
    /// A job that this connection works on. The number selects one of these jobs.
    Held(usize),
    /// A recent job of any client. 0 is the last job, 1 the job before it, and so on.
    Recent(usize),
    /// A job that never existed.
    Unknown,
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Packet { kind, arguments, .. } => {
                write!(formatter, "packet {kind} {}", arguments.join("|"))
            }
            Action::Line { text, .. } => formatter.write_str(text),
            Action::Reconnect => formatter.write_str("hang up, connect again"),
        }
    }
}

/// The sequence for a seed.
pub(crate) fn generate(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut steps = Vec::new();
    // Every connection is registered for a function. Otherwise most grabs would get no job.
    for connection in 0..CONNECTIONS {
        for _ in 0..2 {
            let action = packet(kind::CAN_DO, &[*rng.pick(&FUNCTIONS)]);
            steps.push(Step { connection, action });
        }
    }
    for _ in 0..STEPS {
        let connection = rng.below(CONNECTIONS as u64) as usize;
        steps.push(Step { connection, action: action(&mut rng) });
    }
    steps
}

fn action(rng: &mut Rng) -> Action {
    match rng.below(100) {
        0..24 => submit(rng),
        24..60 => work(rng),
        60..75 => report(rng),
        75..84 => ask(rng),
        84..97 => administer(rng),
        97..99 => Action::Reconnect,
        _ => refused(rng),
    }
}

fn packet(kind: u32, arguments: &[&str]) -> Action {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Action::Packet { kind, arguments, job: JobReference::Unknown }
}

fn submit(rng: &mut Rng) -> Action {
    const FOREGROUND: [u32; 4] =
        [kind::SUBMIT_JOB, kind::SUBMIT_JOB_HIGH, kind::SUBMIT_JOB_LOW, kind::SUBMIT_REDUCE_JOB];
    const BACKGROUND: [u32; 5] = [
        kind::SUBMIT_JOB_BG,
        kind::SUBMIT_JOB_HIGH_BG,
        kind::SUBMIT_JOB_LOW_BG,
        kind::SUBMIT_JOB_EPOCH,
        kind::SUBMIT_REDUCE_JOB_BACKGROUND,
    ];
    let function = *rng.pick(&FUNCTIONS);
    let foreground = rng.one_in(2);
    // Foreground and background jobs share no keys, because the original loses a background submit
    // that joins a foreground job. The key also contains the function. Otherwise a status request
    // by key could find several jobs, because it searches all functions.
    let class = if foreground { "fore" } else { "back" };
    let unique = match rng.below(8) {
        0..3 => String::new(),
        3 => "-".to_owned(),
        4 if rng.one_in(8) => "x".repeat(65),
        _ => format!("{function}-{class}-{}", rng.below(3)),
    };
    let workload = format!("{class} {}", rng.below(3));
    let due = *rng.pick(&["0", "-1", "1", "x", "1000000000"]);
    let reducer = *rng.pick(&["", "reducer"]);
    let kind = *rng.pick(if foreground { &FOREGROUND[..] } else { &BACKGROUND[..] });
    match kind {
        kind::SUBMIT_JOB_EPOCH => packet(kind, &[function, &unique, due, &workload]),
        // The original does not check the length of the keys of reduce jobs.
        kind::SUBMIT_REDUCE_JOB | kind::SUBMIT_REDUCE_JOB_BACKGROUND if unique.len() < 65 => {
            packet(kind, &[function, &unique, reducer, "", &workload])
        }
        kind::SUBMIT_REDUCE_JOB | kind::SUBMIT_REDUCE_JOB_BACKGROUND => {
            packet(kind, &[function, "", reducer, "", &workload])
        }
        _ => packet(kind, &[function, &unique, &workload]),
    }
}

fn work(rng: &mut Rng) -> Action {
    let function = *rng.pick(&FUNCTIONS);
    let grab = *rng.pick(&[kind::GRAB_JOB, kind::GRAB_JOB_UNIQ, kind::GRAB_JOB_ALL]);
    match rng.below(36) {
        0..6 => packet(kind::CAN_DO, &[function]),
        6..8 => packet(kind::CAN_DO, &[*rng.pick(&EMPTY_FUNCTIONS)]),
        // The valid timeouts are so long that no job reaches them.
        8 => packet(kind::CAN_DO_TIMEOUT, &[function, *rng.pick(&["600000", "0", "", "x"])]),
        9 => packet(kind::CANT_DO, &[*rng.pick(&["f0", "f1", "f2", "empty0", "nobody"])]),
        10 if rng.one_in(2) => packet(kind::RESET_ABILITIES, &[]),
        10..18 => packet(kind::PRE_SLEEP, &[]),
        _ => packet(grab, &[]),
    }
}

fn report(rng: &mut Rng) -> Action {
    let job = match rng.below(12) {
        0..10 => JobReference::Held(rng.below(4) as usize),
        10 => JobReference::Recent(rng.below(12) as usize),
        _ => JobReference::Unknown,
    };
    let (kind, further): (u32, &[&str]) = match rng.below(16) {
        0..7 => (kind::WORK_COMPLETE, &["result\0with a NUL"]),
        7..9 => (kind::WORK_FAIL, &[]),
        9 => (kind::WORK_EXCEPTION, &["exception"]),
        10..12 => (kind::WORK_DATA, &["part"]),
        12 => (kind::WORK_WARNING, &["warning"]),
        13 => (kind::WORK_STATUS, &["-5", "10x"]),
        14 => (kind::WORK_STATUS, &["x", ""]),
        _ => (kind::WORK_STATUS, &["3", "4"]),
    };
    let arguments = std::iter::once(&"{job}").chain(further).map(|&text| text.to_owned()).collect();
    Action::Packet { kind, arguments, job }
}

fn ask(rng: &mut Rng) -> Action {
    let function = *rng.pick(&FUNCTIONS);
    let class = *rng.pick(&["fore", "back"]);
    match rng.below(9) {
        0..5 => {
            let job = JobReference::Recent(rng.below(12) as usize);
            Action::Packet { kind: kind::GET_STATUS, arguments: vec!["{job}".to_owned()], job }
        }
        5..8 => {
            let unique = format!("{function}-{class}-{}", rng.below(3));
            packet(kind::GET_STATUS_UNIQUE, &[&unique])
        }
        _ => packet(kind::OPTION_REQ, &[*rng.pick(&["exceptions", "EXCEPTIONS", "other"])]),
    }
}

fn administer(rng: &mut Rng) -> Action {
    let function = *rng.pick(&FUNCTIONS);
    let empty = *rng.pick(&EMPTY_FUNCTIONS);
    let text = match rng.below(24) {
        0..6 => "status".to_owned(),
        6..9 => "prioritystatus".to_owned(),
        9..12 => "workers".to_owned(),
        12..15 => "show jobs".to_owned(),
        15 => "show unique jobs".to_owned(),
        16 => format!("maxqueue {function} {}", rng.below(12)),
        17 => format!("maxqueue {function} {} {} {}", rng.below(9), rng.below(9), rng.below(9)),
        18..20 => format!("maxqueue {function}"),
        20 => format!("create function {empty}"),
        21..23 => format!("drop function {empty}"),
        _ => return wrong_line(rng),
    };
    Action::Line { text, job: JobReference::Unknown }
}

/// Invalid lines. No line cancels a job, because the original keeps cancelled jobs in its listings.
fn wrong_line(rng: &mut Rng) -> Action {
    const LINES: [&str; 19] = [
        "",
        " status",
        "STATUS  x ",
        "bogus words",
        "shutdown",
        "maxqueue",
        "maxqueue nobody 5",
        "maxqueue f0 x",
        "show",
        "show nothing",
        "show unique nothing",
        "cancel",
        "cancel job",
        "cancel job {job}",
        "cancel other {job}",
        "create",
        "create function",
        "drop function",
        "drop function nobody",
    ];
    Action::Line { text: (*rng.pick(&LINES)).to_owned(), job: JobReference::Unknown }
}

/// Packets that a server does not accept.
fn refused(rng: &mut Rng) -> Action {
    match rng.below(4) {
        0 => packet(kind::NOOP, &[]),
        1 => packet(kind::ECHO_RES, &["x"]),
        2 => packet(kind::JOB_CREATED, &["x"]),
        _ => packet(kind::JOB_ASSIGN, &["x", "y", "z"]),
    }
}
