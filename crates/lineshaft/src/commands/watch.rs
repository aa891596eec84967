//! `lineshaft watch`: a live table of the queues.
//!
//! The main thread draws the table and reads keys. A second thread queries the server. So a slow
//! server, or very many queues, cannot delay the reaction to a key.

mod fit;
mod keys;
mod snapshot;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;

use crate::cli::WatchArguments;
use crate::client::{CONNECT_TIMEOUT, Client, ClientError, Target};
use snapshot::{Meter, Snapshot};
use view::View;

/// Time until the main thread notices a key or an update.
const TICK: Duration = Duration::from_millis(100);

/// A message from the querying thread to the main thread.
enum Update {
    Snapshot(Snapshot),
    Error(ClientError),
}

/// Shows the table until the user quits.
pub(crate) fn run(arguments: WatchArguments) -> Result<ExitCode> {
    ensure!(
        io::stdout().is_terminal(),
        "watch needs a terminal; in scripts, use `lineshaft stats --json`"
    );
    let target = arguments.server.beanstalk()?;
    // Connect here, so that a wrong address fails at once and shows no empty table.
    let client = Client::connect_within(&target, CONNECT_TIMEOUT)?;
    let interval = Duration::from_secs(arguments.interval.max(1).into());
    let (sender, updates) = sync_channel(1);
    let view = View::new(target.to_string(), arguments.filter, interval);
    thread::spawn(move || survey_for_ever(client, &target, interval, &sender));
    ratatui::run(|terminal| show(terminal, view, &updates))?;
    Ok(ExitCode::SUCCESS)
}

/// Queries the server once per interval, until the receiver of the updates is gone.
fn survey_for_ever(
    client: Client,
    target: &Target,
    interval: Duration,
    updates: &SyncSender<Update>,
) {
    let mut client = Some(client);
    let mut meter = Meter::default();
    loop {
        let started = Instant::now();
        let update = match survey(&mut client, target, &mut meter) {
            Ok(snapshot) => Update::Snapshot(snapshot),
            Err(error) => {
                client = None;
                Update::Error(error)
            }
        };
        if updates.send(update).is_err() {
            return;
        }
        thread::sleep(interval.saturating_sub(started.elapsed()));
    }
}

fn survey(
    client: &mut Option<Client>,
    target: &Target,
    meter: &mut Meter,
) -> Result<Snapshot, ClientError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::connect_within(target, CONNECT_TIMEOUT)?),
    };
    Ok(meter.measure(client.survey()?, Instant::now()))
}

fn show(
    terminal: &mut DefaultTerminal,
    mut view: View,
    updates: &Receiver<Update>,
) -> io::Result<()> {
    loop {
        let age = view.age_to_show(Instant::now());
        terminal.draw(|frame| view.draw(frame, age))?;
        // Waits for an update or a key. Also redraws if the displayed age of the table has changed.
        let mut changed = false;
        while !changed && view.age_to_show(Instant::now()) == age {
            for update in updates.try_iter() {
                view.update(update);
                changed = true;
            }
            if event::poll(TICK)? {
                if view.handle(&event::read()?).is_break() {
                    return Ok(());
                }
                changed = true;
            }
        }
    }
}
