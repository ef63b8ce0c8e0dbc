//! Movers: small state machines, each of which moves an extent from one place to another or detaches it. One file a
//! kind.

mod allocation;
mod demotion;
mod dispatch;
mod drain;
mod fill;
mod part_fill;
pub(in crate::cache) mod promotion;
mod steps;
pub(in crate::cache) mod table;
mod waiters;
mod write_back;
mod zero;
