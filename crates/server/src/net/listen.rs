//! Listening sockets. The server binds them, or inherits them from a service manager.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use notation::address::{Address, ListenAddress};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::config::Config;
use crate::config::listener::Listener;
use crate::config::protocol::Protocol;
use crate::error::ServeError;
use crate::net::tls::Certificates;

/// Length of the accept queue. In a test with 12,000 simultaneous clients and the usual length of
/// 1024, some clients waited half a minute for an answer.
const BACKLOG: i32 = 4096;

/// Time limit for waiting while another server creates a socket in the same folder.
const FOLDER_LOCK_TIME: Duration = Duration::from_millis(500);

/// The variable with the names of inherited sockets.
const NAMES_VARIABLE: &str = "LISTEN_FDNAMES";

/// The suffix in the name of a systemd unit. If a socket has no name, systemd passes the name of
/// its unit.
const UNIT_SUFFIX: &str = ".socket";
/// The name that systemd passes in some cases for a socket without a name.
const NO_NAME: &str = "unknown";

/// The suffix in the name of a socket that speaks TLS.
const TLS_SUFFIX: &str = "-tls";

/// A socket with an address. A TCP socket that this server bound listens only after
/// [`Bound::listen`], so that nobody connects before the server can serve. Unix sockets and
/// inherited sockets already listen.
#[derive(Debug)]
pub struct Bound {
    /// The file of a unix socket that this server created. This field comes before `socket`,
    /// because fields are dropped in order. So the file is removed while the socket still listens.
    /// In the opposite order, the next server could find a dead socket between the two drops, and
    /// replace its file.
    pub(crate) file: Option<SocketFile>,
    /// The socket, non-blocking.
    pub(crate) socket: OwnedFd,
    /// The protocol that the socket speaks.
    pub protocol: Protocol,
    /// The actual address. If port 0 was requested, it has the port that the system chose.
    pub address: ListenAddress,
    /// The length of the accept queue, if the socket does not listen yet.
    pub(crate) backlog: Option<i32>,
}

/// The file of a unix socket. Drop removes the file if no other process has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The identity of the file on the disk: device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        // The path must stay valid if the process changes its working directory.
        let path = std::path::absolute(path)?;
        let identity = SocketFile::identity(&path)?;
        Ok(SocketFile { path, identity })
    }

    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        let metadata = fs::symlink_metadata(path)?;
        Ok((metadata.dev(), metadata.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if SocketFile::identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // A server that changed its user may lack permission to remove the file. Then the next
            // server replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Bound {
    /// Returns the same socket, marked as a socket whose clients speak TLS.
    #[must_use]
    pub fn with_tls(self) -> Bound {
        Bound { address: ListenAddress { is_tls: true, ..self.address }, ..self }
    }

    /// Accepts connections from now on. Fails if another process has begun to listen on the address
    /// since it was bound.
    pub fn listen(&mut self) -> Result<(), ServeError> {
        let Some(backlog) = self.backlog.take() else { return Ok(()) };
        rustix::net::listen(&self.socket, backlog)
            .map_err(|error| explain(&self.address, error.into()))
    }
}

/// A listener with its socket. The thread that accepts the connections owns it.
pub(crate) struct Endpoint {
    pub(crate) bound: Bound,
    pub(crate) listener: Arc<Listener>,
    /// The certificates, if clients speak TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
}

impl Endpoint {
    /// The listener that the configuration makes of this socket.
    pub(crate) fn new(
        bound: Bound,
        config: &Config,
        certificates: Option<&Arc<Certificates>>,
    ) -> Endpoint {
        let listener = Listener::new(bound.protocol, bound.address.clone(), config);
        let certificates = certificates.cloned().filter(|_| listener.address.is_tls);
        Endpoint { bound, listener: Arc::new(listener), certificates }
    }
}

/// Options of a listening socket and its connections.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct SocketOptions {
    /// Length of the accept queue.
    pub backlog: i32,
    /// Times of keep-alive probes.
    pub keepalive: Keepalive,
    /// The file mode of a unix socket, which says who can connect. `None` means that the umask
    /// decides.
    pub unix_mode: Option<u32>,
}

/// Times of keep-alive probes. `None` means the system's default.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Keepalive {
    /// Seconds of silence before the first probe.
    pub idle_s: Option<u32>,
    /// Seconds between probes.
    pub interval_s: Option<u32>,
    /// Number of unanswered probes after which the kernel closes the connection.
    pub count: Option<u32>,
}

