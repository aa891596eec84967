//! The token file: who may use the API from other machines, and who may change something. It is a
//! TOML file with one table for each token or client certificate. It contains no secret: a token is
//! 256 random bits, and the file has their SHA-256.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_api::sha256;
use ring::rand::{SecureRandom as _, SystemRandom};
use toml::{Table, Value};

use crate::types::Role;

/// A token begins with this, so that people and scanners recognize it.
const PREFIX: &str = "lsh_";
/// The longest name of a token.
const NAME_BYTES_MAX: usize = 64;
/// A longer file is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The first lines of a file.
const HEAD: &str = "\
# Who may use the HTTP API and the console of a Lineshaft server. `lineshaft token` changes this
# file; the server reads it again when it changes. It contains no secrets.
";

/// The SHA-256 of a token, or of a certificate.
pub type Fingerprint = [u8; 32];

/// How a client shows who it is.
#[derive(Copy, Clone, Debug, Eq, Hash, PartialEq)]
pub enum EntryKind {
    /// It sends a token.
    Token,
    /// It has a TLS certificate.
    Certificate,
}

/// One client in the token file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// How the client shows who it is.
    pub kind: EntryKind,
    /// The name of the client, for people.
    pub name: String,
    /// What the client is allowed to do.
    pub role: Role,
    /// The SHA-256 of the token or of the certificate.
    pub fingerprint: Fingerprint,
    /// The day on which the entry was made.
    pub created: Option<String>,
}

/// The clients in a token file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TokenFile {
    /// The clients, in the order of the file.
    pub entries: Vec<Entry>,
}

impl EntryKind {
    /// The name of the kind's tables in the file.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Token => "token",
            EntryKind::Certificate => "certificate",
        }
    }
}

impl TokenFile {
    /// Reads a token file. The error names the mistake.
    pub fn parse(text: &str) -> Result<TokenFile, String> {
        let file: Table = text.parse().map_err(|error| format!("{error}").trim().to_owned())?;
        let mut entries: Vec<Entry> = Vec::new();
        for (key, value) in &file {
            let kinds = [EntryKind::Token, EntryKind::Certificate];
            let kind = kinds.into_iter().find(|kind| kind.name() == key).ok_or_else(|| {
                format!("`{key}` is unknown; the tables are `[[token]]` and `[[certificate]]`")
            })?;
            let tables = value.as_array().ok_or_else(|| format!("write `[[{key}]]`"))?;
            for table in tables {
                let table = table.as_table().ok_or_else(|| format!("write `[[{key}]]`"))?;
                let entry = parse_entry(kind, table)?;
                if entries.iter().any(|other| other.name == entry.name) {
                    return Err(format!("the name `{}` occurs twice", entry.name));
                }
                entries.push(entry);
            }
        }
        Ok(TokenFile { entries })
    }

    /// The text of the file.
    pub fn written(&self) -> String {
        let mut text = HEAD.to_owned();
        for entry in &self.entries {
            // A `String` accepts all text. Names have no characters that TOML must escape.
            let _ = write!(
                text,
                "\n[[{}]]\nname = \"{}\"\nrole = \"{}\"\nsha256 = \"{}\"\n",
                entry.kind.name(),
                entry.name,
                entry.role.name(),
                shown_fingerprint(&entry.fingerprint),
            );
            if let Some(created) = &entry.created {
                let _ = writeln!(text, "created = \"{created}\"");
            }
        }
        text
    }
}

