//! `lineshaft log`: checks the log of a data folder without a server, and saves the intact part of
//! a damaged log.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ::log::{Loss, OpenError, PosixDisk, Salvage};
use anyhow::{Context as _, Result, bail};
use broker::offline::CLUSTER_KEY;
use serde_json::{Value, json};
use server::exit;

use crate::cli::LogCommand;
use crate::text::{complain, counted, print_value};

/// Limit of losses that are listed per file. The limit is needed because each entry of a file
/// without a header is a separate loss.
const LOSSES_TOLD_MAX: usize = 20;

/// Runs one of the subcommands. If a server would refuse to start with this log, returns the exit
/// code of such a server. A log counts as damaged if the disk cannot read all of it.
pub(crate) fn run(command: LogCommand) -> Result<ExitCode> {
    // All segments are open at the same time, so the limit of open files must be high.
    server::raise_descriptors();
    let done = match command {
        LogCommand::Check { folder, json } => check(&folder, json),
        LogCommand::Repair { folder, copy, json } => repair(&folder, &copy, json),
    };
    done.or_else(|error| {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
        if !causes.any(|cause| cause.kind() == io::ErrorKind::PermissionDenied) {
            return Err(error);
        }
        complain(&format!("{error:#}"));
        Ok(ExitCode::from(exit::NO_PERMISSION))
    })
}

fn check(folder: &Path, as_json: bool) -> Result<ExitCode> {
    let disk = open(folder)?;
    let salvage = match ::log::salvage(&disk, &mut |_| ()) {
        Ok(salvage) => salvage,
        Err(error) => return Ok(refuse(&error)),
    };
    if is_empty(&salvage) {
        bail!("{} has no log", folder.display());
    }
    let code = match salvage.refusal {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(exit::DAMAGED_DATA),
    };
    if as_json {
        print_value(&value_of(&salvage, folder, None))?;
        return Ok(code);
    }
    let mut out = io::stdout().lock();
    print_salvage(&mut out, folder, &salvage)?;
    if salvage.refusal.is_some() {
        let folder = folder.display();
        writeln!(
            out,
            "`lineshaft log repair {folder} NEW_DIR` writes the intact part into a new folder."
        )?;
    }
    Ok(code)
}