/// A client whose machine is gone is noticed after two minutes. The system's default is two hours,
/// and for all this time the client would keep its jobs.
impl Default for Keepalive {
    fn default() -> Keepalive {
        Keepalive { idle_s: Some(60), interval_s: Some(15), count: Some(4) }
    }
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions { backlog: BACKLOG, keepalive: Keepalive::default(), unix_mode: None }
    }
}

/// Binds an address, or all addresses of its host name.
pub fn bind(
    protocol: Protocol,
    address: &ListenAddress,
    options: &SocketOptions,
) -> Result<Vec<Bound>, ServeError> {
    let explain = |error| explain(address, error);
    // A unix socket listens at once. If it did not, another server could assume that its file is
    // left over from a server that ended.
    let backlog = match &address.address {
        Address::Unix(_) => None,
        Address::Tcp { .. } => Some(options.backlog),
    };
    let (sockets, file) = match &address.address {
        Address::Unix(path) => {
            let socket = bind_unix(path, address, options)?;
            (vec![socket], Some(SocketFile::of(path).map_err(explain)?))
        }
        Address::Tcp { host, port } => {
            let resolved: Vec<SocketAddr> =
                (host.as_str(), *port).to_socket_addrs().map_err(explain)?.collect();
            (bind_all(&resolved, options).map_err(explain)?, None)
        }
    };
    let mut all = Vec::with_capacity(sockets.len());
    for socket in sockets {
        let bound = bound(protocol, socket, backlog).map_err(explain)?;
        all.push(if address.is_tls { bound.with_tls() } else { bound });
    }
    // Only a unix address has a file, and it has only one socket.
    if let Some(first) = all.first_mut() {
        first.file = file;
    }
    Ok(all)
}

/// Binds a port of all addresses of this machine, IPv4 and IPv6.
pub fn bind_all_addresses(
    protocol: Protocol,
    port: u16,
    options: &SocketOptions,
) -> Result<Vec<Bound>, ServeError> {
    let addresses = [
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
    ];
    let address = Address::Tcp { host: Ipv4Addr::UNSPECIFIED.to_string(), port }.into();
    let explain = |error| explain(&address, error);
    let sockets = bind_all(&addresses, options).map_err(explain)?;
    let backlog = Some(options.backlog);
    sockets.into_iter().map(|socket| bound(protocol, socket, backlog).map_err(explain)).collect()
}

/// Binds the addresses in the list that this machine has, and ignores all other addresses. For
/// example, `localhost` can resolve to an IPv6 address on a machine without IPv6.
fn bind_all(addresses: &[SocketAddr], options: &SocketOptions) -> io::Result<Vec<Socket>> {
    let mut bound = Vec::new();
    let mut missing = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match bind_tcp(*address, addresses.len() > 1, options) {
            Ok(one) => bound.push(one),
            Err(error)
                if error.kind() == io::ErrorKind::AddrNotAvailable
                    || error.kind() == io::ErrorKind::Unsupported
                    || error.raw_os_error()
                        == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) =>
            {
                missing = error;
            }
            Err(error) => return Err(error),
        }
    }
    if bound.is_empty() { Err(missing) } else { Ok(bound) }
}

fn bind_tcp(
    address: SocketAddr,
    is_one_of_several: bool,
    options: &SocketOptions,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && is_one_of_several {
        socket.set_only_v6(true)?;
    }
    prepare_tcp(&socket, &options.keepalive)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sets options that accepted sockets inherit from the listening socket.
fn prepare_tcp(socket: &Socket, keepalive: &Keepalive) -> io::Result<()> {
    let seconds = |count: u32| Duration::from_secs(count.into());
    let mut parameters = TcpKeepalive::new();
    if let Some(idle_s) = keepalive.idle_s {
        parameters = parameters.with_time(seconds(idle_s));
    }
    if let Some(interval_s) = keepalive.interval_s {
        parameters = parameters.with_interval(seconds(interval_s));
    }
    if let Some(count) = keepalive.count {
        parameters = parameters.with_retries(count);
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&parameters)
}

fn bind_unix(
    path: &Path,
    address: &ListenAddress,
    options: &SocketOptions,
) -> Result<Socket, ServeError> {
    let explain = |error| explain(address, error);
    // Until the new socket listens, it looks dead to another server. So the lock prevents other
    // servers from checking it.
    let _lock = lock_folder(path);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(explain)?;
    let name = SockAddr::unix(path).map_err(explain)?;
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ServeError::NotASocket(address.clone()));
        }
        Ok(_) => {
            socket.set_nonblocking(true).map_err(explain)?;
            match socket.connect(&name) {
                // No process listens. The socket belongs to a server that has ended.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                // A process listens. `WouldBlock` means that its accept queue is full.
                Ok(()) => return Err(ServeError::AddressInUse(address.clone())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(ServeError::AddressInUse(address.clone()));
                }
                // The reason is unknown, or the socket is not a stream socket.
                Err(error) => return Err(explain(error)),
            }
            tracing::info!(%address, "removing existing local socket to replace it");
            fs::remove_file(path).map_err(explain)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(explain(error)),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(explain)?;
    socket.bind(&name).map_err(explain)?;
    if let Some(mode) = options.unix_mode {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(explain)?;
    }
    socket.listen(options.backlog).map_err(explain)?;
    Ok(socket)
}

