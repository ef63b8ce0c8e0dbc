//! Movers: small state machines, each of which moves an extent from one place to another or detaches it. One file a
//! kind.

mod dispatch;
mod drain;
mod part_fill;
pub(in crate::cache) mod promotion;
mod steps;
pub(in crate::cache) mod table;
mod waiters;
mod whole;
mod write_back;
