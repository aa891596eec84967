//! The files of the history: each is appended to, then only read, then deleted as a whole.
//!
//! A file has a number as its name. Without a folder, the bytes stay in memory. Nothing is synced:
//! after a power failure, the end of the history can be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The digits of a file's name.
const DIGITS: usize = 10;
/// A longer file was not written by this program: a part is smaller, and so is a record. Places in a
/// file must fit into 32 bits.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// At most this many files. Each one is open.
pub const FILES_MAX: usize = 128;

/// A place in a file.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) file: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// Bytes that can be read without the lock of the store, even after their file is deleted.
#[derive(Debug)]
pub(crate) enum Source {
    InFile(Arc<File>, Place),
    InMemory(Vec<u8>),
}

impl Source {
    /// Reads the bytes.
    pub(crate) fn read(self) -> io::Result<Vec<u8>> {
        match self {
            Source::InFile(file, place) => {
                let mut bytes = vec![0; place.len as usize];
                file.read_exact_at(&mut bytes, place.offset.into())?;
                Ok(bytes)
            }
            Source::InMemory(bytes) => Ok(bytes),
        }
    }
}

#[derive(Debug)]
enum Content {
    InFile(Arc<File>),
    InMemory(Vec<u8>),
}

/// A file.
#[derive(Debug)]
struct Part {
    content: Content,
    len: u64,
}

/// All files, by their numbers.
#[derive(Debug)]
pub(crate) struct Files {
    folder: Option<PathBuf>,
    parts: BTreeMap<u32, Part>,
    /// The file that is appended to. `None`: the next bytes go to a new file.
    open: Option<u32>,
    /// The number of the next file.
    next: u32,
    /// A file gets no more than this, unless the bytes of one append are more.
    part_bytes_max: u64,
}