/// Locks the folder of a socket, so that other servers do not check sockets there until the
/// returned lock is dropped. Returns `None` if this server has no permission, or if another program
/// holds the lock for long. The caller then continues without a lock, because two servers seldom
/// start at the same moment.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    let deadline = Instant::now() + FOLDER_LOCK_TIME;
    loop {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return None,
        }
    }
}

fn explain(address: &ListenAddress, source: io::Error) -> ServeError {
    let address = address.clone();
    match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse(address),
        io::ErrorKind::PermissionDenied => ServeError::ListenForbidden(address),
        _ => ServeError::Listen { address, source },
    }
}

fn bound(protocol: Protocol, socket: Socket, backlog: Option<i32>) -> io::Result<Bound> {
    socket.set_nonblocking(true)?;
    let address = address_of(&socket)?;
    Ok(Bound { socket: socket.into(), protocol, address, file: None, backlog })
}

fn address_of(socket: &Socket) -> io::Result<ListenAddress> {
    let local = socket.local_addr()?;
    let address = match local.as_socket() {
        Some(address) => Address::Tcp { host: address.ip().to_string(), port: address.port() },
        None => Address::Unix(local.as_pathname().unwrap_or(Path::new("")).to_owned()),
    };
    Ok(address.into())
}

/// Takes over the sockets of a service manager (`LISTEN_PID`, `LISTEN_FDS`). The caller must call
/// this only once, before the process opens other files. The name of a socket (`LISTEN_FDNAMES`) is
/// the name of its protocol. The suffix `-tls` means TLS. Sockets without a name speak `usual`.
pub fn inherited(usual: Protocol) -> Result<Vec<Bound>, ServeError> {
    let names = std::env::var(NAMES_VARIABLE).unwrap_or_default();
    take_all(usual, &names)
}

/// Like [`inherited`], but ignores the names. All sockets speak `protocol`.
pub fn inherited_as(protocol: Protocol) -> Result<Vec<Bound>, ServeError> {
    take_all(protocol, "")
}

fn take_all(usual: Protocol, names: &str) -> Result<Vec<Bound>, ServeError> {
    let mut passed = ListenFd::from_env();
    let mut names = names.split(':');
    let bound = (0..passed.len()).map(|index| {
        let (named, has_tls) = read_name(names.next().unwrap_or_default())?;
        let bound =
            take(&mut passed, index, named.unwrap_or(usual)).map_err(ServeError::Inherited)?;
        Ok(if has_tls { bound.with_tls() } else { bound })
    });
    bound.collect()
}

/// Reads the name of an inherited socket: its protocol, if the name contains one, and whether the
/// socket speaks TLS.
fn read_name(name: &str) -> Result<(Option<Protocol>, bool), ServeError> {
    if name.is_empty() || name == NO_NAME || name.ends_with(UNIT_SUFFIX) {
        return Ok((None, false));
    }
    let plain_name = name.strip_suffix(TLS_SUFFIX);
    let protocol_name = plain_name.unwrap_or(name);
    let named = Protocol::ALL.into_iter().find(|protocol| protocol.name() == protocol_name);
    let named = named.ok_or_else(|| ServeError::InheritedName(name.to_owned()))?;
    Ok((Some(named), plain_name.is_some()))
}

