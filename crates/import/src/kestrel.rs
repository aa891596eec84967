//! Kestrel's journals: a folder with the files of each queue (spec kestrel 4).
//!
//! Records have no checksums. After an invalid record, the rest of its file is ignored, because
//! data can contain bytes that look like a record.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::backlog::{Backlog, Body, Bytes, Job, PRIORITY, Place, at, check_body};
use crate::input::{Fingerprint, Input};

/// This many bytes of a file are enough to see whether it is one of Lineshaft's own.
const BEGINNING_BYTES: u64 = 32;

/// Names of Lineshaft's own files, and ends of such names, that no journal has.
const OWN_NAMES: [&[u8]; 5] =
    [b"history.new", b"listen.json", b"listen.json.new", b"tokens.toml", b"tokens.toml.new"];
const OWN_NAME_ENDS: [&[u8]; 3] = [b".seg", b".idx", b".idx-new"];

/// The items of one queue, while the files of its journal are read, oldest first.
#[derive(Debug, Default)]
struct Journal {
    /// The items without an open read, in the order of the queue.
    waiting: VecDeque<Item>,
    open: Reads,
    /// The xid of the newest read.
    last_xid: i32,
}

/// The open reads of a queue.
#[derive(Debug, Default)]
struct Reads {
    /// Their items, by the numbers of the reads (xids).
    items: BTreeMap<i32, Item>,
    /// The free xids that follow the xid of an open read. The lowest xid follows the highest one.
    /// Without this set, each search for a free xid could walk along all open reads.
    ends: BTreeSet<i32>,
}

/// The facts of an item in its record.
#[derive(Copy, Clone, Debug)]
struct Item {
    created_ms: Option<u64>,
    expires_ms: Option<u64>,
    data: Place,
}

/// The files of one queue. The original reads the newest pack, newer archived files, and then the
/// current file.
#[derive(Debug, Default, Eq, PartialEq)]
struct Files {
    /// The files `QUEUE.MILLIS.pack`, by `MILLIS`. A pack has the contents of all older files.
    packs: BTreeMap<u64, PathBuf>,
    /// The files `QUEUE.MILLIS`, by `MILLIS`.
    archived: BTreeMap<u64, PathBuf>,
    /// The file `QUEUE`.
    current: Option<PathBuf>,
}

/// The next part of a file.
enum Next {
    Change(Change),
    End,
    Broken(String),
}

/// The change that a record makes. Numbers are xids.
enum Change {
    Add(Item),
    Remove,
    /// Opens a read of the first item, with the next free xid.
    Open,
    OpenAs(i32),
    SaveXid(i32),
    GiveBack(i32),
    Confirm(i32),
    /// Confirms the open read with this xid, and adds this item.
    Continue(i32, Item),
}

/// Whether a file can be a journal.
fn may_be_journal(name: &[u8], path: &Path) -> io::Result<bool> {
    // `~~` marks an unfinished rewrite. The original deletes such a file.
    let is_unfinished = name.windows(2).any(|pair| pair == b"~~");
    Ok(!is_unfinished && !is_own(name, path)?)
}

/// Whether a file is one of Lineshaft's own. The folder has such files if it is also a data folder.
/// A queue can have the name of some of them. Then the first bytes of the file decide. With these
/// files, the folder would become another source as soon as a server uses it.
fn is_own(name: &[u8], path: &Path) -> io::Result<bool> {
    match name {
        b"lock" => Ok(beginning(path)?.is_empty()),
        b"history" => Ok(beginning(path)?.starts_with(b"LSHIST\n")),
        b"manifest" => Ok(beginning(path)?.starts_with(b"lineshaft backup ")),
        _ if is_spare(name) => {
            // A spare begins like a segment, or with zeros. No record of a journal does.
            let bytes = beginning(path)?;
            Ok(bytes.starts_with(b"LINESHFT") || bytes.iter().all(|byte| *byte == 0))
        }
        _ => {
            let has_own_end = OWN_NAME_ENDS.iter().any(|end| name.ends_with(end));
            Ok(has_own_end || OWN_NAMES.contains(&name))
        }
    }
}

/// Whether the log can give a spare this name: `spare-` or `blank-`, and a number.
fn is_spare(name: &[u8]) -> bool {
    let number = name.strip_prefix(b"spare-").or_else(|| name.strip_prefix(b"blank-"));
    number.is_some_and(|number| {
        (1..=18).contains(&number.len()) && number.iter().all(u8::is_ascii_digit)
    })
}

