//! A network in user space. Each connection between the servers of NATS, between nodes, and between a
//! node and a server goes through a *door*: a listener of the test that copies bytes. So a test can
//! cut each direction of each pair, slow it down, or break connections.
//!
//! A cut holds bytes back, like lost packets: they arrive when it ends, unless a side gives up first.
//! One thing differs from a real cut: the kernel accepts a connection for a door at once.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::process::free_port;

const CONNECT_MAX: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 64 << 10;

/// A machine of the cluster that is connected through doors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Party {
    /// A server of NATS.
    Nats(usize),
    /// A node.
    Node(usize),
}

/// Servers and nodes have numbers below this.
const EACH_MAX: usize = 3;
const PARTIES: usize = 2 * EACH_MAX;

impl Party {
    /// All of them.
    pub const ALL: [Party; PARTIES] = [
        Party::Nats(0),
        Party::Nats(1),
        Party::Nats(2),
        Party::Node(0),
        Party::Node(1),
        Party::Node(2),
    ];

    fn index(self) -> usize {
        match self {
            Party::Nats(at) => at,
            Party::Node(at) => EACH_MAX + at,
        }
    }
}

/// What happens to bytes in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flow {
    /// They pass.
    Pass,
    /// They wait.
    Hold,
    /// Each piece passes this much later.
    Late(Duration),
}

/// The network of one test. Its connections end when the last clone is dropped.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    doors: Vec<Door>,
}

#[derive(Debug)]
struct Door {
    way: Way,
    thread: Option<JoinHandle<()>>,
}

/// `from` is `None` if many parties come through this door: then the owner of the socket says who
/// it is.
#[derive(Clone, Copy, Debug)]
struct Way {
    from: Option<Party>,
    to: Party,
    port: u16,
    target: u16,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// By sender and receiver.
    flows: [[Flow; PARTIES]; PARTIES],
    processes: [Option<u32>; PARTIES],
    /// Ports of doors that must close.
    closing: Vec<u16>,
    pipes: Vec<Pipe>,
    next_pipe: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Pipe {
    number: u64,
    parties: [Option<Party>; 2],
    sockets: [TcpStream; 2],
}

impl Pipe {
    fn cut(&self) {
        for socket in &self.sockets {
            // The other side may have ended it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Network {
    /// A network without doors.
    #[must_use]
    pub fn new() -> Network {
        let state = State {
            flows: [[Flow::Pass; PARTIES]; PARTIES],
            processes: [None; PARTIES],
            closing: Vec::new(),
            pipes: Vec::new(),
            next_pipe: 0,
            is_over: false,
        };
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
        Network { shared: Arc::new(shared), doors: Vec::new() }
    }

    /// A port that leads to the port of this party. `from` is the only party that uses it, if there
    /// is only one.
    pub fn door(&mut self, from: Option<Party>, to: Party, target: u16) -> u16 {
        let port = free_port().expect("a port is free");
        let listener = TcpListener::bind(local(port)).expect("the port is ours");
        let way = Way { from, to, port, target };
        let thread = Some(self.serve(way, listener));
        self.doors.push(Door { way, thread });
        port
    }

    fn serve(&self, way: Way, listener: TcpListener) -> JoinHandle<()> {
        let shared = self.shared.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                if shared.lock().closing.contains(&way.port) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let shared = shared.clone();
                thread::spawn(move || shared.carry(way, socket));
            }
        })
    }

    /// From now on, connections to this party are refused, as if nothing listened there.
    pub fn close(&mut self, party: Party) {
        for door in self.doors.iter_mut().filter(|door| door.way.to == party) {
            close(&self.shared, door);
        }
    }

    /// Accepts connections to this party again. `process` is who connects from there.
    pub fn open(&mut self, party: Party, process: u32) {
        self.shared.lock().processes[party.index()] = Some(process);
        for at in 0..self.doors.len() {
            let Door { way, thread } = &self.doors[at];
            if way.to == party && thread.is_none() {
                let listener = TcpListener::bind(local(way.port)).expect("the port is still ours");
                let thread = self.serve(*way, listener);
                self.doors[at].thread = Some(thread);
            }
        }
    }

    /// Sets what happens to bytes from one party to another.
    pub fn set(&self, from: Party, to: Party, flow: Flow) {
        self.shared.lock().flows[from.index()][to.index()] = flow;
        self.shared.changed.notify_all();
    }

    /// All bytes pass.
    pub fn heal(&self) {
        self.shared.lock().flows = [[Flow::Pass; PARTIES]; PARTIES];
        self.shared.changed.notify_all();
    }

    /// Breaks all connections from and to this party.
    pub fn reset(&self, party: Party) {
        let state = self.shared.lock();
        state.pipes.iter().filter(|pipe| pipe.parties.contains(&Some(party))).for_each(Pipe::cut);
    }
}

impl Default for Network {
    fn default() -> Network {
        Network::new()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.is_over = true;
            state.pipes.iter().for_each(Pipe::cut);
        }
        self.shared.changed.notify_all();
        for door in &mut self.doors {
            close(&self.shared, door);
        }
    }
}

