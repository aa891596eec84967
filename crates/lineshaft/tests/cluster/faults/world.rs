//! A cluster whose parts a test kills, pauses and cuts off. A part that ends by itself is started
//! again, as a service manager does.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::cluster::{Flow, Party};
use testkit::process::lineshaft_path;
use testkit::rng::Rng;
use testkit::wait;

use crate::rig::Rig;

/// A clean end, and the end of a leader that was replaced.
const RIGHT_ENDS: [i32; 2] = [0, 76];
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// What is shown of the messages of a node that ended.
const TAIL_BYTES: usize = 3000;

/// Which parts a fault strikes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    /// The node that leads.
    Leader,
    /// A node that follows.
    Follower,
    /// A server of NATS that does not lead the stream.
    Server,
    /// The server of NATS that leads the stream.
    StreamLeader,
    /// The node that leads, and the server that leads the stream.
    Both,
}

/// In which direction bytes are held back, as the part sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    In,
    Out,
    Both,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    Hold,
    Late(Duration),
}

pub(super) struct World {
    rig: Rig,
    /// They must not be started, and not be asked.
    down: Vec<Party>,
    /// How often nodes ended with each exit code.
    pub(super) ends: Vec<(i32, usize)>,
}

impl World {
    pub(super) fn new(machines: &[PathBuf; 3]) -> Option<World> {
        let mut world = World { rig: Rig::linked(machines)?, down: Vec::new(), ends: Vec::new() };
        world.start(Party::Node(0));
        world.wait_until("the first node leads", Duration::from_secs(30), |world| {
            world.leader() == Some(0)
        });
        world.start(Party::Node(1));
        world.start(Party::Node(2));
        Some(world)
    }

    /// The addresses of each protocol: beanstalk, Gearman, Kestrel.
    pub(super) fn addresses(&self) -> [Vec<SocketAddr>; 3] {
        let nodes = &self.rig.nodes;
        [
            nodes.iter().map(|node| node.beanstalk).collect(),
            nodes.iter().map(|node| node.gearman).collect(),
            nodes.iter().map(|node| node.kestrel).collect(),
        ]
    }

    /// The node that leads.
    pub(super) fn leader_now(&self) -> usize {
        wait::for_some(wait::LIMIT, || self.leader()).expect("a node leads")
    }

    pub(super) fn find(&self, whom: Whom, rng: &mut Rng) -> Vec<Party> {
        let leader = || self.leader_now();
        let stream = || wait::for_some(wait::LIMIT, || self.stream_leader()).expect("NATS is well");
        let other = |than: usize, rng: &mut Rng| (than + 1 + rng.below(2) as usize) % 3;
        match whom {
            Whom::Leader => vec![Party::Node(leader())],
            Whom::Follower => vec![Party::Node(other(leader(), rng))],
            Whom::Server => vec![Party::Nats(other(stream(), rng))],
            Whom::StreamLeader => vec![Party::Nats(stream())],
            Whom::Both => vec![Party::Node(leader()), Party::Nats(stream())],
        }
    }

    pub(super) fn kill(&mut self, party: Party) {
        self.down.push(party);
        match party {
            Party::Nats(at) => self.rig.servers.kill(at),
            Party::Node(at) => {
                // It may have ended a moment ago.
                if let Some(server) = self.rig.nodes[at].server.take() {
                    server.kill();
                }
            }
        }
        self.network().close(party);
    }

    pub(super) fn start(&mut self, party: Party) {
        self.down.retain(|one| *one != party);
        let process = match party {
            Party::Nats(at) => {
                self.rig.servers.run(at);
                self.rig.servers.process_id(at)
            }
            Party::Node(at) => {
                let server = self.rig.program(at).start_unwatched().unwrap();
                self.rig.nodes[at].server.insert(server).process_id()
            }
        };
        self.network().open(party, process);
    }

    pub(super) fn pause(&mut self, party: Party) {
        self.down.push(party);
        self.signal(party, Signal::STOP);
    }

    pub(super) fn resume(&mut self, party: Party) {
        self.signal(party, Signal::CONT);
        self.down.retain(|one| *one != party);
    }

    /// Stops a node cleanly. Returns when it has ended, and runs again.
    pub(super) fn stop(&mut self, at: usize) {
        let process = |world: &World| {
            world.rig.nodes[at].server.as_ref().map(testkit::process::Server::process_id)
        };
        let before = process(self);
        self.signal(Party::Node(at), Signal::TERM);
        self.wait_until("the node has stopped", wait::LIMIT, |world| process(world) != before);
    }

    fn signal(&self, party: Party, signal: Signal) {
        match party {
            Party::Nats(at) => self.rig.servers.signal(at, signal),
            Party::Node(at) => {
                self.rig.nodes[at].server.as_ref().unwrap().signal(signal).unwrap();
            }
        }
    }