fn take(passed: &mut ListenFd, index: usize, protocol: Protocol) -> io::Result<Bound> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let socket: OwnedFd = match passed.take_tcp_listener(index) {
        Ok(listener) => {
            let listener: OwnedFd = listener.ok_or_else(missing)?.into();
            let socket = Socket::from(listener.as_fd().try_clone_to_owned()?);
            prepare_tcp(&socket, &Keepalive::default())?;
            listener
        }
        Err(_) => passed.take_unix_listener(index)?.ok_or_else(missing)?.into(),
    };
    bound(protocol, Socket::from(socket), None)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::sync::Barrier;

    use super::*;

    fn bind(address: &ListenAddress) -> Result<Vec<Bound>, ServeError> {
        super::bind(Protocol::Beanstalk, address, &SocketOptions::default())
    }

    fn tcp(host: &str, port: u16) -> ListenAddress {
        Address::Tcp { host: host.to_owned(), port }.into()
    }

    fn unix(path: &Path) -> ListenAddress {
        Address::Unix(path.to_owned()).into()
    }

    #[test]
    fn port_zero_asks_the_system_and_a_port_that_listens_is_taken() {
        let mut first = bind(&tcp("127.0.0.1", 0)).unwrap().remove(0);
        let Address::Tcp { host, port } = &first.address.address else {
            panic!("not a tcp socket")
        };
        assert_eq!(host, "127.0.0.1");
        assert_ne!(*port, 0);
        let place = (host.clone(), *port);
        let connect = || TcpStream::connect((place.0.as_str(), place.1));
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        first.listen().unwrap();
        connect().unwrap();
        match bind(&first.address).unwrap_err() {
            ServeError::AddressInUse(address) => assert_eq!(address, first.address),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_client_that_is_gone_is_noticed_in_minutes() {
        use rustix::net::sockopt;

        // Accepted sockets inherit the options.
        let bound = bind(&tcp("127.0.0.1", 0)).unwrap().remove(0);
        assert!(sockopt::socket_keepalive(&bound.socket).unwrap());
        let idle = sockopt::tcp_keepidle(&bound.socket).unwrap();
        let interval = sockopt::tcp_keepintvl(&bound.socket).unwrap();
        let count = sockopt::tcp_keepcnt(&bound.socket).unwrap();
        assert_eq!(idle + interval * count, Duration::from_mins(2));
    }

    #[test]
    fn a_name_is_that_of_a_protocol_or_a_mistake() {
        for (name, wanted) in [
            ("", (None, false)),
            ("lineshaft.socket", (None, false)),
            ("unknown", (None, false)),
            ("gearman", (Some(Protocol::Gearman), false)),
            ("kestrel_text-tls", (Some(Protocol::KestrelText), true)),
        ] {
            assert_eq!(read_name(name).unwrap(), wanted, "{name}");
        }
        for name in ["gearman_tls", "gearman-TLS", "germann-tls", "-tls", "tls"] {
            let error = read_name(name).unwrap_err();
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let error = bind(&tcp("192.0.2.1", 0)).unwrap_err();
        assert!(matches!(error, ServeError::Listen { .. }), "{error}");
    }

    #[test]
    fn a_dead_socket_is_replaced_a_living_one_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let address = unix(&folder.path().join("socket"));
        let living = bind(&address).unwrap();
        assert!(matches!(bind(&address).unwrap_err(), ServeError::AddressInUse(_)));
        drop(living);
        assert!(!folder.path().join("socket").exists());
        drop(UnixListener::bind(folder.path().join("socket")).unwrap());
        drop(bind(&address).unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = bind(&unix(&file)).unwrap_err();
        assert!(matches!(error, ServeError::NotASocket(_)));
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }

    #[test]
    fn of_two_servers_that_find_a_dead_socket_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = unix(&path);
        for _ in 0..100 {
            drop(UnixListener::bind(&path).unwrap());
            let start = Barrier::new(2);
            let one = || {
                start.wait();
                bind(&address)
            };
            let (first, second) = std::thread::scope(|scope| {
                let first = scope.spawn(one);
                let second = scope.spawn(one);
                (first.join().unwrap(), second.join().unwrap())
            });
            let is_in_use =
                |bound: &Result<_, _>| matches!(bound, Err(ServeError::AddressInUse(_)));
            assert!(first.is_ok() && is_in_use(&second) || is_in_use(&first) && second.is_ok());
            UnixStream::connect(&path).unwrap();
        }
    }

    #[test]
    fn a_socket_of_which_nothing_is_known_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _datagrams = UnixDatagram::bind(&path).unwrap();
        let error = bind(&unix(&path)).unwrap_err();
        assert!(matches!(error, ServeError::Listen { .. }), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn a_full_backlog_is_that_of_a_living_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let options = SocketOptions { backlog: 0, ..SocketOptions::default() };
        let address = unix(&path);
        let _living = super::bind(Protocol::Beanstalk, &address, &options).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            match socket.connect(&SockAddr::unix(&path).unwrap()) {
                Ok(()) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(matches!(bind(&address).unwrap_err(), ServeError::AddressInUse(_)));
    }

    #[test]
    fn a_file_that_took_the_place_of_the_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = bind(&unix(&path)).unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        let second = bind(&unix(&path)).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn the_mode_limits_access_to_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let options = SocketOptions { unix_mode: Some(0o666), ..SocketOptions::default() };
        let address = unix(&path);
        let _bound = super::bind(Protocol::Beanstalk, &address, &options).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
    }
}
