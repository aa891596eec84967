//! Listening sockets: bound, or inherited from a service manager.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use listenfd::ListenFd;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::Address;
use crate::error::ServeError;

/// How many connections may wait to be accepted. With the usual 1024, some of 12,000 clients that
/// come at once were left without an answer for half a minute.
const BACKLOG: i32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub struct Bound {
    /// The socket, not blocking.
    pub(crate) socket: OwnedFd,
    /// Where it listens really: with the port that the system chose.
    pub address: Address,
}

/// Listens on an address; on each that its host name stands for.
pub fn bind(address: &Address) -> Result<Vec<Bound>, ServeError> {
    match address {
        Address::Unix(path) => bind_unix(path, address).map(|bound| vec![bound]),
        Address::Tcp { host, port } => {
            let explain = |error| explain(address, error);
            let resolved: Vec<SocketAddr> =
                (host.as_str(), *port).to_socket_addrs().map_err(explain)?.collect();
            bind_all(&resolved).map_err(explain)
        }
    }
}

/// Binds every address that this machine has. A name such as `localhost` may stand for IPv6, too,
/// on machines without it.
fn bind_all(addresses: &[SocketAddr]) -> io::Result<Vec<Bound>> {
    let mut bound = Vec::new();
    let mut missing = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match bind_tcp(*address, addresses.len() > 1) {
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

fn bind_tcp(address: SocketAddr, is_one_of_several: bool) -> io::Result<Bound> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && is_one_of_several {
        socket.set_only_v6(true)?;
    }
    prepare_tcp(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    bound(socket)
}

/// Accepted sockets have these from the listening one.
fn prepare_tcp(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)
}

fn bind_unix(path: &Path, address: &Address) -> Result<Bound, ServeError> {
    let explain = |error| explain(address, error);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(explain)?;
    let name = SockAddr::unix(path).map_err(explain)?;
    match std::fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ServeError::NotASocket(address.clone()));
        }
        Ok(_) => {
            // A socket that nobody answers was left by a server that is gone.
            if socket.connect(&name).is_ok() {
                return Err(ServeError::AddressInUse(address.clone()));
            }
            tracing::info!(%address, "removing existing local socket to replace it");
            std::fs::remove_file(path).map_err(explain)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(explain(error)),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(explain)?;
    socket.bind(&name).map_err(explain)?;
    socket.listen(BACKLOG).map_err(explain)?;
    bound(socket).map_err(explain)
}

fn explain(address: &Address, source: io::Error) -> ServeError {
    let address = address.clone();
    match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::AddressInUse(address),
        io::ErrorKind::PermissionDenied => ServeError::ListenForbidden(address),
        _ => ServeError::Listen { address, source },
    }
}

fn bound(socket: Socket) -> io::Result<Bound> {
    socket.set_nonblocking(true)?;
    let address = address_of(&socket)?;
    Ok(Bound { socket: socket.into(), address })
}

fn address_of(socket: &Socket) -> io::Result<Address> {
    let local = socket.local_addr()?;
    Ok(match local.as_socket() {
        Some(address) => Address::Tcp { host: address.ip().to_string(), port: address.port() },
        None => Address::Unix(local.as_pathname().unwrap_or(Path::new("")).to_owned()),
    })
}

/// Takes over the sockets that a service manager has bound (`LISTEN_PID`, `LISTEN_FDS`). To be
/// called once, before other files are opened.
pub fn inherited() -> Result<Vec<Bound>, ServeError> {
    let mut passed = ListenFd::from_env();
    (0..passed.len()).map(|index| take(&mut passed, index).map_err(ServeError::Inherited)).collect()
}

fn take(passed: &mut ListenFd, index: usize) -> io::Result<Bound> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let socket: OwnedFd = match passed.take_tcp_listener(index) {
        Ok(listener) => {
            let listener: OwnedFd = listener.ok_or_else(missing)?.into();
            prepare_tcp(&Socket::from(listener.as_fd().try_clone_to_owned()?))?;
            listener
        }
        Err(_) => passed.take_unix_listener(index)?.ok_or_else(missing)?.into(),
    };
    bound(Socket::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn port_zero_asks_the_system_and_a_taken_port_is_named() {
        let first = bind(&tcp("127.0.0.1", 0)).unwrap().remove(0);
        let Address::Tcp { host, port } = &first.address else { panic!("not a tcp socket") };
        assert_eq!(host, "127.0.0.1");
        assert_ne!(*port, 0);
        match bind(&first.address).unwrap_err() {
            ServeError::AddressInUse(address) => assert_eq!(address, first.address),
            other => panic!("{other}"),
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
        let address = Address::Unix(folder.path().join("socket"));
        let living = bind(&address).unwrap();
        assert!(matches!(bind(&address).unwrap_err(), ServeError::AddressInUse(_)));
        drop(living);
        drop(bind(&address).unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = bind(&Address::Unix(file.clone())).unwrap_err();
        assert!(matches!(error, ServeError::NotASocket(_)));
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    }
}
