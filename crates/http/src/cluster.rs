//! Metrics of the node of a cluster: while it follows, they are all that it shows.

use histogram::Histogram as Values;

use crate::exposition::Exposition;
use crate::exposition::MetricType::{Counter, Gauge, Histogram};
use crate::metrics::IO_BUCKETS;

/// What a node knows about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterFacts {
    /// It leads. Otherwise it follows.
    pub leads: bool,
    /// The epoch in which it leads, or that it follows.
    pub epoch: u64,
    /// The last group that it has applied.
    pub number: u64,
    /// The last group that is durable in its folder.
    pub durable: u64,
    /// How far it is behind: the age of the first change that it has read and not applied, in
    /// milliseconds.
    pub lag_ms: u64,
    /// The newest check of NATS found nothing wrong.
    pub is_safe: bool,
    /// The node accepts that NATS acknowledges before it flushes.
    pub is_unsafe_allowed: bool,
    /// Times of this leader's appends, until the stream acknowledged them, in microseconds.
    pub appends_us: Values,
    /// Records of the stream that did not count.
    pub stale: u64,
    /// Appends that the stream refused.
    pub refused: u64,
    /// Appends whose outcome was not known at first.
    pub unknown: u64,
    /// Bytes of a copy of another node's folder that have arrived.
    pub copy_bytes: u64,
    /// The bytes of this copy. 0: the node fetches none.
    pub copy_total_bytes: u64,
}

/// The metrics of a node that follows.
pub(crate) fn page(facts: &ClusterFacts) -> String {
    let mut page = Exposition::default();
    render(&mut page, facts);
    page.into_text()
}

pub(crate) fn render(page: &mut Exposition, facts: &ClusterFacts) {
    let help = "1 for what the node of a cluster does: it leads, or it follows.";
    page.metric("lineshaft_cluster_role", Gauge, help);
    page.sample(&[("role", "leader")], u8::from(facts.leads));
    page.sample(&[("role", "follower")], u8::from(!facts.leads));
    let help = "The epoch: the number of the leader's claim in the stream.";
    page.number("lineshaft_cluster_epoch", Gauge, help, facts.epoch);
    let help = "The last group of changes that the node has applied.";
    page.number("lineshaft_cluster_group", Gauge, help, facts.number);
    let help = "The last group of changes that is durable in the node's folder.";
    page.number("lineshaft_cluster_durable_group", Gauge, help, facts.durable);
    let help =
        "How far the node is behind: the age of the first change that it has read and not applied.";
    page.number("lineshaft_cluster_lag_seconds", Gauge, help, facts.lag_ms as f64 / 1e3);
    let help = "1 if the newest check of NATS found nothing wrong. Otherwise the node does not begin to lead.";
    page.number("lineshaft_cluster_safe", Gauge, help, u8::from(facts.is_safe));
    let help = "1 if cluster.unsafe_flush is on: a power failure can lose acknowledged jobs.";
    page.number("lineshaft_cluster_unsafe", Gauge, help, u8::from(facts.is_unsafe_allowed));
    let help = "Time of the leader's appends to the stream, on which replies wait.";
    page.metric("lineshaft_cluster_append_seconds", Histogram, help);
    page.histogram(&[], &facts.appends_us, IO_BUCKETS);
    let help = "Records of the stream that came too late, and did not count.";
    page.number("lineshaft_cluster_stale_records_total", Counter, help, facts.stale);
    let help = "Appends that the stream refused.";
    page.number("lineshaft_cluster_refused_appends_total", Counter, help, facts.refused);
    let help = "Appends whose outcome was not known at first.";
    page.number("lineshaft_cluster_unknown_appends_total", Counter, help, facts.unknown);
    let help = "Bytes of a copy of another node's folder that have arrived.";
    page.number("lineshaft_cluster_copy_bytes", Gauge, help, facts.copy_bytes);
    let help = "The bytes of this copy. 0: the node fetches none.";
    page.number("lineshaft_cluster_copy_total_bytes", Gauge, help, facts.copy_total_bytes);
}
