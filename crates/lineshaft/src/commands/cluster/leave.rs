//! `lineshaft cluster leave`: the folder of a node becomes that of a server that is alone.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ::log::{PosixDisk, Settings};
use anyhow::{Context as _, Result, anyhow, bail};
use broker::offline::{self, OriginError};
use replica::Lineage;
use replica::group::At;

use super::super::import::refusal;
use super::folders;
use super::place::log_settings;
use crate::cli::LeaveArguments;
use crate::text::{count, counted, print_line};

/// Removes the folder's place.
pub(super) fn run(arguments: &LeaveArguments) -> Result<ExitCode> {
    let folder = &arguments.folder;
    let Some((lineage, _)) = folders::place(folder)? else {
        bail!("{} belongs to no cluster", folder.display());
    };
    let at = leave(folder, lineage)?;
    let folder = folder.display();
    print_line(&format!(
        "{folder} belongs to no cluster now. It has {}, as of group {}.",
        counted(at.jobs, "job"),
        count(at.number)
    ))?;
    print_line(
        "If the cluster continues, its jobs and those of this folder are not the same any more.",
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the place of a folder, and returns it.
pub(super) fn leave(folder: &Path, lineage: Lineage) -> Result<At> {
    let disk = PosixDisk::new(folder)
        .with_context(|| format!("cannot use the data folder {}", folder.display()))?;
    let settings = log_settings(Settings::default().segment_bytes, None);
    let left = offline::leave(Arc::new(disk), settings, lineage);
    left.map_err(|error| match error {
        OriginError::Open(error) => refusal(error),
        OriginError::Failed(_) => anyhow!(error),
    })
}
