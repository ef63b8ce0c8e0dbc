//! A connection of a browser or scraper, and where it arrives: a unix socket or a loopback address.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{address::Address, request::Deadline};
use crate::listen::{ListenError, OwnPath, bind_tcp, bind_unix};

/// An open address.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener, Mutex<Option<OwnPath>>),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> Result<Listener, ListenError> {
        match address {
            Address::Unix(path) => {
                let (listener, own) = bind_unix(path)?;
                Ok(Listener::Unix(listener, Mutex::new(Some(own))))
            }
            Address::Loopback(address) => Ok(Listener::Tcp(bind_tcp(*address)?)),
        }
    }

    /// The address that clients use.
    pub(super) fn address(&self, asked: &Address) -> Address {
        match self {
            Listener::Unix(..) => asked.clone(),
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::Loopback),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }

    /// Accepts nothing more; a call that waits returns with an error.
    pub(super) fn end(&self) {
        let fd: BorrowedFd<'_> = match self {
            Listener::Unix(listener, own) => {
                drop(own.lock().unwrap_or_else(PoisonError::into_inner).take());
                listener.as_fd()
            }
            Listener::Tcp(listener) => listener.as_fd(),
        };
        // A failure means that it has ended.
        let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
    }
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
        }
    }

    /// Ends the connection; a call that waits for it returns.
    pub(super) fn cut(&self) {
        self.shutdown(Shutdown::Both);
    }

    /// Ends the connection after an answer: the other end gets all of it.
    pub(super) fn close(&self) {
        self.shutdown(Shutdown::Write);
    }

    fn shutdown(&self, how: Shutdown) {
        // A failure means that the other end has gone.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Deadline for Stream {
    fn set_deadline(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return Err(ErrorKind::TimedOut.into());
        }
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