    /// Cuts these parts off from all others. They still reach each other.
    pub(super) fn cut(&mut self, parties: &[Party], way: Way, cut: Cut) {
        let flow = match cut {
            Cut::Hold => Flow::Hold,
            Cut::Late(time) => Flow::Late(time),
        };
        for other in Party::ALL.iter().filter(|other| !parties.contains(other)) {
            for party in parties {
                if way != Way::In {
                    self.network().set(*party, *other, flow);
                }
                if way != Way::Out {
                    self.network().set(*other, *party, flow);
                }
            }
        }
    }

    /// Ends all cuts. The old connections go on, or break.
    pub(super) fn heal(&mut self, parties: &[Party], breaks: bool) {
        if breaks {
            for party in parties {
                self.network().reset(*party);
            }
        }
        self.network().heal();
    }

    fn network(&mut self) -> &mut testkit::cluster::Network {
        self.rig.network.as_mut().expect("this rig has a network")
    }

    /// Starts what has ended.
    fn tend(&mut self) {
        for at in 0..3 {
            let party = Party::Node(at);
            let Some(server) = &mut self.rig.nodes[at].server else { continue };
            if self.down.contains(&party) || server.is_running() {
                continue;
            }
            let code = server.wait().unwrap().code().unwrap_or(-1);
            let said = server.stderr();
            let tail = &said[said.floor_char_boundary(said.len().saturating_sub(TAIL_BYTES))..];
            assert!(RIGHT_ENDS.contains(&code), "node {at} ended with {code}: {tail}");
            match self.ends.iter_mut().find(|(one, _)| *one == code) {
                Some((_, count)) => *count += 1,
                None => self.ends.push((code, 1)),
            }
            self.network().close(party);
            self.start(party);
        }
    }

    /// Lets the fault last for a while.
    pub(super) fn go_on(&mut self, time: Duration) {
        wait::for_some(time, || {
            self.tend();
            None::<()>
        });
    }

    pub(super) fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_so: impl FnMut(&World) -> bool,
    ) {
        let found = wait::for_some(limit, || {
            self.tend();
            is_so(self).then_some(())
        });
        assert!(found.is_some(), "waited too long until {what}: {}", self.state());
    }

    fn leader(&self) -> Option<usize> {
        let leads = |at: &usize| {
            !self.down.contains(&Party::Node(*at))
                && self.rig.ask(*at, "/health/leader").is_some_and(|(code, _)| code == 200)
        };
        (0..3).find(leads)
    }

    /// Whether each part is well, and knows the others.
    pub(super) fn is_whole(&self) -> bool {
        let is_ready = |at| self.rig.ask(at, "/health/ready").is_some_and(|(code, _)| code == 200);
        let is_well = |at| self.monitor(at, "/healthz").is_some_and(|said| said["status"] == "ok");
        (0..3).all(is_well)
            && (0..3).all(is_ready)
            && self.leader().is_some()
            && self.stream_leader().is_some()
    }

    fn stream_leader(&self) -> Option<usize> {
        let found = (0..3).filter(|at| !self.down.contains(&Party::Nats(*at))).find_map(|at| {
            let said = self.monitor(at, "/jsz?accounts=true&streams=true")?;
            let streams = said["account_details"][0]["stream_detail"].as_array()?.clone();
            let is_log =
                |one: &&Value| one["name"].as_str().is_some_and(|name| name.contains("_LOG_"));
            let leader = streams.iter().find(is_log)?["cluster"]["leader"].as_str()?.to_owned();
            leader.strip_prefix('n')?.parse().ok()
        });
        found.filter(|at| *at < 3)
    }

    /// What a server of NATS says about itself.
    fn monitor(&self, at: usize, path: &str) -> Option<Value> {
        let [_, port] = self.rig.servers.ports(at);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
        socket.set_read_timeout(Some(ANSWER_MAX)).ok()?;
        socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    fn state(&self) -> String {
        let servers = (0..3).map(|at| format!("server {at}: {:?}; ", self.monitor(at, "/healthz")));
        let said: String = servers.collect();
        let errors = self.rig.nodes.iter().enumerate().map(|(at, node)| {
            let said = node.server.as_ref().map(testkit::process::Server::stderr);
            let said = said.unwrap_or_default();
            let tail = &said[said.floor_char_boundary(said.len().saturating_sub(TAIL_BYTES))..];
            format!("\n--- node {at}:\n{tail}")
        });
        let errors: String = errors.collect();
        format!("{said} {} stream leader {:?} {errors}", self.rig.states(), self.stream_leader())
    }

    /// Stops the nodes, and compares their folders.
    pub(super) fn check_folders(&mut self) {
        self.wait_until("the cluster is whole", Duration::from_mins(1), World::is_whole);
        for node in &mut self.rig.nodes {
            let ended = node.server.take().unwrap().terminate().unwrap();
            assert!(ended.status.success(), "{}", ended.stderr);
        }
        let checked = Command::new(lineshaft_path(env!("CARGO_BIN_EXE_lineshaft")))
            .args(["cluster", "check", "--offline"])
            .args(self.rig.nodes.iter().map(|node| node.folder.path().join("data")))
            .output()
            .unwrap();
        let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert!(checked.status.success(), "{said}");
        eprintln!("{said}");
    }
}
