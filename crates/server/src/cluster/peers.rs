//! The links between nodes, on a thread of their own: the thread of the node must never wait for
//! bytes of clients.
//!
//! Each follower keeps a link to the leader. It reports over the link, and notices at once if the
//! leader's process is gone. Other links carry the connections of clients, or copies of folders: see
//! `pass.rs` and `copy.rs`.

use std::io::{self, ErrorKind};
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Broker, Stream};
use replica::node::Input;
use replica::report::Report;
use replica::{Incarnation, Lineage, NodeId};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::cluster::carry::{Counted, LINK_BYTES, TASK_BYTES};
use crate::cluster::connects::Connects;
use crate::cluster::copy::send::Sending;
use crate::cluster::entrance::{Entrance, serve_client};
use crate::cluster::handshakes::Handshakes;
use crate::cluster::keys::Keys;
use crate::cluster::line::{self, Answer, Purpose};
use crate::cluster::node::Event;
use crate::cluster::reporters::Reporters;
use crate::cluster::status::{Leader, Status};
use crate::cluster::tls_steps::Steps;
use crate::process::clock::Clock;
use crate::threads::mailbox::Peer;

/// Time between two reports.
const REPORT_PERIOD: Duration = Duration::from_millis(500);
/// A link without a line for this long is broken.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A follower answers this late at most, or its link is broken.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Time before the next attempt to reach the leader.
const RETRY: Duration = Duration::from_millis(50);
/// The first connections of clients can come before a new leader serves.
const ENTRANCE_MAX: Duration = Duration::from_secs(15);

/// A link has a buffer for lines of this size. Most lines are shorter.
const LINES_BYTES: usize = 512;

/// Links that have not shown a certificate yet. At the limit, one of them gives way to a new one.
const HANDSHAKES_MAX: usize = 64;

/// Who this process is.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) lineage: Lineage,
}

/// A link that another node has opened.
type NodeLink = tokio_rustls::server::TlsStream<TcpStream>;

/// The thread of the links.
pub(crate) struct Peers {
    pub(super) handle: Handle,
    pub(super) shared: Arc<Shared>,
    entrance: watch::Sender<Option<Arc<Entrance>>>,
}

/// What all links share.
pub(crate) struct Shared {
    pub(super) keys: Keys,
    pub(super) status: Arc<Status>,
    pub(super) identity: Identity,
    pub(super) connects: Connects,
    pub(super) tls_steps: Steps,
    reporters: Reporters,
    pub(super) broker: Broker,
    stream: Arc<Stream>,
    clock: Clock,
    events: UnboundedSender<Event>,
    sending: Sending,
    entrance: watch::Receiver<Option<Arc<Entrance>>>,
}

impl Peers {
    /// Starts the thread. `clock` is the clock with which the broker was opened.
    pub(crate) fn spawn(
        keys: Keys,
        socket: StdTcpListener,
        identity: Identity,
        (broker, clock): (Broker, Clock),
        status: Arc<Status>,
        events: UnboundedSender<Event>,
        sending: Sending,
    ) -> io::Result<Peers> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (entrance, entered) = watch::channel(None);
        let stream = broker.stream().expect("the broker is that of a node").clone();
        let shared = Arc::new(Shared {
            keys,
            status,
            reporters: Reporters::new(identity.incarnation),
            connects: Connects::default(),
            tls_steps: Steps::default(),
            identity,
            broker,
            stream,
            clock,
            events,
            sending,
            entrance: entered,
        });
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let (accepting, reporting) = (shared.clone(), shared.clone());
        let run = move || {
            runtime.block_on(async move {
                tokio::spawn(report(reporting));
                accept(accepting, listener).await;
            });
        };
        std::thread::Builder::new().name("peers".to_owned()).spawn(run)?;
        Ok(Peers { handle, shared, entrance })
    }

    /// From now on, connections from other nodes are served here.
    pub(crate) fn open(&self, entrance: Entrance) {
        self.entrance.send_replace(Some(Arc::new(entrance)));
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let keys = shared.keys.clone();
    let serving = move |link| {
        let shared = shared.clone();
        async move {
            // The other node notices the end of the link.
            let _ = serve(&shared, link).await;
        }
    };
    accept_links(keys, listener, HANDSHAKES_MAX, serving).await;
}

