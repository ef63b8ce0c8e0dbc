//! All tests of traces that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(missing_docs, clippy::unwrap_used)]

mod characteristics_agree_with_a_plain_count;
mod drawn_traces_meet_their_specification;
mod foreign_tables;
#[cfg(feature = "compression")]
mod formats;
#[cfg(feature = "parquet")]
mod hostile_parquet;
#[cfg(all(feature = "compression", feature = "parquet"))]
mod hostile_traces;
mod mixedstore_stand_ins;
mod order_and_account;
mod overwrites_and_reuse;
#[cfg(feature = "parquet")]
mod parquet_round_trip;
#[cfg(all(feature = "compression", feature = "parquet"))]
mod real_traces;
mod samples;
mod stand_ins_meet_published_figures;
