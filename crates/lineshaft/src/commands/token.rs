//! `lineshaft token`: changes the token file of a server. A running server reads the file again.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, Result, anyhow, bail};
use api::tokens::{
    Entry, EntryKind, TokenFile, check_entry_name, new_token, parse_fingerprint, shown_fingerprint,
};
use serde_json::{Value, json};
use server::config::sources::Sources;
use server::exit;

use crate::cli::{TokenAddArguments, TokenCommand, TokenPlace};
use crate::text::{json_line, print_value};

/// The mode of a new file. Only the user of the server uses it.
const MODE: u32 = 0o600;
/// Rights that a file keeps. Others than the owner never get the right to write.
const MODE_MAX: u32 = 0o644;

/// Runs the subcommand.
pub(crate) fn run(command: TokenCommand) -> Result<ExitCode> {
    let place = match &command {
        TokenCommand::Add(TokenAddArguments { place, .. })
        | TokenCommand::List { place, .. }
        | TokenCommand::Remove { place, .. } => place,
    };
    let path = match token_file(place)? {
        Ok(path) => path,
        Err(mistakes) => {
            eprintln!("{mistakes}");
            return Ok(ExitCode::from(exit::BAD_CONFIGURATION));
        }
    };
    match command {
        TokenCommand::Add(arguments) => add(&path, arguments)?,
        TokenCommand::List { json, .. } => list(&path, json)?,
        TokenCommand::Remove { name, json, .. } => remove(&path, &name, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The token file: the one that was named, or the one of the configuration. The inner error has the
/// mistakes of the configuration.
fn token_file(place: &TokenPlace) -> Result<Result<PathBuf, String>> {
    if let Some(file) = &place.file {
        return Ok(Ok(file.clone()));
    }
    let effective = match Sources::of_process(place.config.clone()).load() {
        Ok(effective) => effective,
        Err(mistakes) => return Ok(Err(mistakes.to_string())),
    };
    let path = effective.config.tokens_file().ok_or_else(|| {
        anyhow!("the server keeps nothing on disk; name a file with --file, and set http.tokens")
    })?;
    Ok(Ok(path))
}

fn add(path: &Path, arguments: TokenAddArguments) -> Result<()> {
    let TokenAddArguments { name, role, fingerprint, json: as_json, place: _ } = arguments;
    check_entry_name(&name).map_err(anyhow::Error::msg)?;
    let (kind, token, fingerprint) = match fingerprint {
        None => {
            let (token, fingerprint) = new_token()?;
            (EntryKind::Token, Some(token), fingerprint)
        }
        Some(text) => {
            let fingerprint = parse_fingerprint(&text).ok_or_else(|| {
                anyhow!("`{text}` is not a SHA-256: write 64 hexadecimal digits, as openssl does")
            })?;
            (EntryKind::Certificate, None, fingerprint)
        }
    };
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let mut created = api::shown_moment(broker::Millis(since_1970.as_millis() as u64));
    created.truncate("2026-11-22".len());
    let entry = Entry { kind, name, role, fingerprint, created: Some(created) };
    let mut shown = value_of(&entry);
    change(path, |file| {
        if file.entries.iter().any(|other| other.name == entry.name) {
            bail!(
                "the name `{}` is used already; remove it first, or use another name",
                entry.name
            );
        }
        file.entries.push(entry);
        Ok(())
    })?;
    match token {
        token if as_json => {
            shown["token"] = token.into();
            print_value(&shown)?;
        }
        Some(token) => {
            println!("{token}");
            eprintln!("This is the only time that the token is shown.");
        }
        None => {}
    }
    Ok(())
}

/// An entry as JSON.
fn value_of(entry: &Entry) -> Value {
    let Entry { kind, name, role, fingerprint, created } = entry;
    let sum = shown_fingerprint(fingerprint);
    json!({
        "name": name, "role": role, "kind": kind.name(), "created": created, "sha256": sum,
    })
}

fn list(path: &Path, as_json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    for entry in read(path)?.entries {
        if as_json {
            writeln!(out, "{}", json_line(&value_of(&entry))?)?;
            continue;
        }
        let Entry { kind, name, role, fingerprint, created } = entry;
        let (created, sum) = (created.unwrap_or_default(), shown_fingerprint(&fingerprint));
        let (kind, role) = (kind.name(), role.name());
        writeln!(out, "{name:<24} {role:<9} {kind:<12} {created:<10}  sha256 {}…", &sum[..12])?;
    }
    Ok(())
}

fn remove(path: &Path, name: &str, as_json: bool) -> Result<()> {
    change(path, |file| {
        let count = file.entries.len();
        file.entries.retain(|entry| entry.name != name);
        if file.entries.len() == count {
            bail!("{} has no `{name}`; `lineshaft token list` shows the names", path.display());
        }
        Ok(())
    })?;
    if as_json {
        print_value(&json!({ "removed": name }))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<TokenFile> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    TokenFile::parse(&text).map_err(|mistake| anyhow!("{}: {mistake}", path.display()))
}

/// Changes the file. The new file replaces the old one at once, so the server never sees a part.
fn change(path: &Path, edit: impl FnOnce(&mut TokenFile) -> Result<()>) -> Result<()> {
    let mut name = path.file_name().context("the token file has no name")?.to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // The new file is also the lock: a second tool cannot create it.
    let created = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new);
    let mut out = created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!(
            "{} exists: another tool is changing the tokens; if no tool runs, remove this file",
            new.display()
        ),
        io::ErrorKind::NotFound => anyhow!(
            "the folder of {} does not exist; start the server once, or name a file with --file",
            path.display()
        ),
        _ => anyhow!("{}: {error}", new.display()),
    })?;
    let replaced = (|| {
        let mut file = read(path)?;
        edit(&mut file)?;
        out.write_all(file.written().as_bytes())?;
        keep_owner(path, &out)?;
        out.sync_all()?;
        fs::rename(&new, path)?;
        // Otherwise, a token that was removed could come back after a power failure.
        File::open(folder_of(path))?.sync_all()?;
        Ok(())
    })();
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Gives the new file the owner and the mode of the old one. If there is no old one, the owner of
/// the folder gets it, because the server runs as this user. This uses the open file and not its
/// path: root can run this tool, and the owner of the folder could put a link at the path.
fn keep_owner(path: &Path, new: &File) -> io::Result<()> {
    let old = fs::metadata(path);
    if let Ok(old) = &old {
        new.set_permissions(Permissions::from_mode(old.mode() & MODE_MAX))?;
    }
    let owner = old.or_else(|_| fs::metadata(folder_of(path)))?;
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
        fchown(new, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
