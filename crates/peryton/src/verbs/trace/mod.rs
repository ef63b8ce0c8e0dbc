//! `peryton trace`: what is in a trace, and from one format to another.

mod convert;
mod head;
mod synth;
mod writer;

use crate::failure::Failure;

/// The verbs of `peryton trace`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Print the first requests
    Head(head::Args),
    /// Write a trace as Parquet (or CSV, where the name of the output ends so)
    Convert(convert::Args),
    /// Draw a trace from a specification
    Synth(synth::Args),
}

/// Does what was asked.
pub fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Head(args) => head::run(args),
        Verb::Convert(args) => convert::run(args),
        Verb::Synth(args) => synth::run(&args),
    }
}
