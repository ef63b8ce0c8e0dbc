//! `peryton trace info` and `peryton trace overwrites`: describe a trace.

use std::{fmt::Display, path::PathBuf};

use peryton_trace::{Characteristics, ObjectCharacteristics, Overwrites, Source, TraceError};
use serde::Serialize;

use crate::{
    failure::Failure,
    output,
    trace_args::{self, Counted, TraceArgs},
};

/// Options of both verbs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, or specifications (.toml) of traces; several are merged
    ///
    /// Traces, or specifications (.toml) from which traces are generated; several are merged by time.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints counts, sizes, arrivals, sequentiality, footprint and working set.
pub fn run(args: &Args) -> Result<(), Failure> {
    let files = args.trace_args.files(&args.files);
    if files.specification().is_some() {
        return show(args, |source| Characteristics::of(source));
    }
    let mut reader = files.open()?;
    if reader.is_of_objects() {
        let found = ObjectCharacteristics::of(&mut reader.into_objects()?)?;
        trace_args::remark_on(&found.account);
        return tell(args, &found);
    }
    let found = Characteristics::of(&mut reader)?;
    trace_args::remark_on(&found.account);
    tell(args, &found)
}

/// Prints which blocks are overwritten, and how soon.
pub fn run_overwrites(args: &Args) -> Result<(), Failure> {
    show(args, |source| Overwrites::of(source))
}

fn show<T: Serialize + Display>(
    args: &Args,
    of: impl FnOnce(&mut dyn Source) -> Result<T, TraceError>,
) -> Result<(), Failure> {
    let skipped = Counted::default();
    let mut source = args.trace_args.source(&args.files, &skipped)?;
    let found = of(&mut *source)?;
    drop(source);
    skipped.report();
    tell(args, &found)
}

fn tell<T: Serialize + Display>(args: &Args, found: &T) -> Result<(), Failure> {
    if args.json { output::print_json(found) } else { output::tell(&found.to_string()) }
}
