//! The addresses where clients connect.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use thiserror::Error;

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// An address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket. Every program that may open it may use the volume.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl FromStr for Endpoint {
    type Err = String;

    /// Parses `HOST:PORT` or a path; a text with a slash or without a port is a path.
    fn from_str(text: &str) -> Result<Endpoint, String> {
        if text.is_empty() {
            return Err("give the path of a socket, or HOST:PORT".to_owned());
        }
        if text.contains('/') {
            return Ok(Endpoint::Unix(text.into()));
        }
        match text.rsplit_once(':') {
            None => Ok(Endpoint::Unix(text.into())),
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Endpoint::Tcp(text.to_owned())),
            Some(_) => Err(format!("'{text}': give the path of a socket, or HOST:PORT such as 127.0.0.1:10809")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "nbd+unix:///?socket={}", Encoded(path)),
            Endpoint::Tcp(address) => write!(f, "nbds://{address}"),
        }
    }
}

/// A path as it stands in a URI: what has a meaning there, or is not ASCII, is percent-encoded (RFC 3986).
struct Encoded<'a>(&'a Path);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_os_str().as_bytes().iter().try_for_each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                write!(f, "{}", *byte as char)
            }
            _ => write!(f, "%{byte:02X}"),
        })
    }
}

/// What the kernel may hold of a client's answers that it has not read, on a unix socket, in bytes. The kernel counts what the data
/// take in its memory, so it gives twice as much room.
const SEND_BUFFER: usize = 2 << 20;

/// Why an address cannot be listened on.
#[derive(Debug, Error)]
#[error("{place}: {source}{remedy}")]
pub struct ListenError {
    place: String,
    source: io::Error,
    remedy: &'static str,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, OwnPath),
    Tcp(TcpListener),
}

/// An open address.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
}

impl Listener {
    pub(crate) fn bind(endpoint: &Endpoint) -> Result<Listener, ListenError> {
        match endpoint {
            Endpoint::Unix(path) => {
                let (listener, own) = bind_unix(path)?;
                Ok(Listener { socket: Socket::Unix(listener, own) })
            }
            Endpoint::Tcp(address) => {
                let failed = |source| ListenError {
                    place: address.clone(),
                    source,
                    remedy: ": give an address of this machine and a free port",
                };
                let addresses: Vec<_> = address.to_socket_addrs().map_err(failed)?.collect();
                Ok(Listener { socket: Socket::Tcp(TcpListener::bind(&addresses[..]).map_err(failed)?) })
            }
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// Makes calls on the socket return at once, for the thread that polls it.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Unix(listener, _) => listener.set_nonblocking(true),
            Socket::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        match &self.socket {
            Socket::Unix(listener, _) => listener.as_raw_fd(),
            Socket::Tcp(listener) => listener.as_raw_fd(),
        }
    }

    /// The address that clients use; the port is the one that the system chose.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match &self.socket {
            // As an absolute path, so that it is valid in every directory.
            Socket::Unix(_, OwnPath { path, .. }) => {
                Endpoint::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
            Socket::Tcp(listener) => {
                Endpoint::Tcp(listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string()))
            }
        }
    }

    /// Prepares a new connection; returns a description of the peer and its origin.
    pub(crate) fn prepare(&self, socket: &OwnedFd) -> (String, String) {
        match &self.socket {
            Socket::Unix(..) => {
                // So that an answer of 1 MiB is sent in one piece, and not in several with a wait between them. Without the right to
                // have as much, it is what the system allows.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER)
                    .or_else(|_| rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER));
                let peer = peer_of(socket.as_fd());
                (peer.clone(), peer)
            }
            Socket::Tcp(_) => {
                // Answers are to be sent immediately; if this fails, they are sent slightly later.
                let _ = rustix::net::sockopt::set_tcp_nodelay(socket, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
                let name = rustix::net::getpeername(socket).ok().flatten();
                let address = name.and_then(|name| std::net::SocketAddr::try_from(name).ok());
                let text = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
                (
                    text(address.map(|address| address.to_string())),
                    text(address.map(|address| address.ip().to_string())),
                )
            }
        }
    }
}

/// The path of a socket that was bound here. It is removed on drop, unless another socket, that of the next server, is
/// there by then.
#[derive(Debug)]
pub(crate) struct OwnPath {
    pub(crate) path: PathBuf,
    /// The socket's inode, kept open so that no other file gets its number.
    inode: Option<OwnedFd>,
}

impl OwnPath {
    fn new(path: &Path) -> OwnPath {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        OwnPath { path: path.to_owned(), inode: rustix::fs::open(path, flags, Mode::empty()).ok() }
    }

