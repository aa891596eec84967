//! What `doctor` knows about the machine, the data folder and the server.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::types::{Log, Server};
use rustix::fs::{fdatasync, statfs, statvfs};
use rustix::process::{Resource, getrlimit};
use server::config::Durability;
use server::config::sources::Sources;

use crate::cli::ApiArguments;
use crate::commands::operator;

/// Syncs that are measured.
const SYNCS: usize = 20;
/// The bytes of a write before a sync: those of a small group of the log.
const WRITE_BYTES: usize = 4096;
/// The length of the accept queues that the system allows.
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
/// The file of the measured syncs.
const PROBE: &str = "lineshaft-doctor.tmp";

/// All facts.
#[derive(Debug)]
pub(super) struct Facts {
    /// The mistakes of the configuration, if it has any.
    pub mistakes: Option<String>,
    /// The limit of open files of this process: now, and at most.
    pub open_files: (u64, u64),
    pub somaxconn: Option<u64>,
    /// `None`: the server keeps nothing on disk.
    pub data: Option<Data>,
    /// The server, or why it does not answer.
    pub server: Result<(Server, Log), String>,
}

/// The data folder.
#[derive(Debug)]
pub(super) struct Data {
    pub folder: PathBuf,
    /// The folder, or its nearest parent that exists.
    pub exists: bool,
    /// The kind of the file system, as `statfs` numbers it.
    pub file_system: u64,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Whether each change is synced.
    pub syncs_always: bool,
    /// The times of syncs in the folder, sorted.
    pub syncs: Result<Vec<Duration>, String>,
}

impl Facts {
    pub(super) fn collect(arguments: &ApiArguments) -> Facts {
        let loaded = Sources::of_process(arguments.config.clone()).load();
        let (mistakes, data) = match loaded {
            Ok(effective) => (None, Data::collect(&effective.config.data)),
            Err(mistakes) => (Some(mistakes.to_string()), None),
        };
        let limit = getrlimit(Resource::Nofile);
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        Facts {
            mistakes,
            open_files: (most(limit.current), most(limit.maximum)),
            somaxconn: fs::read_to_string(SOMAXCONN).ok().and_then(|text| text.trim().parse().ok()),
            data,
            server: ask(arguments).map_err(|error| format!("{error:#}")),
        }
    }
}

fn ask(arguments: &ApiArguments) -> anyhow::Result<(Server, Log)> {
    let mut client = operator::connect(arguments)?;
    Ok((client.get("/server")?, client.get("/log")?))
}

impl Data {
    fn collect(data: &server::config::Data) -> Option<Data> {
        if data.sync == Durability::Memory {
            return None;
        }
        let folder = std::path::absolute(&data.dir).unwrap_or_else(|_| data.dir.clone());
        let place = folder.ancestors().find(|place| place.is_dir())?;
        let space = statvfs(place).ok()?;
        Some(Data {
            exists: place == folder,
            file_system: statfs(place).ok()?.f_type as u64,
            free_bytes: space.f_bavail * space.f_frsize,
            total_bytes: space.f_blocks * space.f_frsize,
            syncs_always: data.sync == Durability::Always,
            syncs: measure(place).map_err(|error| error.to_string()),
            folder,
        })
    }
}

/// Writes and syncs a file in this folder again and again.
fn measure(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(PROBE);
    // An interrupted command can have left it. The file keeps its name while it is measured: some file systems do
    // not sync a file without one.
    let _ = fs::remove_file(&path);
    let mut file = File::create_new(&path)?;
    let mut syncs = Vec::with_capacity(SYNCS);
    let done = (0..SYNCS).try_for_each(|_| {
        file.write_all(&[0x5A; WRITE_BYTES])?;
        let began = Instant::now();
        fdatasync(&file)?;
        syncs.push(began.elapsed());
        Ok(())
    });
    let _ = fs::remove_file(&path);
    syncs.sort();
    done.map(|()| syncs)
}
