//! Data folders of stopped servers: what they have, and which one is the newest.

use std::io;
use std::path::{Path, PathBuf};

use ::log::PosixDisk;
use anyhow::{Context as _, Result};
use broker::offline::{self, Audited};
use replica::Lineage;
use replica::group::At;
use serde::Serialize;

use super::super::import::refusal;
use crate::text::{count, counted, print_line};

/// A folder, as it was read and computed again.
#[derive(Debug, Serialize)]
pub(super) struct Folder {
    #[serde(rename = "folder")]
    pub(super) path: PathBuf,
    /// Whether its jobs and facts are exactly those of its place.
    pub(super) verified: bool,
    pub(super) lineage: Option<String>,
    pub(super) epoch: Option<u64>,
    pub(super) group: Option<u64>,
    pub(super) chain: Option<String>,
    pub(super) jobs: u64,
    /// What is wrong with it. Empty: nothing.
    pub(super) problem: String,
    #[serde(skip)]
    pub(super) place: Option<(Lineage, At)>,
}

/// Reads all of a folder that no server uses.
pub(super) fn read(folder: &Path) -> Result<Folder> {
    let disk = PosixDisk::read_only(folder)
        .with_context(|| format!("cannot read the data folder {}", folder.display()))?;
    let audited =
        offline::audit(&disk).map_err(refusal).with_context(|| folder.display().to_string())?;
    Ok(Folder::of(folder, &audited))
}

/// The place of a folder, without reading its jobs more than once. A missing folder has none.
pub(super) fn place(folder: &Path) -> Result<Option<(Lineage, At)>> {
    let disk = match PosixDisk::read_only(folder) {
        Ok(disk) => disk,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the data folder {}", folder.display()));
        }
    };
    offline::place(&disk).map_err(refusal)
}

impl Folder {
    fn of(folder: &Path, audited: &Audited) -> Folder {
        let at = audited.place.map(|(_, at)| at);
        let problem = match (&audited.refusal, at) {
            (Some(damage), _) => format!("its log is damaged: {damage}"),
            (None, None) => "it belongs to no cluster; `lineshaft cluster create` begins one \
                             with it"
                .to_owned(),
            (None, Some(_)) if audited.is_right() => String::new(),
            (None, Some(at)) => format!(
                "it has {} and the state hash {:016x}, but its place says {} and {:016x}: it was \
                 changed, or jobs are lost",
                counted(audited.jobs, "job"),
                audited.state,
                count(at.jobs),
                at.state
            ),
        };
        Folder {
            path: folder.to_owned(),
            verified: problem.is_empty(),
            lineage: audited.place.map(|(lineage, _)| lineage.to_string()),
            epoch: at.map(|at| at.epoch),
            group: at.map(|at| at.number),
            chain: at.map(|at| format!("{:016x}", at.chain.0)),
            jobs: audited.jobs,
            problem,
            place: audited.place,
        }
    }

    /// The number of the last group. A folder without a place comes before all others.
    pub(super) fn number(&self) -> u64 {
        self.group.unwrap_or(0)
    }
}

/// What is wrong with single folders.
pub(super) fn wrong(folders: &[Folder]) -> Vec<String> {
    let wrong = folders.iter().filter(|folder| !folder.verified);
    wrong.map(|folder| format!("{}: {}", folder.path.display(), folder.problem)).collect()
}

/// Folders that do not belong to one history.
pub(super) fn differences(folders: &[Folder]) -> Vec<String> {
    let mut differences = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        for other in &folders[..at] {
            let (Some((ours, one)), Some((theirs, two))) = (folder.place, other.place) else {
                continue;
            };
            let (shown, other) = (folder.path.display(), other.path.display());
            if ours != theirs {
                differences.push(format!("{shown} and {other} belong to different clusters"));
            } else if one.number == two.number && one.chain != two.chain {
                differences.push(format!(
                    "{shown} and {other} differ: both have group {}, with other contents",
                    one.number
                ));
            }
        }
    }
    differences
}

/// The verified folder with the highest number. Numbers of folders that differ say nothing about
/// their age.
pub(super) fn longest(folders: &[Folder]) -> Option<&Folder> {
    folders.iter().filter(|folder| folder.verified).max_by_key(|folder| folder.number())
}

/// Prints a line for each folder, then the newest one.
pub(super) fn print(folders: &[Folder]) -> io::Result<()> {
    for Folder { path, verified, lineage, epoch, group, chain, jobs, .. } in folders {
        let word = if *verified { "verified" } else { "WRONG" };
        let (folder, jobs) = (path.display(), counted(*jobs, "job"));
        match (group, epoch, chain, lineage) {
            (Some(group), Some(epoch), Some(chain), Some(lineage)) => print_line(&format!(
                "{word:<8}  {folder}: group {}, epoch {}, chain {chain}, {jobs}, lineage {lineage}",
                count(*group),
                count(*epoch)
            ))?,
            _ => print_line(&format!("{word:<8}  {folder}: {jobs}, no place in a cluster"))?,
        }
    }
    if !differences(folders).is_empty() {
        return Ok(());
    }
    match longest(folders) {
        Some(best) => print_line(&format!(
            "The newest verified folder is {}, with group {}.",
            best.path.display(),
            count(best.number())
        )),
        None => print_line("No folder is verified."),
    }
}

#[cfg(test)]
mod tests {
    use replica::chain::Chain;

    use super::*;

    fn folder(path: &str, lineage: u8, number: u64, chain: u64) -> Folder {
        let at = At { number, chain: Chain(chain), ..At::default() };
        Folder {
            path: path.into(),
            verified: true,
            lineage: None,
            epoch: None,
            group: Some(number),
            chain: None,
            jobs: 0,
            problem: String::new(),
            place: Some((Lineage([lineage; 16]), at)),
        }
    }

    #[test]
    fn folders_of_one_history_have_a_newest() {
        let folders = [folder("a", 1, 7, 70), folder("b", 1, 9, 90), folder("c", 1, 7, 70)];
        assert_eq!(differences(&folders), Vec::<String>::new());
        assert_eq!(longest(&folders).unwrap().path, Path::new("b"));
    }

    #[test]
    fn folders_of_several_histories_are_named() {
        let folders = [folder("a", 1, 7, 70), folder("b", 2, 9, 90), folder("c", 1, 7, 71)];
        assert_eq!(
            differences(&folders),
            [
                "b and a belong to different clusters",
                "c and a differ: both have group 7, with other contents",
                "c and b belong to different clusters",
            ]
        );
    }
}
