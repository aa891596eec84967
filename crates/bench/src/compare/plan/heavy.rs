//! The kinds of heavy requests, and the other loads of a server.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// A tube whose jobs expire after [`EXPIRED_AGE`]. Expired jobs stay at its head until a client
/// requests a job.
pub(crate) const EXPIRED_TUBE: &str = "heavy-expired";
pub(crate) const EXPIRED_AGE: Duration = Duration::from_millis(10);

/// A kind of heavy request, or another load of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heavy {
    BusyProcessors,
    CheapRequests,
    ManyCheapRequests,
    Puts,
    PassingJobs,
    ListTubes,
    ReserveOverTubes,
    ReserveOverExpired,
    Kick,
    Closes,
    ShowJobs,
    ShowUniqueJobs,
    FunctionStatus,
    PriorityStatus,
    Workers,
    DropUnknown,
    CannotDo,
    ResetAbilities,
    GrabAndSleep,
    NewsToMany,
    KestrelStats,
    DumpStats,
    KestrelStatus,
    FlushAllExpired,
    FlushAll,
    PutToChildren,
    AdminStats,
    AdminGraph,
    StuckReaders,
    LargeBodies,
    IdleConnections,
    Reclaim,
}

impl fmt::Display for Heavy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        match self.connections() {
            1 => Ok(()),
            connections => write!(formatter, ", {connections} connections"),
        }
    }
}

impl Heavy {
    /// All loads, in the order of measurement.
    pub(crate) const ALL: [Heavy; 32] = [
        Heavy::BusyProcessors,
        Heavy::CheapRequests,
        Heavy::ManyCheapRequests,
        Heavy::Puts,
        Heavy::PassingJobs,
        Heavy::ListTubes,
        Heavy::ReserveOverTubes,
        Heavy::ReserveOverExpired,
        Heavy::Kick,
        Heavy::Closes,
        Heavy::ShowJobs,
        Heavy::ShowUniqueJobs,
        Heavy::FunctionStatus,
        Heavy::PriorityStatus,
        Heavy::Workers,
        Heavy::DropUnknown,
        Heavy::CannotDo,
        Heavy::ResetAbilities,
        Heavy::GrabAndSleep,
        Heavy::NewsToMany,
        Heavy::KestrelStats,
        Heavy::DumpStats,
        Heavy::KestrelStatus,
        Heavy::FlushAllExpired,
        Heavy::PutToChildren,
        Heavy::AdminStats,
        Heavy::AdminGraph,
        // This comes after all loads that request items, because it empties their queues.
        Heavy::FlushAll,
        Heavy::StuckReaders,
        Heavy::LargeBodies,
        Heavy::IdleConnections,
        // This is the last load, because its reclaim continues after the end of the load.
        Heavy::Reclaim,
    ];

    /// These loads are judged only on a server without a log. With a log, the quiet client also
    /// waits until the disk has written the large bodies before its own job. The run also measures
    /// these loads with a log, but this result depends on the disk and not on the server.
    pub(crate) const IN_MEMORY: [Heavy; 1] = [Heavy::LargeBodies];

    /// Loads without heavy requests, measured in the same way. The first makes no request at all,
    /// the others are ordinary. They show how much the machine's processors and disk delay a quiet
    /// client.
    pub(crate) const YARDSTICKS: [Heavy; 5] = [
        Heavy::BusyProcessors,
        Heavy::CheapRequests,
        Heavy::ManyCheapRequests,
        Heavy::Puts,
        Heavy::PassingJobs,
    ];

