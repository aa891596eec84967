//! The state behind all endpoints.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use broker::policy::Setting;
use broker::{Millis, Turn};
use http_api::{Door, ProcessFacts};
use tokio::sync::Semaphore;

use crate::access::bodies::BodySettings;
use crate::access::{Access, AccessSettings};
use crate::act::backup::BeginBackup;
use crate::act::leases::Leases;
use crate::act::once::Once;
use crate::act::operations::Operations;
use crate::jobs::past_jobs::PastJobs;
use crate::queues::survey::Surveys;
use crate::server::connections::Connections;
use crate::server::events::Events;
use crate::server::history;
use crate::server::history::Recorder;
use crate::text::cursor::CursorKey;
use crate::types;

/// At most this many requests read from the disk at once.
const READERS_MAX: usize = 2;
/// At most this many requests read the history of jobs at once.
const HISTORY_READERS_MAX: usize = 1;
/// At most this many threads of the API can wait for a disk that hangs. Those that are not readers write
/// the history of jobs, write the history of the numbers, and read the token file.
pub const HANGING_THREADS_MAX: usize = READERS_MAX + HISTORY_READERS_MAX + 3;
/// At most this many backups run at once. They read at full speed.
const BACKUPS_MAX: usize = 1;
/// At most this many requests mask bodies in other threads at once. The site has few threads.
const MASKERS_MAX: usize = 1;

/// The state behind all endpoints.
#[derive(Clone, Debug)]
pub struct Api {
    pub(crate) setup: Arc<Setup>,
    pub(crate) surveys: Arc<Surveys>,
    pub(crate) access: Arc<Access>,
    pub(crate) act: Acting,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) past: Arc<PastJobs>,
    pub(crate) events: Arc<Events>,
    pub(crate) cursor_key: CursorKey,
    /// Limits the threads that read from the disk. A disk can hang.
    pub(crate) readers: Arc<Semaphore>,
    /// Limits the threads that read the history of jobs.
    pub(crate) history_readers: Arc<Semaphore>,
    /// Limits the backups that run.
    pub(crate) backups: Arc<Semaphore>,
    /// Limits the threads that mask bodies in memory.
    pub(crate) maskers: Arc<Semaphore>,
    /// Limits the searches for jobs by their numbers. Workers wait for the same threads.
    pub(crate) finders: Arc<Semaphore>,
}

/// What the server passes to [`Api::new`].
pub struct Setup {
    /// The door to the broker with the queues.
    pub door: Door,
    /// Facts about the server that do not change.
    pub info: ServerInfo,
    /// Returns the current facts of the process.
    pub process: Box<dyn Fn() -> ProcessFacts + Send + Sync>,
    /// Who can use the API.
    pub access: AccessSettings,
    /// Who sees the bodies of jobs.
    pub bodies: BodySettings,
    /// Whether the server has the console.
    pub has_console: bool,
    /// The longest body of a request with jobs, in bytes.
    pub body_bytes_max: usize,
    /// Reads the configuration again.
    pub reload: Reload,
    /// The value of a setting of a policy, as it is written in the configuration.
    pub show_setting: fn(&Setting) -> String,
    /// Begins a backup.
    pub backup: BeginBackup,
    /// The connections of clients.
    pub connections: Box<dyn Connections>,
    /// The cluster. `None`: the server is alone.
    pub cluster: Option<Box<dyn Fn() -> types::Cluster + Send + Sync>>,
    /// The files of the histories.
    pub history: HistoryFiles,
}

/// The files in which the histories survive a restart.
#[derive(Clone, Debug, Default)]
pub struct HistoryFiles {
    /// The file of the history of the numbers. `None`: it ends with the process.
    pub numbers: Option<PathBuf>,
    /// The folder of the history of jobs, and how many bytes its files have at most. `None`: it is in
    /// memory.
    pub jobs: Option<(PathBuf, u64)>,
}

/// Reads the configuration again. Returns the keys whose values have changed, or the mistakes.
pub type Reload = Box<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<Vec<String>, String>> + Send>> + Send + Sync,
>;

/// The state of requests that change something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acting {
    pub(crate) once: Once,
    pub(crate) leases: Leases,
    pub(crate) operations: Operations,
}

/// Facts about the server that do not change.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    /// The version of the server.
    pub version: String,
    /// The name of the machine.
    pub host: String,
    /// When the server started.
    pub started: Millis,
    /// The addresses where the server listens.
    pub listeners: Vec<types::Listener>,
    /// The work of this start.
    pub recovery: Option<types::Recovery>,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Setup").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Api {
    /// The API of one server.
    pub fn new(setup: Setup) -> Api {
        let surveys = Arc::new(Surveys::new(setup.door.clone()));
        let access = Arc::new(Access::new(setup.access.clone()));
        let rings = setup.history.numbers.as_deref().map(history::read).unwrap_or_default();
        Api {
            setup: Arc::new(setup),
            surveys,
            access,
            act: Acting::default(),
            recorder: Arc::new(Recorder::new(rings)),
            past: Arc::default(),
            events: Arc::default(),
            cursor_key: CursorKey::default(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            history_readers: Arc::new(Semaphore::new(HISTORY_READERS_MAX)),
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
            maskers: Arc::new(Semaphore::new(MASKERS_MAX)),
            finders: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Does the timed work: goes on with operations of the last process, reads the token file again if
    /// it changed, ends leases, forgets the keys of old puts, adds to the histories, and sends events. The
    /// server calls this once a second, in the runtime of the site.
    pub fn tick(&self) {
        self.go_on_with_operations();
        self.access.tokens.look_soon();
        self.act.leases.end_due(&self.setup.door);
        self.act.once.tidy(&self.setup.door);
        self.record_soon();
        self.collect_soon();
        self.tell_tick();
    }

    /// One turn of the broker. Do not hold it across an await.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.setup.door.turn()
    }
}
