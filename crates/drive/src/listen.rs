//! Where clients connect.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    net::{TcpListener, ToSocketAddrs},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    str::FromStr,
};

use thiserror::Error;

/// An address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket. Whoever may open it may use the volume.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl FromStr for Endpoint {
    type Err = String;

    /// `HOST:PORT`, or a path: whatever has a slash in it, or no port.
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
            Endpoint::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Endpoint::Tcp(address) => write!(f, "nbds://{address}"),
        }
    }
}

/// An address that cannot be listened on.
#[derive(Debug, Error)]
#[error("{place}: {source}{remedy}")]
pub struct ListenError {
    place: String,
    source: io::Error,
    remedy: &'static str,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, PathBuf),
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
            Endpoint::Unix(path) => Ok(Listener { socket: Socket::Unix(bind_unix(path)?, path.clone()) }),
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

    /// The kernel's own polling must not be told to wait.
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

    /// Where clients find it; the port is the one that the system chose.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match &self.socket {
            // From anywhere.
            Socket::Unix(_, path) => Endpoint::Unix(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Socket::Tcp(listener) => {
                Endpoint::Tcp(listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string()))
            }
        }
    }

    /// Makes a new connection ready, and says who it is and where it comes from.
    pub(crate) fn prepare(&self, socket: &OwnedFd) -> (String, String) {
        match &self.socket {
            Socket::Unix(..) => {
                let peer = peer_of(socket.as_fd());
                (peer.clone(), peer)
            }
            Socket::Tcp(_) => {
                // Answers go out at once; where that fails they go out a little later.
                let _ = rustix::net::sockopt::set_tcp_nodelay(socket, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
                let name = rustix::net::getpeername(socket).ok().flatten();
                let address = name.and_then(|name| std::net::SocketAddr::try_from(name).ok());
                let text = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
                (text(address.map(|address| address.to_string())), text(address.map(|address| address.ip().to_string())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Somebody may have taken it away already.
            let _ = fs::remove_file(path);
        }
    }
}

/// The process at the other end.
fn peer_of(socket: BorrowedFd<'_>) -> String {
    match rustix::net::sockopt::socket_peercred(socket) {
        Ok(peer) => format!("process {}", peer.pid.as_raw_nonzero()),
        Err(_) => "a process".to_owned(),
    }
}

/// Listens on a unix socket that only its owner may use. One that a server left behind is replaced.
pub(crate) fn bind_unix(path: &Path) -> Result<UnixListener, ListenError> {
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
    let remedy = ": give a path of at most 107 bytes in a directory that you may write";
    let listener = UnixListener::bind(path).map_err(|error| failed(error, remedy))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| failed(error, ""))?;
    Ok(listener)
}
