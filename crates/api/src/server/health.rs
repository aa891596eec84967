//! The health of the server: a level, and the reasons for it.

use broker::{Broker, Status, Totals};

use crate::types::{Health, HealthLevel, HealthReason};

/// The health of the server.
pub(crate) fn of(broker: &Broker, totals: &Totals, status: Status, is_stopping: bool) -> Health {
    let mut reasons = Vec::new();
    let mut add = |level, code: &str, text: String| {
        reasons.push(HealthReason { level, code: code.to_owned(), text });
    };
    let (critical, warning) = (HealthLevel::Critical, HealthLevel::Warning);
    if let Some(failure) = broker.failure() {
        let text = format!("the log failed: {failure}; fix the disk, then restart the server");
        add(critical, "log-failed", text);
    }
    if is_stopping {
        add(critical, "stopping", "the server is stopping".to_owned());
    }
    if broker.disk_room().is_some_and(|room| room.is_critical) {
        let text = "the disk has less free room than disk.critical, so new jobs are refused; free \
                    disk space";
        add(critical, "disk-critical", text.to_owned());
    } else if broker.is_full() {
        let text = "the log has no room, so new jobs are refused; finish jobs, or free disk space";
        add(critical, "log-full", text.to_owned());
    }
    if broker.memory_usage().is_full() {
        let text = "memory is at its limit, so new jobs are refused; finish jobs, or raise \
                    limits.memory";
        add(critical, "memory-full", text.to_owned());
    }
    if broker.job_count_limit().is_some_and(|most| totals.jobs() >= most) {
        let text = "the limit of jobs is reached, so new jobs are refused; finish jobs, or raise \
                    limits.jobs";
        add(critical, "job-limit", text.to_owned());
    }
    if broker.queue_usage().most.is_some_and(|most| totals.queues >= most as u64) {
        let text = "the limit of queues is reached, so clients cannot create queues; raise \
                    limits.queues";
        add(warning, "queue-limit", text.to_owned());
    }
    if broker.draining() {
        add(warning, "draining", "the server drains, so new jobs are refused".to_owned());
    }
    let blocked = match status {
        Status::Up => None,
        Status::WriteAvoid => Some((warning, "clients should write to another server")),
        Status::ReadOnly => Some((warning, "clients cannot put jobs")),
        Status::Quiescent => Some((critical, "clients cannot put or take jobs")),
    };
    if let Some((level, text)) = blocked {
        add(level, "status", format!("the status was changed: {text}"));
    }
    if let Some(error) = broker.reclaim_error() {
        let text = format!("the log cannot free disk space: {error}; check the disk");
        add(warning, "reclaim", text);
    }
    if let Some(error) = broker.index_error() {
        let text = format!("cannot use an index file of the log: {error}; check the disk");
        add(warning, "index", text);
    }
    if let Some(error) = broker.body_error() {
        let text = format!("cannot read a job from the log: {error}; check the disk");
        // The error may be old: the disk may work again.
        add(warning, "unreadable", text);
    }
    // The most important reason comes first.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    Health { level: reasons.first().map_or(HealthLevel::Ok, |reason| reason.level), reasons }
}
