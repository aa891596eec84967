//! Plays the same conversation in whole pieces and in fragments, or with and without cold jobs. The
//! replies must be the same, byte for byte. There must be no panic, and memory must be bounded.
//! Property tests and fuzz targets share this file.

use broker::Options;

use crate::dialect::world::World;
use crate::fuzz_corpus;

/// A world in which scripts are played. Each dialect implements it.
pub trait Stage {
    /// The number of clients that a script can control.
    const CLIENTS: usize;

    /// Adds a server without connections to this world. Its limits are small, so that a short script
    /// can exceed them.
    fn new(world: World) -> Self;

    /// The world with the sessions and the broker.
    fn world(&mut self) -> &mut World;

    /// Connects this client. If it was connected before, this is a new connection.
    fn connect(&mut self, client: usize) -> usize;

    /// The maximum of unhandled input that the server may keep for a client, in bytes. `None` if
    /// there is no bound at this moment. Memory must grow with the bytes that arrived, and not with
    /// the sizes that a request announces.
    fn held_bytes_max(&mut self, connection: usize, sent_bytes: usize) -> Option<usize>;

    /// Lets time pass until all work for closed connections has ended. Returns the maximum number
    /// of sessions that can remain.
    fn come_to_rest(&mut self) -> u64 {
        0
    }
}

/// Changes the client that sends. The next byte is the number of the client.
pub const SWITCH: u8 = 0xf8;
/// Lets time pass. The next byte is a number of tenths of a second.
pub const WAIT: u8 = 0xf9;
/// The client closes its sending direction.
pub const HALF_CLOSE: u8 = 0xfa;
/// The client closes its connection and connects again.
pub const RECONNECT: u8 = 0xfb;

/// Plays a script twice, whole and in fragments, and compares the replies.
///
/// A script is a string of bytes. The first byte is the seed for the lengths of the fragments. The
/// bytes from [`SWITCH`] to [`RECONNECT`] are actions. All other bytes are sent unchanged. So any
/// bytes are a valid script, for example a recorded session.
pub fn check<S: Stage>(script: &[u8]) {
    let Some((seed, script)) = script.split_first() else { return };
    let whole = Play::<S>::new(World::memory(), None);
    let fragmented = Play::<S>::new(World::memory(), Some(Lengths(u32::from(*seed))));
    compare([("in one piece", whole), ("in fragments", fragmented)], 0, script);
}

/// Plays a script twice, with jobs that stay in memory, and with jobs that leave the memory after
/// each step. Compares the replies. `options` make a log with room for many segments. The first byte
/// of the script is not used.
pub fn check_cold<S: Stage>(script: &[u8], options: impl Fn() -> Options) {
    let Some((_, script)) = script.split_first() else { return };
    let resident = Play::<S>::new(World::sealing(options()), None);
    let cold = Play::<S>::new(World::cold(options()), None);
    compare([("with jobs in memory", resident), ("with cold jobs", cold)], LOAD_REST_MS, script);
}

/// A session that waits for a load, and then finds only expired jobs, is answered up to this many
/// milliseconds later: the engine looks at it again after this time.
const LOAD_REST_MS: u64 = 5;

/// Plays a script in two ways, which have names, and compares the replies. Each reply can be late by
/// up to `late_ms` milliseconds.
fn compare<S: Stage>(mut plays: [(&str, Play<S>); 2], late_ms: u64, script: &[u8]) {
    let mut rest = script;
    while !rest.is_empty() {
        let action = next_action(&mut rest, S::CLIENTS);
        for (_, play) in &mut plays {
            play.act(&action);
            // So waits and pauses that began with different actions do not end at the same moment.
            play.stage.world().advance(1);
        }
        for client in 0..S::CLIENTS {
            let [mut one, mut other] =
                plays.each_mut().map(|(how, play)| (*how, play.take_received(client)));
            if one.1 != other.1 && late_ms > 0 {
                for ((_, play), (_, received)) in plays.iter_mut().zip([&mut one, &mut other]) {
                    play.stage.world().advance(late_ms);
                    received.extend(play.take_received(client));
                }
            }
            assert!(
                one.1 == other.1,
                "after {action:?} client {client} got {}\n{}\nand {}\n{}",
                one.0,
                one.1.escape_ascii(),
                other.0,
                other.1.escape_ascii()
            );
        }
    }
    for (_, play) in plays {
        play.finish();
    }
}

