//! `lineshaft put`: puts jobs from arguments, from lines, or from one whole input.
//!
//! Many jobs are in flight: sent, but without a reply. The main thread reads the input and sends
//! jobs. A second thread receives the replies (see `collect`). A channel between the threads
//! contains the jobs in flight, in order. When the channel is full, the main thread waits until a
//! reply arrives.

mod input;
mod results;
mod server;
mod tally;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::PutArguments;
use crate::client::ClientError;
use crate::interrupt::Interrupts;
use crate::text;
use input::{Input, Piece};
use server::{Answer, Connection, JobName, Sender};
use tally::{Refusal, Tally};

/// Limit of jobs in flight. The replies to all of them fit into a socket's buffer, so the server
/// can always write its replies.
const IN_FLIGHT_MAX: usize = 1000;

/// A run that takes less time than this shows no progress bar.
const BAR_AFTER: Duration = Duration::from_millis(700);

/// One job in the channel from the sending to the receiving thread.
enum Pending {
    /// The job was sent, and a reply will come.
    Sent(u64),
    /// The job was not sent, because it is longer than the server's limit.
    TooBig { number: u64, bytes: u64 },
}

/// How the summary is shown.
#[derive(Clone, Copy)]
enum Form {
    Quiet,
    Text,
    Json,
}

/// State shared by both threads and the Ctrl-C handler.
#[derive(Clone)]
struct Shared {
    tally: Arc<Mutex<Tally>>,
    /// Set when the server would refuse all further jobs, too. The sending thread then stops.
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no thread panics while it holds the tally")
    }

    fn show(&self, form: Form, started: Instant) {
        self.bar.finish_and_clear();
        let tally = self.tally();
        match form {
            Form::Quiet => {}
            Form::Text => {
                eprintln!("{} in {}", tally.summary(), text::elapsed(started.elapsed()));
            }
            Form::Json => {
                // A closed output must not hide the refused jobs.
                let _ = text::print_value(&tally.json());
            }
        }
        for line in tally.refusals() {
            text::complain(&line);
        }
    }
}

