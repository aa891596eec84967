//! Reads files that an operator names: the configuration, the files that it refers to, and sources
//! of imports. A name can lead to a FIFO that nobody writes, or to a device without an end. So reads
//! have a bound, and most of these files must be regular.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Why a file is refused although the system can open it. The functions of this module return it
/// inside an [`io::Error`]. The caller adds the name of the file.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The file is a FIFO, a device, a folder or the like.
    #[error("it is not a regular file; name a regular file with this content")]
    NotRegular,
    /// The file has more bytes than this.
    #[error("it is larger than {}; name a smaller file", notation::size::format(*.0))]
    TooLarge(u64),
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        let kind = match refused {
            Refused::NotRegular => io::ErrorKind::InvalidInput,
            Refused::TooLarge(_) => io::ErrorKind::FileTooLarge,
        };
        io::Error::new(kind, refused)
    }
}

/// Opens a regular file, and refuses all others. Never waits for another process.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Without this flag, `open` waits until a process writes to the FIFO. The flag changes nothing
    // for regular files.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Refused::NotRegular.into()) }
}

/// Reads a regular file of at most `bytes_max` bytes, and refuses all others. Never waits for
/// another process.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_regular(path)?, bytes_max)
}

/// Reads a file of any kind, with at most `bytes_max` bytes. So a shell can pass the output of a
/// command (`<(command)`). Waits for the writer of a FIFO.
pub fn read_any(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_at_most(File::open(path)?, bytes_max)
}

fn read_at_most(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte shows that the file is too large.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= bytes_max {
        Ok(bytes)
    } else {
        Err(Refused::TooLarge(bytes_max).into())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn refused(read: io::Result<Vec<u8>>) -> String {
        read.expect_err("the file is refused").to_string()
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "a".repeat(1025)).expect("a file");
        for read in [read_any, read_regular] {
            assert_eq!(read(&path, 1025).expect("it has 1025 bytes").len(), 1025);
            assert_eq!(refused(read(&path, 1024)), "it is larger than 1KiB; name a smaller file");
            let absent = read(&folder.path().join("absent"), 5).expect_err("there is no file");
            assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn only_a_regular_file_is_regular_and_no_read_lacks_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().expect("the program is there");
        assert!(made.success());
        // Nobody writes to the FIFO.
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert!(refused(read_regular(path, 9)).starts_with("it is not a regular file"));
        }
        assert!(
            refused(read_any(Path::new("/dev/zero"), 1024)).starts_with("it is larger than 1KiB")
        );
        assert_eq!(read_any(Path::new("/dev/null"), 9).expect("it is empty"), b"");
    }
}
