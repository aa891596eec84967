//! The Lineshaft program of this build, with only a thrift listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;
use testkit::process::free_port;
use testkit::process::{Program, Server};

/// The number of attempts with another port after another process took the free one.
const PORT_ATTEMPTS: usize = 5;

/// The policies for the cases with the tag `testconfig`.
const POLICIES: &str = r#"
[[policy]]
match = "kt_max1"
limits = { jobs = 1 }

[[policy]]
match = "kt_size510"
limits = { bytes = 510 }

[[policy]]
match = "kt_item128"
limits = { item_bytes = 128 }

[[policy]]
match = "kt_discard3"
limits = { jobs = 3, when_full = "drop-oldest" }

[[policy]]
match = "kt_fanonly"
fanout_only = true

[[policy]]
match = "kt_open2"
open = { max = 2 }

[[policy]]
match = "kt_alias"
alias = ["kt_dest1", "kt_dest2"]
"#;

/// A server, and its folder.
pub(crate) struct Running {
    server: Server,
    _folder: TempDir,
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

/// Starts `lineshaft serve` in memory with one I/O thread, and with a log and three I/O threads.
/// The names are for failure messages.
pub(crate) fn start_both() -> Result<Vec<(&'static str, Running)>> {
    let in_memory = start(&["--memory"], 1).context("in memory")?;
    let with_log = start(&["--data", "data"], 3).context("with a log")?;
    Ok(vec![("in memory", in_memory), ("with a log", with_log)])
}

fn start(arguments: &[&str], io_threads: usize) -> Result<Running> {
    let folder = TempDir::new()?;
    let config = folder.path().join("lineshaft.toml");
    std::fs::write(&config, POLICIES)?;
    let config = config.to_str().context("test paths are text")?;
    let mut last = Err(anyhow::anyhow!("no port was tried"));
    for _ in 0..PORT_ATTEMPTS {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let listen = ["--config", config, "--only", "--kestrel-thrift", &address.to_string()];
        let program = Program::serve(lineshaft_path(), arguments).with(&listen);
        let program = program.with_io_threads(io_threads);
        last = program.start_at(address);
        if let Ok(server) = last {
            return Ok(Running { server, _folder: folder });
        }
    }
    last.map(|server| Running { server, _folder: folder })
}

/// Lineshaft's binary. `LINESHAFT_BIN` names another one, such as a release build.
fn lineshaft_path() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_lineshaft").into();
    std::env::var_os("LINESHAFT_BIN").map_or_else(built, PathBuf::from)
}
