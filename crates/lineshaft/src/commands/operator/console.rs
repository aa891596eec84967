//! `lineshaft console`: makes an address with which a person signs in to the web console once, and
//! opens it if there is a desktop.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, io};

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
    let start = start_of_address(&mut client)?;
    let made: LoginCode = client.change(&Method::POST, "/login_codes")?;
    let (url, seconds) = (format!("{start}{}", made.path), made.expires_s);
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
fn start_of_address(client: &mut ApiClient) -> Result<String> {
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
///
/// All users of the machine can read the arguments of a program, and the address is a secret. So the
/// browser gets the name of a file that only this user can read. Its page goes to the address.
fn opens(url: &str) -> bool {
    let has_desktop = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(has_desktop) {
        "xdg-open"
    } else {
        return false;
    };
    let Some(page) = private_folder().and_then(|folder| write_page(&folder, url).ok()) else {
        return false;
    };
    let mut command = Command::new(program);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some programs run as long as the browser, so do not wait.
    command.spawn().is_ok()
}

/// The folder for the page. It is inside of a folder of this user, so no other user can prepare it.
fn private_folder() -> Option<PathBuf> {
    let of = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let parent = of("XDG_RUNTIME_DIR").or_else(|| of("HOME").map(|home| home.join(".cache")))?;
    parent.is_absolute().then(|| parent.join("lineshaft-console"))
}

/// Writes a page that goes to an address. It replaces the page of an earlier call, whose address
/// works no more, or soon.
fn write_page(folder: &Path, url: &str) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The folder can be of an earlier call.
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let page = folder.join("open.html");
    match fs::remove_file(&page) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&page)?;
    let url = url.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    write!(
        file,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Lineshaft</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<a href=\"{url}\">Lineshaft</a>\n"
    )?;
    Ok(page)
}
