//! Movers: the small state machines that carry an extent from one place to another, or detach it. One file a kind.

mod allocation;
mod demotion;
mod drain;
mod fill;
mod promotion;
mod steps;
pub(in crate::cache) mod table;
mod waiters;
mod write_back;
mod zero;
