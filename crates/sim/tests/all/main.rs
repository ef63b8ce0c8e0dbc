//! All tests of the simulator that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(clippy::unwrap_used)]

mod admission;
mod climb;
mod common;
mod design_keys;
mod determinism;
mod energy;
mod hostile_designs;
mod intervals;
mod lifetimes;
mod logging;
mod lru_reference;
mod miniature;
mod misleading;
mod nested;
mod page_cache;
mod precision;
mod published_hits;
mod regulation;
mod replay_modes;
mod sampling;
