//! The Lineshaft program of this build, with only a memcache and a text listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use testkit::process::free_port;
use testkit::process::{Program, Server};

/// The number of attempts with other ports after another process took the free ones.
const PORT_ATTEMPTS: usize = 5;

/// The policies for the cases with the tag `policies`.
pub(crate) const POLICIES: &str = r#"
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
match = "kt_age1"
limits = { age = "1s" }

[[policy]]
match = "kt_fanonly"
fanout_only = true

[[policy]]
match = "kt_jobs"
expire_to = "kt_expired"

[[policy]]
match = "kt_alias"
alias = ["kt_dest1", "kt_dest2"]
"#;

/// A server, and its two ports.
pub(crate) struct Running {
    pub(crate) memcache: SocketAddr,
    pub(crate) text: SocketAddr,
    // The first field, because the server must end before its folder is removed.
    _server: Server,
    _folder: tempfile::TempDir,
}

/// `lineshaft serve` with this configuration: in memory with one I/O thread, and with a log and
/// three I/O threads. The names are for failure messages.
pub(crate) fn start_both(config: &str) -> Result<Vec<(&'static str, Running)>> {
    let in_memory = start(&["--memory"], 1, config).context("in memory")?;
    let with_log = start(&["--data", "data"], 3, config).context("with a log")?;
    Ok(vec![("in memory", in_memory), ("with a log", with_log)])
}

fn start(arguments: &[&str], io_threads: usize, config: &str) -> Result<Running> {
    let folder = tempfile::TempDir::new()?;
    let path = folder.path().join("lineshaft.toml");
    std::fs::write(&path, config)?;
    let path = path.to_str().context("test paths are text")?;
    let mut last = Err(anyhow::anyhow!("no port was tried"));
    for _ in 0..PORT_ATTEMPTS {
        let memcache = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let text = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let listen = ["--only", "--kestrel", &memcache.to_string()].map(str::to_owned);
        let listen_text =
            ["--kestrel-text", &text.to_string(), "--config", path].map(str::to_owned);
        let program = Program::serve(lineshaft_path(), arguments).with(&listen).with(&listen_text);
        let program = program.with_io_threads(io_threads);
        last = program.start_at(memcache);
        if let Ok(server) = last {
            return Ok(Running { memcache, text, _server: server, _folder: folder });
        }
    }
    Err(last.err().context("a start that succeeds returns")?)
}

/// A server with a log, several I/O threads, and listeners for all three kinds of clients.
pub(crate) struct Everything {
    pub(crate) beanstalk: SocketAddr,
    pub(crate) gearman: SocketAddr,
    pub(crate) memcache: SocketAddr,
    _server: Server,
}

impl Everything {
    pub(crate) fn start() -> Result<Self> {
        let mut last = Err(anyhow::anyhow!("no port was tried"));
        for _ in 0..PORT_ATTEMPTS {
            let port = || anyhow::Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)));
            let (beanstalk, gearman, memcache) = (port()?, port()?, port()?);
            let listen =
                [("--beanstalk", beanstalk), ("--gearman", gearman), ("--kestrel", memcache)];
            let listen = listen.map(|(flag, address)| format!("{flag}={address}"));
            let program =
                Program::serve(lineshaft_path(), &["--data", "data", "--only"]).with(&listen);
            let program = program.with_io_threads(3);
            last = program.start_at(memcache);
            if let Ok(server) = last {
                return Ok(Self { beanstalk, gearman, memcache, _server: server });
            }
        }
        Err(last.err().context("a start that succeeds returns")?)
    }
}

/// Lineshaft's binary. `LINESHAFT_BIN` names another one, such as a release build.
pub(crate) fn lineshaft_path() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_lineshaft").into();
    std::env::var_os("LINESHAFT_BIN").map_or_else(built, PathBuf::from)
}
