//! The server's side of NBD, the network block device protocol, without I/O: bytes in, requests out; replies in, bytes
//! out. The caller owns the sockets, the buffers and the engine; a test or a fuzz target can be the caller as well.
//!
//! The protocol is `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; comments quote its section names. It
//! is implemented with the fixed newstyle handshake, simple and structured replies, and TLS by `NBD_OPT_STARTTLS`.
//!
//! One [`Connection`] serves one client:
//!
//! ```
//! use std::sync::Arc;
//! use peryton_drive::nbd::{Command, Connection, Event, Export, Piece, Security};
//! use peryton_units::Bytes;
//!
//! # fn read_socket() -> Vec<u8> { vec![] }
//! # fn send(_: &[u8]) {}
//! let export = Arc::new(Export::new("volume", Bytes::gib(8)));
//! let mut connection: Connection<Vec<u8>> = Connection::new(export, Security::Plain);
//! let received = read_socket();
//! let mut unread = &received[..];
//! loop {
//!     let (consumed, event) = connection.receive(unread)?;
//!     unread = &unread[consumed..];
//!     match event {
//!         Some(Event::Request(request)) if matches!(request.command, Command::Read { .. }) => {
//!             let data = vec![0; request.length.0 as usize]; // from the devices
//!             connection.reply_read(&request, [(data, request.length)]);
//!         }
//!         // The next `length` bytes of the stream are the write's: the loop receives them itself, into its own
//!         // aligned buffer, before it calls `receive` again.
//!         Some(Event::Request(request)) => connection.reply_ok(&request),
//!         Some(Event::Disconnect) => break,
//!         Some(_) => {}
//!         None if unread.is_empty() => break, // wait for the socket
//!         None => {}                          // the output is full: send it first
//!     }
//!     for piece in connection.output().pieces() {
//!         match piece {
//!             Piece::Bytes(bytes) => send(bytes),
//!             Piece::Payload(data, _length) => send(data),
//!         }
//!     }
//!     connection.output().clear();
//! }
//! # Ok::<(), peryton_drive::nbd::ProtocolError>(())
//! ```

mod connection;
mod export;
mod handshake;
mod output;
mod reply;
mod request;
mod tls;
mod tls_files;
mod transmission;
pub mod wire;

pub use connection::{Connection, Event, Security};
pub use export::{BlockSizes, Export, ExportError, Part};
pub use output::{Output, Piece};
pub use reply::Run;
pub use request::{Command, Cookie, Errno, ProtocolError, Request};
pub use tls::{TlsError, TlsServer, TlsSession};
pub use tls_files::TlsFiles;
