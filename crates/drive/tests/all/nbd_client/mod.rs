//! Both ends of NBD in memory: a server whose disk is a vector, and a client written from the protocol's document,
//! which shares only the protocol's constants with the server's code. The fuzz targets use them too.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // no user uses all of it

pub mod client;
pub mod hostile;
pub mod server;