/// Accepts links from other nodes, and serves each of them in a task of its own. Anybody can connect,
/// and only nodes have certificates. So at most `handshakes_max` links are not known yet. New links
/// never wait for their handshakes: a few silent strangers would keep all nodes waiting.
async fn accept_links<Served: Future<Output = ()> + Send + 'static>(
    keys: Keys,
    listener: TcpListener,
    handshakes_max: usize,
    serving: impl Fn(NodeLink) -> Served + Clone + Send + 'static,
) {
    let handshakes = Arc::new(Handshakes::new(handshakes_max));
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let (keys, serving) = (keys.clone(), serving.clone());
                let address = Peer::from(peer).counted_address().unwrap_or(peer.ip());
                let was_full = handshakes.admit(address, |place| {
                    let task = tokio::spawn(async move {
                        let accepted = keys.accept(socket).await;
                        // A link that is known gives way to none.
                        drop(place);
                        if let Ok(link) = accepted {
                            serving(link).await;
                        }
                    });
                    task.abort_handle()
                });
                if was_full {
                    // An aborted task closes its socket when it runs. Descriptors are few.
                    yield_now().await;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a node");
                sleep(RETRY).await;
            }
        }
    }
}

/// Serves one link to its end.
async fn serve(shared: &Shared, link: NodeLink) -> io::Result<()> {
    let _memory = Counted::new(&shared.broker, TASK_BYTES + LINK_BYTES);
    let mut link = BufReader::with_capacity(LINES_BYTES, link);
    let line = timeout(SILENCE_MAX, line::read(&mut link)).await??;
    let (line, process) = line::split_process(&line);
    if let Some(process) = process {
        shared.reporters.note(process);
    }
    let gone = shared.reporters.gone(process);
    match Purpose::decode(line).ok_or(ErrorKind::InvalidData)? {
        Purpose::Report(first) => {
            let node = first.node;
            let ended = serve_reports(shared, &mut link, first).await;
            let _ = shared.events.send(Event::Input(Input::Lost(node)));
            ended
        }
        Purpose::Pass(client) => {
            let entrance = shared.entered().await?;
            let process_gone = shared.reporters.gone(process);
            entrance.room(client.protocol, &mut link, process_gone).await?;
            let arrived = entrance.arrive(client, None);
            serve_client(&mut link, arrived, &entrance.limits, gone).await
        }
        Purpose::Http(client) => {
            let entrance = shared.entered().await?;
            serve_client(&mut link, entrance.arrive_at_site(client), &entrance.limits, gone).await
        }
        Purpose::Copy(lineage) => {
            let refusal = shared.why_no_copy(lineage);
            shared.sending.serve(&mut link, &shared.broker, lineage, refusal).await
        }
    }
}

async fn serve_reports(
    shared: &Shared,
    link: &mut BufReader<NodeLink>,
    mut report: Report,
) -> io::Result<()> {
    // A link is of one process. When it ends, this node forgets that one only.
    let of = (report.node, report.incarnation);
    loop {
        if report.lineage != shared.identity.lineage || (report.node, report.incarnation) != of {
            return Err(ErrorKind::InvalidData.into());
        }
        shared.reporters.note(report.incarnation);
        let input = Input::Reported { report, is_live: true };
        let sent = shared.events.send(Event::Input(input));
        sent.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        let answer = shared.answer().encode() + "\n";
        timeout(SILENCE_MAX, link.write_all(answer.as_bytes())).await??;
        timeout(SILENCE_MAX, link.flush()).await??;
        let line = timeout(SILENCE_MAX, line::read(link)).await??;
        report = Report::decode(&line).ok_or(ErrorKind::InvalidData)?;
    }
}

