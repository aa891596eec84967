//! Entries with schedules, and notes, in runs with a cluster. The judge looks into the groups of the stream: no
//! instant may have two jobs, whoever led, and a node must have the newest notes (`machine/contents.rs`).

use broker::crons::{CatchUp, CronEntry, CronTable, Overlap};

use super::World;
use super::steps::STEPS_BETWEEN_DEEP_CHECKS;
use crate::Checked;

/// A run lasts about as long as the shortest time between two instants. So there are several entries,
/// whose jobs come at different moments.
const ENTRIES: u64 = 6;

fn entry(number: u64) -> CronEntry {
    let name = format!("entry {number}");
    CronEntry {
        name: name.as_bytes().into(),
        // Clients use other queues.
        queue: b"by-schedule"[..].into(),
        cron: "* * * * *".parse().expect("a cron expression"),
        zone: "UTC".parse().expect("a time zone"),
        body: name.as_bytes().into(),
        overlap: if number.is_multiple_of(2) { Overlap::Queue } else { Overlap::Replace },
        catch_up: CatchUp::All,
        jitter_ms: number * 1000,
        line: 0,
    }
}

fn table() -> CronTable {
    CronTable((0..ENTRIES).map(entry).collect())
}

impl World {
    /// Gives the node that serves its entries, as a server does when it begins to lead. The oracle does
    /// not know of these jobs, so only diverse runs have them.
    pub(super) fn set_crons(&mut self) -> Checked {
        if !self.is_diverse_cluster() {
            return Ok(());
        }
        self.with_turn(|_, turn| {
            let table = table();
            if *turn.cron_table() != table {
                let _ = turn.set_crons(table);
            }
            Ok(())
        })
    }

    /// Changes or removes a note of the node that serves.
    pub(super) fn set_note(&mut self) -> Checked {
        if !self.is_diverse_cluster() {
            return Ok(());
        }
        let number = self.summary.steps / STEPS_BETWEEN_DEEP_CHECKS;
        let name = format!("note {}", number % 3);
        let value = if number.is_multiple_of(4) { String::new() } else { number.to_string() };
        self.with_turn(|_, turn| {
            let set = turn.set_note(name.as_bytes(), value.as_bytes());
            set.value.map_err(|refusal| format!("a short note is refused: {refusal}"))
        })
    }

    fn is_diverse_cluster(&self) -> bool {
        self.plan.replicated.is_some_and(|plan| plan.diverse)
    }
}
