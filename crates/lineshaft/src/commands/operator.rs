//! The operator's commands, which use the server's HTTP API: one file each.

mod connections;
mod console;
mod cron;
mod drain;
mod history;
mod jobs;
mod operation;
mod ping;
mod reload;
mod sessions;
mod set_aside;
mod status;
mod why;

pub(crate) use connections::run as connections;
pub(crate) use console::run as console;
pub(crate) use cron::run as cron;
pub(crate) use drain::run as drain;
pub(crate) use history::run as history;
pub(crate) use jobs::run as jobs;
pub(crate) use operation::{clear, move_jobs, redrive, run as run_operation};
pub(crate) use ping::run as ping;
pub(crate) use reload::run as reload;
pub(crate) use sessions::run as sessions;
pub(crate) use set_aside::run as set_aside;
pub(crate) use status::run as status;
pub(crate) use why::run as why;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use notation::address::ServerName;
use notation::port;
use server::ControlPath;
use server::config::sources::{Effective, Origin, Sources};

use crate::cli::ApiArguments;
use crate::client::{ApiClient, Target, read_token};

/// The variable with a token.
const TOKEN_VARIABLE: &str = "LINESHAFT_TOKEN";

/// A client of the server that the arguments name. Without an address, it is the server of the data
/// folder, if one runs there, or the server at the default address.
pub(crate) fn connect(arguments: &ApiArguments) -> Result<ApiClient> {
    let token = match &arguments.token_file {
        Some(path) => Some(
            read_token(path)
                .with_context(|| format!("cannot read the token in {}", path.display()))?,
        ),
        None => std::env::var(TOKEN_VARIABLE).ok(),
    };
    let files = arguments.tls.files();
    let name: ServerName = match &arguments.http {
        Some(name) => name.clone(),
        None => match operator_socket(arguments.config.clone())? {
            Some(socket) => return Ok(ApiClient::at_socket(socket, token.as_deref())?),
            None => "127.0.0.1".parse().expect("this is an address"),
        },
    };
    Ok(ApiClient::new(Target::new(&name, port::HTTP, &files)?, token.as_deref())?)
}

/// The operator's socket in the data folder of the configuration, if a server listens there. A
/// configuration with mistakes can still name the right folder, and then the server explains, for
/// example, why it does not reload. But if it names none, or no server listens there, this fails with
/// the mistakes: another server can be at the default address, or in the default folder.
fn operator_socket(config: Option<PathBuf>) -> Result<Option<ControlPath>> {
    let (effective, mistakes) = Sources::of_process(config).load_with_mistakes();
    let is_right = |effective: &Effective| {
        mistakes.0.is_empty() || *effective.origin("data.dir") != Origin::Default
    };
    let socket =
        effective.filter(is_right).and_then(|effective| socket_in(&effective.config.data.dir));
    if socket.is_none() && !mistakes.0.is_empty() {
        return Err(anyhow::Error::new(mistakes)
            .context("cannot find the server; correct the configuration, or use --http"));
    }
    Ok(socket)
}

/// The operator's socket in a data folder, if a server listens there.
fn socket_in(folder: &Path) -> Option<ControlPath> {
    let socket = ControlPath::of_api(folder).ok()?;
    UnixStream::connect(socket.path()).is_ok().then_some(socket)
}
