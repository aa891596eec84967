//! `lineshaft kestrel`, or this program under the name `kestrel`. It serves only Kestrel's
//! protocols and admin commands, on Kestrel's ports and all addresses. So scripts that start
//! Kestrel can start this program instead.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use server::config::Durability;
use server::config::sources::{Flag, Sources};
use server::{Drain, Hangup, Messages, Protocol, ServeError, Setup, exit};

use super::serve::{announce, end_with_the_first_panic};
use crate::cli::KestrelArguments;

/// The default folder for jobs.
const FOLDER_DEFAULT: &str = "./kestrel-data";

/// Settings whose defaults are the original's behaviour.
const DEFAULTS: [(&str, &str); 3] =
    [("data.dir", FOLDER_DEFAULT), ("kestrel.control", "all"), ("kestrel.admin_get", "true")];

/// Why the server ended: a [`ServeError`], or a reason that only this command has.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(
        "{0} is a Scala configuration; translate it into a lineshaft.toml (see docs/policies.md), \
         and use that file instead"
    )]
    Scala(PathBuf),
    #[error("cannot check {0} for journals of the original: {1}")]
    Folder(PathBuf, io::Error),
    #[error(
        "{file} is a journal of the original that still holds items; to take them over, run: lineshaft \
         import kestrel {0} --data {0} --set-aside; or choose another folder with --data",
        .folder.display(), file = .file.display()
    )]
    Journal { folder: PathBuf, file: PathBuf },
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Failure::Serve(error) => error.exit_code(),
            Failure::Scala(_) => exit::BAD_CONFIGURATION,
            Failure::Folder(..) => exit::DISK,
            Failure::Journal { .. } => exit::DAMAGED_DATA,
        }
    }
}

/// Serves until a signal or a client's SHUTDOWN ends the server.
pub(crate) fn run(arguments: KestrelArguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("kestrel: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn serve(arguments: KestrelArguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.config
        && file.extension().is_some_and(|extension| extension == "scala")
    {
        return Err(Failure::Scala(file.clone()));
    }
    let (sources, config) = configure(arguments)?;
    let messages = Messages::install(config.messages);
    end_with_the_first_panic();
    let inherited = server::inherited(Protocol::Kestrel)?;
    let listeners = server::bind_configured(&config, inherited).map_err(without_settings)?;
    if config.data.sync != Durability::Memory {
        refuse_journals(&config.data.dir)?;
    }
    let (sources, hangup, drain) = (Some(sources), Hangup::Reload, Drain::RefuseJobs);
    let setup = Setup { config, listeners, messages, sources, hangup, drain };
    Ok(server::run(setup, announce)?)
}

/// Returns the sources of the configuration and the configuration itself. A reload reads the
/// sources again.
fn configure(arguments: KestrelArguments) -> Result<(Sources, server::config::Config), ServeError> {
    let KestrelArguments { config, data, memory, sync, listen, .. } = arguments;
    let address = |port: String| if port == "off" { port } else { format!("{listen}:{port}") };
    let one = |value: Option<String>| value.map(|value| vec![value]);
    let memory = memory.then(|| "memory".to_owned());
    let flags = [
        ("--data", "data.dir", one(data)),
        ("--memory", "data.sync", one(memory)),
        ("--sync", "data.sync", one(sync)),
        ("--port", "listen.kestrel", one(Some(address(arguments.port)))),
        ("--text-port", "listen.kestrel_text", one(Some(address(arguments.text_port)))),
        ("--thrift-port", "listen.kestrel_thrift", one(Some(address(arguments.thrift_port)))),
        ("--admin-port", "listen.kestrel_admin", one(Some(address(arguments.admin_port)))),
    ];
    let flags = flags
        .into_iter()
        .filter_map(|(name, key, values)| values.map(|values| Flag { name, key, values }));
    let mut sources = Sources {
        flags: flags.collect(),
        only_named_listeners: true,
        defaults: &DEFAULTS,
        ..Sources::of_process(config)
    };
    let config = sources.load_and_keep()?.config;
    Ok((sources, config))
}

/// Replaces an error that advises to change a setting of a port. The ports of this command come
/// from flags, so settings do not change them.
fn without_settings(error: ServeError) -> ServeError {
    match error {
        ServeError::ListenersInUse(mut taken) => {
            ServeError::AddressInUse(taken.swap_remove(0).address)
        }
        other => other,
    }
}

/// Refuses a folder with journals of the original. The server would ignore them and start with
/// empty queues, as if the items were lost.
fn refuse_journals(folder: &Path) -> Result<(), Failure> {
    match import::kestrel::file_with_items(folder) {
        Ok(None) => Ok(()),
        Ok(Some(file)) => Err(Failure::Journal { folder: folder.to_owned(), file }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::Folder(folder.to_owned(), error)),
    }
}
