//! The whole cluster as the leader sees it, for the API and the console.

use std::time::{Duration, Instant};

use api::types;
use nats::guard::{Found, Needed};
use nats::hints::{Role, Seen, differing_settings};
use replica::Seq;
use replica::node::GUARDS_AGE_MAX_MS;

use crate::cluster::status::Status;
use crate::config::Cluster;

/// A node tells something new once a second.
const SILENCE: Duration = Duration::from_secs(5);

/// What the tasks of the node have found out about others.
#[derive(Debug, Default)]
pub(crate) struct View {
    nodes: Option<(Vec<Seen>, Instant)>,
    found: Option<(Found, Instant)>,
    /// The first record and the bytes of the stream.
    stream: Option<(Seq, u64)>,
    last: Seq,
}

impl View {
    /// The hints of all nodes.
    pub(crate) fn saw_nodes(&mut self, nodes: Vec<Seen>) {
        self.nodes = Some((nodes, Instant::now()));
    }

    /// The result of a check of NATS.
    pub(crate) fn checked(&mut self, found: Found) {
        self.found = Some((found, Instant::now()));
    }

    /// The size of the stream.
    pub(crate) fn saw_stream(&mut self, first: Seq, bytes: u64) {
        self.stream = Some((first, bytes));
    }

    /// The last record that this node knows.
    pub(crate) fn saw_record(&mut self, last: Seq) {
        self.last = last;
    }
}

/// The cluster, as the API shows it.
pub(crate) fn shown(settings: &Cluster, stream: &str, status: &Status) -> types::Cluster {
    let facts = status.facts().unwrap_or_default();
    let leader = status.leader().borrow().as_ref().map(|leader| leader.name.clone());
    let view = status.view();
    let role = if facts.leads { types::ClusterRole::Leader } else { types::ClusterRole::Follower };
    types::Cluster {
        role,
        name: settings.name.clone().unwrap_or_default(),
        node: settings.node_name(),
        leader: leader.unwrap_or_default(),
        epoch: status.epoch(),
        group: facts.number,
        nodes: view
            .nodes
            .as_ref()
            .map_or_else(Vec::new, |(nodes, at)| shown_nodes(nodes, at.elapsed(), facts.number)),
        stream: view.stream.map(|(first_record, bytes)| types::ClusterStream {
            name: stream.to_owned(),
            first_record,
            last_record: view.last,
            bytes,
            max_bytes: settings.stream_max_bytes,
        }),
        nats: view.found.as_ref().map_or_else(Vec::new, |(found, _)| shown_servers(found)),
        check: view.found.as_ref().map(|(found, at)| types::ClusterCheck {
            // A node does not begin to lead after a check that is older.
            safe: found.is_safe() && at.elapsed() <= Duration::from_millis(GUARDS_AGE_MAX_MS),
            age_ms: at.elapsed().as_millis() as u64,
            problems: problems(found),
        }),
    }
}

/// `age`: how long ago the hints were read. `group`: the last one of the stream.
fn shown_nodes(nodes: &[Seen], age: Duration, group: u64) -> Vec<types::ClusterNode> {
    let known = nodes.iter().filter(|seen| !seen.hint.is_forgotten);
    let leads = |seen: &&Seen| seen.hint.role == Role::Leads;
    let leader = nodes.iter().filter(leads).max_by_key(|seen| seen.hint.epoch);
    let mut shown: Vec<types::ClusterNode> = known
        .map(|Seen { node, hint, age: silent, .. }| {
            let silent = *silent + age;
            let state = match hint.role {
                _ if silent >= SILENCE => types::NodeState::Silent,
                Role::Leads => types::NodeState::Leads,
                Role::Follows => types::NodeState::Follows,
                Role::Starts => types::NodeState::Starts,
            };
            let differing = leader.map_or_else(Vec::new, |leader| {
                differing_settings(&leader.hint.settings, &hint.settings)
            });
            let differs = (!differing.is_empty())
                .then(|| format!("other settings than the leader: {}", differing.join(", ")));
            let told = [&hint.fault, &hint.refusal, &hint.warning].into_iter();
            let problem = told.cloned().chain(differs).find(|text| !text.is_empty());
            types::ClusterNode {
                name: hint.name.clone(),
                number: format!("{node:016x}"),
                state,
                address: hint.address.clone(),
                version: hint.version.clone(),
                epoch: hint.epoch,
                group: hint.applied,
                durable_group: hint.durable,
                lag_groups: group.saturating_sub(hint.applied),
                lag_ms: hint.lag_ms,
                jobs: hint.jobs,
                silent_ms: silent.as_millis() as u64,
                problem,
            }
        })
        .collect();
    shown.sort_by(|one, other| (&one.name, &one.number).cmp(&(&other.name, &other.number)));
    shown
}

fn shown_servers(found: &Found) -> Vec<types::NatsServer> {
    let answered = found.servers.iter().map(|server| types::NatsServer {
        name: server.name.clone(),
        answers: true,
        version: Some(server.version.clone()),
        flushes: Some(server.flushes),
        has_replica: Some(found.peers.contains(&server.name)),
        problem: None,
    });
    let silent = found.silent.iter().map(|(address, why)| types::NatsServer {
        name: address.clone(),
        answers: false,
        version: None,
        flushes: None,
        has_replica: None,
        problem: Some(why.clone()),
    });
    answered.chain(silent).collect()
}

fn problems(found: &Found) -> Vec<String> {
    let mut problems: Vec<String> =
        found.wrong.iter().chain(&found.small).map(ToString::to_string).collect();
    if let Err(refusal) = found.judge(Needed::Majority) {
        let text = refusal.to_string();
        if !problems.contains(&text) {
            problems.insert(0, text);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use nats::hints::Hint;

    use super::*;

    #[test]
    fn silent_nodes_and_lags_are_shown() {
        let seen = |name: &str, role, applied, age| Seen {
            node: 0xa,
            hint: Hint { name: name.to_owned(), role, applied, ..Hint::default() },
            changes: 1,
            age: Duration::from_secs(age),
        };
        let mut all = [
            seen("two", Role::Follows, 90, 0),
            seen("one", Role::Leads, 99, 1),
            seen("three", Role::Follows, 50, 4),
            seen("gone", Role::Follows, 50, 4),
        ];
        all[3].hint.is_forgotten = true;
        all[2].hint.refusal = "flush".to_owned();
        all[1].hint.settings = "limits=1 policies=2".to_owned();
        all[0].hint.settings = "limits=1 policies=3".to_owned();
        let shown = shown_nodes(&all, Duration::from_secs(1), 100);
        let shown: Vec<_> = shown
            .iter()
            .map(|node| (node.name.as_str(), node.state, node.lag_groups, node.problem.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("one", types::NodeState::Leads, 1, None),
                ("three", types::NodeState::Silent, 50, Some("flush")),
                (
                    "two",
                    types::NodeState::Follows,
                    10,
                    Some("other settings than the leader: policies")
                ),
            ]
        );
    }
}
