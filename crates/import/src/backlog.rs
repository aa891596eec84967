//! A [`Backlog`] has the result of reading a source: queues, jobs, and a list of unreadable parts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::jsonl;

/// Longest name of a queue, in bytes. It is the engine's limit.
pub const QUEUE_NAME_BYTES_MAX: usize = 8180;

/// Longest key or reducer, in bytes. It is the limit of the log's encoding.
pub const TAG_BYTES_MAX: usize = 255;

/// Longest body, in bytes. It is the limit of the originals.
pub const BODY_BYTES_MAX: u64 = 1 << 30;

/// Most entries of [`Backlog::losses`]. They have about 2 MB. Without this limit, a damaged file
/// could have an entry for each two bytes.
pub const LOSSES_MAX: usize = 10_000;

/// The priority of a job whose source has no priorities.
pub(crate) const PRIORITY: u32 = 1024;

/// The result of reading a source.
#[derive(Debug, Default)]
pub struct Backlog {
    /// The queues. A queue can be empty.
    pub queues: Vec<Queue>,
    /// The jobs. The jobs of one queue and priority are in the order in which the source would hand
    /// them out.
    pub jobs: Vec<Job>,
    /// The parts of the source that could not be read, at most the first [`LOSSES_MAX`].
    pub losses: Vec<Loss>,
    /// The number of further parts that could not be read.
    pub more_losses: u64,
    /// A hash of everything in the source. All versions of this program compute the same hash.
    pub fingerprint: u64,
    /// The files of the source.
    pub sources: Vec<PathBuf>,
    /// Older files that `sources` replace, so they were not read. They belong to the source, but
    /// not to its content: `fingerprint` does not depend on them.
    pub superseded: Vec<PathBuf>,
    /// How many files were read so far. The next file gets this number ([`Place::file`]).
    pub(crate) files: u32,
    /// The contents of each file, by the number of the file.
    pub(crate) bytes: Vec<Bytes>,
    /// The index in `queues` of each queue, by the queue's name.
    pub(crate) numbers: BTreeMap<Box<[u8]>, u32>,
}

/// A queue of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: Box<[u8]>,
    /// Whether its jobs are items, which are read in order, as in Kestrel.
    pub items: bool,
}

/// The state of a job in its source.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// The job can be taken. A job that a client held in the source is ready, too.
    #[default]
    Ready,
    /// The job waits for its due time.
    Delayed,
    /// The job is set aside.
    Buried,
}

/// The facts of a job. The fields `…_ms` are times of the wall clock, in milliseconds since 1970.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    /// Its queue: an index in [`Backlog::queues`].
    pub queue: u32,
    /// Its id, if jobs of the source have ids.
    pub id: Option<u64>,
    /// Its state.
    pub state: State,
    /// Its priority. 0 is the most urgent.
    pub priority: u32,
    /// Its time to run in seconds. 0: no limit.
    pub ttr_s: u32,
    /// The last delay that a client gave, in seconds.
    pub delay_s: u32,
    /// When it was put, if the source stores this time.
    pub created_ms: Option<u64>,
    /// When a delayed job becomes ready. 0 in other states.
    pub due_ms: u64,
    /// When it expires. `None`: never.
    pub expires_ms: Option<u64>,
    /// Whether a client gave `expires_ms` or `due_ms` as a time of the wall clock. Then the job
    /// expires or becomes ready at this time of the wall clock, even if somebody sets the clock.
    pub by_clock: bool,
    /// The order of buried jobs: of two jobs, the job with the lower number was buried earlier.
    pub buried: u64,
    /// The counters of the job's events.
    pub counters: Counters,
    /// Key and reducer of a job that was submitted for its outcome, as in Gearman.
    pub tags: Option<Box<Tags>>,
    /// The hash of the key that makes the job unique by a policy of its queue.
    pub unique: Option<Box<UniqueHash>>,
    /// Its body.
    pub body: Body,
}

/// The hash of a key by the policy `unique`.
pub type UniqueHash = [u8; 16];

/// The counters of a job's events.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// How often the job was handed out.
    pub takes: u32,
    /// How often its ttr ran out.
    pub timeouts: u32,
    /// How often a holder gave it back.
    pub releases: u32,
    /// How often it was buried.
    pub buries: u32,
    /// How often it was kicked.
    pub kicks: u32,
    /// How often a holder lost it.
    pub failures: u32,
}