fn repair(folder: &Path, copy: &Path, as_json: bool) -> Result<ExitCode> {
    let from = open(folder)?;
    let copy = &whole_path(copy)?;
    refuse_used(folder, copy)?;
    // The name of the copy until it is complete. With this name, an interrupted copy does not look
    // complete.
    let mut unfinished = OsString::from(copy);
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() {
        let path = unfinished.display();
        bail!("{path} is left over from an interrupted repair: remove it first");
    }
    let to = PosixDisk::new(&unfinished)
        .with_context(|| format!("cannot create {}", unfinished.display()))?;
    // A cluster's nodes must agree on every job, and a repair may have lost some. So the new log is
    // that of a single server.
    let repaired = ::log::repair(&from, Arc::new(to), &|key| key != CLUSTER_KEY);
    let salvage = match repaired {
        Ok(salvage) if !is_empty(&salvage) => salvage,
        failed => {
            fs::remove_dir_all(&unfinished)
                .with_context(|| format!("cannot remove {}", unfinished.display()))?;
            return match failed {
                Ok(_) => bail!("{} has no log", folder.display()),
                Err(error) if has_no_room(&error) => Ok(refuse_small(folder, copy)),
                Err(error) => Ok(refuse(&error)),
            };
        }
    };
    let renamed = fs::rename(&unfinished, copy).and_then(|()| sync_parent(copy));
    renamed.with_context(|| format!("cannot name the copy {}", copy.display()))?;
    if as_json {
        print_value(&value_of(&salvage, folder, Some(copy)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    print_salvage(&mut out, folder, &salvage)?;
    let jobs = counted(salvage.report.jobs, "job");
    let (copy, folder) = (copy.display(), folder.display());
    writeln!(out, "{copy} is a new log with {jobs}; {folder} was not changed.")?;
    Ok(ExitCode::SUCCESS)
}

fn open(folder: &Path) -> Result<PosixDisk> {
    PosixDisk::read_only(folder).with_context(|| format!("cannot open {}", folder.display()))
}

fn is_empty(salvage: &Salvage) -> bool {
    salvage.report.segments == 0 && salvage.refusal.is_none()
}

/// Returns the final path of the copy, without a trailing slash, and with all links resolved.
pub(super) fn whole_path(copy: &Path) -> Result<PathBuf> {
    let whole = match fs::canonicalize(copy) {
        Ok(whole) => whole,
        Err(_) => std::path::absolute(copy)?.components().collect(),
    };
    let parent = whole.parent().filter(|_| whole.file_name().is_some());
    let Some(parent) = parent else { bail!("cannot rename {}", copy.display()) };
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    if device(&whole).is_some_and(|device_of_copy| device(parent) != Some(device_of_copy)) {
        bail!("{} is a mount point: name a new folder in it", copy.display());
    }
    Ok(whole)
}

/// Refuses a copy folder that is not empty, or is inside the source folder.
pub(super) fn refuse_used(folder: &Path, copy: &Path) -> Result<()> {
    let is_used = match fs::read_dir(copy) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot use {}", copy.display()));
        }
    };
    if is_used {
        bail!("{} is not empty: name a new folder", copy.display());
    }
    let folder = fs::canonicalize(folder)?;
    let is_inside = copy
        .ancestors()
        .any(|above| fs::canonicalize(above).is_ok_and(|above| above.starts_with(&folder)));
    if is_inside {
        bail!("{} is inside {}: name a folder elsewhere", copy.display(), folder.display());
    }
    Ok(())
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    fs::File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// True if the disk of the copy is full. The error is never about the disk of the source folder,
/// because the source is only read.
fn has_no_room(error: &OpenError) -> bool {
    match error {
        OpenError::Full { .. } => true,
        OpenError::Failed(failure) => failure.is_no_room(),
        _ => false,
    }
}

fn refuse_small(folder: &Path, copy: &Path) -> ExitCode {
    let (folder, copy) = (folder.display(), copy.display());
    complain(&format!(
        "no room for {copy}: a copy takes as much room as all live jobs, plus a few segments; name a \
         folder with more room. {folder} was not changed"
    ));
    ExitCode::from(exit::DISK)
}

fn refuse(error: &OpenError) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(exit_code(error))
}

/// The exit code of a server that cannot start with this log.
pub(super) fn exit_code(error: &OpenError) -> u8 {
    match error {
        OpenError::Locked { .. } => exit::FOLDER_LOCKED,
        OpenError::Permission { .. } => exit::NO_PERMISSION,
        OpenError::Io { .. } | OpenError::Full { .. } | OpenError::Failed(_) => exit::DISK,
        OpenError::Format { .. }
        | OpenError::ForeignLog { .. }
        | OpenError::MissingSegment { .. }
        | OpenError::CutBackup { .. }
        | OpenError::Damaged { .. } => exit::DAMAGED_DATA,
    }
}

/// What was found, as JSON. `copy`: the folder with the intact part.
fn value_of(salvage: &Salvage, folder: &Path, copy: Option<&Path>) -> Value {
    let Salvage { report, refusal, losses, doubtful_jobs, unnamed_jobs } = salvage;
    let losses = losses.iter().map(|loss| {
        let Loss { file, offset, bytes, jobs_max, what } = loss;
        json!({ "file": file, "offset": offset, "bytes": bytes, "jobs_max": jobs_max, "what": what })
    });
    json!({
        "folder": folder.to_string_lossy(),
        "copy": copy.map(Path::to_string_lossy),
        "intact": refusal.is_none(),
        "refusal": refusal.as_ref().map(ToString::to_string),
        "segments": report.segments,
        "groups": report.groups,
        "bytes": report.bytes,
        "jobs": report.jobs,
        "facts": report.facts,
        "cut_bytes": report.cut_bytes,
        "cut_groups": report.cut_groups,
        "unreadable_blocks": report.unreadable_blocks,
        "losses": losses.collect::<Vec<Value>>(),
        "doubtful_jobs": doubtful_jobs,
        "unnamed_jobs": unnamed_jobs,
    })
}

fn print_salvage(out: &mut impl Write, folder: &Path, salvage: &Salvage) -> Result<()> {
    let Salvage { report, refusal, losses, doubtful_jobs, unnamed_jobs } = salvage;
    let folder = folder.display();
    if let Some(refusal) = refusal {
        writeln!(out, "{folder}: the log is damaged, and the server refuses to start with it:")?;
        writeln!(out, "  {refusal}")?;
        writeln!(out, "Intact:")?;
    } else {
        writeln!(out, "{folder}: the log is intact.")?;
    }
    let segments = counted(report.segments, "segment");
    let (groups, bytes) = (counted(report.groups, "group"), counted(report.bytes, "byte"));
    writeln!(out, "  {segments}, {groups}, {bytes}")?;
    let (jobs, facts) = (counted(report.jobs, "job"), counted(report.facts, "fact"));
    writeln!(out, "  {jobs}, {facts} about queues and the server")?;
    if report.cut_bytes > 0 || report.cut_groups > 0 {
        let bytes = counted(report.cut_bytes, "byte");
        let groups = counted(report.cut_groups, "whole group");
        writeln!(
            out,
            "  at the end {bytes} with {groups} not known to be durable: a start cuts them off"
        )?;
    }
    if report.unreadable_blocks > 0 {
        let blocks = counted(report.unreadable_blocks, "unreadable block");
        writeln!(out, "  {blocks} that a start does not need: check the disk")?;
    }
    if refusal.is_none() {
        return Ok(());
    }
    writeln!(out, "Lost:")?;
    for of_file in losses.chunk_by(|one, next| one.file == next.file) {
        let (told, rest) = of_file.split_at(LOSSES_TOLD_MAX.min(of_file.len()));
        for loss in told {
            print_loss(out, loss)?;
        }
        print_rest(out, rest)?;
    }
    if losses.is_empty() {
        writeln!(out, "  nothing visible: every entry passes its checksum")?;
    } else {
        writeln!(
            out,
            "  This can include finishes and changes of other jobs: a finished job can come \
             back."
        )?;
    }
    if *doubtful_jobs > 0 {
        writeln!(
            out,
            "  Kept, though perhaps finished: {}. Their finishes cannot be told from those of lost jobs.",
            counted(*doubtful_jobs, "job")
        )?;
    }
    if *unnamed_jobs > 0 {
        writeln!(
            out,
            "  In queues named `lost-queue-…`, because the right name is lost: {}.",
            counted(*unnamed_jobs, "job")
        )?;
    }
    Ok(())
}

fn print_loss(out: &mut impl Write, loss: &Loss) -> io::Result<()> {
    let Loss { file, offset, bytes, jobs_max, what } = loss;
    write!(out, "  {file} at offset {offset}")?;
    if *bytes > 0 {
        write!(out, ", {}", counted(*bytes, "byte"))?;
    }
    writeln!(out, ": {what}; {}", at_most(*jobs_max))
}

/// Prints a summary of the losses of a file beyond the limit of the list.
fn print_rest(out: &mut impl Write, rest: &[Loss]) -> io::Result<()> {
    let Some(Loss { file, .. }) = rest.first() else { return Ok(()) };
    let pieces = counted(rest.len() as u64, "more piece");
    let bytes = counted(rest.iter().map(|loss| loss.bytes).sum(), "byte");
    let jobs_max = rest.iter().map(|loss| loss.jobs_max).sum();
    writeln!(out, "  {file}: {pieces}, {bytes}; {}", at_most(jobs_max))
}

fn at_most(jobs_max: Option<u64>) -> String {
    match jobs_max {
        Some(0) => "no job".into(),
        Some(1) => "one job at most".into(),
        Some(jobs) => format!("{} at most", counted(jobs, "job")),
        None => "number of jobs unknown".into(),
    }
}
