//! `lineshaft top`: the server live, in a terminal.
//!
//! The main thread draws and reads keys. A second thread asks the server, once a second and after
//! each key that needs it. So a slow server cannot delay the reaction to a key. A screen asks only
//! for the rows that it shows.

mod action;
mod ask;
mod fetch;
mod fit;
mod grid;
mod keys;
mod list;
mod model;
mod number;
mod prompt;
#[cfg(test)]
mod tests;
mod theme;
mod tubes;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use api::types::{Me, Role};
use notation::address::ServerName;
use notation::port;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use server::config::sources::Mistakes;

use crate::cli::TopArguments;
use crate::client::{ApiError, Target};
use crate::commands::operator;
use action::Place;
use ask::Update;
use fetch::{Ask, Source, Watcher};
use model::{Model, Rights};
use theme::Theme;
use tubes::Tubes;

/// Time until the main thread notices a key or an answer.
const TICK: Duration = Duration::from_millis(50);

/// Shows the screens until the user quits.
pub(crate) fn run(arguments: TopArguments) -> Result<ExitCode> {
    ensure!(
        io::stdout().is_terminal(),
        "top needs a terminal; in scripts, use `lineshaft status --json` or `lineshaft stats --json`"
    );
    // Connect here, so that a wrong address fails at once and shows no empty screen.
    let (source, address, place, rights) = connect(&arguments)?;
    let interval = Duration::from_secs(arguments.interval.max(1).into());
    let search = arguments.filter.unwrap_or_default();
    let model = Model::new(address, place, rights, search, interval);
    let (asks, received) = channel();
    let (sender, updates) = channel();
    thread::spawn(move || fetch::run(source, interval, &received, &sender));
    ratatui::run(|terminal| show(terminal, model, &asks, &updates))?;
    Ok(ExitCode::SUCCESS)
}

type Connected = (Source, String, Place, Rights);

/// The API, unless the user names only a server of the beanstalkd protocol. If no address is named
/// and the API is not there, a beanstalkd on this machine serves, too.
fn connect(arguments: &TopArguments) -> Result<Connected> {
    let names_api = arguments.api.http.is_some() || arguments.api.config.is_some();
    match (&arguments.server, names_api) {
        (Some(server), false) => {
            let why = "read-only, over the beanstalkd protocol; --http ADDRESS shows all of a Lineshaft server";
            let target = Target::new(server, port::BEANSTALK, &arguments.api.tls.files())?;
            Ok(by_tubes(target, why)?)
        }
        (_, true) => by_api(arguments),
        (None, false) => by_api(arguments).or_else(|error| {
            let is_refused = matches!(error.downcast_ref(), Some(ApiError::Refused(_)));
            // With mistakes in the configuration, a server here can be another one.
            if is_refused || error.is::<Mistakes>() {
                return Err(error);
            }
            let name: ServerName = "127.0.0.1".parse().expect("this is an address");
            let target = Target::new(&name, port::BEANSTALK, &arguments.api.tls.files())?;
            let why = "read-only, over the beanstalkd protocol: no HTTP API found; see --http";
            // The first error is about the usual way.
            by_tubes(target, why).map_err(|_| error)
        }),
    }
}

fn by_api(arguments: &TopArguments) -> Result<Connected> {
    let mut client = operator::connect(&arguments.api)?;
    let me: Me = client.get("/me")?;
    if me.role < Role::Viewer {
        bail!(
            "{} shows nothing to this client; name a token with --token-file or LINESHAFT_TOKEN",
            client.target()
        );
    }
    let place = Place::of(client.target(), arguments.api.http.is_some());
    let address = client.target().to_string();
    Ok((Source::Api(Box::new(Watcher::new(client))), address, place, Rights::Api(me.role)))
}

fn by_tubes(target: Target, why: &str) -> Result<Connected> {
    let (address, place) = (target.to_string(), Place::of(&target, true));
    let tubes = Tubes::connect(target)?;
    Ok((Source::Tubes(Box::new(tubes)), address, place, Rights::Tubes(why.to_owned())))
}

fn show(
    terminal: &mut DefaultTerminal,
    mut model: Model,
    asks: &Sender<Ask>,
    updates: &Receiver<Update>,
) -> Result<()> {
    let theme = Theme::of_environment();
    let mut asked = None;
    loop {
        let alarm = model.alarm(Instant::now());
        terminal.draw(|frame| view::draw(frame, &mut model, theme, Instant::now()))?;
        // The other thread ends only after this one.
        if let Some(action) = model.take_action() {
            let _ = asks.send(Ask::Do(action));
        }
        let question = model.question();
        if asked.as_ref() != Some(&question) {
            let _ = asks.send(Ask::Show(question.clone()));
            asked = Some(question);
        }
        // Waits for an answer or a key. Also draws again if the age of the numbers has changed.
        let mut has_changed = false;
        while !has_changed && model.alarm(Instant::now()) == alarm {
            for update in updates.try_iter() {
                model.update(update, Instant::now());
                has_changed = true;
            }
            if event::poll(TICK)? {
                if model.handle(&event::read()?).is_break() {
                    return Ok(());
                }
                has_changed = true;
            }
        }
    }
}