impl Files {
    /// Opens the folder. The first append makes it if it does not exist. `None`: in memory. The files
    /// of earlier processes get no more bytes, except by [`Files::resume`].
    pub(crate) fn open(folder: Option<&Path>, part_bytes_max: u64) -> io::Result<Files> {
        let mut files = Files::in_memory(part_bytes_max);
        let Some(folder) = folder else { return Ok(files) };
        files.folder = Some(folder.to_owned());
        let found = match fs::read_dir(folder) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            Err(error) => return Err(error),
        };
        let mut numbers = BTreeSet::new();
        for found in found {
            numbers.extend(found?.file_name().to_str().and_then(number_of));
            if numbers.len() > FILES_MAX
                && let Some(oldest) = numbers.pop_first()
                && let Err(error) = fs::remove_file(folder.join(name_of(oldest)))
            {
                files.report(oldest, &error);
            }
        }
        for number in numbers {
            files.next = files.next.max(number.saturating_add(1));
            let path = folder.join(name_of(number));
            // What cannot be read now is not counted, and stays for the next start.
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
            match opened {
                Ok((len, _)) if len > FILE_BYTES_MAX => {
                    files.report(number, &io::ErrorKind::FileTooLarge.into());
                }
                Ok((len, file)) => {
                    let content = Content::InFile(Arc::new(file));
                    files.parts.insert(number, Part { content, len });
                }
                Err(error) => files.report(number, &error),
            }
        }
        Ok(files)
    }

    fn report(&self, number: u32, error: &io::Error) {
        let folder = self.folder.as_deref().unwrap_or(Path::new("")).display();
        tracing::warn!(%error, %folder, file = number, "cannot use a file of the history of jobs");
    }

    /// No files: the bytes stay in memory.
    pub(crate) fn in_memory(part_bytes_max: u64) -> Files {
        Files { folder: None, parts: BTreeMap::new(), open: None, next: 1, part_bytes_max }
    }

    /// Lets a file of an earlier process get more bytes, if it is the last one. The caller has read it to
    /// its end, and knows that it is not torn.
    pub(crate) fn resume(&mut self, number: u32) {
        let Some(folder) = &self.folder else { return };
        let is_last = number.checked_add(1) == Some(self.next);
        if let Some(part) = self.parts.get_mut(&number).filter(|_| is_last)
            && let Ok(file) =
                OpenOptions::new().read(true).write(true).open(folder.join(name_of(number)))
        {
            part.content = Content::InFile(Arc::new(file));
            self.open = Some(number);
        }
    }

    /// The next bytes go to a new file.
    pub(crate) fn seal(&mut self) {
        self.open = None;
    }

    /// A file gets no more than this, unless one append is more.
    pub(crate) fn part_bytes_max(&self) -> u64 {
        self.part_bytes_max
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The numbers of all files, oldest first.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.parts.keys().copied().collect()
    }

    /// The oldest file, unless it is the one that is appended to.
    pub(crate) fn oldest_sealed(&self) -> Option<u32> {
        self.parts.keys().next().copied().filter(|number| Some(*number) != self.open)
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.parts.values().map(|part| part.len).sum()
    }

    /// Whether the bytes are in memory, because there is no folder.
    pub(crate) fn are_in_memory(&self) -> bool {
        self.folder.is_none()
    }

    /// The bytes that are in memory because there is no folder.
    pub(crate) fn resident_bytes(&self) -> u64 {
        if self.are_in_memory() { self.total_bytes() } else { 0 }
    }

    /// The whole content of a file.
    pub(crate) fn content(&self, number: u32) -> io::Result<Vec<u8>> {
        match self.parts.get(&number).map(|part| &part.content) {
            Some(Content::InFile(file)) => {
                let mut bytes = Vec::new();
                (&**file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > FILE_BYTES_MAX {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                Ok(bytes)
            }
            Some(Content::InMemory(bytes)) => Ok(bytes.clone()),
            None => Ok(Vec::new()),
        }
    }

    /// The bytes at a place. `None`: the file is deleted.
    pub(crate) fn source(&self, place: Place) -> Option<Source> {
        match &self.parts.get(&place.file)?.content {
            Content::InFile(file) => Some(Source::InFile(file.clone(), place)),
            Content::InMemory(bytes) => {
                let found = bytes.get(place.offset as usize..)?.get(..place.len as usize)?;
                Some(Source::InMemory(found.into()))
            }
        }
    }

    /// Appends bytes. Returns the file and the offset. After an error, the bytes are not there, and
    /// the next ones go to a new file.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<(u32, u32)> {
        let is_full = |part: &Part| part.len + bytes.len() as u64 > self.part_bytes_max;
        let open = self.open.filter(|open| self.parts.get(open).is_some_and(|part| !is_full(part)));
        let number = match open {
            Some(number) => number,
            None => self.begin()?,
        };
        let part = self.parts.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        let offset = part.len;
        match &mut part.content {
            Content::InMemory(all) => all.extend_from_slice(bytes),
            Content::InFile(file) => {
                if let Err(error) = file.write_all_at(bytes, offset) {
                    self.open = None;
                    // A part of the bytes can be there. They would not count towards the limit.
                    let cut = if offset == 0 { self.delete(number) } else { file.set_len(offset) };
                    if let Err(error) = cut {
                        self.report(number, &error);
                    }
                    return Err(error);
                }
            }
        }
        part.len += bytes.len() as u64;
        Ok((number, offset as u32))
    }

    /// Begins a new file.
    fn begin(&mut self) -> io::Result<u32> {
        let number = self.next;
        // Otherwise the name of the new file would be taken.
        let next = number.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        let content = match &self.folder {
            None => Content::InMemory(Vec::new()),
            Some(folder) => {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                let mut options = OpenOptions::new();
                let options = options.read(true).write(true).create_new(true).mode(0o600);
                Content::InFile(Arc::new(options.open(folder.join(name_of(number)))?))
            }
        };
        self.next = next;
        self.parts.insert(number, Part { content, len: 0 });
        self.open = Some(number);
        Ok(number)
    }

    /// Deletes a file.
    pub(crate) fn delete(&mut self, number: u32) -> io::Result<()> {
        if self.parts.remove(&number).is_none() {
            return Ok(());
        }
        if self.open == Some(number) {
            self.open = None;
        }
        match &self.folder {
            Some(folder) => fs::remove_file(folder.join(name_of(number))),
            None => Ok(()),
        }
    }
}

fn name_of(number: u32) -> String {
    format!("{number:0DIGITS$}")
}

fn number_of(name: &str) -> Option<u32> {
    let is_number = name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk without room, as a file that is appended to.
    fn full_disk(len: u64) -> Part {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Part { content: Content::InFile(Arc::new(file)), len }
    }

    #[test]
    fn a_full_disk_loses_what_is_written_now() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::open(Some(folder.path()), 1000).unwrap();
        for len in [0, 10] {
            let number = files.next;
            files.next += 1;
            files.parts.insert(number, full_disk(len));
            files.open = Some(number);
            assert!(files.append(b"entry").is_err());
            assert_eq!(files.open, None);
        }
        assert_eq!((files.numbers(), files.total_bytes()), (vec![2], 10), "the first one is empty");
        let (number, offset) = files.append(b"entry").unwrap();
        assert_eq!((number, offset), (3, 0));
        assert_eq!(files.content(3).unwrap(), b"entry");
    }
}