    fn name(self) -> &'static str {
        match self {
            Heavy::BusyProcessors => "processors that are never idle, and no request",
            Heavy::CheapRequests => "`ignore nosuch`",
            Heavy::ManyCheapRequests => "100 × `ignore nosuch`",
            Heavy::Puts => "1,000 × `put`",
            Heavy::PassingJobs => "jobs of 32 KiB that come and go",
            Heavy::ListTubes => "`list-tubes`",
            Heavy::ReserveOverTubes => "`reserve` over 5,000 tubes",
            Heavy::ReserveOverExpired => "`reserve` over 2,000 expired jobs",
            Heavy::Kick => "`kick` of 1,000 delayed jobs",
            Heavy::Closes => "connections that close with 1,000 jobs",
            Heavy::ShowJobs => "`show jobs`",
            Heavy::ShowUniqueJobs => "`show unique jobs`",
            Heavy::FunctionStatus => "`status`",
            Heavy::PriorityStatus => "`prioritystatus`",
            Heavy::Workers => "`workers` of 10,000 functions each",
            Heavy::DropUnknown => "100 × `drop function nosuch`",
            Heavy::CannotDo => "100 × `CANT_DO` of a worker with 10,000 jobs",
            Heavy::ResetAbilities => "`RESET_ABILITIES` and 10,000 × `CAN_DO`",
            Heavy::GrabAndSleep => "`GRAB_JOB` and `PRE_SLEEP` of a worker of 10,000 functions",
            Heavy::NewsToMany => "`WORK_DATA` to 8,000 watchers",
            Heavy::KestrelStats => "Kestrel's `STATS`",
            Heavy::DumpStats => "Kestrel's `DUMP_STATS`",
            Heavy::KestrelStatus => "Kestrel's `STATUS`, changed",
            Heavy::FlushAllExpired => "Kestrel's `FLUSH_ALL_EXPIRED`",
            Heavy::FlushAll => "Kestrel's `FLUSH_ALL`",
            Heavy::PutToChildren => "puts into a parent of 256 children",
            Heavy::AdminStats => "`/stats`",
            Heavy::AdminGraph => "`/graph_data`",
            Heavy::StuckReaders => "20 readers that are stuck",
            Heavy::LargeBodies => "jobs of 10 MiB",
            Heavy::IdleConnections => "idle connections",
            Heavy::Reclaim => "reclaim that copies",
        }
    }

    /// The number of connections that make the request at once. It is higher for requests that
    /// stall a server only from many connections at once.
    pub(crate) fn connections(self) -> u32 {
        match self {
            Heavy::CheapRequests
            | Heavy::ListTubes
            | Heavy::ShowJobs
            | Heavy::ShowUniqueJobs
            | Heavy::FunctionStatus
            | Heavy::Workers
            | Heavy::KestrelStats
            | Heavy::DumpStats
            | Heavy::FlushAllExpired => 4,
            Heavy::ReserveOverTubes => 20,
            Heavy::ManyCheapRequests | Heavy::DropUnknown => 50,
            Heavy::BusyProcessors
            | Heavy::Puts
            | Heavy::PassingJobs
            | Heavy::ReserveOverExpired
            | Heavy::Kick
            | Heavy::Closes
            | Heavy::PriorityStatus
            | Heavy::CannotDo
            | Heavy::ResetAbilities
            | Heavy::GrabAndSleep
            | Heavy::NewsToMany
            | Heavy::KestrelStatus
            | Heavy::FlushAll
            | Heavy::PutToChildren
            | Heavy::AdminStats
            | Heavy::AdminGraph
            | Heavy::StuckReaders
            | Heavy::LargeBodies
            | Heavy::IdleConnections
            | Heavy::Reclaim => 1,
        }
    }
}

/// The policy of [`EXPIRED_TUBE`], as a part of a configuration file.
pub(crate) fn expiry_policy() -> String {
    let age = EXPIRED_AGE.as_millis();
    format!(
        "[[policy]]\nmatch = \"{EXPIRED_TUBE}\"\nlimits = {{ age = \"{age}ms\" }}\nexpire_sweep = 1\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_heavy_load_is_measured_once_and_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Heavy::ALL.iter().map(Heavy::to_string).collect();
        assert_eq!(names.len(), Heavy::ALL.len());
        // `Reclaim` is the last variant, so its number shows how many variants there are.
        assert_eq!(Heavy::Reclaim as usize + 1, Heavy::ALL.len());
    }

    #[test]
    fn a_name_mentions_connections_if_there_are_several() {
        assert_eq!(Heavy::ShowJobs.to_string(), "`show jobs`, 4 connections");
        assert_eq!(Heavy::Closes.to_string(), "connections that close with 1,000 jobs");
    }
}