/// The first bytes of a file.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BEGINNING_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the journals in a folder.
pub fn open(folder: &Path) -> io::Result<Backlog> {
    let mut backlog = Backlog::default();
    let mut hash = Fingerprint::new("kestrel");
    let mut queues: BTreeMap<Vec<u8>, Files> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if entry.file_type()?.is_file() && may_be_journal(name.as_bytes(), &path)? {
            sort_in(&mut queues, name.as_bytes(), path);
        }
    }
    for (name, files) in queues {
        let number = match backlog.queue(&name, true) {
            Ok(number) => number,
            Err(what) => {
                backlog.lose(String::from_utf8_lossy(&name), what);
                continue;
            }
        };
        hash.add(&name);
        let mut journal = Journal::default();
        let (read, superseded) = files.in_order();
        backlog.superseded.extend(superseded);
        for path in read {
            let file = File::open(&path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            journal.read(&name, &file, &mut backlog, &mut hash)?;
            backlog.bytes.push(Bytes::File(file));
            backlog.sources.push(path);
        }
        journal.finish(number, &mut backlog);
    }
    backlog.fingerprint = hash.value();
    Ok(backlog)
}

/// Finds a journal with items that were not removed. An item of an open read also counts: the
/// original gives this item back at its next start.
pub fn file_with_items(folder: &Path) -> io::Result<Option<PathBuf>> {
    let backlog = open(folder)?;
    let Some(Job { body: Body::At(place), .. }) = backlog.jobs.first() else { return Ok(None) };
    Ok(backlog.sources.get(place.file as usize).cloned())
}

/// Reads a journal of one file from memory.
pub fn parse(bytes: &[u8]) -> Backlog {
    let mut backlog = Backlog::default();
    let mut hash = Fingerprint::new("kestrel");
    let mut journal = Journal::default();
    let number = backlog.queue(b"queue", true).expect("the name is short");
    journal.read("queue", bytes, &mut backlog, &mut hash).expect("memory can be read");
    journal.finish(number, &mut backlog);
    backlog.bytes.push(Bytes::Memory(bytes.to_vec()));
    backlog.fingerprint = hash.value();
    backlog
}

/// Adds a file to its queue. The queue's name ends at the first dot.
fn sort_in(queues: &mut BTreeMap<Vec<u8>, Files>, name: &[u8], path: PathBuf) {
    let mut parts = name.splitn(2, |byte| *byte == b'.');
    let queue = parts.next().unwrap_or_default();
    let files = queues.entry(queue.to_vec()).or_default();
    let Some(rest) = parts.next().map(String::from_utf8_lossy) else {
        files.current = Some(path);
        return;
    };
    let millis = |digits: &str| digits.parse::<u64>().ok();
    if let Some(time) = rest.strip_suffix(".pack").and_then(millis) {
        files.packs.insert(time, path);
    } else if let Some(time) = millis(&rest) {
        files.archived.insert(time, path);
    }
    // The original does not read files with other names, but each of them makes a queue.
}

impl Files {
    /// The files to read, oldest first, and the files that the newest pack replaces: all older
    /// ones.
    fn in_order(mut self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let pack = self.packs.pop_last();
        let packed_ms = pack.as_ref().map(|(time, _)| *time);
        let (newer, older): (Vec<_>, Vec<_>) =
            self.archived.into_iter().partition(|(time, _)| packed_ms < Some(*time));
        let superseded = self.packs.into_iter().chain(older).map(|(_, path)| path).collect();
        let read = pack.into_iter().chain(newer).map(|(_, path)| path);
        (read.chain(self.current).collect(), superseded)
    }
}