    fn is_there(&self) -> bool {
        let own = self.inode.as_ref().and_then(|inode| rustix::fs::fstat(inode).ok());
        let there = fs::symlink_metadata(&self.path).ok();
        own.zip(there).is_some_and(|(own, there)| (own.st_dev, own.st_ino) == (there.dev(), there.ino()))
    }
}

impl Drop for OwnPath {
    fn drop(&mut self) {
        if self.is_there() {
            // The path may have been removed already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Describes the process at the other end.
fn peer_of(socket: BorrowedFd<'_>) -> String {
    match rustix::net::sockopt::socket_peercred(socket) {
        Ok(peer) => format!("process {}", peer.pid.as_raw_nonzero()),
        Err(_) => "a process".to_owned(),
    }
}

/// Listens on a TCP address.
pub(crate) fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let failed = |source| ListenError {
        place: address.to_string(),
        source,
        remedy: ": give an address of this machine and a free port",
    };
    TcpListener::bind(address).map_err(failed)
}

/// Listens on a unix socket that only its owner may use. Replaces a socket that a server has left behind.
pub(crate) fn bind_unix(path: &Path) -> Result<(UnixListener, OwnPath), ListenError> {
    let failed = |source, remedy| ListenError { place: path.display().to_string(), source, remedy };
    if fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
        match UnixStream::connect(path) {
            Ok(_) => {
                let source = ErrorKind::AddrInUse.into();
                return Err(failed(source, ": another server listens there; give another path"));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| failed(error, ""))?;
            }
            Err(_) => {}
        }
    }
    let socket = bind_private(path, SocketType::STREAM).map_err(|error| {
        let remedy = match error.raw_os_error() {
            // The kernel says that the address is in use.
            Some(libc::EADDRINUSE) => ", and is no socket: remove it, or give another path",
            Some(libc::ENAMETOOLONG | libc::EINVAL) => ": give a path of at most 107 bytes",
            Some(libc::ENOENT | libc::ENOTDIR) => ": give a path in a directory that is there",
            _ => ": give a path in a directory that you may write",
        };
        match error.kind() {
            ErrorKind::AddrInUse => failed(io::Error::other("is there already"), remedy),
            _ => failed(error, remedy),
        }
    })?;
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into(), ""))?;
    Ok((UnixListener::from(socket), OwnPath::new(path)))
}

/// Binds a socket. Linux gives its file the mode of the socket, so no other user can ever connect.
pub(crate) fn bind_private(path: &Path, kind: SocketType) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::PermissionsExt,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn a_socket_is_never_open_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let (path, stop) = (directory.path().join("socket"), AtomicBool::new(false));
        let (seen, worst) = thread::scope(|scope| {
            let watch = || {
                let (mut seen, mut worst) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(about) = fs::symlink_metadata(&path) {
                        seen += 1;
                        worst |= about.permissions().mode() & 0o777;
                    }
                }
                (seen, worst)
            };
            let watcher = scope.spawn(watch);
            for _ in 0..3000 {
                let (listener, own) = bind_unix(&path).unwrap();
                drop((listener, own));
                assert!(!path.exists());
            }
            stop.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        });
        assert!(seen > 0 && worst == 0o600, "{seen} looks, modes {worst:o}");
    }

    #[test]
    fn a_path_that_is_taken_or_too_long_is_called_that() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "mine").unwrap();
        let error = bind_unix(&path).unwrap_err().to_string();
        assert!(error.contains("no socket") && !error.contains("107"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let error = bind_unix(&directory.path().join("x".repeat(120))).unwrap_err().to_string();
        assert!(error.contains("at most 107 bytes"), "{error}");
        let error = bind_unix(&directory.path().join("none/socket")).unwrap_err().to_string();
        assert!(error.contains("directory that is there"), "{error}");
    }

    #[test]
    fn a_uri_says_a_path_so_that_clients_find_it() {
        let shown = |path: &str| Endpoint::Unix(path.into()).to_string();
        assert_eq!(shown("/run/a.nbd"), "nbd+unix:///?socket=/run/a.nbd");
        assert_eq!(shown("/a b/é&?#%+"), "nbd+unix:///?socket=/a%20b/%C3%A9%26%3F%23%25%2B");
    }

    #[test]
    fn the_socket_of_the_next_server_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (listener, own) = bind_unix(&path).unwrap();
        drop(listener);
        let (_next, _its) = bind_unix(&path).unwrap();
        drop(own);
        UnixStream::connect(&path).expect("the next server can be reached");
    }
}
