//! Judges the facts that `doctor` has collected.

use std::time::Duration;

use api::types::{HealthLevel, Log, Server};
use notation::size;
use serde::Serialize;

use super::facts::{Data, Facts};

/// Fewer open files than this are a limit that busy servers reach.
const OPEN_FILES_MIN: u64 = 4096;
/// A shorter accept queue drops connections when many clients connect at once.
const SOMAXCONN_MIN: u64 = 1024;
/// Less free space than this is little.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// A disk that writes to stable storage takes longer for this. Faster ones have a cache that
/// survives a power failure, or none that the sync reaches.
const SYNC_MIN: Duration = Duration::from_micros(30);
/// A slower disk is the bottleneck of clients that wait for each put.
const SYNC_MAX: Duration = Duration::from_millis(10);

/// File systems in memory, as `statfs` numbers them: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];
/// File systems over a network: NFS, SMB (two numbers), CIFS, FUSE and Ceph.
const OVER_NETWORK: [u64; 6] = [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42, 0x6573_5546, 0x00C3_6400];

/// How bad a finding is.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// All is well.
    Ok,
    /// It works. An operator should know about it.
    Look,
    /// It does not work, or jobs are in danger.
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub level: Level,
    pub topic: &'static str,
    pub text: String,
    /// What to do.
    pub cure: Option<&'static str>,
}

fn ok(topic: &'static str, text: String) -> Finding {
    Finding { level: Level::Ok, topic, text, cure: None }
}

fn look(topic: &'static str, text: String, cure: &'static str) -> Finding {
    Finding { level: Level::Look, topic, text, cure: Some(cure) }
}

fn wrong(topic: &'static str, text: String, cure: &'static str) -> Finding {
    Finding { level: Level::Wrong, topic, text, cure: Some(cure) }
}

/// All findings.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![match &facts.mistakes {
        None => ok("config", "the configuration has no mistakes".to_owned()),
        Some(mistakes) => wrong("config", mistakes.clone(), "correct these settings"),
    }];
    findings.push(judge_open_files(facts.open_files));
    findings.extend(facts.somaxconn.map(judge_accept_queue));
    if let Some(data) = &facts.data {
        findings.push(judge_file_system(data));
        findings.push(judge_space(data));
        findings.push(judge_syncs(data));
    }
    match &facts.server {
        Ok((server, log)) => findings.extend(judge_server(server, log)),
        Err(reason) => findings.push(look(
            "server",
            reason.clone(),
            "start the server, or name its HTTP address, to check it, too",
        )),
    }
    findings
}

fn judge_open_files((now, most): (u64, u64)) -> Finding {
    if most < OPEN_FILES_MIN {
        let text = format!("a process can have at most {most} open files, and so fewer clients");
        return look("files", text, "raise the limit: LimitNOFILE= in the unit, or `ulimit -Hn`");
    }
    ok("files", format!("{now} open files, and up to {most} for the server"))
}

fn judge_accept_queue(somaxconn: u64) -> Finding {
    let text = format!("{somaxconn} clients can wait until the server accepts them");
    if somaxconn < SOMAXCONN_MIN {
        return look("network", text, "raise it: sysctl -w net.core.somaxconn=4096");
    }
    ok("network", text)
}

fn judge_file_system(data: &Data) -> Finding {
    let folder = data.folder.display();
    if IN_MEMORY.contains(&data.file_system) {
        let text = format!("{folder} is in memory: a restart of the machine loses all jobs");
        return wrong("folder", text, "set data.dir to a folder on a disk");
    }
    if OVER_NETWORK.contains(&data.file_system) {
        let text = format!("{folder} is on a network or FUSE file system");
        return look(
            "folder",
            text,
            "prefer a local disk: syncs are slow there, and locks can fail",
        );
    }
    let exists = if data.exists { "" } else { " will be made at the first start, and" };
    ok("folder", format!("{folder}{exists} is on a local file system"))
}

fn judge_space(data: &Data) -> Finding {
    let (free, total) = (size::rounded(data.free_bytes), size::rounded(data.total_bytes));
    let text = format!("{free} of {total} are free");
    if data.free_bytes < FREE_BYTES_MIN.min(data.total_bytes / 10) {
        return look("disk", text, "make room: on a full disk, the server refuses puts");
    }
    ok("disk", text)
}