impl Journal {
    /// Reads the next file.
    fn read(
        &mut self,
        name: &str,
        bytes: impl Read,
        backlog: &mut Backlog,
        hash: &mut Fingerprint,
    ) -> io::Result<()> {
        let file = backlog.files;
        backlog.files += 1;
        let mut input = Input::new(bytes, hash);
        loop {
            let offset = input.offset();
            match read_record(&mut input, file)? {
                Next::Change(change) => self.apply(change),
                Next::End => return Ok(()),
                Next::Broken(what) => {
                    input.rest()?;
                    let skipped = input.offset() - offset;
                    let what =
                        format!("{what}; none of the {skipped} bytes from there on is imported");
                    backlog.lose(at(name, offset), what);
                    return Ok(());
                }
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Add(item) => self.waiting.push_back(item),
            Change::Remove => drop(self.waiting.pop_front()),
            Change::Open => {
                let xid = self.next_xid();
                self.open_as(xid);
            }
            Change::OpenAs(xid) => self.open_as(xid),
            Change::SaveXid(xid) => self.last_xid = xid,
            Change::GiveBack(xid) => {
                if let Some(item) = self.open.remove(xid) {
                    self.waiting.push_front(item);
                }
            }
            Change::Confirm(xid) => drop(self.open.remove(xid)),
            Change::Continue(xid, item) => {
                self.open.remove(xid);
                self.waiting.push_back(item);
            }
        }
    }

    /// The next free xid. 0 is no xid of a read.
    fn next_xid(&self) -> i32 {
        match self.open.free_from(self.last_xid.wrapping_add(1)) {
            0 => self.open.free_from(1),
            xid => xid,
        }
    }

    fn open_as(&mut self, xid: i32) {
        self.last_xid = xid;
        if let Some(item) = self.waiting.pop_front()
            && let Some(other) = self.open.insert(xid, item)
        {
            // A read with this xid was already open. The original never writes such a record. Put
            // the item of the earlier read back, so that it is not lost.
            self.waiting.push_front(other);
        }
    }

    /// Adds the items of all files to `backlog`. Items of open reads come first, in the order of
    /// their xids: the original does the same at a start.
    fn finish(self, queue: u32, backlog: &mut Backlog) {
        let items = self.open.items.into_values().chain(self.waiting);
        for Item { created_ms, expires_ms, data } in items {
            backlog.jobs.push(Job {
                queue,
                priority: PRIORITY,
                created_ms,
                expires_ms,
                body: Body::At(data),
                ..Job::default()
            });
        }
    }
}

impl Reads {
    /// Opens a read. Returns the item of the open read that had this xid before.
    fn insert(&mut self, xid: i32, item: Item) -> Option<Item> {
        let other = self.items.insert(xid, item);
        self.ends.remove(&xid);
        let next = xid.wrapping_add(1);
        if !self.items.contains_key(&next) {
            self.ends.insert(next);
        }
        other
    }

    /// Ends a read.
    fn remove(&mut self, xid: i32) -> Option<Item> {
        let item = self.items.remove(&xid)?;
        self.ends.remove(&xid.wrapping_add(1));
        if self.items.contains_key(&xid.wrapping_sub(1)) {
            self.ends.insert(xid);
        }
        Some(item)
    }

    /// The first free xid from `xid` on.
    fn free_from(&self, xid: i32) -> i32 {
        if !self.items.contains_key(&xid) {
            return xid;
        }
        // `xid` is open, so there is an end, unless all 2^32 xids are open.
        let end = self.ends.range(xid..).next().or_else(|| self.ends.first());
        end.copied().unwrap_or(xid)
    }
}

fn read_record<R: Read>(input: &mut Input<'_, R>, file: u32) -> io::Result<Next> {
    let Some([operation]) = input.array()? else { return Ok(Next::End) };
    let xid = match operation {
        4..=9 => match input.array()?.map(i32::from_le_bytes) {
            Some(xid) => xid,
            None => return Ok(Next::Broken("the record is cut off".to_owned())),
        },
        _ => 0,
    };
    let item = match operation {
        0 | 2 | 7 | 8 => match read_item(input, operation == 0, file)? {
            Ok(item) => Some(item),
            Err(what) => return Ok(Next::Broken(what)),
        },
        _ => None,
    };
    Ok(Next::Change(match (operation, item) {
        (8, Some(item)) => Change::Continue(xid, item),
        (_, Some(item)) => Change::Add(item),
        (1, None) => Change::Remove,
        (3, None) => Change::Open,
        (4, None) => Change::SaveXid(xid),
        (5, None) => Change::GiveBack(xid),
        (6, None) => Change::Confirm(xid),
        (9, None) => Change::OpenAs(xid),
        _ => return Ok(Next::Broken(format!("unknown operation {operation}"))),
    }))
}

fn read_item<R: Read>(
    input: &mut Input<'_, R>,
    is_old: bool,
    file: u32,
) -> io::Result<Result<Item, String>> {
    let cut = || Ok(Err("the record is cut off".to_owned()));
    let head_bytes = if is_old { 4 } else { 16 };
    let Some(size) = input.array()?.map(i32::from_le_bytes) else { return cut() };
    let Some(bytes) = u64::try_from(size).ok().and_then(|size| size.checked_sub(head_bytes)) else {
        return Ok(Err(format!("the invalid length {size}")));
    };
    if let Err(what) = check_body(bytes) {
        return Ok(Err(what));
    }
    let time = |ms: i64| u64::try_from(ms).ok().filter(|ms| *ms > 0);
    let (created_ms, expires_ms) = if is_old {
        let Some(expires_s) = input.array()?.map(i32::from_le_bytes) else { return cut() };
        (None, time(i64::from(expires_s) * 1000))
    } else {
        let Some(created) = input.array()?.map(i64::from_le_bytes) else { return cut() };
        let Some(expires) = input.array()?.map(i64::from_le_bytes) else { return cut() };
        (time(created), time(expires))
    };
    let data = Place { file, offset: input.offset(), bytes };
    if input.skip(bytes)?.is_none() {
        return Ok(Err("the data of an item is cut off".to_owned()));
    }
    Ok(Ok(Item { created_ms, expires_ms, data }))
}
