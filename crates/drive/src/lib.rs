//! The live drive: the engine on real devices, exported as a block device over NBD.
//!
//! One thread owns one volume: front end → engine → io_uring → engine → front end.

mod arena;
mod backend;
mod disks;
mod pool;

pub use arena::Memory;
pub use backend::{Action, Backend, Operation};
pub use disks::fault::{Effect, Fault, Only};

pub mod nbd;
