//! `peryton trace`: the verbs that describe, convert and generate traces.

mod convert;
mod head;
mod info;
pub mod mrc;
mod synth;

use crate::failure::Failure;

/// The verbs of `peryton trace`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Describe a trace: counts, sizes, arrivals, sequentiality, footprint, working set
    Info(info::Args),
    /// Print the first requests
    Head(head::Args),
    /// Write a trace as Parquet, or as CSV if the name of the output ends in .csv
    Convert(convert::Args),
    /// Generate a trace from a specification
    Synth(synth::Args),
    /// Show which blocks are written again, how soon, and how much a write cache could save
    Overwrites(info::Args),
    /// Print miss ratios by cache size and replacement policy
    Mrc(mrc::Args),
}

/// Runs the verb.
pub fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Info(args) => info::run(&args),
        Verb::Head(args) => head::run(args),
        Verb::Convert(args) => convert::run(args),
        Verb::Synth(args) => synth::run(&args),
        Verb::Overwrites(args) => info::run_overwrites(&args),
        Verb::Mrc(args) => mrc::run(args),
    }
}