fn parse_entry(kind: EntryKind, table: &Table) -> Result<Entry, String> {
    let table_name = kind.name();
    if let Some(key) =
        table.keys().find(|key| !["name", "role", "sha256", "created"].contains(&key.as_str()))
    {
        return Err(format!("`{key}` is not a key of a `[[{table_name}]]`"));
    }
    let text = |key: &str| match table.get(key) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("`{key}` of a `[[{table_name}]]` is not a text")),
        None => Err(format!("a `[[{table_name}]]` has no `{key}`")),
    };
    let name = text("name")?;
    check_entry_name(name)?;
    let role = Role::parse(text("role")?)
        .filter(|role| *role != Role::None)
        .ok_or_else(|| format!("the role of `{name}` is not `viewer`, `operator` or `admin`"))?;
    let fingerprint = parse_fingerprint(text("sha256")?)
        .ok_or_else(|| format!("the `sha256` of `{name}` is not 64 hexadecimal digits"))?;
    let created = table.get("created").map(|_| text("created").map(str::to_owned)).transpose()?;
    if created.as_ref().is_some_and(|created| !created.chars().all(is_plain)) {
        return Err(format!("`created` of `{name}` is not a date"));
    }
    Ok(Entry { kind, name: name.to_owned(), role, fingerprint, created })
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.@:".contains(character)
}

/// Checks the name of a client. The error says what is wrong.
pub fn check_entry_name(name: &str) -> Result<(), String> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(format!(
            "`{name}` is not a name: write 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.`, `@` or `:`"
        ))
    }
}

/// Reads a fingerprint: 64 hexadecimal digits, also with colons between them.
pub fn parse_fingerprint(text: &str) -> Option<Fingerprint> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let mut fingerprint = [0; 32];
    if digits.len() != 2 * fingerprint.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in fingerprint.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(fingerprint)
}

/// The text of a fingerprint.
pub fn shown_fingerprint(fingerprint: &Fingerprint) -> String {
    fingerprint.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A new token, and its fingerprint. Fails only if the system has no random numbers.
pub fn new_token() -> io::Result<(String, Fingerprint)> {
    let token = format!("{PREFIX}{}", random_text()?);
    let fingerprint = sha256(token.as_bytes());
    Ok((token, fingerprint))
}

/// 256 random bits as text.
pub(crate) fn random_text() -> io::Result<String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The clients of the token file, as the server knows them now.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    path: Option<PathBuf>,
    known: Mutex<Known>,
    /// Whether a thread looks at the file now. A disk can hang.
    is_looking: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// The state of the file that was read. `None` if there is no file.
    stamp: Option<Stamp>,
    /// The last error, so that each error is reported once.
    error: Option<String>,
    tokens: HashMap<Fingerprint, Arc<Entry>>,
    certificates: HashMap<Fingerprint, Arc<Entry>>,
}

/// What changes when a file is replaced or written.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct Stamp {
    file: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: u64,
}

impl Tokens {
    /// The clients of this file. Call [`Tokens::look`] to read it.
    pub(crate) fn new(path: Option<PathBuf>) -> Tokens {
        Tokens { path, ..Tokens::default() }
    }

    /// The client with this token or certificate.
    pub(crate) fn find(&self, kind: EntryKind, fingerprint: &Fingerprint) -> Option<Arc<Entry>> {
        let known = self.known();
        let entries = match kind {
            EntryKind::Token => &known.tokens,
            EntryKind::Certificate => &known.certificates,
        };
        entries.get(fingerprint).cloned()
    }

    /// Looks at the file on another thread, if no thread does so now. Must be called in a runtime.
    pub(crate) fn look_soon(self: &Arc<Self>) {
        if self.path.is_some() && !self.is_looking.swap(true, Ordering::AcqRel) {
            let tokens = self.clone();
            tokio::task::spawn_blocking(move || {
                tokens.look();
                tokens.is_looking.store(false, Ordering::Release);
            });
        }
    }

