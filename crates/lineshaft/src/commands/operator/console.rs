//! `lineshaft console`: makes an address with which a person signs in to the web console once, and
//! opens it if there is a desktop.

use std::env;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Result, bail};
use api::types::{LoginCode, Server};
use hyper::Method;
use notation::address::{Address, ListenAddress};
use serde_json::json;

use crate::cli::ConsoleArguments;
use crate::client::ApiClient;
use crate::commands::serve::web_address;
use crate::text::{print_line, print_value};

/// Prints the address, and opens it.
pub(crate) fn run(arguments: &ConsoleArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let begin = begin_of_address(&mut client)?;
    let made: LoginCode = client.change(&Method::POST, "/login_codes")?;
    let (url, seconds) = (format!("{begin}{}", made.path), made.expires_s);
    if arguments.json {
        print_value(&json!({ "url": url, "expires_s": seconds }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&url)?;
    let is_open = !arguments.print && opens(&url);
    let what = if is_open { "it opens in a browser now" } else { "open it in a browser" };
    eprintln!("the address works once, within {seconds} seconds; {what}");
    Ok(ExitCode::SUCCESS)
}

/// The scheme, the host and the port of the console, for a browser on this machine.
fn begin_of_address(client: &mut ApiClient) -> Result<String> {
    let target = client.target();
    let is_tls = target.tls().is_some();
    if let address @ Address::Tcp { .. } = target.address() {
        return Ok(web_address(&ListenAddress { address: address.clone(), is_tls }));
    }
    // The tool uses a unix socket. A browser needs another listener.
    let server: Server = client.get("/server")?;
    let listeners = server.listeners.iter().filter(|listener| listener.protocol == "http");
    let found = listeners.filter_map(|listener| {
        let ListenAddress { address, .. } = ListenAddress::parse(&listener.address).ok()?;
        let is_tcp = matches!(address, Address::Tcp { .. });
        is_tcp.then_some(ListenAddress { address, is_tls: listener.tls })
    });
    match found.into_iter().next() {
        Some(listener) => Ok(web_address(&listener)),
        None => bail!(
            "the server listens for HTTP only at a unix socket, which browsers cannot use; set \
             listen.http to HOST:PORT"
        ),
    }
}

/// Opens an address in the browser of the desktop. Returns whether there is a desktop.
fn opens(url: &str) -> bool {
    let has_desktop = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(has_desktop) {
        "xdg-open"
    } else {
        return false;
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
