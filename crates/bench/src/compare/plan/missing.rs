//! Programs that are not installed, and the rows that need them.

use std::path::{Path, PathBuf};

use super::row::Row;
use super::work::Peer;

/// The programs without which a comparison still runs.
#[derive(Clone, Debug)]
pub(crate) struct Optional {
    pub(crate) gearmand: PathBuf,
    pub(crate) nats_server: PathBuf,
    pub(crate) rabbitmq_server: PathBuf,
}

/// Removes the rows whose program is missing. Returns a note for each missing program.
pub(crate) fn without_missing(rows: &mut Vec<Row>, programs: &Optional) -> Vec<String> {
    let mut notes = Vec::new();
    for program in [&programs.gearmand, &programs.nats_server, &programs.rabbitmq_server] {
        if is_installed(program) {
            continue;
        }
        let needs = |row: &Row| {
            let cells = [Some(row.ours), row.theirs];
            cells.into_iter().flatten().any(|cell| program_of(cell.peer, programs) == Some(program))
        };
        let mut ids: Vec<&str> = rows.iter().filter(|row| needs(row)).map(|row| row.id).collect();
        ids.dedup();
        rows.retain(|row| !needs(row));
        if !ids.is_empty() {
            notes.push(format!("Left out ({}): there is no {}", ids.join(", "), program.display()));
        }
    }
    notes
}

fn program_of(peer: Peer, programs: &Optional) -> Option<&PathBuf> {
    match peer {
        Peer::Gearmand { .. } => Some(&programs.gearmand),
        Peer::Nats { .. } | Peer::Cluster => Some(&programs.nats_server),
        Peer::RabbitMq => Some(&programs.rabbitmq_server),
        Peer::Lineshaft(..)
        | Peer::Beanstalkd(_)
        | Peer::Redis
        | Peer::BareLoop { .. }
        | Peer::Disk => None,
    }
}

/// True if the file exists. A name without a folder is looked up like a command.
fn is_installed(program: &Path) -> bool {
    if program.is_absolute() || program.components().count() > 1 {
        return program.exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_missing_programs_are_left_out_and_named() {
        let all = super::super::rows::all();
        let mut kept = all.clone();
        let there = || PathBuf::from("/");
        let mut programs =
            Optional { gearmand: there(), nats_server: there(), rabbitmq_server: there() };
        assert!(without_missing(&mut kept, &programs).is_empty());
        assert_eq!(kept.len(), all.len());
        programs.gearmand = PathBuf::from("/nowhere/gearmand");
        programs.nats_server = PathBuf::from("nats-server-of-nobody");
        let expected = [
            "Left out (T11, T12, T12k, T13, T13m, T14, M6, M6b): there is no /nowhere/gearmand",
            "Left out (T20, C1, C2, C3, C4, C5, C6): there is no nats-server-of-nobody",
        ];
        assert_eq!(without_missing(&mut kept, &programs), expected);
        assert!(kept.iter().any(|row| row.id == "T20"), "RabbitMQ is there");
        assert!(kept.iter().all(|row| row.id != "T14"));
        assert!(without_missing(&mut kept, &programs).is_empty());
    }

    #[test]
    fn a_command_is_looked_up() {
        assert!(is_installed(Path::new("sh")));
        assert!(!is_installed(Path::new("/nowhere/sh")));
    }
}