    /// Reads the file if it changed. Without the file, nobody is known. If the file has a mistake,
    /// or cannot be read, everything stays as it was, and the server reports the error.
    pub(crate) fn look(&self) {
        let Some(path) = &self.path else { return };
        let stamp = self.known().stamp;
        match read_if_changed(path, stamp) {
            Ok(None) => {}
            Ok(Some((stamp, file))) => {
                let mut known = Known { stamp, ..Known::default() };
                let count = file.entries.len();
                for entry in file.entries {
                    let entries = match entry.kind {
                        EntryKind::Token => &mut known.tokens,
                        EntryKind::Certificate => &mut known.certificates,
                    };
                    entries.insert(entry.fingerprint, Arc::new(entry));
                }
                *self.known() = known;
                tracing::info!("{}: read {count} tokens and certificates", path.display());
            }
            Err(error) => {
                let mut known = self.known();
                if known.error.as_ref() != Some(&error) {
                    tracing::error!("{}: {error}; the earlier tokens stay valid", path.display());
                    known.error = Some(error);
                }
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file, if its state differs from `known`. No file is an empty file.
fn read_if_changed(
    path: &Path,
    known: Option<Stamp>,
) -> Result<Option<(Option<Stamp>, TokenFile)>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(known.map(|_| (None, TokenFile::default())));
        }
        Err(error) => return Err(error.to_string()),
    };
    let stamp = Stamp {
        file: (metadata.dev(), metadata.ino()),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        bytes: metadata.len(),
    };
    if known == Some(stamp) {
        return Ok(None);
    }
    let bytes =
        operator_file::read_regular(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let file = TokenFile::parse(&text)?;
    // A file with a mistake is read again and again, so do not warn of it each time.
    if metadata.mode() & 0o022 != 0 {
        tracing::warn!(
            "{}: other users can write this file and so give themselves rights; run chmod 600",
            path.display()
        );
    }
    Ok(Some((Some(stamp), file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: EntryKind, name: &str, role: Role) -> Entry {
        let created = Some("2026-11-22".to_owned());
        Entry { kind, name: name.to_owned(), role, fingerprint: sha256(name.as_bytes()), created }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = TokenFile {
            entries: vec![
                entry(EntryKind::Token, "grafana", Role::Viewer),
                entry(EntryKind::Certificate, "deploy@ci", Role::Admin),
            ],
        };
        let mut read = TokenFile::parse(&file.written()).unwrap();
        // TOML sorts the two kinds of tables.
        read.entries.sort_by_key(|entry| entry.kind == EntryKind::Certificate);
        assert_eq!(read, file);
        assert_eq!(TokenFile::parse("").unwrap(), TokenFile::default());
    }

    #[test]
    fn mistakes_are_named() {
        let table = |lines: &str| format!("[[token]]\nname = \"a\"\n{lines}\n");
        let sum = format!("sha256 = \"{}\"", "0".repeat(64));
        let role = "role = \"viewer\"";
        let whole = table(&format!("{role}\n{sum}"));
        assert!(TokenFile::parse(&whole).is_ok());
        for (text, wanted) in [
            ("[token]\n".to_owned(), "[[token]]"),
            ("[[tokens]]\n".to_owned(), "`tokens` is unknown"),
            (table(role), "no `sha256`"),
            (table(&sum), "no `role`"),
            (table(&format!("role = \"root\"\n{sum}")), "role of `a`"),
            (table(&format!("role = \"none\"\n{sum}")), "role of `a`"),
            (table(&format!("{role}\nsha256 = \"00\"")), "64 hexadecimal"),
            (table(&format!("{role}\n{sum}\ncolor = 1")), "`color`"),
            (whole.replace("\"a\"", "\"a b\""), "not a name"),
            (whole.clone() + &whole, "twice"),
        ] {
            let mistake = TokenFile::parse(&text).unwrap_err();
            assert!(mistake.contains(wanted), "{text}: {mistake}");
        }
    }

    #[test]
    fn fingerprints_can_have_colons() {
        let fingerprint = sha256(b"x");
        let text = shown_fingerprint(&fingerprint);
        assert_eq!(parse_fingerprint(&text), Some(fingerprint));
        let pairs: Vec<&str> = (0..32).map(|pair| &text[2 * pair..2 * pair + 2]).collect();
        assert_eq!(parse_fingerprint(&pairs.join(":").to_uppercase()), Some(fingerprint));
        for wrong in ["", "00", "zz", &"é".repeat(32), &text[1..]] {
            assert_eq!(parse_fingerprint(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let ((one, fingerprint), (other, _)) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        assert_eq!((one.len(), sha256(one.as_bytes())), (47, fingerprint));
    }
}