/// Keeps a link to the leader, whoever this is.
async fn report(shared: Arc<Shared>) {
    let mut leader = shared.status.leader();
    loop {
        let now = leader.borrow_and_update().clone();
        match now {
            Some(one) if one.node != shared.identity.node => {
                let reporting = report_to(&shared, &one);
                tokio::select! {
                    () = reporting => {}
                    changed = leader.changed() => if changed.is_err() {
                        return;
                    },
                }
            }
            Some(_) | None => {
                if leader.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reports to this process. Says so when it is gone, or may be gone.
async fn report_to(shared: &Shared, leader: &Leader) {
    let mut signs = Signs::default();
    loop {
        let (answered, ended) = link_to(shared, leader).await;
        shared.status.link_lost();
        if let Some(input) = signs.note(leader.incarnation, answered, &ended)
            && shared.events.send(Event::Input(input)).is_err()
        {
            return;
        }
        if !answered {
            sleep(RETRY).await;
        }
    }
}

enum Ended {
    /// Another process answered.
    OtherProcess,
    Failed(io::Error),
}

/// What the links to one process have shown about it. An address that never answered proves nothing.
///
/// When a process ends, also by SIGKILL, its kernel closes the link, and then refuses connections. So
/// both together say at once that the process is gone. A firewall that rejects packets cannot close a
/// link: it resets the link, or the link breaks without an answer. After such an end, refused connections
/// say less, and the leader must be silent, too. The price: if the kernel of a process that ends resets the
/// link, because it has a report that the process has not read, the next leader comes up to half a lease
/// later. A report takes about a millisecond, twice a second.
#[derive(Debug, Default)]
struct Signs {
    has_answered: bool,
    /// The process has closed its last link.
    has_closed: bool,
}

impl Signs {
    /// Notes how a link has ended. `answered`: the process has answered over it.
    fn note(&mut self, process: Incarnation, answered: bool, ended: &Ended) -> Option<Input> {
        self.has_answered |= answered;
        let kind = match ended {
            _ if !self.has_answered => return None,
            Ended::OtherProcess => return Some(Input::LeaderGone(process)),
            Ended::Failed(error) => error.kind(),
        };
        if answered {
            // A write after the end of the other side is a broken pipe.
            self.has_closed = matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe);
        }
        match kind {
            ErrorKind::ConnectionRefused if self.has_closed => Some(Input::LeaderGone(process)),
            ErrorKind::ConnectionRefused => Some(Input::LeaderRefuses(process)),
            _ => None,
        }
    }
}

/// Keeps one link as long as it works. Returns whether the leader has answered, and why it ended.
async fn link_to(shared: &Shared, leader: &Leader) -> (bool, Ended) {
    let mut answered = false;
    let mut link = match shared.keys.connect(&leader.address).await {
        Ok(link) => BufReader::new(link),
        Err(error) => return (answered, Ended::Failed(error)),
    };
    loop {
        let report = Purpose::Report(shared.report()).encode() + "\n";
        let asked = Instant::now();
        let exchange = async {
            link.write_all(report.as_bytes()).await?;
            link.flush().await?;
            let line = line::read(&mut link).await?;
            Answer::decode(&line).ok_or_else(|| io::Error::from(ErrorKind::InvalidData))
        };
        let answer = match timeout(ANSWER_MAX, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return (answered, Ended::Failed(error)),
            Err(late) => return (answered, Ended::Failed(late.into())),
        };
        if answer.incarnation != leader.incarnation {
            return (answered, Ended::OtherProcess);
        }
        answered = true;
        let applied = shared.stream.at().number;
        shared.status.linked(answer.number.saturating_sub(applied), answer.is_free);
        if let Some(time_ms) = answer.time_ms {
            shared.status.leader_told_time(leader.incarnation, time_ms, asked.elapsed());
        }
        // The end of the link must be noticed at once, also between two reports.
        let mut byte = [0];
        let socket = link.get_ref().get_ref().0;
        tokio::select! {
            () = sleep(REPORT_PERIOD) => {}
            read = socket.peek(&mut byte) => {
                if let Err(error) = read {
                    return (answered, Ended::Failed(error));
                }
                if matches!(read, Ok(0)) {
                    return (answered, Ended::Failed(ErrorKind::UnexpectedEof.into()));
                }
                // Bytes of TLS itself, such as a session ticket. The next read takes them.
                sleep(REPORT_PERIOD).await;
            }
        }
    }
}

impl Shared {
    /// Waits until this node serves connections from other nodes.
    pub(super) async fn entered(&self) -> io::Result<Arc<Entrance>> {
        let mut entrance = self.entrance.clone();
        let opened = timeout(ENTRANCE_MAX, entrance.wait_for(Option::is_some)).await?;
        let entrance = opened.map_err(io::Error::other)?.clone();
        entrance.ok_or_else(|| ErrorKind::ConnectionRefused.into())
    }

    /// Why this node cannot send a copy of its folder to a node of this lineage. `None`: it can.
    fn why_no_copy(&self, lineage: Lineage) -> Option<&'static str> {
        if lineage != self.identity.lineage {
            Some("it belongs to another cluster")
        } else if self.status.copying().is_some() {
            Some("it needs a copy itself")
        } else if self.status.epoch() == 0 {
            Some("it has not found its place in the stream yet")
        } else {
            None
        }
    }

    fn report(&self) -> Report {
        if let Some(copying) = self.status.copying() {
            // The stream must keep what comes after the copy. Until then, this node has nothing, and
            // follows no epoch, so that no leader counts on it.
            return Report {
                node: self.identity.node,
                incarnation: self.identity.incarnation,
                lineage: self.identity.lineage,
                needs: copying.group,
                format: replica::record::FORMAT,
                ..Report::default()
            };
        }
        let durable = self.stream.durable();
        Report {
            node: self.identity.node,
            incarnation: self.identity.incarnation,
            lineage: self.identity.lineage,
            epoch: self.status.epoch(),
            applied: self.stream.at().number,
            durable,
            needs: durable,
            format: replica::record::FORMAT,
            cannot_lead: !self.status.can_lead(),
        }
    }

    fn answer(&self) -> Answer {
        let now = || {
            let step_ms = self.broker.clock_step_ms();
            broker::Millis(self.clock.now().0.saturating_add_signed(step_ms))
        };
        let leads = self.stream.leads();
        Answer {
            incarnation: self.identity.incarnation,
            number: self.stream.acknowledged(),
            is_free: leads && self.broker.may_answer(now),
            time_ms: leads.then(|| now().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::tls::certificates::{Authority, Identity};
    use tokio::io::AsyncReadExt as _;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::config::Cluster;

    fn keys(authority: &Authority) -> Keys {
        let Identity { certificate, key } = authority.issue("one").expect("a certificate");
        let (ca, certificate, key) = (Some(authority.file.clone()), Some(certificate), Some(key));
        Keys::load(&Cluster { ca, certificate, key, ..Cluster::default() }).expect("right files")
    }

    #[test]
    fn only_a_process_that_has_closed_its_link_is_gone_at_once() {
        let (gone, refuses) = (Some(Input::LeaderGone(7)), Some(Input::LeaderRefuses(7)));
        let refused = || Ended::Failed(ErrorKind::ConnectionRefused.into());
        let mut signs = Signs::default();
        assert_eq!(signs.note(7, false, &refused()), None, "it has never answered");
        assert_eq!(signs.note(7, false, &Ended::OtherProcess), None);
        for (end, then) in [
            (ErrorKind::UnexpectedEof, &gone),
            (ErrorKind::BrokenPipe, &gone),
            (ErrorKind::ConnectionReset, &refuses),
            (ErrorKind::TimedOut, &refuses),
        ] {
            assert_eq!(signs.note(7, true, &Ended::Failed(end.into())), None, "{end}");
            assert_eq!(signs.note(7, false, &Ended::Failed(ErrorKind::TimedOut.into())), None);
            assert_eq!(&signs.note(7, false, &refused()), then, "{end}");
            assert_eq!(&signs.note(7, false, &refused()), then, "{end}: again");
        }
        assert_eq!(signs.note(7, false, &Ended::OtherProcess), gone);
    }

    #[tokio::test]
    async fn links_without_a_certificate_have_few_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = keys(&Authority::new(folder.path(), "authority").expect("an authority"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (served, mut links) = unbounded_channel();
        let serving = move |link: NodeLink| {
            let served = served.clone();
            async move { served.send(link).expect("the test waits for it") }
        };
        let accepting = tokio::spawn(accept_links(keys.clone(), listener, 2, serving));
        // A node that is known takes no place.
        let mut first = keys.connect(&address).await.expect("a place is free");
        let mut known = links.recv().await.expect("it is served");
        // If they were served one after another, a node behind them would wait for many seconds.
        let mut strangers = Vec::new();
        for _ in 0..20 {
            strangers.push(TcpStream::connect(&address).await.expect("the kernel accepts it"));
        }
        let _second = keys.connect(&address).await.expect("a stranger gives way");
        links.recv().await.expect("it is served");
        let mut end = [0];
        let ended = strangers[0].read(&mut end).await;
        assert!(!matches!(ended, Ok(1..)), "the oldest was closed");
        known.write_all(b"x").await.expect("the link is still there");
        known.flush().await.expect("the link is still there");
        assert_eq!(first.read_u8().await.expect("the link is still there"), b'x');
        accepting.abort();
    }
}