fn close(shared: &Shared, door: &mut Door) {
    let Some(thread) = door.thread.take() else { return };
    let port = door.way.port;
    shared.lock().closing.push(port);
    // Wakes the thread.
    drop(TcpStream::connect(local(port)));
    thread.join().expect("the thread of a door ends");
    shared.lock().closing.retain(|one| *one != port);
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one connection to its end.
    fn carry(&self, way: Way, near: TcpStream) {
        let peer = near.peer_addr().map_or(0, |peer| peer.port());
        let from = way.from.or_else(|| self.owner(peer, way.port));
        let to = Some(way.to);
        // A handshake needs both directions.
        if !self.waits(from, to) || !self.waits(to, from) {
            return;
        }
        let Ok(far) = TcpStream::connect_timeout(&local(way.target), CONNECT_MAX) else { return };
        let Ok((pipe, copies)) = self.register([from, to], &near, &far) else { return };
        let [near_copy, far_copy] = copies;
        thread::scope(|scope| {
            scope.spawn(|| self.pump(near_copy, &far, from, to));
            self.pump(far_copy, &near, to, from);
        });
        self.lock().pipes.retain(|one| one.number != pipe);
    }

    fn register(
        &self,
        parties: [Option<Party>; 2],
        near: &TcpStream,
        far: &TcpStream,
    ) -> io::Result<(u64, [TcpStream; 2])> {
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let sockets = [near.try_clone()?, far.try_clone()?];
        let copies = [near.try_clone()?, far.try_clone()?];
        let mut state = self.lock();
        let number = state.next_pipe;
        state.next_pipe += 1;
        let pipe = Pipe { number, parties, sockets };
        if state.is_over {
            pipe.cut();
        }
        state.pipes.push(pipe);
        Ok((number, copies))
    }

    /// Copies one direction. The end of the sender also has to pass.
    fn pump(
        &self,
        mut reader: TcpStream,
        mut writer: &TcpStream,
        from: Option<Party>,
        to: Option<Party>,
    ) {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = reader.read(&mut chunk);
            if !self.waits(from, to) {
                return;
            }
            let how = match read {
                Ok(0) => Shutdown::Write,
                Ok(count) if writer.write_all(&chunk[..count]).is_ok() => continue,
                // One side is gone, so the other direction cannot go on.
                Ok(_) | Err(_) => Shutdown::Both,
            };
            let _ = writer.shutdown(how);
            if how == Shutdown::Both {
                let _ = reader.shutdown(how);
            }
            return;
        }
    }

    /// Waits until bytes may pass. False: the network is gone.
    fn waits(&self, from: Option<Party>, to: Option<Party>) -> bool {
        let (Some(from), Some(to)) = (from, to) else { return true };
        let begun = Instant::now();
        let mut state = self.lock();
        while !state.is_over {
            let rest = match state.flows[from.index()][to.index()] {
                Flow::Pass => return true,
                Flow::Hold => None,
                Flow::Late(time) => match time.checked_sub(begun.elapsed()) {
                    Some(rest) if !rest.is_zero() => Some(rest),
                    _ => return true,
                },
            };
            state = match rest {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(rest) => {
                    let waited = self.changed.wait_timeout(state, rest);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        false
    }

    /// The party whose process has this end of a connection.
    fn owner(&self, port: u16, door: u16) -> Option<Party> {
        let table = fs::read_to_string("/proc/net/tcp").ok()?;
        let ends = [format!(":{port:04X}"), format!(":{door:04X}")];
        let inode = table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_it =
                fields.len() > 9 && fields[1].ends_with(&ends[0]) && fields[2].ends_with(&ends[1]);
            is_it.then(|| format!("socket:[{}]", fields[9]))
        })?;
        let processes = self.lock().processes;
        Party::ALL.into_iter().find(|party| {
            let Some(process) = processes[party.index()] else { return false };
            let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
            files
                .flatten()
                .any(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(&inode)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> u16 {
        let listener = TcpListener::bind(local(0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                thread::spawn(move || io::copy(&mut socket.try_clone().unwrap(), &mut socket));
            }
        });
        port
    }

    fn ask(socket: &mut TcpStream, limit: Duration) -> io::Result<[u8; 2]> {
        socket.set_read_timeout(Some(limit))?;
        socket.write_all(b"hi")?;
        let mut answer = [0; 2];
        socket.read_exact(&mut answer).map(|()| answer)
    }

    const LONG: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn a_direction_is_cut_and_healed() {
        let mut network = Network::new();
        let (from, to) = (Party::Node(0), Party::Nats(1));
        let port = network.door(Some(from), to, echo());
        let mut socket = TcpStream::connect(local(port)).unwrap();
        assert_eq!(&ask(&mut socket, LONG).unwrap(), b"hi");
        for (from, to) in [(from, to), (to, from)] {
            network.set(from, to, Flow::Hold);
            ask(&mut socket, SHORT).expect_err("it is cut");
            network.heal();
            let mut answer = [0; 2];
            socket.set_read_timeout(Some(LONG)).unwrap();
            socket.read_exact(&mut answer).unwrap();
        }
        network.set(to, from, Flow::Late(SHORT));
        let begun = Instant::now();
        ask(&mut socket, LONG).unwrap();
        assert!(begun.elapsed() >= SHORT);
        network.reset(to);
        ask(&mut socket, LONG).expect_err("it is broken");
    }

    #[test]
    fn a_closed_door_refuses_and_opens_again() {
        let mut network = Network::new();
        let port = network.door(None, Party::Node(2), echo());
        network.close(Party::Node(2));
        let refused = TcpStream::connect(local(port)).expect_err("nothing listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        network.open(Party::Node(2), std::process::id());
        let mut socket = TcpStream::connect(local(port)).unwrap();
        assert_eq!(&ask(&mut socket, LONG).unwrap(), b"hi");
    }

    #[test]
    fn the_owner_of_a_socket_is_found() {
        let mut network = Network::new();
        let port = network.door(None, Party::Node(2), echo());
        network.open(Party::Node(1), std::process::id());
        network.set(Party::Node(1), Party::Node(2), Flow::Hold);
        let mut socket = TcpStream::connect(local(port)).unwrap();
        ask(&mut socket, SHORT).expect_err("this process is node 1");
    }
}
