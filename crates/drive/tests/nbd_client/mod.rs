//! Both ends of NBD in memory: a server whose disk is a vector, and a client written by hand from the protocol's
//! document, which knows nothing of the server's code but its numbers. The fuzz targets use them as well.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // no user uses all of it

pub mod client;
pub mod hostile;
pub mod server;
