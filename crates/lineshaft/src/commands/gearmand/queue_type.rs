//! `-q TYPE`: where the original stores background jobs, for example in a database. Lineshaft uses
//! its own log instead.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::options::Options;

/// The original's durable queue types. If a type has a file, the second value is the flag that
/// names the file.
const KEPT: [(&str, Option<&str>); 8] = [
    ("libsqlite3", Some("--libsqlite3-db")),
    ("tokyocabinet", Some("--libtokyocabinet-file")),
    ("libtokyocabinet", Some("--libtokyocabinet-file")),
    ("libmemcached", None),
    ("redis", None),
    ("postgres", None),
    ("mysql", None),
    ("libdrizzle", None),
];

/// Returns the folder of the log. `None` means that all jobs stay in memory.
pub(super) fn folder(options: &Options) -> Result<Option<PathBuf>, String> {
    let queue_type = options.queue_type.as_deref().unwrap_or("builtin");
    if queue_type.eq_ignore_ascii_case("builtin") {
        return Ok(options.data.clone());
    }
    let kept = KEPT.iter().find(|(name, _)| queue_type.eq_ignore_ascii_case(name));
    let Some((name, file_flag)) = kept else {
        return Err(format!("Error while initializing the queue : {queue_type}"));
    };
    let folder = match (file_flag, &options.queue_file) {
        (Some(_), Some(file)) => Some(instead_of(file, options.data.as_deref())?),
        (Some(_), None) | (None, _) => options.data.clone(),
    };
    folder.map(Some).ok_or_else(|| match file_flag {
        Some(flag) => {
            format!("missing required {flag} argument; Error while initializing the queue : {name}")
        }
        None => format!(
            "-q {queue_type}: Lineshaft keeps jobs in its own log instead, which needs a folder: add \
             --data DIR. `lineshaft import gearmand` takes over its jobs from a dump as CSV"
        ),
    })
}

/// Returns the folder that replaces the original's file: `named`, or else a folder next to the
/// file. Fails if the file may have jobs.
fn instead_of(file: &Path, named: Option<&Path>) -> Result<PathBuf, String> {
    let folder = named.map_or_else(|| named_like(file), Path::to_owned);
    let shown = file.display();
    match std::fs::metadata(file) {
        Ok(found) if found.len() > 0 => Err(format!(
            "{shown} is a queue of the original and may hold jobs; to take them over, run: lineshaft \
             import gearmand {shown} --data {} --set-aside",
            folder.display()
        )),
        Ok(_) => Ok(folder),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(folder),
        Err(error) => Err(format!("cannot read {shown}: {error}")),
    }
}

fn named_like(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lineshaft");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(queue_type: &str, file: Option<&Path>) -> Options {
        Options {
            queue_type: Some(queue_type.to_owned()),
            queue_file: file.map(Path::to_owned),
            ..Options::default()
        }
    }

    #[test]
    fn only_a_queue_that_is_kept_has_a_folder() {
        assert_eq!(folder(&Options::default()), Ok(None));
        assert_eq!(folder(&options("BuiltIn", Some(Path::new("/f")))), Ok(None));
        let folder_of_file = Some("/no/such/queue.db.lineshaft".into());
        let file = Some(Path::new("/no/such/queue.db"));
        assert_eq!(folder(&options("LibSqlite3", file)), Ok(folder_of_file));
    }

    #[test]
    fn unsupported_queue_types_are_refused() {
        let message = folder(&options("bogus", None)).unwrap_err();
        assert_eq!(message, "Error while initializing the queue : bogus");
        let message = folder(&options("libsqlite3", None)).unwrap_err();
        assert!(message.starts_with("missing required --libsqlite3-db argument"), "{message}");
        let message = folder(&options("Redis", None)).unwrap_err();
        assert!(message.contains("add --data DIR"), "{message}");
        let with_data = Options { data: Some("/d".into()), ..options("redis", None) };
        assert_eq!(folder(&with_data), Ok(Some("/d".into())));
    }

    #[test]
    fn a_file_of_the_original_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("queue.db");
        std::fs::write(&file, "").unwrap();
        assert!(folder(&options("libsqlite3", Some(&file))).is_ok());
        std::fs::write(&file, "SQLite format 3").unwrap();
        let message = folder(&options("libsqlite3", Some(&file))).unwrap_err();
        let beside = format!("lineshaft import gearmand {0} --data {0}.lineshaft", file.display());
        assert!(message.contains(&beside), "{message}");
        // The server uses the folder of --data, so the jobs must go there.
        let with_data = Options { data: Some("/d".into()), ..options("libsqlite3", Some(&file)) };
        let message = folder(&with_data).unwrap_err();
        assert!(message.contains(" --data /d --set-aside"), "{message}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(folder(&with_data), Ok(Some("/d".into())));
    }
}
