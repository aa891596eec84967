//! Nodes with owners that only count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nats::Place;
use nats::driver::Driver;
use replica::chain::{Chain, Link};
use replica::claim::Leader;
use replica::group::{At, SealedGroup};
use replica::node::{Act, Input, Node, Output, Setting};
use replica::{Lineage, NodeId};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) const LINEAGE: Lineage = Lineage([3; 16]);

/// What all nodes together have done.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) acknowledged: BTreeMap<u64, Chain>,
    /// The node of each epoch.
    pub(crate) leaders: BTreeMap<u64, NodeId>,
    pub(crate) faults: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Board {
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) changed: Notify,
}

pub(crate) type Shared = Arc<Board>;

impl Board {
    pub(crate) fn read(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    fn write(&self, change: impl FnOnce(&mut Ledger)) {
        change(&mut self.read());
        self.changed.notify_waiters();
    }
}

pub(crate) fn origin() -> At {
    At { chain: Chain::origin(LINEAGE, 0, 0), ..At::default() }
}

fn next_group(at: At, epoch: u64, body: Vec<u8>) -> SealedGroup {
    let mut group = SealedGroup {
        number: at.number + 1,
        epoch,
        time_ms: at.time_ms + 1,
        before: at.chain,
        after: Chain(0),
        state: at.state + 1,
        jobs: at.jobs + 1,
        id_limit: at.id_limit,
        facts: 1,
        body_crc: crc32fast::hash(&body),
        body,
    };
    let link = Link {
        epoch,
        number: group.number,
        time_ms: group.time_ms,
        state: group.state,
        jobs: group.jobs,
        id_limit: group.id_limit,
        body_bytes: group.body.len() as u64,
        body_crc: group.body_crc,
    };
    group.after = group.before.then(&link);
    group
}

/// Starts a node. While it leads, one group is always on its way. A leader that another node deposes ends, and
/// starts anew as a service manager would start it: a server of the stream that stops for longer than the lease
/// makes the other node claim.
pub(crate) fn start(place: Place, number: NodeId, shared: Shared) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut incarnation = 100 * number;
        while live(place.clone(), number, incarnation, &shared).await == Ended::AsItShould {
            incarnation += 1;
        }
    })
}

/// How a node ended.
#[derive(Eq, PartialEq)]
enum Ended {
    AsItShould,
    WithFault,
}

/// One process of a node, from its start to its end.
async fn live(place: Place, number: NodeId, incarnation: u64, shared: &Shared) -> Ended {
    let setting = Setting {
        lineage: LINEAGE,
        node: number,
        incarnation,
        leader: Leader::default(),
        can_lead: true,
        has_place: true,
        lease_ms: 1500,
        jitter_ms: 60 * number,
        folder_ms: 10_000,
        keep_bytes: 1 << 30,
        max_bytes: 1 << 34,
    };
    let (mut driver, mut answers) = Driver::start(place);
    let mut node = Node::new(setting, origin(), 1);
    let begun = Instant::now();
    let now_ms = || begun.elapsed().as_millis() as u64;
    let mut inputs = vec![Input::Guards(true)];
    let mut leads: Option<(u64, At)> = None;
    loop {
        let mut out = Vec::new();
        for input in inputs.drain(..) {
            node.handle(now_ms(), input, &mut out);
        }
        for output in out {
            let act = match output {
                Output::Request(request) => {
                    driver.request(request);
                    continue;
                }
                Output::Act(act) => act,
            };
            match act {
                Act::Apply(group) => {
                    inputs.push(Input::Applied { number: group.number, next_id: 1 });
                    inputs.push(Input::Durable(group.number));
                }
                Act::Lead { epoch, at, .. } => {
                    shared.write(|ledger| ledger.leaders.extend([(epoch, number)]));
                    leads = Some((epoch, at));
                    inputs.push(gather(&mut leads, number));
                }
                Act::Acknowledged(_) => {
                    let (_, at) = leads.expect("only a leader gathers");
                    shared.write(|ledger| ledger.acknowledged.extend([(at.number, at.chain)]));
                    inputs.push(gather(&mut leads, number));
                }
                Act::End(_) => return Ended::AsItShould,
                Act::Fault(fault) => {
                    shared.write(|ledger| ledger.faults.push(fault.to_string()));
                    return Ended::WithFault;
                }
                Act::Fetch => {
                    shared.write(|ledger| ledger.faults.push("fetch".to_owned()));
                    return Ended::WithFault;
                }
                Act::MayAnswerUntil(_) | Act::Follows(..) | Act::Cut | Act::Yield => (),
            }
        }
        if !inputs.is_empty() {
            continue;
        }
        let wake_ms = node.wake_at(now_ms()).min(now_ms() + 1000);
        let wait = Duration::from_millis(wake_ms.saturating_sub(now_ms()));
        tokio::select! {
            answer = answers.recv() => {
                inputs.push(Input::Answer(answer.expect("the driver lives")));
            }
            () = tokio::time::sleep(wait) => inputs.push(Input::Tick),
        }
    }
}

fn gather(leads: &mut Option<(u64, At)>, number: NodeId) -> Input {
    let (epoch, at) = leads.as_mut().expect("only a leader gathers");
    let group = next_group(*at, *epoch, vec![number as u8; 1000]);
    *at = group.at();
    Input::Gathered(group)
}
