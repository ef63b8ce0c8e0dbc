//! All tests of the planner that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(clippy::unwrap_used)]

mod capacity;
mod energy_fleet;
mod energy_paper;
mod flash;
mod lifetime;
mod three_tiers;