/// Key and reducer of a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tags {
    /// The key. Empty: no key. `-`: the body is the key.
    pub unique: Vec<u8>,
    /// The reducer.
    pub reducer: Vec<u8>,
}

/// The body of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// The bytes of the body.
    Here(Vec<u8>),
    /// The body is the bytes at this place.
    At(Place),
    /// The body is in a JSON line.
    InLine {
        /// The place of the line.
        line: Place,
        /// The length of the body.
        bytes: u64,
    },
}

impl Default for Body {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

/// A range of bytes in one of the source's files.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The number of the file, in the order of reading, from 0.
    pub file: u32,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The contents of one file of a source. [`Backlog::body`] reads bodies from them.
#[derive(Debug)]
pub enum Bytes {
    /// A file.
    File(File),
    /// Bytes in memory, for example of standard input, which can be read only once.
    Memory(Vec<u8>),
}

/// A part of a source that could not be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// Where the part is: a file with an offset, or a line.
    pub place: String,
    /// What is wrong, and what the effect is.
    pub what: String,
}

impl Job {
    /// The length of its body.
    pub fn body_bytes(&self) -> u64 {
        match &self.body {
            Body::Here(bytes) => bytes.len() as u64,
            Body::At(place) => place.bytes,
            Body::InLine { bytes, .. } => *bytes,
        }
    }
}

impl Backlog {
    /// The bytes of a job's body.
    pub fn body(&self, job: &Job) -> io::Result<Vec<u8>> {
        match &job.body {
            Body::Here(bytes) => Ok(bytes.clone()),
            Body::At(place) => self.read(*place),
            Body::InLine { line, .. } => jsonl::body_of(&self.read(*line)?),
        }
    }

    fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let changed = || io::Error::other("the source changed while it was read");
        let len = usize::try_from(place.bytes).map_err(|_| changed())?;
        match self.bytes.get(place.file as usize).ok_or_else(changed)? {
            // This allocation is safe: when the source was read, the file had this many bytes.
            Bytes::File(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, place.offset).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::UnexpectedEof => changed(),
                        _ => error,
                    }
                })?;
                Ok(bytes)
            }
            Bytes::Memory(all) => {
                let start = usize::try_from(place.offset).map_err(|_| changed())?;
                let bytes = all.get(start..).and_then(|rest| rest.get(..len));
                bytes.map(<[u8]>::to_vec).ok_or_else(changed)
            }
        }
    }

    /// Returns the index of the queue with this name. Adds the queue if it is new. `items` makes it
    /// a queue of items.
    pub(crate) fn queue(&mut self, name: &[u8], items: bool) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(name) {
            self.queues[*number as usize].items |= items;
            return Ok(*number);
        }
        if name.is_empty() || name.len() > QUEUE_NAME_BYTES_MAX {
            let len = name.len();
            return Err(format!(
                "its queue's name has {len} bytes, not 1 to {QUEUE_NAME_BYTES_MAX}"
            ));
        }
        let number = self.queues.len() as u32;
        self.queues.push(Queue { name: name.into(), items });
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    /// Adds a part that could not be read.
    pub(crate) fn lose(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.losses.len() < LOSSES_MAX {
            self.losses.push(Loss { place: place.into(), what: what.into() });
        } else {
            self.more_losses += 1;
        }
    }
}

/// Checks the length of a body.
pub(crate) fn check_body(bytes: u64) -> Result<(), String> {
    if bytes > BODY_BYTES_MAX {
        return Err(format!("its body has {bytes} bytes, more than {BODY_BYTES_MAX}"));
    }
    Ok(())
}

/// Checks the length of a key or a reducer.
pub(crate) fn check_tags(tags: &Tags) -> Result<(), String> {
    let longest = tags.unique.len().max(tags.reducer.len());
    if longest > TAG_BYTES_MAX {
        return Err(format!("its key or reducer has {longest} bytes, more than {TAG_BYTES_MAX}"));
    }
    Ok(())
}

/// The text for a place in a file, for [`Loss::place`].
pub(crate) fn at(file: &str, offset: u64) -> String {
    format!("{file} at offset {offset}")
}