fn judge_syncs(data: &Data) -> Finding {
    let syncs = match &data.syncs {
        Ok(syncs) => syncs,
        Err(reason) => {
            let text = format!("cannot write into {}: {reason}", data.folder.display());
            return wrong("sync", text, "let the user of the server write there");
        }
    };
    let part = |percent: usize| syncs[(syncs.len() - 1) * percent / 100];
    let (half, most) = (part(50), part(99));
    let us = |time: Duration| time.as_micros();
    let text = format!("a sync takes {} us, at most {} us", us(half), us(most));
    if !data.syncs_always {
        return ok("sync", format!("{text}; data.sync says that replies do not wait for it"));
    }
    if half < SYNC_MIN {
        let cure =
            "check that the disk keeps synced data in a power failure (a virtual disk can lie)";
        return look("sync", text, cure);
    }
    if half > SYNC_MAX {
        return look("sync", text, "use a faster disk, or data.sync = \"50ms\" if that is enough");
    }
    ok("sync", text)
}

fn judge_server(server: &Server, log: &Log) -> Vec<Finding> {
    let own = env!("CARGO_PKG_VERSION");
    let mut findings = vec![if server.version == own {
        ok("server", format!("version {own} answers"))
    } else {
        let text = format!("the server is version {}, and this tool {own}", server.version);
        look("server", text, "restart the server after an upgrade")
    }];
    for reason in &server.health.reasons {
        let level = if reason.level == HealthLevel::Critical { Level::Wrong } else { Level::Look };
        findings.push(Finding { level, topic: "health", text: reason.text.clone(), cure: None });
    }
    if server.health.reasons.is_empty() {
        findings.push(ok("health", "the server reports no problem".to_owned()));
    }
    if log.stopped_ms < 0 {
        findings.push(look(
            "clock",
            "the wall clock was set back while the server was stopped".to_owned(),
            "run an NTP client; a wrong clock delays jobs that wait for a time of day",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn data() -> Data {
        Data {
            folder: PathBuf::from("/data"),
            exists: true,
            file_system: 0xEF53,
            free_bytes: 50 << 30,
            total_bytes: 100 << 30,
            syncs_always: true,
            syncs: Ok(vec![Duration::from_micros(200); 20]),
        }
    }

    fn facts(data: Option<Data>) -> Facts {
        Facts {
            mistakes: None,
            open_files: (1024, 1 << 20),
            somaxconn: Some(4096),
            data,
            server: Err("no server".to_owned()),
        }
    }

    fn level(facts: &Facts, topic: &str) -> Level {
        judge(facts).into_iter().find(|finding| finding.topic == topic).unwrap().level
    }

    #[test]
    fn a_good_machine_has_nothing_to_change() {
        let facts = facts(Some(data()));
        let bad: Vec<Finding> =
            judge(&facts).into_iter().filter(|finding| finding.level != Level::Ok).collect();
        assert_eq!(bad.len(), 1, "only the server is away: {bad:?}");
        assert_eq!(bad[0].topic, "server");
    }

    #[test]
    fn each_danger_is_found() {
        let tmpfs = Data { file_system: 0x0102_1994, ..data() };
        assert_eq!(level(&facts(Some(tmpfs)), "folder"), Level::Wrong);
        let nfs = Data { file_system: 0x6969, ..data() };
        assert_eq!(level(&facts(Some(nfs)), "folder"), Level::Look);
        let full = Data { free_bytes: 100 << 20, ..data() };
        assert_eq!(level(&facts(Some(full)), "disk"), Level::Look);
        let locked = Data { syncs: Err("permission denied".to_owned()), ..data() };
        assert_eq!(level(&facts(Some(locked)), "sync"), Level::Wrong);
        let timed = |us| Data { syncs: Ok(vec![Duration::from_micros(us); 20]), ..data() };
        assert_eq!(level(&facts(Some(timed(3))), "sync"), Level::Look);
        assert_eq!(level(&facts(Some(timed(20_000))), "sync"), Level::Look);
        let lazy = Data { syncs_always: false, ..timed(3) };
        assert_eq!(level(&facts(Some(lazy)), "sync"), Level::Ok);
        let few = Facts { open_files: (256, 1024), ..facts(None) };
        assert_eq!(level(&few, "files"), Level::Look);
        let short = Facts { somaxconn: Some(128), ..facts(None) };
        assert_eq!(level(&short, "network"), Level::Look);
        let mistaken = Facts { mistakes: Some("data.snyc".to_owned()), ..facts(None) };
        assert_eq!(level(&mistaken, "config"), Level::Wrong);
    }
}