/// Puts all jobs and prints the result.
pub(crate) fn run(arguments: PutArguments) -> Result<ExitCode> {
    let started = Instant::now();
    let Connection { sender, receiver, facts } = server::connect(&arguments)?;
    let input = Input::open(&arguments, facts.body_bytes_max)?;
    if input.is_typed() && !arguments.quiet {
        eprintln!("{}; end with Ctrl-D:", input.input_hint());
    }
    let wait = arguments.wait;
    let (tally, bar) = if wait {
        (Tally::of_results(&arguments.queue, input.noun()), results::hidden_bar())
    } else {
        let tally = Tally::new(&arguments.queue, input.noun(), facts);
        (tally, hidden_bar(input.bytes()))
    };
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Shared { tally: Arc::new(Mutex::new(tally)), stop, bar };
    let for_interrupt = shared.clone();
    let form = match (arguments.quiet, arguments.json) {
        (_, true) => Form::Json,
        (true, false) => Form::Quiet,
        (false, false) => Form::Text,
    };
    let quiet = arguments.quiet;
    Interrupts::listen(move |_count| {
        for_interrupt.show(form, started);
        let rest = if wait {
            "put waits for no more results"
        } else {
            "jobs in flight may be in the queue, too"
        };
        eprintln!("lineshaft: interrupted; {rest}");
        std::process::exit(130);
    })?;

    let with_bar = !quiet && !input.is_typed() && io::stderr().is_terminal();
    let (pending, next) = sync_channel(if wait { results::WAITING_MAX } else { IN_FLIGHT_MAX });
    let for_collector = shared.clone();
    let print_ids = arguments.ids;
    let collector = thread::spawn(move || {
        let outcome = match receiver {
            server::Receiver::Gearman(replies) if wait => {
                results::collect(replies, &next, &for_collector, with_bar)
            }
            receiver => collect(receiver, &next, &for_collector, print_ids),
        };
        if let Err(error) = outcome {
            // End the process here, because the sending thread may wait for input for ever. Do not
            // return the error to `main`, which treats a closed output as success. Here, a closed
            // output is a failure, because some jobs were not put.
            for_collector.show(form, started);
            text::complain(&format!("{error:#}"));
            std::process::exit(1);
        }
    });
    let with_bar = with_bar && !wait;
    let mut feeder = Feeder { sender, pending, shared: shared.clone(), started, with_bar };
    let fed = feeder.feed(input);
    drop(feeder);
    // Both threads notice a broken connection. The receiving thread knows the reason and ends the
    // process.
    collector.join().expect("the receiving thread does not panic");
    shared.show(form, started);
    fed?;
    let complete = shared.tally().is_complete();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Creates a progress bar that is not visible yet. If the size of the input is known, it shows the
/// bytes that are left.
fn hidden_bar(input_bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(input_bytes, ProgressDrawTarget::hidden());
    let template = match input_bytes {
        Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left",
        None => "{spinner} {msg}, {bytes} in {elapsed}",
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are constant"))
}

/// The sending half: reads the input and sends jobs.
struct Feeder {
    sender: Sender,
    pending: SyncSender<Pending>,
    shared: Shared,
    started: Instant,
    with_bar: bool,
}

impl Feeder {
    fn feed(&mut self, mut input: Input) -> Result<()> {
        let mut number = 0;
        loop {
            if input.would_wait() {
                // The next line may come late, for example from a keyboard. So send all earlier
                // lines now.
                self.sender.flush()?;
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                self.shared.tally().stopped_after(number);
                break;
            }
            let Some(piece) = input.next_piece().context("cannot read the input")? else { break };
            number += 1;
            let pending = match piece {
                Piece::Body(body) => {
                    self.sender.put(body)?;
                    Pending::Sent(number)
                }
                Piece::TooBig { bytes } => Pending::TooBig { number, bytes },
            };
            self.enqueue(pending)?;
            if self.with_bar && number % 1000 == 0 {
                self.show_progress(input.bytes_read());
            }
        }
        Ok(self.sender.flush()?)
    }

    /// Adds a job to the channel, and waits while the channel is full.
    fn enqueue(&mut self, pending: Pending) -> Result<(), ClientError> {
        match self.pending.try_send(pending) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(pending)) => {
                self.sender.flush()?;
                self.pending.send(pending).map_err(|_| ClientError::Closed)
            }
            Err(TrySendError::Disconnected(_)) => Err(ClientError::Closed),
        }
    }

    fn show_progress(&self, bytes_read: u64) {
        let bar = &self.shared.bar;
        bar.set_position(bytes_read);
        bar.set_message(text::counted(self.shared.tally().accepted(), "job"));
        if bar.is_hidden() && self.started.elapsed() > BAR_AFTER {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Receives one reply for each sent job, until the sending thread is done. Fails if the connection
/// breaks, or the reader of the ids has closed the output.
fn collect(
    mut receiver: server::Receiver,
    pending: &Receiver<Pending>,
    shared: &Shared,
    print_ids: bool,
) -> Result<()> {
    // Only for ids, keep the output locked. The handler of Ctrl-C can print the summary as JSON
    // there at any time, and would wait for the lock for ever. No command line asks for both.
    let mut ids = print_ids.then(|| io::BufWriter::new(io::stdout().lock()));
    let mut last = 0;
    let unprinted = |last: u64| {
        let unit = shared.tally().noun();
        format!("cannot print the ids; {unit}s after {last} may or may not be in the queue")
    };
    loop {
        let next = match pending.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                if let Some(ids) = &mut ids {
                    ids.flush().with_context(|| unprinted(last))?;
                }
                match pending.recv() {
                    Ok(next) => next,
                    Err(_) => break,
                }
            }
        };
        let id = match next {
            Pending::TooBig { number, bytes } => {
                last = number;
                shared.tally().refuse(number, Refusal::TooBig { bytes: Some(bytes) });
                None
            }
            Pending::Sent(number) => {
                last = number;
                let answer = receiver.next_answer().with_context(|| {
                    let unit = shared.tally().noun();
                    format!("no answer to {unit} {number}; it and later ones may or may not be in the queue")
                })?;
                note(number, answer, shared)
            }
        };
        if let Some(ids) = &mut ids {
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            writeln!(ids, "{id}").with_context(|| unprinted(last))?;
        }
    }
    match &mut ids {
        Some(ids) => ids.flush().context("cannot print the ids"),
        None => Ok(()),
    }
}

/// Adds a reply to the tally. Returns the job's name if the server accepted the job.
fn note(number: u64, answer: Answer, shared: &Shared) -> Option<JobName> {
    let mut tally = shared.tally();
    match answer {
        Answer::In(name) => {
            let id = match &name {
                JobName::Id(id) => Some(*id),
                JobName::Handle(_) | JobName::None => None,
            };
            tally.accept(id);
            Some(name)
        }
        Answer::Buried(id) => {
            tally.accept_buried(id);
            Some(JobName::Id(id))
        }
        Answer::Refused(refusal) => {
            if refusal.concerns_later_jobs() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            tally.refuse(number, refusal);
            None
        }
    }
}