/// Calls `check` with the scripts of this fuzz target, and with several seeds for each. Fails if
/// there are fewer than `scripts_min` scripts.
pub fn check_corpus(target: &str, scripts_min: usize, check: fn(&[u8])) {
    for mut script in fuzz_corpus(target, scripts_min) {
        for seed in [0, 1, script[0]] {
            script[0] = seed;
            check(&script);
        }
    }
}

#[derive(Debug)]
enum Action<'a> {
    Send(&'a [u8]),
    Switch(usize),
    Wait { millis: u64 },
    HalfClose,
    Reconnect,
}

/// Removes an action from the front of a script. The script must not be empty.
fn next_action<'a>(script: &mut &'a [u8], clients: usize) -> Action<'a> {
    let argument = script.get(1).copied().unwrap_or_default();
    let (action, len) = match script[0] {
        SWITCH => (Action::Switch(usize::from(argument) % clients), 2),
        WAIT => (Action::Wait { millis: u64::from(argument) * 100 }, 2),
        HALF_CLOSE => (Action::HalfClose, 1),
        RECONNECT => (Action::Reconnect, 1),
        _ => {
            let acts = |byte: &u8| (SWITCH..=RECONNECT).contains(byte);
            let len = script.iter().position(acts).unwrap_or(script.len());
            (Action::Send(&script[..len]), len)
        }
    };
    *script = &script[len.min(script.len())..];
    action
}

/// One of the two plays of a script.
struct Play<S> {
    stage: S,
    /// The lengths of the fragments. `None` means that the input is sent in one piece.
    lengths: Option<Lengths>,
    clients: Vec<Client>,
    current: usize,
}

#[derive(Copy, Clone)]
struct Client {
    connection: usize,
    sent_bytes: usize,
    half_closed: bool,
}

impl<S: Stage> Play<S> {
    fn new(world: World, lengths: Option<Lengths>) -> Self {
        let mut stage = S::new(world);
        let clients = (0..S::CLIENTS).map(|client| Client::connect(&mut stage, client)).collect();
        Self { stage, lengths, clients, current: 0 }
    }

    fn act(&mut self, action: &Action<'_>) {
        let client = self.clients[self.current];
        match *action {
            Action::Send(bytes) if !client.half_closed => self.send(bytes),
            Action::Send(_) => {}
            Action::Switch(client) => self.current = client,
            Action::Wait { millis } => self.stage.world().advance(millis),
            Action::HalfClose => {
                self.stage.world().half_close(client.connection);
                self.clients[self.current].half_closed = true;
            }
            Action::Reconnect => {
                self.stage.world().close(client.connection);
                self.clients[self.current] = Client::connect(&mut self.stage, self.current);
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let len = self.lengths.as_mut().map_or(bytes.len(), Lengths::next).min(bytes.len());
            let (fragment, rest) = bytes.split_at(len);
            bytes = rest;
            let client = &mut self.clients[self.current];
            client.sent_bytes += len;
            // Deliver events only after all bytes were sent. Between two fragments, an event could
            // let a second client act before the next command of the first client. In the play
            // without fragments, this cannot happen, so the replies of the two plays would differ
            // without an error.
            self.stage.world().send_first(client.connection, fragment);
            self.check_memory();
        }
        self.stage.world().deliver_events();
    }

    fn check_memory(&mut self) {
        let Client { connection, sent_bytes, .. } = self.clients[self.current];
        if let Some(held_bytes_max) = self.stage.held_bytes_max(connection, sent_bytes) {
            let held_bytes = self.stage.world().held_bytes(connection);
            assert!(held_bytes <= held_bytes_max, "{held_bytes} held");
        }
    }

    fn take_received(&mut self, client: usize) -> Vec<u8> {
        self.stage.world().take_received(self.clients[client].connection)
    }

    /// Closes all connections. The broker must then be consistent, and have no further sessions.
    fn finish(mut self) {
        for client in self.clients {
            self.stage.world().close(client.connection);
        }
        let sessions_max = self.stage.come_to_rest();
        let world = self.stage.world();
        let turn = world.broker.turn(world.now);
        turn.check_invariants();
        assert!(turn.totals().sessions <= sessions_max);
        assert_eq!(turn.totals().leased, 0);
    }
}

impl Client {
    fn connect(stage: &mut impl Stage, client: usize) -> Self {
        Self { connection: stage.connect(client), sent_bytes: 0, half_closed: false }
    }
}

/// Generates the lengths of fragments. Most of them are short. A linear congruence is random enough
/// for this.
struct Lengths(u32);

impl Lengths {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let draw = self.0 >> 24;
        if draw < 160 { 1 + draw as usize % 4 } else { draw as usize }
    }
}
